"""Card, terminal and JSON document say the same about attached files."""

from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from bot.cli.diagnosis_output import build_diagnosis_document, render_report
from bot.incidents.cards import diagnosis
from graph.extraction.uploaded_files import UNREAD_REASONS
from graph.report import FileReadResult, Report
from graph.state import IncidentState
from tests.bot.remediation.cards.test_approval_cards import fits

FILES = (FileReadResult(name="rank0.log", size=1_200_000, kinds=1, line="nccl timeout", at=datetime(2026, 5, 20, 2, 41, tzinfo=UTC)),
         FileReadResult(name="<!channel>.png", size=80_000, unread="image"))  # fmt: skip


SAID = ["1.2 MB: nccl timeout at 02:41 UTC", f"80.0 kB: not read, {UNREAD_REASONS['image']}"]


def printed(state: Any, report: Report) -> str:
    console = Console(width=400, no_color=True)
    with console.capture() as captured:
        console.print(render_report(state, report))
    return captured.get()


@pytest.mark.parametrize("reply", ["", "gpu-002 is well."])
def test_card_terminal_and_document_say_the_same_of_each_file(reply: str) -> None:
    report = Report(item="i", outcome="no_fault", headline="No fault found", files=FILES, reply=reply)
    state = IncidentState(id="inc-1", report=report.model_dump(mode="json", exclude_defaults=True))
    card = diagnosis.render_diagnosis("inc-1", report)
    assert fits(card)
    assert "`rank0.log` 1.2 MB" in str(card.blocks)
    assert "<!channel>" not in str(card.blocks)
    assert all(words in str(card.blocks) for words in SAID)
    assert all(words in printed(state, report) for words in SAID)
    rows = build_diagnosis_document(state, report)["files"]
    assert [row["says"] for row in rows] == SAID
    assert rows[0] == {
        "name": "rank0.log",
        "size": 1_200_000,
        "kinds": 1,
        "at": "2026-05-20T02:41:00Z",
        "unread": "",
        "left_out": 0,
        "not_understood": 0,
        "foreign": "",
        "recognised": True,
        "not_run": "",
        "says": SAID[0],
    }


def test_ten_files_of_the_longest_names_fit_a_card() -> None:
    files = tuple(FileReadResult(name="x" * 80, size=10**9, kinds=9, line="y" * 100, unread="refused") for _ in range(10))
    assert fits(diagnosis.render_diagnosis("inc-1", Report(item="i", outcome="no_fault", headline="No fault found", files=files)))
