"""Lessons of similar earlier incidents. For operators only. Pure."""

from collections.abc import Mapping, Sequence
from datetime import date

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.text import Line
from graph.report import MatchedLesson, Report


def render_recalled_lessons(report: Report, titles: Mapping[str, str]) -> list[Block]:
    return [blocks.section(*_render_lesson_lines(report.recalled, bool(report.root_causes), titles))] if report.recalled else []


def _render_lesson_lines(rows: Sequence[MatchedLesson], found: bool, titles: Mapping[str, str]) -> list[Line]:
    if found:
        return [(f"🎓 As in {_format_source(row)}: {row.title}",) for row in rows]
    return [
        (f"🎓 It sounds like {_format_source(row)}, which was: {titles.get(row.label, row.label)}. That proves nothing here.",)
        for row in rows
    ]


def _format_source(row: MatchedLesson) -> str:
    day = date.fromisoformat(row.on)
    return f"{row.incident}, {day.day} {day:%B}"
