"""An incident's report: its content in every format, at its extremes, and without secrets."""

import itertools
import json
import re
import sys
from datetime import timedelta

import pytest

from bot.reports.charts import bandwidth, timeline, walk
from bot.reports.figures import build_bandwidth_expectation, find_deciding_heatmaps
from bot.reports.incident_sources import IncidentSources, UnknownIncident
from bot.reports.operator_report import format_duration
from bot.reports.page import (
    APPENDIX_TITLE,
    BulletList,
    Figure,
    Page,
    PageSection,
    PageTable,
    Paragraph,
    QuotedLines,
    build_page_document,
    sanitize_page,
)
from bot.reports.page_formats import FORMATS, PageFormat
from bot.reports.pdf_writer import MAX_ACCENTS, _limit_accents, list_missing_letters, write_pdf
from graph.state import Milestone
from tests.bot.reports.samples import (
    EXTREMES,
    SECRET,
    Kept,
    cause,
    diagnosed,
    evidence,
    handed_off,
    many_hosts,
    new_desk,
    one_host,
    right_to_left,
)
from tests.support.clock import T0
from tests.support.written import sheets_of, text_of
from tools.evidence import MemoryEvidence
from tools.fact import Fact
from tools.inventory.inventory import Inventory
from tools.inventory.sku import load_skus

pytestmark = pytest.mark.slow


async def page_of(kept: Kept) -> Page:
    return await kept.sources.build_operator_page(kept.id)


def rows(page: Page, title: str) -> list[list[str]]:
    """Return the rows of a section's tables."""
    [section] = [one for one in page.sections if one.title == title]
    return [list(row) for part in section.parts if isinstance(part, PageTable) for row in part.rows]


def pictures(page: Page) -> list[Figure]:
    return [part for section in page.sections for part in section.parts if isinstance(part, Figure)]


def words(page: Page) -> str:
    return json.dumps(build_page_document(page), ensure_ascii=False)


async def test_one_that_is_closed_tells_its_whole_story() -> None:
    page = await page_of(await one_host())
    glance = dict(rows(page, "At a glance"))
    assert (glance["To the diagnosis"], glance["To recovery"]) == ("14 s after it was opened", "31 min after it was opened")
    assert glance["It really was"] == "GPU fell off the PCIe bus · riser reseated · by Bob Beckett"
    assert rows(page, "What was tried") == [
        [
            "Reset the GPU at 0000:9b:00.0",
            "gpu-017",
            "Cured. Re-checked later: the fault has not come back.",
            "Ann Approver: “seen it before”",
        ]
    ]
    assert rows(page, "Who decided what") == [
        ["2026-05-20 03:11:00", "Ann Approver", "approved: Reset the GPU at 0000:9b:00.0 on gpu-017", "seen it before"]
    ]
    happened = [what.partition(":")[0] for _, _, what in rows(page, "Timeline")]
    assert happened == [
        "NVRM",
        "incident opened",
        "job 4711 hangs with NCCL timeout",
        *("proposed for approval", "approved", "started", "ran", "its result was checked"),
    ]


async def test_three_approvals_a_rejection_and_what_is_still_held() -> None:
    page = await page_of(await handed_off())
    [reboot, reset] = rows(page, "What was tried")[:2]
    approved = "Ann Approver: “no job on it”; Bob Beckett; Cid Ω Σωκράτης: “σύμφωνοι”"
    assert reboot == ["Reboot the node (warm)", "gpu-017", "Unknown whether it ran", approved]
    assert reset[2:] == ["Rejected", "rejected by Bob Beckett: “a training run needs it until Friday; password=[redacted]”"]
    decided = rows(page, "Who decided what")
    assert [(who, what.partition(":")[0]) for _, who, what, _ in decided] == [
        ("Ольга Петрова", "asked for it"), ("Ann Approver", "approved"), ("Bob Beckett", "approved"),
        ("Cid Ω Σωκράτης", "approved"), ("Bob Beckett", "rejected")
    ]  # fmt: skip
    assert decided[-1][3] == "a training run needs it until Friday; password=[redacted]"
    assert rows(page, "Still held")[0][:3] == ["gpu-017", "2026-05-20 03:10", "Ann Approver"]
    assert "gpu-017 is locked" in words(page)


