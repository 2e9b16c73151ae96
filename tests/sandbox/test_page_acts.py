"""The demo page: guided tour, thread links, completion of host names, difficulties, case export.

Tests write the bot's messages; all share a browser, each with its own page and world.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from playwright.async_api import Browser, FloatRect, Page, async_playwright, expect

from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.access.control import ControlServer
from deploy.sandbox.cluster.cases.modifier_text import read_modifier
from deploy.sandbox.cluster.cases.reader import load_case
from deploy.sandbox.slack import SlackSandbox
from tests.bench.case_files.folder import read_case
from tests.support.clock import PATIENCE
from tests.support.fixtures_browser import ARGS, CHROMIUM, needs_chromium
from tests.support.terminal import rackmedic

pytestmark = [needs_chromium, pytest.mark.tier2, pytest.mark.asyncio(loop_scope="module")]
STORIES = json.loads((Path(__file__).parents[2] / "deploy/sandbox/slack/page/stories.json").read_text())["stories"]
INCIDENTS = "C0GPUINC"


@dataclass(frozen=True, slots=True)
class Playground:
    """A page with its Slack and cluster."""

    page: Page
    slack: SlackSandbox
    cluster: Cluster

    async def open(self, path: str = f"/?as=olga&channel={INCIDENTS}") -> None:
        """Open the page and wait until it is ready."""
        await self.page.goto(f"{self.slack.url}{path}")
        await self.page.wait_for_selector("body[data-ready]")

    def answer(self, thread: str, text: str) -> str:
        """Post in a thread as the bot."""
        ws = self.slack.workspace
        return str(ws.post(ws.user("rackmedic").id, ws.channel(INCIDENTS), {"text": text, "thread_ts": thread}).ts)

    async def begin(self, story: str) -> None:
        """Start a story from the menu."""
        await self.page.get_by_test_id("stories-open").click()
        await self.page.get_by_test_id("stories-dialog").get_by_test_id(f"story-{story}").click()

    async def press(self, *names: str) -> None:
        """Click these buttons in order."""
        for name in names:
            await self.page.get_by_test_id(name).click()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as player:
        browser = await player.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="module")
async def play(browser: Browser) -> AsyncIterator[Playground]:
    cluster = Cluster.of("dgx-h100-8", nodes=[f"gpu-{n:03d}" for n in range(1, 5)], job="4711", controller="ctl-1")
    async with ControlServer(cluster) as control, SlackSandbox(cluster_url=control.url) as slack:
        context = await browser.new_context(viewport={"width": 1280, "height": 860}, accept_downloads=True)
        context.set_default_timeout(PATIENCE * 1000)
        page, errors = await context.new_page(), list[str]()
        page.on("pageerror", lambda error: errors.append(str(error)))
        yield Playground(page, slack, cluster)
        await context.close()
        assert errors == []


async def test_a_tour_goes_forward_and_back_and_is_left_and_begun_again(play: Playground) -> None:
    tour, story = play.page.get_by_test_id("tour"), STORIES[0]
    await play.open()
    await play.begin(story["id"])
    for n, step in enumerate(story["steps"], 1):
        await expect(tour).to_contain_text(f"step {n} of {len(story['steps'])}")
        await expect(tour).to_contain_text(step["text"])
        await expect(play.page.get_by_test_id("tour-back")).to_have_count(int(n > 1))
        await expect(play.page.locator(".toured")).to_have_count(1)
        if n < len(story["steps"]):
            await play.press("tour-next")
    await play.press("tour-back")
    await expect(tour).to_contain_text("step 4 of")
    await tour.press("ArrowRight")
    await expect(tour).to_contain_text("step 5 of")
    await expect(play.page.get_by_test_id("tour-next")).to_have_text("Done")
    await play.press("tour-next")
    await expect(tour).to_be_hidden()
    assert [row["faults"] for row in play.cluster.state_summary()["nodes"] if row["faults"]]

    await play.begin("nothing-wrong")
    await expect(tour).to_contain_text("step 1 of")
    await play.page.keyboard.press("Escape")
    await expect(tour).to_be_hidden()
    await expect(play.page.locator(".toured")).to_have_count(0)
    summary = play.cluster.state_summary()
    assert not [row for row in summary["nodes"] if row["faults"]]  # starting the second story heals the first one's faults
    assert summary["modifiers"] == ["H03(gpu=5)@gpu-002", "R4@gpu-002"]


async def test_a_tour_writes_what_is_said_and_opens_what_it_speaks_of(play: Playground) -> None:
    page = play.page
    await play.open()
    await play.begin("lost-gpu")
    await play.press("tour-next", "tour-do")
    await expect(page.get_by_test_id("composer")).to_have_value("@rackmedic job 4711 hangs with NCCL timeout on gpu-[001-004]")
    await page.get_by_test_id("composer").press("Enter")
    await expect(page.get_by_test_id("message")).to_have_count(1)
    [asked] = play.slack.messages(INCIDENTS)
    await expect(page.get_by_test_id("tour")).to_contain_text("step 3 of")
    await play.press("tour-do")
    await expect(page.get_by_test_id("thread")).to_contain_text("hangs with NCCL timeout")
    await play.press("tour-next", "tour-do")
    await expect(page.get_by_test_id("thread-composer")).to_have_value("why")
    play.answer(asked["ts"], "Approve? Drain gpu-003")
    await play.press("tour-next", "tour-do")
    await expect(page.locator("#user-switch")).to_have_value("U0PRIYA")
    await expect(page.get_by_test_id("thread")).to_contain_text("Approve? Drain gpu-003")


async def box_of(page: Page, selector: str) -> FloatRect:
    box = await page.locator(selector).bounding_box()
    assert box is not None
    return box


async def test_a_message_without_a_mention_is_answered_with_a_hint(play: Playground) -> None:
    await play.open()
    box, toast = play.page.get_by_test_id("composer"), play.page.get_by_test_id("toast")
    for text, told in (("gpu-003 hangs", 1), ("@rackmedic gpu-003 hangs", 1)):
        await box.fill(text)
        await box.press("Enter")
        await expect(box).to_have_value("")
        await expect(toast).to_have_count(told)
    await expect(toast).to_contain_text("begin with @rackmedic")


@pytest.mark.parametrize(("width", "height", "room"), [(390, 844, 0.55), (1280, 800, 0.6)])
async def test_messages_have_most_of_the_page_and_the_tour_hides_none(play: Playground, width: int, height: int, room: float) -> None:
    page = play.page
    await page.set_viewport_size({"width": width, "height": height})
    await play.open()
    for n in range(20):
        await play.slack.say("olga", INCIDENTS, f"message {n}")
    await expect(page.get_by_test_id("message")).to_have_count(20)
    top, messages = await box_of(page, ".top"), await box_of(page, "#messages")
    header = messages["y"] if width == 390 else top["height"]
    assert header <= 150, "two rows and the bar of the channel"
    assert messages["height"] >= room * height
    await play.begin("lost-gpu")
    tour, messages = await box_of(page, "#tour"), await box_of(page, "#messages")
    assert tour["y"] + tour["height"] <= messages["y"] or tour["y"] >= messages["y"] + messages["height"]
    assert await page.evaluate("document.documentElement.scrollWidth") <= width


async def test_the_next_story_is_told_by_olga_again_in_whose_channel_it_plays(play: Playground) -> None:
    await play.open("/?as=priya&channel=C0GPUINC")
    await play.begin("lost-gpu")
    await expect(play.page.locator("#user-switch")).to_have_value("U0OLGA")
    await play.press("tour-next", "tour-do")
    await play.page.get_by_test_id("composer").press("Enter")
    await expect(play.page.get_by_test_id("message")).to_have_count(1)
    [asked] = play.slack.messages(INCIDENTS)
    assert asked["user"] == "U0OLGA"


async def test_a_link_opens_its_thread_in_a_page_of_its_own(play: Playground) -> None:
    root = await play.slack.say("olga", INCIDENTS, "@rackmedic job 4711 hangs")
    answered = play.answer(root, "GPU fell off the PCIe bus")
    await play.slack.say("olga", INCIDENTS, "and now lunch")
    await play.open()
    await play.press("open-thread")
    where = play.page.url
    assert f"thread={root}" in where
    other = await play.page.context.new_page()
    for address in (where, f"{play.slack.url}/archives/{INCIDENTS}/p{answered.replace('.', '')}?thread_ts={root}&cid={INCIDENTS}"):
        await other.goto(address)
        thread = other.get_by_test_id("thread")
        await expect(thread).to_contain_text("GPU fell off the PCIe bus")
        await expect(thread).not_to_contain_text("and now lunch")
    await expect(thread.locator(".linked")).to_contain_text("GPU fell off the PCIe bus")
    await other.goto(f"{play.slack.url}/archives/{INCIDENTS}/p{root.replace('.', '')}?as=carla")
    await expect(other.get_by_test_id("toast")).to_contain_text("is not in that channel")
    await expect(other.get_by_test_id("thread")).to_be_hidden()


async def test_names_of_hosts_complete_by_keys_and_by_mouse(play: Playground) -> None:
    await play.open()
    box, offers = play.page.get_by_test_id("composer"), play.page.locator("#compose .suggest")
    await box.press_sequentially("is gpu-")
    await expect(offers.get_by_role("option")).to_have_text(["gpu-[001-004] all 4 nodes", *(f"gpu-00{n} node" for n in range(1, 5))])
    await expect(box).to_have_attribute("aria-activedescendant", await offers.get_by_role("option").first.get_attribute("id") or "")
    await box.press("ArrowDown")
    await box.press("ArrowDown")
    await expect(offers.locator(".on")).to_have_text("gpu-002 node")
    await box.press("Tab")
    await expect(box).to_have_value("is gpu-002 ")
    await expect(offers).to_be_hidden()
    await box.press_sequentially("or gpu-00")
    await offers.get_by_text("gpu-004").click()
    await expect(box).to_have_value("is gpu-002 or gpu-004 ")
    await expect(box).to_be_focused()
    await box.press_sequentially("gpu-")
    await expect(offers).to_be_visible()
    await box.press("Escape")
    await expect(offers).to_be_hidden()
    await box.press("Backspace")
    await box.press("Enter")  # sends the text as written, without choosing a completion
    await expect(play.page.get_by_test_id("message")).to_contain_text("is gpu-002 or gpu-004 gpu")

    await play.press("break-menu")
    nodes = play.page.get_by_test_id("break-node")
    await nodes.fill("")
    await nodes.press_sequentially("gpu-[")
    await nodes.press("Enter")
    await expect(nodes).to_have_value("gpu-[001-004]")


async def test_what_makes_it_hard_is_ticked_held_and_taken_back(play: Playground) -> None:
    page = play.page
    await play.open()
    await play.press("break-menu", "hard-open", "hard-R2", "hard-R4")
    await page.get_by_test_id("hard-R2-node").select_option("gpu-002")
    await page.get_by_test_id("hard-R4-node").select_option("gpu-001")
    await play.press("hard-set")
    await expect(page.locator("#hardness li")).to_have_count(2)
    held = [read_modifier(text) for text in play.cluster.state_summary()["modifiers"]]
    assert [(row.id, row.host) for row in held] == [("R2", "gpu-002"), ("R4", "gpu-001")]
    await play.press("hard-R2", "hard-set")
    await expect(page.locator("#hardness li")).to_have_count(1)
    await play.press("break-heal")
    await expect(page.locator("#hardness")).to_be_hidden()
    await expect(page.get_by_test_id("hard-R4")).not_to_be_checked()


async def test_what_is_broken_is_saved_as_a_case_that_the_command_and_the_benchmark_take(play: Playground, tmp_path: Path) -> None:
    play.cluster.break_("G07", "gpu-003", gpu=5)
    await play.slack.say("olga", INCIDENTS, "@rackmedic job 4711 hangs on gpu-[001-004]", files=[("nccl.log", b"Watchdog timeout")])
    await play.open()
    await play.press("case-open")
    await expect(play.page.get_by_test_id("case-text")).to_have_value("job 4711 hangs on gpu-[001-004]")
    async with play.page.expect_download() as coming:
        await play.press("case-save")
    file = tmp_path / (await coming.value).suggested_filename
    await (await coming.value).save_as(file)
    assert await play.page.get_by_test_id("case-yaml").text_content() == file.read_text()
    case: Any = yaml.safe_load(file.read_text())
    assert case["ticket"]["attachments"] == [{"name": "nccl.log", "text": "Watchdog timeout"}]
    assert [row.fault for row in load_case(file).faults] == ["G07"]
    assert read_case(file)["truth"]["primary"]["label"] == "GPU.BUS.Fallen_Off_Bus"
    ran = await asyncio.to_thread(rackmedic, "diagnose", "--sandbox", str(file), "--json")
    assert json.loads(ran.stdout)["root_causes"][0]["label"] == "GPU.BUS.Fallen_Off_Bus"
