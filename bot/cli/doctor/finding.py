"""Findings of `doctor`, and their table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.table import Table
from rich.text import Text

from bot.cli.safe_console import build_text_table

FindingState = Literal["ok", "warn", "fail", "off"]


@dataclass(frozen=True, slots=True)
class Finding:
    part: str
    state: FindingState
    says: str
    mend: str = ""


def render_findings_table(findings: Sequence[Finding]) -> Table:
    """Return the table; remote text is never markup."""
    marks = {"ok": ("ok", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "red"), "off": ("off", "dim")}
    rows = [(row.part, Text(*marks[row.state]), row.says, row.mend) for row in findings]
    return build_text_table(("part", "", "what", "how to fix"), rows)
