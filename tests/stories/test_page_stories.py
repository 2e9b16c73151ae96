"""Every story of the demo page played to its end with the real bot, in sequence like a visitor: what the tour says is
true.
"""

import json
import os
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, expect

from deploy.sandbox.demo import Sandbox, run_bot, run_sandbox
from tests.support.fixtures_browser import browser_page, needs_chromium, shot

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="module")]
PAGE = Path(__file__).parents[2] / "deploy/sandbox/slack/page"
TOLD: dict[str, Any] = {story["id"]: story for story in json.loads((PAGE / "stories.json").read_text())["stories"]}


@dataclass(frozen=True, slots=True)
class Ending:
    """A story's end: answer, further answer, the remediation that waits for Priya, and who is not accused."""

    cause: str
    where: str
    asked: str = ""
    fix: str = ""
    done: str = ""  # final message of an approved action; empty if nothing is approved
    not_said: tuple[str, ...] = ()


ENDINGS = {
    "lost-gpu": Ending(
        "GPU fell off the PCIe bus",
        "gpu-003/gpu5",
        asked="GPU has fallen off the bus",
        fix="Approve? Drain gpu-003",
        not_said=("gpu-002/",),
    ),
    "slow-gpu": Ending("GPU clocks locked low", "gpu-002/gpu2", fix="Approve? Reset locked", done="Passes now", not_said=("gpu-004",)),
    "own-mistake": Ending("NCCL_SOCKET_IFNAME wrong", "not a host fault", asked="not a host fault"),
    "liar": Ending("File system remounted read-only", "gpu-001", fix="Approve? Drain gpu-001", not_said=("on gpu-004", "Closed", "Reset")),
    "nothing-wrong": Ending("No fault found", "nothing abnormal", asked="gpu-002: 23 checks"),
}


@dataclass(frozen=True, slots=True)
class Visit:
    """A visitor's page and the world behind it."""

    page: Page
    world: Sandbox

    @property
    def thread(self) -> Locator:
        return self.page.get_by_test_id("thread")

    async def press(self, *names: str) -> None:
        """Click buttons in sequence."""
        for name in names:
            await self.page.get_by_test_id(name).click()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def visit(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Visit]:
    folder = tmp_path_factory.mktemp("stories")
    async with (
        run_sandbox(folder, language="en") as world,
        run_bot(world, dict(os.environ), folder / "bot.log"),
        browser_page(1280, 1000) as page,
    ):
        await world.slack.connected()
        await page.goto(f"{world.slack.url}/?as=olga&channel=C0GPUINC")
        await page.wait_for_selector("body[data-ready]")
        yield Visit(page, world)
    assert not world.cluster.unsafe_commands


SENDS = ("say", "why", "summary", "about")  # steps that the tour leaves once their message is sent


@pytest.mark.parametrize("name", TOLD)
async def test_a_story_ends_as_it_promises(visit: Visit, name: str) -> None:
    story, ending, page = TOLD[name], ENDINGS[name], visit.page
    await visit.press("stories-open")
    await page.get_by_test_id("stories-dialog").get_by_test_id(f"story-{name}").click()
    for n, step in enumerate(story["steps"], 1):
        await expect(page.get_by_test_id("tour")).to_contain_text(f"step {n} of {len(story['steps'])}")
        await STEPS[step["do"]](visit, step, ending)
        await shot(page, f"story-{name}-{n}")
        if step["do"] not in SENDS or n == len(story["steps"]):
            await visit.press("tour-next")
    await expect(page.get_by_test_id("tour")).to_be_hidden()
    said = "\n".join(json.dumps(message.get("blocks", "")) for message in _answers(visit))
    assert not [word for word in ending.not_said if word in said]


def _answers(visit: Visit) -> list[dict[str, Any]]:
    """Return the bot's messages in the open thread."""
    root = re.search(r"thread=([\d.]+)", visit.page.url)
    assert root, "no thread is open"
    return [row for row in visit.world.slack.thread("C0GPUINC", root[1]) if row["user"] == visit.world.slack.workspace.user("rackmedic").id]


async def broken(visit: Visit, step: Any, _: Ending) -> None:
    """The page shows the broken nodes as broken and the others as well."""
    faults = {node["name"] for node in visit.world.cluster.state_summary()["nodes"] if node["faults"]}
    for node in visit.world.cluster.state_summary()["nodes"]:
        await expect(visit.page.get_by_test_id(f"node-{node['name']}")).to_have_attribute(
            "data-state", "broken" if node["name"] in faults else "well"
        )
    assert await visit.page.locator(".toured").count() == 1, step["at"]


async def reported(visit: Visit, _: Any, ending: Ending) -> None:
    """Send Olga's prepared report; its thread opens with the answer."""
    await visit.press("tour-do")
    await expect(visit.page.locator("#user-switch")).to_have_value("U0OLGA")
    await visit.press("send")
    await expect(visit.thread).to_contain_text(ending.cause)
    await expect(visit.thread).to_contain_text(ending.where)
    if ending.fix:
        await expect(visit.thread).to_contain_text(ending.fix)
    else:
        await expect(visit.thread.get_by_test_id("button-approval.approve")).to_have_count(0)


async def opened(visit: Visit, _: Any, ending: Ending) -> None:
    await visit.press("thread-close", "tour-do")
    await expect(visit.thread).to_contain_text(ending.cause)


async def asked(visit: Visit, _: Any, ending: Ending) -> None:
    await visit.press("tour-do", "thread-send")
    await expect(visit.thread).to_contain_text(ending.asked)


async def decided(visit: Visit, _: Any, ending: Ending) -> None:
    """Priya's card has the command, preconditions, proof, and buttons."""
    await visit.press("tour-do")
    await expect(visit.page.locator("#user-switch")).to_have_value("U0PRIYA")
    for words in (ending.fix, "Re-checked before running:", "Proof:"):
        await expect(visit.thread).to_contain_text(words)
    await expect(visit.thread.get_by_test_id("button-approval.reject")).to_be_visible()
    if ending.done:
        await visit.thread.get_by_test_id("button-approval.approve").click()
        await visit.press("confirm-yes")
        await expect(visit.thread).to_contain_text(ending.done)


async def inspected(visit: Visit, step: Any, ending: Ending) -> None:
    """The inspector shows the commands run on the machine, including the approved one."""
    await visit.press("tour-do")
    inside = visit.page.get_by_test_id("inspector")
    await expect(inside).to_contain_text(step["node"])
    await expect(inside.get_by_test_id("asked").first).to_be_visible()
    if ending.done:
        await expect(inside).to_contain_text("rackmedic-act")
    await visit.press("inspector-close")


async def saved(visit: Visit, _: Any, __: Ending) -> None:
    await visit.press("tour-do")
    await expect(visit.page.get_by_test_id("case-yaml")).to_contain_text("id: S13")
    await visit.page.keyboard.press("Escape")


async def only_read(visit: Visit, step: Any, _: Ending) -> None:
    """The element that the step points to exists."""
    assert await visit.page.locator(".toured").count() == 1, step["at"]


STEPS = {
    "break": broken,
    "say": reported,
    "thread": opened,
    "why": asked,
    "summary": asked,
    "about": asked,
    "priya": decided,
    "inspect": inspected,
    "case": saved,
    "": only_read,
}
