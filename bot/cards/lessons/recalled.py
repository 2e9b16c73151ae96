"""What an earlier incident taught that this one resembles, with its source: for our own people alone. Pure."""

from collections.abc import Mapping, Sequence
from datetime import date

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.text import Line
from graph.report import RecalledLesson, Report


def render(report: Report, titles: Mapping[str, str]) -> list[Block]:
    """One line a lesson; nothing where none is alike."""
    return [blocks.section(*_lines(report.recalled, bool(report.root_causes), titles))] if report.recalled else []


def _lines(rows: Sequence[RecalledLesson], found: bool, titles: Mapping[str, str]) -> list[Line]:
    if found:
        return [(f"🎓 As in {_source(row)}: {row.title}",) for row in rows]
    return [
        (f"🎓 It sounds like {_source(row)}, which was: {titles.get(row.label, row.label)}. That proves nothing here.",) for row in rows
    ]


def _source(row: RecalledLesson) -> str:
    day = date.fromisoformat(row.on)
    return f"{row.incident}, {day.day} {day:%B}"
