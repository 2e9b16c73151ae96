"""Terminal tables show text of hosts, services and people literally: brackets are no markup, and nothing is hidden."""

import json
from datetime import date
from io import StringIO

import pytest
from rich.console import Console, RenderableType

from bot.cli.catalogue_tables import print_catalogue
from bot.cli.diagnosis_output import render_report
from bot.cli.doctor.finding import Finding, render_findings_table
from bot.cli.ledger import render_brakes_table
from bot.cli.safe_console import format_json_line
from graph.report import Report
from graph.state import IncidentState
from kb.redact import show_invisible
from tools.ledger.brakes import Brakes, BrakeStatus

HOSTILE = "hall [/2] [red]is hot[/red]"


def shown(what: RenderableType) -> str:
    out = StringIO()
    Console(file=out, width=200).print(what)
    return out.getvalue()


def test_a_reason_for_the_kill_switch_is_shown_as_it_was_written() -> None:
    text = shown(render_brakes_table(BrakeStatus("terminal:ada", HOSTILE, ("[/train]",), (), ()), Brakes()))
    assert HOSTILE in text
    assert "[/train]" in text
    assert "\x1b" not in shown(render_brakes_table(BrakeStatus("terminal:ada", "\x1b[2J", (), (), ()), Brakes()))


def test_what_the_doctor_was_told_is_shown_as_it_was_said() -> None:
    text = shown(render_findings_table([Finding("ssh", "fail", HOSTILE, "see [/etc]")]))
    assert "FAIL" in text
    assert HOSTILE in text
    assert "see [/etc]" in text


def test_the_first_line_of_a_report_hides_nothing_that_a_log_printed() -> None:
    """Some terminals obey C1 controls as escape sequences, and an unexplained line is quoted in the headline."""
    for sign in ("\x9b31m", "\x1b[2J", "\u202e", "\u200b"):
        report = Report(item="i", outcome="abstained", headline=f"unexplained: [rank0]: note {sign}lost")
        assert sign not in shown(render_report(IncidentState(), report))


def test_json_is_printed_without_signs_that_act_or_hide_and_read_as_it_was() -> None:
    row = {"line": "\x9b31m \x1b[2J \u202eno \u200b\U000e0041\x7f\xa0 – „größer“ 东", "at": date(2026, 5, 20)}
    printed = format_json_line(row)
    assert show_invisible(printed) == printed
    assert "– „größer“ 东" in printed
    assert json.loads(printed) == row | {"at": "2026-05-20"}


def test_a_catalogue_shows_a_sites_own_words_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    print_catalogue("Things", [{"id": "own", "asks": HOSTILE}], as_json=False)
    assert HOSTILE in capsys.readouterr().out