async def test_without_decisions_nothing_ran_and_nothing_is_quoted() -> None:
    kept = await one_host()
    kept.desk = new_desk()
    await kept.desk.ask(kept.desk.action("gpu-017", incident="inc-1"))
    page = await page_of(kept)
    assert [row[2:] for row in rows(page, "What was tried")] == [["Waits for a decision", "nobody yet"]]
    assert [part for section in page.sections for part in section.parts if isinstance(part, QuotedLines) and not part.lines] == []


async def test_128_hosts_take_few_rows_and_no_host_is_lost() -> None:
    page = await page_of(await many_hosts())
    assert rows(page, "What was tried")[0][:2] == ["Reset the GPU at 0000:9b:00.0", "gpu-[001-128]"]
    assert [row[0] for row in rows(page, "Still held")] == ["gpu-[001-010]"]
    assert len(rows(page, "Timeline")) == 5
    assert "gpu-[001-040] · dcgm" in words(page)
    heat, tree = pictures(page)[1:]
    assert "128 hosts" in heat.words
    assert (len(heat.rows), heat.rows[1][0]) == (129, "gpu-001")
    assert tree.words.startswith("Found: Hardware thermal slowdown of a GPU.")


@pytest.mark.parametrize("name", EXTREMES)
async def test_the_first_sheet_tells_it_all_and_what_is_longer_follows(name: str) -> None:
    page = await page_of(await EXTREMES[name]())
    first = [section.title for section in page.sections if not section.appendix]
    assert [title for title in first if title not in ("Left to people",)] in (
        ["At a glance", "Root cause", "What was tried", "Still held", "Timeline"],
        ["At a glance", "Root cause", "What was tried", "Still held", "Timeline in short"],
    )
    sheets = sheets_of(write_pdf(page))
    assert [title for title in (*first, APPENDIX_TITLE) if title not in sheets[0]] == [APPENDIX_TITLE], "what comes first fits one sheet"
    assert sheets[1].strip().startswith(APPENDIX_TITLE)
    text = FORMATS["md"].write(page).decode()
    assert text.index("At a glance") < text.index("Still held") < text.index(f"{APPENDIX_TITLE}\n")


async def test_every_moment_stands_once_in_markdown() -> None:
    """A picture's rows would repeat the timeline."""
    text = FORMATS["md"].write(await page_of(await one_host())).decode()
    assert text.count("| incident opened |") == 1
    assert text.count("| job 4711 hangs with NCCL timeout |") == 1


async def test_what_it_came_to_and_what_people_did_is_the_story_in_short() -> None:
    kept = await handed_off()
    found = Milestone(at=T0 + timedelta(seconds=14), kind="found", says="GPU fell off the PCIe bus")
    kept.state["milestones"] = [found.to_row()]
    page = await page_of(kept)
    short = [what.partition(":")[0] for _, _, what in rows(page, "Timeline in short")]
    assert short == ["NVRM", "incident opened", "found", "approved", "approved", "approved", "unknown whether it ran", "rejected"]
    assert len(rows(page, "Timeline")) > len(short)


async def test_a_proof_shows_its_result_and_a_step_taken_is_not_left_to_people() -> None:
    kept = await one_host()
    proved = Milestone(at=T0 + timedelta(minutes=2), kind="proved", says="gpu reset: passes now")
    kept.state["milestones"] = [proved.to_row()]
    kept.state["report"] = {**kept.state["report"], "next_step": "Reset the GPU."}
    page = await page_of(kept)
    moments = [what for section in page.sections if section.title.startswith("Timeline") for part in section.parts
               if isinstance(part, PageTable) for _, _, what in part.rows]  # fmt: skip
    assert "proved: gpu reset: passes now" in moments
    assert not [what for what in moments if what.startswith("its result was checked")]
    assert "Left to people" not in [section.title for section in page.sections]


async def test_a_long_headline_is_a_short_title_and_a_ticket_that_is_taken_is_not_to_be_taken() -> None:
    kept = await handed_off()
    headline = "No cause proven: 2 hosts looked at; one check alone would show it"
    kept.state["report"] = {**kept.state["report"], "root_causes": [], "headline": headline, "next_step": "Take the ticket.", "by_hand": []}
    page = await page_of(kept)
    assert page.title == "Incident inc-1: No cause proven: 2 hosts looked at"
    assert headline in words(page)
    assert "Take the ticket" not in words(page)


