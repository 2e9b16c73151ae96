"""Listings fit 80 columns in a terminal or pipe, details hide nothing, and every command has one fitting example."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.cells import cell_len

from bot.cli.catalogue_tables import LAYOUTS, print_catalogue
from bot.cli.main import app
from bot.cli.safe_console import MAX_UNBROKEN_CHARS, MIN_TABLE_COLUMNS, PIPED_TABLE_COLUMNS, build_text_table, clip_cell
from tests.bot.cli.test_hostile_text import HOSTILE, shown
from tests.support.terminal import commands, rackmedic, rackmedic_process

CATALOGUES = {layout.command: title for title, layout in LAYOUTS.items()}
LISTINGS: tuple[tuple[str, ...], ...] = (
    *((command,) for command in CATALOGUES),
    *(("guides",), ("guides", "gpu_lost"), ("kb", "list"), ("kb", "stats"), ("kb", "search", "NCCL timeout in allreduce")),
    *(("kb", "lessons"), ("kb", "mistakes"), ("expect", "gpus"), ("doctor",), ("status",), ("stats",)),
    ("expect", "gemm", "--sku", "h100-sxm", "--m", "8192", "--n", "8192", "--k", "8192"),
    ("classify", "NCCL WARN ibv_reg_mr failed with error Cannot allocate memory; ulimit -l 64"),
)


def find_long_lines(text: str, most: int) -> list[str]:
    return [line for line in text.split("\n") if cell_len(line) > most]


def environment_of(folder: Path, columns: str) -> dict[str, str]:
    return {"COLUMNS": columns, "HOME": str(folder), "RACKMEDIC_DATA_DIR": str(folder)}


@pytest.mark.parametrize("words", LISTINGS, ids=" ".join)
@pytest.mark.parametrize(
    ("columns", "width"), [("", PIPED_TABLE_COLUMNS), ("80", MIN_TABLE_COLUMNS), ("20", MIN_TABLE_COLUMNS), ("160", 160)]
)
def test_a_listing_fits_its_width(words: tuple[str, ...], columns: str, width: int, tmp_path: Path) -> None:
    said = rackmedic(*words, environ=environment_of(tmp_path, columns)).stdout
    assert said
    assert find_long_lines(said, width) == []


def test_a_listing_fits_a_real_pipe() -> None:
    ran = rackmedic_process("checks", environ={"COLUMNS": ""})
    assert (ran.returncode, find_long_lines(ran.stdout, PIPED_TABLE_COLUMNS)) == (0, [])


@pytest.mark.parametrize("command", CATALOGUES)
def test_a_catalogue_shows_every_id_unbroken_and_the_details_of_one(command: str) -> None:
    rows = json.loads(rackmedic(command, "--json").stdout)["items"]
    lines = rackmedic(command, environ={"COLUMNS": "80"}).stdout.split("\n")
    assert {row["id"] for row in rows} <= {line.split()[0] for line in lines if line.strip()}
    for row in (rows[0], rows[-1]):
        one = json.loads(rackmedic(command, row["id"].lower(), "--json").stdout)
        assert one == {"schema": 1, "items": [row]}
        details = rackmedic(command, row["id"]).stdout
        assert row["id"] in details
        for text in row.get("commands", ()):
            assert all(line in details for line in text.split("\n"))


@pytest.mark.parametrize("command", CATALOGUES)
def test_an_unknown_name_is_refused_with_the_nearest(command: str) -> None:
    name = json.loads(rackmedic(command, "--json").stdout)["items"][0]["id"]
    ran = rackmedic(command, f"{name}x")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert name in ran.stderr
    assert rackmedic(command, "\u202e" + "z" * 10_000).returncode == 2


def test_a_setting_is_found_without_the_prefix() -> None:
    assert json.loads(rackmedic("settings", "workers", "--json").stdout)["items"][0]["id"] == "RACKMEDIC_WORKERS"


@pytest.mark.parametrize("title", [*LAYOUTS, "Things"])
@pytest.mark.parametrize("text", [HOSTILE, "x" * 5_000, f"{HOSTILE} " * 500, "東" * 500], ids=["hostile", "long", "both", "wide"])
def test_hostile_rows_stay_within_the_width(
    title: str, text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    fields = LAYOUTS[title].columns if title in LAYOUTS else ("id", "asks")
    row: dict[str, Any] = {
        **dict.fromkeys(fields, text),
        "id": text,
        "commands": [text],
        "ways": {text: {"id": text, "conditions": [text]}},
    }
    print_catalogue(title, [{**row, "id": "plain"}, row], as_json=False)
    assert find_long_lines(shown(capsys.readouterr().out), PIPED_TABLE_COLUMNS) == []
    if title in LAYOUTS:
        print_catalogue(title, [row], as_json=False, name=text)
        assert shown(capsys.readouterr().out)


def test_a_long_id_leaves_room_for_the_other_columns() -> None:
    short, long = build_text_table(("id", "what"), [("a", "b")]), build_text_table(("id", "what"), [("a" * (MAX_UNBROKEN_CHARS + 1), "b")])
    assert [short.columns[0].no_wrap, long.columns[0].no_wrap] == [True, False]
    assert clip_cell("one two three", 9) == "one two …"
    assert clip_cell("one two", 9) == "one two"


def list_commands(command: Any, path: tuple[str, ...]) -> list[tuple[str, Any]]:
    below = getattr(command, "commands", {})
    return [(" ".join(path), command), *(row for name, one in below.items() for row in list_commands(one, (*path, name)))]


@pytest.mark.parametrize(("path", "command"), list_commands(typer.main.get_group(app), ("rackmedic",))[1:])
def test_every_command_has_one_example_that_fits_eighty_columns(path: str, command: Any) -> None:
    example = (command.epilog or "").removeprefix("Example:").strip()
    assert command.epilog.startswith("Example:")
    assert f"{path} " in f"{example} "
    assert find_long_lines(command.epilog, 78) == []


def test_help_fits_eighty_columns() -> None:
    for name in ("", *commands()):
        said = rackmedic(*filter(None, (name,)), "--help", environ={"COLUMNS": "80"}).stdout
        assert find_long_lines(said, 80) == []
