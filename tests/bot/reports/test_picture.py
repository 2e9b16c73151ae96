"""`rackmedic picture`: one-line refusals, and the picture's rows as text at every extreme."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import get_args

import pytest

from bot.cli.picture import PictureRequest, print_picture, write_picture_file
from bot.refusal import Refusal
from bot.reports.drawing_source import PICTURES, NothingToDraw, PictureName, build_single_drawing
from bot.reports.incident_sources import UnknownIncident
from graph.report import AttachedChart
from tests.bot.reports.samples import EXTREMES, SECRET, Kept, many_hosts, one_host
from tests.support.terminal import rackmedic

pytestmark = pytest.mark.slow


MADE = tuple(EXTREMES.values())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--kind", "pie"), "there is heatmap, bandwidth, walk, timeline"),
        (("--kind", "\x1b[2J" + "x" * 900), "there is heatmap"),
        (("--kind", "walk", "--key", "gpu.temp.core"), "--key goes with --kind heatmap"),
        (("--out", "a.pdf"), "a picture is written as .png or .svg"),
        (("--out", "/nowhere/at/all.png"), "there is no folder /nowhere/at"),
    ],
)
def test_a_slip_is_refused_with_its_mend(words: tuple[str, ...], said: str) -> None:
    ran = rackmedic("picture", "inc-1", *words)
    assert (ran.returncode, len(ran.stderr.strip().splitlines()), "\x1b" in ran.stderr) == (2, 1, False)
    assert said in ran.stderr


def test_its_help_teaches_every_kind() -> None:
    told = rackmedic("picture", "--help").stdout
    assert [name for name in (*PICTURES, "gpu.temp.core", "Example") if name not in told] == []


def test_every_picture_that_a_thread_shows_has_a_name_here() -> None:
    kinds = set(get_args(AttachedChart.model_fields["kind"].annotation))
    assert {*PICTURES} == {"heatmap" if kind == "heat" else kind for kind in kinds}


async def test_an_unknown_incident_is_refused_in_one_line() -> None:
    with pytest.raises(UnknownIncident, match="inc-nope: no such incident here"):
        await (await one_host()).sources.load_figure_inputs("inc-nope")


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("name", PICTURES)
async def test_each_is_drawn_and_told_or_refused_in_a_line(
    made: Callable[[], Awaitable[Kept]], name: PictureName, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    matter = await (await made()).sources.load_figure_inputs("inc-1")
    if name == "bandwidth" or (name == "heatmap" and made is not many_hosts):
        with pytest.raises(NothingToDraw, match="inc-1: ") as why:
            build_single_drawing(name, "", matter)
        assert len(str(why.value).splitlines()) == 1
        return
    drawing = build_single_drawing(name, "", matter)
    assert [word for word in (SECRET[-20:], "hunter2-of-bob", "\x1b", "\u202e") if word in drawing.text] == []
    for ending, begins in ((".png", b"\x89PNG"), (".svg", b"<svg")):
        request = PictureRequest("inc-1", name, out=tmp_path / f"it{ending}")
        size = write_picture_file(drawing, request)
        assert (tmp_path / f"it{ending}").read_bytes()[:4] == begins
        print_picture(drawing, request, size)
        assert f"it{ending}: {ending[1:].upper()}, {size:,} bytes" in capsys.readouterr().out
    print_picture(drawing, PictureRequest("inc-1", name), 0)
    rows = capsys.readouterr().out.splitlines()
    assert (rows[0], len(rows) >= 3, max(map(len, rows)) < 2000) == (drawing.title, True, True)


async def test_the_rows_of_a_file_are_told_in_a_terminal_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawing = build_single_drawing("timeline", "", await (await one_host()).sources.load_figure_inputs("inc-1"))
    request = PictureRequest("inc-1", "timeline", out=tmp_path / "it.png")
    print_picture(drawing, request, 7)
    assert len(capsys.readouterr().out.splitlines()) == 1
    print_picture(drawing, request, 7, terminal=True)
    assert drawing.text in capsys.readouterr().out


async def test_as_json_it_is_one_document_with_bounded_rows(capsys: pytest.CaptureFixture[str]) -> None:
    matter = await (await many_hosts()).sources.load_figure_inputs("inc-1")
    print_picture(build_single_drawing("heatmap", "", matter), PictureRequest("inc-1", "heatmap", as_json=True), 0)
    told = json.loads(capsys.readouterr().out)
    assert (told["schema"], told["incident"], told["kind"], "file" in told) == (1, "inc-1", "heatmap", False)
    assert (len(told["rows"]), told["more"], told["rows"][1][0]) == (129, 0, "gpu-001")


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("gpu.temp", "inc-1: no value of 'gpu.temp' was read; name one with --key: gpu.temp.core"),
        ("x" * 5000, "name one with --key: gpu.temp.core"),
        ("", ""),
        ("gpu.temp.core", ""),
    ],
)
async def test_a_number_is_named_or_those_that_there_are_are_told(key: str, says: str) -> None:
    matter = await (await many_hosts()).sources.load_figure_inputs("inc-1")
    if not says:
        assert build_single_drawing("heatmap", key, matter).name == "gpu.temp.core"
        return
    with pytest.raises(Refusal, match=says) as why:
        build_single_drawing("heatmap", key, matter)
    assert len(str(why.value)) < 300
