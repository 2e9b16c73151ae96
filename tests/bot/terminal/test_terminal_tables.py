"""Tables in the terminal show words of hosts, services and people as they are: brackets are no markup there, and nothing hides."""

from io import StringIO

import pytest
from rich.console import Console, RenderableType

from bot.terminal.catalogues import show
from bot.terminal.examination.finding import Finding, findings_table
from bot.terminal.ledger import brakes_table
from tools.ledger.brakes import Brakes, BrakeStatus

HOSTILE = "hall [/2] [red]is hot[/red]"


def shown(what: RenderableType) -> str:
    out = StringIO()
    Console(file=out, width=200).print(what)
    return out.getvalue()


def test_a_reason_for_the_kill_switch_is_shown_as_it_was_written() -> None:
    text = shown(brakes_table(BrakeStatus("terminal:ada", HOSTILE, ("[/train]",), (), ()), Brakes()))
    assert HOSTILE in text
    assert "[/train]" in text
    assert "\x1b" not in shown(brakes_table(BrakeStatus("terminal:ada", "\x1b[2J", (), (), ()), Brakes()))


def test_what_the_doctor_was_told_is_shown_as_it_was_said() -> None:
    text = shown(findings_table([Finding("ssh", "fail", HOSTILE, "see [/etc]")]))
    assert "FAIL" in text
    assert HOSTILE in text
    assert "see [/etc]" in text


def test_a_catalogue_shows_a_sites_own_words_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    show("Things", [{"id": "own", "asks": HOSTILE}], as_json=False)
    assert HOSTILE in capsys.readouterr().out
