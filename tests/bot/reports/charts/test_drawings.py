"""Charts of bandwidth, walk and timeline: bounded, with the same rows as text, and no meaning by colour alone."""

import re
import xml.dom.minidom
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from math import log2

import pytest

from bot.reports.charts import bandwidth, canvas, timeline, walk
from bot.reports.charts.drawing import MAX_ROWS, render_text_table
from graph.incident_view import IncidentView
from graph.report import Report
from graph.search_trace import SearchTree, build_search_tree
from graph.state import Hypothesis, IncidentState
from graph.timeline import Timeline, TimelineEvent
from kb.taxonomy.loader import load_taxonomy
from tests.bot.reports.charts.test_canvas import LARGEST
from tests.bot.reports.charts.test_heat import texts
from tests.support.clock import T0
from tools.bandwidth import MAX_MESSAGE_BYTES as LARGEST_MESSAGE
from tools.bandwidth import BandwidthCurve, Bandwidths

pytestmark = pytest.mark.slow


GIB, BAND = 1 << 30, 460.0
TAXONOMY = load_taxonomy()
TITLES = TAXONOMY.titles
FELL = "GPU.BUS.Fallen_Off_Bus"
STRANGE = ("", "مضيف-٠١٧", "מחשב-17", "узел", "$x_{1}$ \\frac{", "h" * 400, "<script>\u202e&amp;", "🔥日本")


def curve(host: str, best: float = 470, sizes: range = range(20, 34), expected: float | None = BAND) -> BandwidthCurve:
    last = log2(1 << sizes[-1])
    return BandwidthCurve(host, tuple((1 << size, best * size / last) for size in sizes), expected)


CURVES = {
    "nothing measured": Bandwidths((), ("n1",)),
    "one point": Bandwidths((BandwidthCurve("n1", ((8 * GIB, 190.5),), BAND),)),
    "zero": Bandwidths((BandwidthCurve("n1", ((1, 0.0), (LARGEST_MESSAGE, 0.0)), 0.0),)),
    "no model": Bandwidths((curve("n1", expected=None),)),
    "40 sizes": Bandwidths(tuple(curve(f"n{n}", 400 + n, range(3, 43)) for n in range(9))),
    "128 hosts": Bandwidths(tuple(curve(f"gpu-{n:03}", 300 if n == 55 else 460 + n / 9) for n in range(1, 129))),
    "many slow": Bandwidths(tuple(curve(f"gpu-{n:03}", 200 if n <= 40 else 470) for n in range(1, 129))),
    "models": Bandwidths(tuple(curve(f"n{n}", expected=100.0 * (n + 1)) for n in range(8))),
    "strange": Bandwidths(tuple(curve(name, 100 + n) for n, name in enumerate(STRANGE)), STRANGE),
    "absurd": Bandwidths((BandwidthCurve("n1", ((GIB, 1e6), (2 * GIB, 1e-9)), 1e-3),)),
}


def walked(log: list[list[str]], *roots: Hypothesis, titles: dict[str, str] = TITLES) -> SearchTree:
    report = Report(item="1", outcome="diagnosed", root_causes=roots)
    return build_search_tree(IncidentView(IncidentState(id="i1", walk={"log": log}, report=report.model_dump(mode="json"))), titles)


WALKS = {
    "nothing": walked([]),
    "all": walked([[label, "rejected", "looked at on 128 hosts, nothing shows it"] for label in TAXONOMY.leaves]),
    "found": walked(
        [
            ["USER", "pruned", "all rejected"],
            [FELL, "confirmed", ""],
            ["GPU.BUS.PCIe_Link_Downgraded", "could not look", "could not look: n2 is silent"],
        ],
        Hypothesis(label=FELL, verdict="confirmed", because="Xid 79"),
    ),
    "strange": walked([["A.B.C", "confirmed", name] for name in STRANGE], titles={"A": STRANGE[1], "A.B": STRANGE[5], "A.B.C": STRANGE[6]}),
}


def event(minutes: float, kind: str, says: str = "words", **more: str) -> TimelineEvent:
    return TimelineEvent(T0 + timedelta(minutes=minutes), kind, says, **more)  # type: ignore[arg-type]  # a kind


