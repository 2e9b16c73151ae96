"""Passages from the site's pages. For operators only. Pure."""

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.text import Line, bold, code
from graph.report import Report, SiteNote


def render_site_notes(report: Report) -> list[Block]:
    return [blocks.section(*(line for note in report.notes for line in _render_note_lines(note)))] if report.notes else []


def _render_note_lines(note: SiteNote) -> list[Line]:
    source = f" ({note.source})" if note.source else ""
    return [
        ("📘 From your pages: ", bold(note.title), source, " · ", code(f"rackmedic kb show {note.page}")),
        *((f"“{sentence}”",) for sentence in note.says),
    ]
