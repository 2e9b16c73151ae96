"""Untrusted text printed by commands or logged cannot control the terminal or hide."""

import json
import logging
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import structlog
import typer
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

from bot.app.logs import MAX_FIELD_CHARS, MAX_TRACE_CHARS, RedactingFormatter, _clean_event, clean_field
from bot.cli.command_runtime import print_error, print_text, write_to_stdout
from bot.cli.main import app
from bot.cli.safe_console import SafeConsole, format_json_line, open_console

HOSTILE = "a\x1b[2Jb\x1b]0;title\x07c\x1b]8;;http://evil.example\x1b\\d\x9b31me\u202ef\u2066g\u200bh\ufeffi\u2028j\rk\x08l\x00m\x7fn\U000e0041o\ud800p"
BAD = frozenset("\x1b\x07\x9b\u202e\u2066\u200b\ufeff\u2028\r\x08\x00\x7f\U000e0041\ud800")


def shown(text: str) -> str:
    """Return the text after asserting that no character controls the terminal or is invisible."""
    assert [f"U+{ord(char):04X}" for char in sorted(BAD & set(text))] == []
    return text


RENDERED: tuple[Any, ...] = (
    HOSTILE,
    Text(HOSTILE),
    Text.assemble((HOSTILE, "bold"), " and ", (HOSTILE, "red")),
    Group(Text(HOSTILE), HOSTILE),
    Padding(Text(HOSTILE), (0, 2)),
    f"[bold]{HOSTILE}[/bold] [link=http://evil.example]x[/link] :skull:",
)


@pytest.mark.parametrize("content", RENDERED, ids=["str", "text", "styled", "group", "padded", "markup"])
@pytest.mark.parametrize("terminal", [False, True])
def test_paper_shows_what_acts_or_hides(content: Any, terminal: bool, capsys: pytest.CaptureFixture[str]) -> None:
    open_console(whole=True).print(content)
    said = shown(capsys.readouterr().out)
    assert "‹U+001B›" in said
    if isinstance(content, str) and content.startswith("["):
        assert "[link=http://evil.example]" in said, "no text is markup"


def test_a_table_of_hostile_cells_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(HOSTILE, "what", title=HOSTILE)
    table.add_row(HOSTILE, Text(HOSTILE, style="red"))
    table.add_row("[red]", "plain")
    open_console(whole=True).print(table)
    said = shown(capsys.readouterr().out)
    assert "[red]" in said


def test_a_coloured_terminal_gets_our_colours_and_no_strangers() -> None:
    out = StringIO()
    console = SafeConsole(width=200)
    console.file, console._force_terminal, console._color_system = out, True, None
    console.print(Text("ours", style="red"), Text(HOSTILE))
    assert "‹U+001B›[2J" in out.getvalue()


def test_lines_of_words_show_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    print_text(HOSTILE)
    print_text(HOSTILE, err=True)
    print_error(HOSTILE)
    write_to_stdout(HOSTILE.encode("utf-8", "replace"), text=True)
    print_text(format_json_line({HOSTILE: [HOSTILE]}))
    said = capsys.readouterr()
    shown(said.out + said.err)
    assert said.out.count("‹U+202E›") == 2


def test_json_that_a_terminal_shows_is_the_same_json() -> None:
    row = {"text": HOSTILE.replace("\ud800", ""), "bidi": "\u202e", "letters": "über 東京"}
    assert json.loads(shown(format_json_line(row))) == row
    assert "東京" in format_json_line(row)


# -- commands ---------------------------------------------------------------------------------------------------------------

