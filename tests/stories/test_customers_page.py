"""Both sides in one window with the real bot process: a tenant's mistake answered at once, a provider fault from
mention to "works again" with internal approval, and an unknown handed to people and answered.
"""

import os
from pathlib import Path

from playwright.async_api import FrameLocator, Locator, Page, expect

from deploy.sandbox.demo import run_bot, run_sandbox
from tests.support.fixtures_browser import browser_page, needs_chromium, shot

pytestmark = needs_chromium
INSIDE = ("gpu-001", "scontrol", "Priya", "Approve", "Xid", "nvidia-smi -i")


def sides(page: Page) -> tuple[FrameLocator, FrameLocator]:
    """Return the tenant's workspace and ours."""
    return page.frame_locator("#theirs"), page.frame_locator("#ours")


async def asks(side: FrameLocator, text: str) -> Locator:
    """Mention the bot and return its thread. News may open an earlier thread automatically."""
    threads = side.get_by_test_id("open-thread")
    before = await threads.count()
    await side.get_by_test_id("composer").fill(text)
    await side.get_by_test_id("send").click()
    await expect(threads).to_have_count(before + 1)
    await threads.last.click()
    return side.get_by_test_id("thread")


async def latest(side: FrameLocator, roots: int) -> Locator:
    """Return our thread of the tenant's latest report, once `roots` threads exist."""
    if await side.get_by_test_id("thread-close").is_visible():
        await side.get_by_test_id("thread-close").click()
    await expect(side.get_by_test_id("open-thread")).to_have_count(roots)
    await side.get_by_test_id("open-thread").last.click()
    return side.get_by_test_id("thread")


async def top(thread: Locator, text: str) -> None:
    await thread.get_by_text(text).first.evaluate("text => text.scrollIntoView({block: 'start'})")


async def test_both_sides_of_three_incidents_in_one_window(tmp_path: Path) -> None:
    async with (
        run_sandbox(tmp_path, language="en") as world,
        run_bot(world, dict(os.environ), tmp_path / "bot.log"),
        browser_page(1900, 1100) as page,
    ):
        await world.slack.connected()
        await page.goto(f"{world.slack.url}/page/both.html")
        theirs, ours = sides(page)
        await expect(theirs.locator("#team")).to_have_text("Acme AI")
        await expect(ours.locator("#team")).to_have_text("Rackwise Cloud")
        await expect(theirs.locator("#apps")).to_be_hidden()

        world.cluster.break_("U04", "gpu-003")
        thread = await asks(theirs, "@rackmedic job 4711 does not start on gpu-[003-004]")
        await expect(thread).to_contain_text("unset NCCL_SOCKET_IFNAME")
        await expect(thread).to_contain_text("NCCL_SOCKET_IFNAME=docker0")
        inside = await latest(ours, 1)
        await expect(inside.get_by_test_id("button-approval.approve")).to_have_count(0)
        await shot(page, "customers-1-their-mistake")
        world.cluster.heal(None)

        world.cluster.break_("G17", "gpu-003")
        thread = await asks(theirs, "@rackmedic training on gpu-[003-004] is half as fast as yesterday")
        await expect(thread).to_contain_text("--exclude=gpu-003")
        await expect(thread).to_contain_text("not taken yet")
        inside = await latest(ours, 2)
        await inside.get_by_test_id("button-approval.approve").last.click()
        await shot(page, "customers-2-our-fault")
        await ours.get_by_test_id("confirm-yes").click()
        await expect(thread).to_contain_text("proved by a test")
        await thread.get_by_test_id("button-customer.works").last.click()
        await expect(thread).to_contain_text("Good. I check once more")
        await shot(page, "customers-3-works-again")

        thread = await asks(theirs, "@rackmedic the loss of our training on gpu-[003-004] looks odd since this morning")
        await expect(thread).to_contain_text("Nothing is wrong with your machines")
        await thread.get_by_test_id("button-customer.person").last.click()
        await expect(thread).to_contain_text("A person looks into it")
        inside = await latest(ours, 3)
        await inside.get_by_test_id("button-customer.tell").click()
        modal = ours.get_by_test_id("modal")
        await modal.get_by_role("textbox").fill("It is as on gpu-001: Priya looks at it.")
        await modal.get_by_test_id("modal-submit").click()
        await expect(modal).to_contain_text("a machine that is not theirs (gpu-001)")
        await shot(page, "customers-4-not-sent")
        await modal.get_by_role("textbox").fill(
            "Your learning rate was raised at step 1200. Please start again from the checkpoint before it."
        )
        await modal.get_by_test_id("modal-submit").click()
        await expect(modal).to_contain_text("Nothing was sent yet.")
        await shot(page, "customers-5-as-they-read-it")
        await modal.get_by_test_id("modal-submit").click()
        await expect(modal).to_be_hidden()
        await expect(thread).to_contain_text("Please start again from the checkpoint before it.")
        await shot(page, "customers-6-told-back")
        await theirs.get_by_test_id("user-switch").evaluate("list => list.remove()")  # part of the sandbox, not of Slack
        said = await theirs.locator("body").inner_text()
    assert not [word for word in INSIDE if word in said]
    assert not world.cluster.unsafe_commands
