"""Headless Chromium for tests of the page."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Page, async_playwright, expect

from tests.support.clock import PATIENCE

CHROMIUM = "/usr/bin/chromium"
ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
needs_chromium = pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="NOT CHECKED: chromium is not installed (make setup-system)")
SHOTS = Path(__file__).parents[2] / "out" / "screenshots"
expect.set_options(timeout=PATIENCE * 1000)


@asynccontextmanager
async def browser_page(width: int = 1280, height: int = 1000) -> AsyncIterator[Page]:
    """Open one page in its own browser."""
    async with async_playwright() as player:
        browser = await player.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        try:
            context = await browser.new_context(viewport={"width": width, "height": height})
            context.set_default_timeout(PATIENCE * 1000)
            yield await context.new_page()
        finally:
            await browser.close()


async def shot(page: Page, name: str) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    await page.screenshot(path=SHOTS / f"{name}.png")