WRITTEN = HOSTILE.replace("\x00", "").replace("\ud800", "")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Write a hostile site knowledge folder."""
    for part in ("incidents", "pages"):
        (tmp_path / part).mkdir()
    row = {
        **{name: f"{name} throttles {WRITTEN}" for name in ("title", "description", "root_cause", "resolution")},
        "id": "own-fan",
        "label": "GPU.THERMAL.HW_Thermal_Slowdown",
    }
    (tmp_path / "incidents" / "own.yaml").write_text(json.dumps({"incidents": [row]}))
    (tmp_path / "pages" / "r7.md").write_text(f"# rack throttles \u202e\u200b{WRITTEN}\nIt throttles.\n")
    (tmp_path / "incidents" / "bad.yaml").write_text(json.dumps({"incidents": [{"id": WRITTEN, WRITTEN: WRITTEN}]}))
    return tmp_path


def leaves(command: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "commands"):
        return [(path, command)]
    return [leaf for name, below in command.commands.items() for leaf in leaves(below, (*path, name))]


EVERY = leaves(typer.main.get_command(app))
MADE_UP = WRITTEN.replace("/", "")


def args_of(command: Any) -> list[str]:
    """Return hostile values for every required argument and for settings."""
    given = [
        part
        for one in command.params
        if one.required
        for part in ((MADE_UP,) if one.param_type_name == "argument" else (one.opts[0], MADE_UP))
    ]
    config = ["--config", f"/none/{MADE_UP}"] if any(one.name == "config" for one in command.params) else []
    return [*config, *given]


@pytest.mark.parametrize(
    ("path", "command"), [row for row in EVERY if any(one.name == "config" for one in row[1].params)], ids=lambda row: str(row)
)
def test_every_command_that_is_given_hostile_words_shows_them(path: tuple[str, ...], command: Any, tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, [*path, *args_of(command)], env={"RACKMEDIC_DATA_DIR": str(tmp_path), "HOME": str(tmp_path)})
    assert ran.exit_code != 0
    shown(ran.output)


@pytest.mark.parametrize(
    "words",
    [
        *(("kb", "search", "throttles"), ("kb", "show", "own-fan"), ("kb", "show", "r7"), ("kb", "show", MADE_UP), ("kb", "list", "--own")),
        *(("kb", "stats"), ("kb", "lint"), ("classify", f"gpu {MADE_UP} fell off the bus"), ("kb", "list", "--kind", MADE_UP)),
        *((MADE_UP,), ("kb", MADE_UP), ("kb", "list", f"--{MADE_UP}"), ("kb", "search", "x", "--most", MADE_UP), ("kb", "show")),
        *(
            ("guides",),
            ("guides", MADE_UP),
            ("taxonomy",),
            ("settings",),
            ("checks",),
            ("checks", MADE_UP),
            ("remedies", MADE_UP),
            ("taxonomy", MADE_UP),
        ),
    ],
    ids=lambda words: " ".join(words).encode("unicode_escape").decode()[:40],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_what_commands_print_of_a_strangers_knowledge_is_shown(own: Path, words: tuple[str, ...], as_json: bool) -> None:
    if "lint" not in words:
        (own / "incidents" / "bad.yaml").unlink()
    ran = CliRunner().invoke(app, [*words, *(["--json"] if as_json else [])], env={"RACKMEDIC_KB_DIR": str(own), "COLUMNS": "200"})
    assert not isinstance(ran.exception, (UnicodeError, KeyError)), ran.exception
    shown(ran.output)


# -- logs -------------------------------------------------------------------------------------------------------------------


def written(shape: str, **fields: Any) -> str:
    event = _clean_event(None, "info", {"event": "e", **fields})
    made = structlog.processors.JSONRenderer() if shape == "json" else structlog.dev.ConsoleRenderer(colors=False)
    return str(made(None, "info", dict(event)))


VALUES: tuple[Any, ...] = (
    *(HOSTILE, [HOSTILE], {HOSTILE: {HOSTILE: [HOSTILE]}}, (HOSTILE,), {HOSTILE}, ValueError(HOSTILE), HOSTILE.encode("utf-8", "replace")),
    *(Path(HOSTILE.replace("\x00", "")), "line\nWARNING another line", "x" * 10**6, ["x" * 1000] * 1000, 10**4000, float("nan")),
)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("shape", ["console", "json"])
def test_a_field_of_the_log_is_one_bounded_line(value: Any, shape: str) -> None:
    line = shown(written(shape, said=value))
    assert "\n" not in line
    assert len(line) < 60 * MAX_FIELD_CHARS


def test_a_field_that_is_deep_or_endless_ends() -> None:
    deep: Any = "x"
    for _ in range(100):
        deep = [deep]
    assert len(str(clean_field(deep))) < 2 * MAX_FIELD_CHARS
    assert len(str(clean_field("y" * 10**6))) < MAX_FIELD_CHARS + 10


def test_a_name_of_a_field_and_the_event_itself_are_cleaned() -> None:
    shown(written("console", **{HOSTILE: 1}))
    shown(str(_clean_event(None, "info", {"event": HOSTILE})["event"]))


def test_a_traceback_cannot_pose_as_a_line_of_the_log() -> None:
    line = shown(written("console", exception=f"Traceback:\n{HOSTILE}\nERROR root forged"))
    assert "\nERROR" not in line
    record = logging.LogRecord("slack", logging.ERROR, "f", 1, "got %s\nERROR root forged", (HOSTILE,), None)
    said = shown(RedactingFormatter("%(levelname)s %(name)s %(message)s").format(record))
    assert "\nERROR" not in said
    long = logging.LogRecord("slack", logging.ERROR, "f", 1, "z" * 10**6, (), None)
    assert len(RedactingFormatter("%(message)s").format(long)) < MAX_TRACE_CHARS + 10
