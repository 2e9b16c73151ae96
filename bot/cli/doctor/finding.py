"""Findings of `doctor`, and their table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.table import Table
from rich.text import Text

from kb.redact import show_invisible

FindingState = Literal["ok", "warn", "fail", "off"]


@dataclass(frozen=True, slots=True)
class Finding:
    part: str
    state: FindingState
    says: str
    mend: str = ""


def render_findings_table(findings: Sequence[Finding]) -> Table:
    """Return the table; remote text is never markup."""
    table = Table("part", "", "what", "how to fix", header_style="bold")
    marks = {"ok": ("ok", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "red"), "off": ("off", "dim")}
    for row in findings:
        table.add_row(row.part, Text(*marks[row.state]), Text(show_invisible(row.says)), Text(show_invisible(row.mend)))
    return table