STORY = (
    event(-7, "logged", "NVRM: Xid 79", host="n2"),
    event(0, "asked", "incident opened", by="Olga"),
    event(1, "found", "GPU fell off the bus (n2/gpu3)"),
    event(4, "approved", "gpu reset on n2", by="Priya"),
    event(9, "proved", "gpu reset: passes now"),
    event(240, "closed", "incident closed", by="Anton"),
)
LINES = {
    "nothing": Timeline(()),
    "one": Timeline(STORY[:1]),
    "usual": Timeline(STORY),
    "years": Timeline((STORY[0], event(3 * 365 * 1440, "closed"))),
    "all at once": Timeline((event(0, "asked"),) * 200),
    "128 hosts": Timeline(tuple(event(n / 60, "logged", f"NVRM: Xid 79 of GPU {n}", host=f"gpu-{n:03}") for n in range(128))),
    "long": Timeline(tuple(event(n, ("failed", "said", "found")[n % 3], f"{n} " + "w" * 160, by="Olga") for n in range(160))),
    "strange": Timeline(tuple(event(n, "said", name, by=name) for n, name in enumerate(STRANGE))),
}
Drawing = Callable[[str], bytes]
ALL = [
    *((f"bandwidth, {name}", lambda kind, row=row: bandwidth.render_bandwidth_chart(row, kind)) for name, row in CURVES.items()),
    *((f"walk, {name}", lambda kind, row=row: walk.render_trace_chart(row, kind)) for name, row in WALKS.items()),
    *((f"timeline, {name}", lambda kind, row=row: timeline.render_timeline_chart(row, kind)) for name, row in LINES.items()),
]


@pytest.mark.parametrize(("name", "drawing"), ALL, ids=[name for name, _ in ALL])
def test_every_extreme_is_drawn_small_and_says_in_words_what_it_shows(name: str, drawing: Drawing) -> None:
    png = drawing("png")
    assert png.startswith(b"\x89PNG")
    assert len(png) < LARGEST
    svg = xml.dom.minidom.parseString(drawing("svg").decode()).documentElement
    assert svg is not None
    assert svg.getAttribute("aria-label")
    assert "nan" not in svg.toxml().lower().replace("nanny", "")


def test_a_slow_host_has_a_sign_and_its_number_and_the_band_is_named() -> None:
    drawn = texts(bandwidth.render_bandwidth_chart(CURVES["128 hosts"], "svg"))
    assert {"✗ slow 300", "gpu-055", "the model reaches 460", "slow below 368 in large messages"} <= set(drawn)
    assert "120 faster hosts as thin lines" in drawn
    assert "not measured: n9" in texts(bandwidth.render_bandwidth_chart(Bandwidths((curve("n1"),), ("n9",)), "svg"))


def test_what_has_no_room_is_counted_and_a_slow_host_is_never_called_fast() -> None:
    many = texts(bandwidth.render_bandwidth_chart(CURVES["many slow"], "svg"))
    assert {"32 slow hosts more as thin red lines, named in the table; 88 faster hosts as thin lines"} <= set(many)
    models = texts(bandwidth.render_bandwidth_chart(CURVES["models"], "svg"))
    assert any("bands of 5 models more in the table" in words for words in models)
    mixed = Bandwidths((*(curve(f"old-{n}", 100, expected=100.0) for n in range(20)), curve("new-1", 200, expected=400.0)))
    assert {"new-1", "✗ slow 200"} <= set(texts(bandwidth.render_bandwidth_chart(mixed, "svg")))


def test_what_the_bands_are_stands_apart_and_reads_on_their_grey() -> None:
    close = Bandwidths(tuple(curve(f"n{n}", expected=400.0 + n) for n in range(3)))
    labels = re.findall(
        r'fill="(#\w+)" stroke="none"/><text x="68.0" y="([\d.]+)"[^>]*>', bandwidth.render_bandwidth_chart(close, "svg").decode()
    )
    places = sorted(float(y) for _, y in labels)
    assert len(places) == 6
    assert all(low - high >= bandwidth.LABEL_STEP - 0.1 for high, low in pairwise(places))
    assert {ground for ground, _ in labels} == {canvas.BACKGROUND}