async def test_its_moments_its_bandwidth_and_what_was_looked_into_are_drawn() -> None:
    kept = await one_host()
    page = await page_of(kept)
    assert [figure.title for figure in pictures(page)] == [timeline.TITLE, walk.TITLE]
    assert list(pictures(page)[0].rows) == [], "its moments stand on the page already"
    gib = 1 << 30
    measured = [Fact("nccl1", "nccl.busbw_at", 190.5, host="gpu-017", attrs={"size": size * gib}) for size in (1, 8)]
    kept.state["facts"] = await kept.evidence.put_facts("inc-1", measured)
    speed = next(figure for figure in pictures(await page_of(kept)) if figure.title == bandwidth.TITLE)
    assert speed.rows == [["host", "1 GiB", "8 GiB", "model reaches"], ["gpu-017", "190.5", "190.5", "?"]]
    assert all(figure.png.startswith(b"\x89PNG") for figure in pictures(page))
    assert "What was checked" in FORMATS["md"].write(page).decode()


def test_what_a_model_reaches_is_known_by_what_its_host_shows() -> None:
    shows = [Fact("smi", "gpu.product", "NVIDIA H100 80GB HBM3", f"gpu{gpu}", host="n1") for gpu in range(8)]
    expected = build_bandwidth_expectation(Inventory(hosts={}, groups={}), load_skus(), shows)
    assert (expected("n1"), expected("n2"), expected("")) == (load_skus()["dgx-h100-8"].get_expected("nccl.busbw_max", None), None, None)


async def test_what_is_not_known_is_said_so() -> None:
    kept = await one_host()
    bare = IncidentSources(kept.sources.state_of, MemoryEvidence(), kept.sources.clock, None, "no key")
    kept.state["facts"] = "0" * 64
    page = await bare.build_operator_page(kept.id)
    assert dict(rows(page, "At a glance"))["To recovery"] == "not known"
    assert "Not known: the ledger could not be read." in words(page)
    assert [note for note in page.notes if "no key" in note]
    assert [note for note in page.notes if "no longer stored" in note]


async def test_an_incident_that_nobody_knows_is_refused() -> None:
    with pytest.raises(UnknownIncident, match="inc-nobody: no such incident"):
        await (await one_host()).sources.build_operator_page("inc-nobody")


@pytest.mark.parametrize("name", EXTREMES)
async def test_every_extreme_is_written_in_every_format_without_a_secret(name: str) -> None:
    page = await page_of(await EXTREMES[name]())
    assert [section.title for section in page.sections if section.title in ("Root cause", "What was tried", "Still held")] == [
        "Root cause",
        "What was tried",
        "Still held",
    ]
    assert [secret for secret in (SECRET.partition("=")[2], "hunter2-of-bob") if secret in words(page)] == []
    for how, row in FORMATS.items():
        written = row.write(page)
        text = text_of(how, written)
        assert "gpu-0" in text, how
        for secret in (SECRET.partition("=")[2], "hunter2-of-bob"):
            assert secret not in text, how


async def test_untrusted_markup_is_escaped_in_markdown_without_mentions() -> None:
    text = FORMATS["md"].write(await page_of(await right_to_left())).decode()
    assert "[link](https" not in text
    assert "<b>" not in text
    assert "<!channel>" not in text
    assert "\u202e" not in text
    table = [line for line in text.split("\n") if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} <= {3, 4, 5}


def test_a_fence_in_a_quoted_line_ends_no_quote() -> None:
    page = Page("i", "operators", "t", "l", T0, [PageSection("s", [QuotedLines(["```", "# not a title"])])])
    assert "````text\n```\n# not a title\n````" in FORMATS["md"].write(page).decode()


async def test_the_pdf_names_the_letters_that_its_font_lacks() -> None:
    lacks = list_missing_letters(await page_of(await right_to_left()))
    assert {"训", "🔥"} <= set(lacks)
    assert not {"ש", "ل", "Ω", "Ж"} & set(lacks)


HOSTILE = {
    "dots": ".", "no form": "训", "words": "word ", "one word": "x", "accents": "\u0301", "accents of letters": "a\u0301\u0302\u0303",
    "zero width": "\u200b", "joiners": "a\u200d", "hebrew": "א", "hebrew with points": "ש\u05c1\u05b8", "arabic": "م",
    "arabic with signs": "ب\u064e\u0651", "both ways": "אa", "signs between": "א.", "numbers": "א1", "brackets": "(",
    "brackets closed": "()", "brackets in brackets": "[(", "currency": "$", "percent": "%", "slashes": "/", "enclosing": "\u20dd",
    "turns": "\u202e", "isolates": "\u2066", "soft hyphens": "\u00ad", "hard blanks": "\u00a0", "quotes": "“", "greek": "ώ", "dashes": "—",
}  # fmt: skip


