"""Accessibility of the page with the real bot's content: cards, forms, confirmations, Home tab, node inspector, both
sides. axe finds nothing critical or serious, light and dark, and at 390 px nothing is wider than the page.
"""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from playwright.async_api import Page, expect

from deploy.sandbox.demo import Sandbox, run_bot, run_sandbox
from tests.sandbox.test_page_clean import NARROW, clean
from tests.support.fixtures_browser import browser_page, needs_chromium, shot

pytestmark = needs_chromium
WIDE = 1280
Seen = Callable[[str], Awaitable[None]]


async def test_what_the_bot_shows_is_clean(tmp_path: Path) -> None:
    async with (
        run_sandbox(tmp_path, language="en") as world,
        run_bot(world, dict(os.environ), tmp_path / "bot.log"),
        browser_page(WIDE, 1000) as page,
    ):
        await world.slack.connected()
        root = await _incident(world, page)
        found = list[str]()
        for theme in ("light", "dark"):
            for width in (WIDE, NARROW):

                async def seen(view: str, at: str = f"{theme} {width}") -> None:
                    for frame in page.frames:
                        found.extend(f"{at} {row}" for row in await clean(frame, view))
                    await shot(page, f"clean-{view} {at}".replace(" ", "-"))

                await page.set_viewport_size({"width": width, "height": 900})
                await page.emulate_media(color_scheme="dark" if theme == "dark" else "light", reduced_motion="reduce")
                await _thread(page, f"{world.slack.url}/?as=priya&channel=C0GPUINC&thread={root}", seen)
                await _home(page, seen)
                await _sides(page, world.slack.url, seen)
    assert not found


async def _incident(world: Sandbox, page: Page) -> str:
    """Report a broken GPU and a tenant's mistake; return the first thread."""
    world.cluster.break_("G07", "gpu-002", gpu=5)
    world.cluster.break_("U04", "gpu-003")
    theirs = await world.slack.say("carla", "C0CUSTACME", "@rackmedic job 4711 does not start on gpu-[003-004]")
    root = await world.slack.say("olga", "C0GPUINC", "@rackmedic a GPU of gpu-002 is gone")
    await page.goto(f"{world.slack.url}/?as=carla&channel=C0CUSTACME&thread={theirs}")
    await expect(page.get_by_test_id("thread")).to_contain_text("NCCL_SOCKET_IFNAME")
    await page.goto(f"{world.slack.url}/?as=priya&channel=C0GPUINC&thread={root}")
    await expect(page.get_by_test_id("thread")).to_contain_text("Approve? Drain gpu-002")
    return root


async def _thread(page: Page, address: str, seen: Seen) -> None:
    """Visit the thread's cards, what they open, and their node."""
    await page.goto(address)
    thread, modal = page.get_by_test_id("thread"), page.get_by_test_id("modal")
    await expect(thread).to_contain_text("Approve? Drain gpu-002")
    await seen("thread")
    for button in ("diagnosis.details", "approval.reject"):
        await thread.get_by_test_id(f"button-{button}").last.click()
        await modal.wait_for()
        await seen(button)
        await page.keyboard.press("Escape")
        await expect(modal).to_be_hidden()
    await thread.get_by_test_id("button-approval.approve").click()
    await page.get_by_test_id("confirm").wait_for()
    await seen("confirmation")
    await page.get_by_test_id("confirm-no").click()
    await page.get_by_test_id("node-gpu-002").click()
    await page.get_by_test_id("asked").first.click()
    await seen("inspector")
    await page.get_by_test_id("inspector-close").click()


async def _home(page: Page, seen: Seen) -> None:
    await page.get_by_test_id("app-rackmedic").click()
    await expect(page.get_by_test_id("home")).to_contain_text("Drain gpu-002")
    await seen("home")


async def _sides(page: Page, url: str, seen: Seen) -> None:
    """Visit both workspaces side by side with their threads open."""
    await page.goto(f"{url}/page/both.html")
    for name in ("theirs", "ours"):
        side = page.frame_locator(f"#{name}")
        await side.get_by_test_id("open-thread").last.click()
        await side.get_by_test_id("thread").wait_for()
    await seen("both sides")