def test_names_at_the_ends_of_lines_do_not_cover_one_another() -> None:
    places = bandwidth._spread_places([300.0] * 8, 70, 366, bandwidth.NAME_STEP)
    assert all(low - high >= bandwidth.NAME_STEP for high, low in pairwise(places))
    assert places[-1] <= 366
    assert bandwidth._spread_places([246.0] * 8, 70, 366, bandwidth.NAME_STEP) == [
        366.0 - bandwidth.NAME_STEP * n for n in range(7, -1, -1)
    ]


@pytest.mark.parametrize("most", [1e-9, 0.2, 1, 7, 49, 470, 12345, 1e6])
def test_the_grid_has_a_handful_of_round_lines(most: float) -> None:
    step = bandwidth._choose_grid_step(max(most, 1.0))
    assert 1 <= max(most, 1.0) / step <= 6


def test_the_walk_has_a_sign_beside_each_branch_and_says_what_the_signs_are() -> None:
    drawn = texts(walk.render_trace_chart(WALKS["found"], "svg"))
    assert {"✓", "⊘", "!", "·", "found, with proof", "could not be looked at, so it is not ruled out"} <= set(drawn)
    assert "found; Xid 79" in drawn
    assert "could not look: n2 is silent" in drawn


def test_of_a_wide_walk_what_was_found_is_never_what_is_left_out() -> None:
    last = list(TAXONOMY.leaves)[-1]
    log = [[label, "confirmed" if label == last else "rejected", ""] for label in TAXONOMY.leaves]
    rows = walk.select_rows(walked(log).list_rows(), walk.MAX_ROWS)
    assert len(rows) == walk.MAX_ROWS
    assert last in {branch.path for _, branch in rows}


def test_alike_moments_are_one_row_and_of_many_the_telling_ones_stay() -> None:
    (row,) = timeline.fold_events(LINES["128 hosts"].events)
    assert (row.times, row.first.host) == (128, "gpu-000")
    shown, hidden = timeline.select_rows(timeline.fold_events(LINES["long"].events), timeline.MAX_ROWS)
    assert (len(shown), hidden) == (timeline.MAX_ROWS, 160 - timeline.MAX_ROWS)
    assert {row.first.kind for row in shown} == {"failed", "found"}
    drawn = texts(timeline.render_timeline_chart(LINES["usual"], "svg"))
    assert {"hosts", "people", "RackMedic", "■", "●", "◆", "Priya", "approved", "03:14:00"} <= set(drawn)


@pytest.mark.parametrize("minutes", [1 / 60, 1, 7, 90, 1440, 10_000, 5_000_000])
def test_the_strip_has_a_few_round_moments(minutes: float) -> None:
    begin = datetime.fromisoformat("2026-05-20T03:10:07+00:00")
    marks = timeline.compute_ticks(begin, begin + timedelta(minutes=minutes))
    assert len(marks) <= 9
    assert all(begin <= mark for mark in marks)


def test_the_rows_behind_a_picture_are_text_for_who_cannot_see_it() -> None:
    said = render_text_table(timeline.TITLE, LINES["usual"].to_table())
    assert "2026-05-20 03:14:00  approved  Priya" in said
    assert render_text_table("", []) == "\n\n"
    assert render_text_table("t", [("head",), *[("x",)] * 1000]).endswith(f"… and {1000 - MAX_ROWS} more\n")
    hostile = render_text_table("t\x1b", [("a\nb\u202e", "日本"), ("c", "d")])
    assert "\x1b" not in hostile
    assert "a b‹U+202E›  日本\nc            d" in hostile


def test_over_years_marks_and_rows_say_the_year_and_what_is_left_out_is_counted() -> None:
    line = Timeline((event(0, "asked"), event(60 * 24 * 800, "closed")), left_out=7)
    shown = texts(timeline.render_timeline_chart(line, "svg"))
    assert [word for word in shown if word.startswith(f"{T0:%Y-%m-%d %H:%M}")]
    assert [word for word in shown if word.startswith(f"{T0.year + 2}-")]
    assert "… and 7 more that were logged or said" in shown