def page_with(text: str) -> Page:
    """Return a page with the text in every place for untrusted text."""
    cells = [PageTable((), [(text, "v")]), PageTable(tuple("abcd"), [(text, text, text, text)])]
    return Page("i", "operators", text, text, T0, [PageSection("s", [Paragraph(text), BulletList([text]), QuotedLines([text]), *cells])])


def calls_for(text: str) -> int:
    """Return the number of Python calls to write the page as PDF; a clock would measure the machine."""
    calls, page = itertools.count(), sanitize_page(Page("i", "operators", "t", "l", T0, [PageSection("s", [Paragraph(text)])]))
    before = sys.getprofile()
    sys.setprofile(lambda *_: next(calls))
    try:
        write_pdf(page)
    finally:
        sys.setprofile(before)
    return next(calls)


@pytest.mark.tier3  # a minute of drawing
@pytest.mark.parametrize("sign", HOSTILE.values(), ids=HOSTILE.keys())
def test_twice_the_text_of_a_stranger_costs_twice_the_work(sign: str) -> None:
    calls_for("")  # warm up imports and cached files
    blank, half, whole = (calls_for("a" + sign * (size // len(sign))) for size in (0, 900, 1800))
    assert whole - blank < 3 * max(half - blank, 5_000)


def test_accents_of_one_letter_are_bounded_before_they_are_drawn() -> None:
    assert _limit_accents("é " + "a" + "\u0301" * 2000 + "b") == f"é a{chr(0x301) * MAX_ACCENTS}‹+{2000 - MAX_ACCENTS:,} accents›b"
    assert _limit_accents("ש\u05c1\u05b8\u0591 a\u0302\u0301") == "ש\u05c1\u05b8\u0591 a\u0302\u0301"
    once, many = calls_for("a" * 100), calls_for("a" + "\u0301" * 1900)
    assert many < once + 5_000


@pytest.mark.parametrize("text", ["." * 2000, "训" * 2000, "word " * 400, "x" * 2000, "a" + "\u0301" * 2000])
def test_no_text_of_a_stranger_keeps_a_pdf_from_being_made(text: str) -> None:
    assert write_pdf(sanitize_page(page_with(text))).startswith(b"%PDF-")


def test_an_address_in_a_strangers_words_is_no_link_where_markdown_is_pasted() -> None:
    page = Page("i", "operators", "t", "l", T0, [PageSection("s", [Paragraph("https://evil.example/x or www.evil.example")])])
    text = FORMATS["md"].write(sanitize_page(page)).decode()
    assert "hxxps://evil.example/x or www\\.evil.example" in text


def test_the_fonts_are_there() -> None:
    assert write_pdf(Page("i", "operators", "Ωж", "אב", T0, [])).startswith(b"%PDF-")


@pytest.mark.parametrize("how", FORMATS)
async def test_the_same_page_is_the_same_file(how: PageFormat) -> None:
    page = await page_of(await handed_off())
    assert FORMATS[how].write(page) == FORMATS[how].write(page)


def test_a_code_is_no_number_to_draw() -> None:
    shows = [Fact("dmesg", "kernel.xid", code, f"gpu{n}", host=f"n{n}") for n, code in enumerate((79, 109))]
    report = diagnosed(cause(["n0", "n1"], *(evidence(row.host) for row in shows)))
    assert find_deciding_heatmaps(report, shows) == []


def test_no_number_of_a_gpu_is_no_picture() -> None:
    assert find_deciding_heatmaps(None, ()) == []


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0 s"), (90, "90 s"), (121, "2 min"), (3600, "1 h"), (11_100, "3 h 5 min"), (187_200, "2 d 4 h")]
)
def test_durations_are_said_as_people_do(seconds: float, said: str) -> None:
    assert format_duration(seconds) == said


async def test_a_long_text_is_cut_and_says_how_much() -> None:
    page = sanitize_page(Page("i", "operators", "x" * 9000, "l", T0, [PageSection("s", [Paragraph("y" * 5000)]), PageSection("none", [])]))
    assert page.title.endswith("(+7,000)")
    assert [section.title for section in page.sections] == ["s"]
