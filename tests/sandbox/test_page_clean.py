"""Accessibility of the page: axe finds nothing critical or serious in any view, light and dark; at 390 px only the two
button rows scroll sideways.
"""

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Frame, Page

from deploy.sandbox.demo import run_sandbox
from tests.sandbox.test_slack_page import CARD, MODAL
from tests.support.fixtures_browser import browser_page, needs_chromium

pytestmark = [needs_chromium, pytest.mark.tier2]
AXE = (files("axe_playwright_python") / "axe.min.js").read_text()
FOUND = """async () => (await axe.run(document, {resultTypes: ['violations']})).violations
  .filter(one => ['critical', 'serious'].includes(one.impact)).map(one => one.id + ': ' + one.nodes.map(node => node.html.slice(0, 160)).join(' | '))"""
WIDER = """() => [...document.querySelectorAll('*')].filter(node => node.clientWidth && node.scrollWidth > node.clientWidth + 1
  && ['auto', 'scroll'].includes(getComputedStyle(node).overflowX)
  && !(innerWidth <= 760 && node.matches('header.top, nav.side'))).map(node => node.outerHTML.slice(0, 120))
  .concat(document.documentElement.scrollWidth > innerWidth ? ['the page'] : [])"""
NARROW = 390
TABLE: dict[str, Any] = {
    "type": "table",
    "rows": [[{"type": "raw_text", "text": text} for text in row] for row in (("host", "what stands there"), ("gpu-003", "a word " * 9))],
}


async def clean(page: Page | Frame, view: str) -> list[str]:
    """Return the view's problems."""
    if not await page.evaluate("Boolean(window.axe)"):
        await page.evaluate(AXE)
    return [f"{view}: {row}" for row in [*await page.evaluate(FOUND), *await page.evaluate(WIDER)]]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, NARROW])
async def test_every_view_is_clean(tmp_path: Path, width: int, theme: str) -> None:
    async with run_sandbox(tmp_path) as world, browser_page(width, 844) as page:
        slack, found = world.slack, list[str]()
        world.cluster.break_("G07", "gpu-003", gpu=5)
        await page.emulate_media(color_scheme="dark" if theme == "dark" else "light", reduced_motion="reduce")
        await page.goto(f"{slack.url}/?as=olga&channel=C0GPUINC")
        await page.wait_for_selector("body[data-ready]")
        found += await clean(page, "welcome")
        root = await slack.say("olga", "C0GPUINC", "@rackmedic `job 4711` hangs ⚠️ on gpu-[001-004]")
        slack.acts.react("priya", "C0GPUINC", root, "red_circle")
        bot = slack.workspace.user("rackmedic").id
        slack.workspace.post(bot, slack.workspace.channel("C0GPUINC"), {"text": "card", "blocks": [*CARD, TABLE], "thread_ts": root})
        if width > NARROW:
            await page.get_by_test_id("open-thread").click()  # a phone opens the thread automatically
        found += await clean(page, "thread")
        await page.get_by_test_id("node-gpu-003").click()
        await page.get_by_test_id("inspector-gpus").wait_for()
        found += await clean(page, "inspector")
        await page.get_by_test_id("inspector-close").click()
        for opens, dialog in (("break-menu", "break-dialog"), ("case-open", "case-dialog"), ("stories-open", "stories-dialog")):
            await page.get_by_test_id(opens).click()
            await page.get_by_test_id(dialog).wait_for()
            found += await clean(page, dialog)
            await page.keyboard.press("Escape")
        slack.views.open(slack.views.trigger("U0OLGA"), MODAL)
        await page.get_by_test_id("modal").wait_for()
        found += await clean(page, "modal")
    assert not found
