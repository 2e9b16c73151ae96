"""A report as a reader of any kind opens it: axe finds nothing critical or serious, light and dark, on a desk and on a telephone."""

from pathlib import Path

import pytest

from bot.postmortem.formats import FORMATS
from tests.bot.postmortem.samples import EXTREMES
from tests.sandbox.test_page_clean import AXE, FOUND, NARROW
from tests.support.fixtures_browser import browser_page, needs_chromium

pytestmark = needs_chromium
FEW = [name for name in EXTREMES if name != "128 hosts"]
"""A thousand cells more of the same tables take axe a minute more."""


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_every_kind_of_page_is_clean(tmp_path: Path, theme: str) -> None:
    found: list[str] = []
    async with browser_page(NARROW, 844) as page:
        await page.emulate_media(color_scheme="dark" if theme == "dark" else "light", reduced_motion="reduce")
        for name in FEW:
            kept = await EXTREMES[name]()
            file = tmp_path / f"{name}.html"
            file.write_bytes(FORMATS["html"].write(await kept.sources.for_operators(kept.id)))
            await page.goto(file.as_uri())
            await page.evaluate(AXE)
            for width in (NARROW, 1280):
                await page.set_viewport_size({"width": width, "height": 844})
                found += [f"{name} at {width}: {row}" for row in await page.evaluate(FOUND)]
                sideways = await page.evaluate("document.documentElement.scrollWidth > innerWidth")
                found += [f"{name} at {width}: wider than the page"] if sideways else []
    assert found == []
