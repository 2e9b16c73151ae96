"""A report's pictures as tables on paper: one host, 128 hosts, many columns, right-to-left names."""

from collections.abc import Sequence
from itertools import product

import pytest

from bot.reports.charts.drawing import Drawing, build_heatmap_drawing
from bot.reports.figures import draw_figures
from bot.reports.page import (
    MAX_ADJACENT_TABLES,
    MAX_COLUMNS,
    MAX_FIGURE_ROWS,
    TABLES_TITLE,
    Figure,
    Page,
    PageSection,
    PageTable,
    Paragraph,
    build_tables_section,
    sanitize_page,
)
from bot.reports.page_formats import FORMATS, PageFormat
from bot.reports.pdf_writer import write_pdf
from tests.bot.reports.samples import EXTREMES, many_hosts
from tests.bot.reports.test_page import page_of, pictures
from tests.support.clock import T0
from tools.fact import Fact
from tools.heatmap import Heatmap

pytestmark = pytest.mark.slow


def heat_of(hosts: Sequence[str], gpus: int) -> Drawing:
    heat = Heatmap("gpu.temp.core", hosts)
    heat.add_facts(
        Fact("smi", "gpu.temp.core", 50 + (7 * n + gpu) % 40, f"gpu{gpu}", host=host)
        for (n, host), gpu in product(enumerate(hosts), range(gpus))
    )
    return build_heatmap_drawing(heat)


def page_with(*drawings: Drawing) -> Page:
    return sanitize_page(Page("inc-1", "operators", "Incident inc-1", "l", T0, [PageSection("Pictures", draw_figures(drawings))]))


def tables(page: Page) -> list[PageTable]:
    section = build_tables_section(page)
    return [part for part in section.parts if isinstance(part, PageTable)] if section else []


@pytest.mark.parametrize("name", EXTREMES)
async def test_every_picture_has_its_rows_as_text_on_the_page_and_at_its_end(name: str) -> None:
    page = await page_of(await EXTREMES[name]())
    section = build_tables_section(page)
    with_rows = [figure for figure in pictures(page) if figure.rows]
    assert (section.title if section else "") == (TABLES_TITLE if with_rows else "")
    assert (
        [part.text for part in section.parts if isinstance(part, Paragraph) and part.strong] == [one.title for one in with_rows]
        if section
        else True
    )
    timeline = [figure for figure in pictures(page) if not figure.rows]
    assert len(timeline) <= 1, "the timeline's rows are the section of that name"
    assert not timeline or any(one.title == "Timeline" for one in page.sections)


async def test_of_128_hosts_each_has_its_row() -> None:
    [heat] = [one for one in tables(await page_of(await many_hosts())) if one.head[0] == "host"]
    assert (len(heat.rows), heat.head[-1], heat.rows[-1][0]) == (128, "gpu7", "gpu-128")


def test_one_host_is_one_row() -> None:
    [table] = tables(page_with(heat_of(["gpu-001"], 8)))
    assert [list(row) for row in table.rows] == [["gpu-001", *(str(50 + gpu) for gpu in range(8))]]


def test_what_is_too_long_or_too_wide_is_counted_in_every_format() -> None:
    page = page_with(heat_of([f"n{n}" for n in range(MAX_FIGURE_ROWS + 7)], MAX_COLUMNS * MAX_ADJACENT_TABLES + 5))
    made = tables(page)
    assert [(len(one.head), len(one.rows)) for one in made] == [(1 + MAX_COLUMNS, MAX_FIGURE_ROWS)] * MAX_ADJACENT_TABLES
    assert {len(row) for one in made for row in one.rows} == {1 + MAX_COLUMNS}
    section = build_tables_section(page)
    assert section
    assert [part.text for part in section.parts if isinstance(part, Paragraph)][-2:] == ["… and 7 more rows.", "… and 5 more columns."]
    assert "and 7 more rows" in FORMATS["md"].write(page).decode().replace("\\", "")


def test_names_from_right_to_left_and_rows_of_unlike_length_are_drawn() -> None:
    ragged = Figure(
        "שרתים", "ליאור: 3, ليلى: 4", draw_figures([heat_of(["a"], 1)])[0].png, [("host", "gpu0", "gpu1"), ("שרת-א",), ("عقدة-٣", "80"), ()]
    )
    page = sanitize_page(Page("i", "operators", "t", "l", T0, [PageSection("s", [ragged])]))
    [table] = tables(page)
    assert {len(row) for row in (table.head, *table.rows)} == {3}
    assert write_pdf(page).startswith(b"%PDF-")


@pytest.mark.parametrize("how", FORMATS)
async def test_the_rows_of_a_heat_map_are_in_every_format(how: PageFormat) -> None:
    page = page_with(heat_of(["gpu-001", "gpu-002"], 2))
    bare = sanitize_page(
        Page("inc-1", "operators", "Incident inc-1", "l", T0, [PageSection("Pictures", [Figure("t", "w", pictures(page)[0].png)])])
    )
    assert len(FORMATS[how].write(page)) > len(FORMATS[how].write(bare))


def test_a_reader_is_told_the_title_the_language_and_where_sections_begin() -> None:
    made = write_pdf(page_with(heat_of(["gpu-001", "gpu-002"], 2)))
    assert [word for word in (b"/DisplayDocTitle true", b"/Lang (en)", b"/Outlines", b"/Alt", b"/ToUnicode") if word not in made] == []
