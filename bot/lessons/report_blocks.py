"""Blocks of a diagnosis from lessons, the site's pages, a model's ideas and guides. Only operators see them."""

from collections.abc import Mapping, Sequence
from datetime import date

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.text import Line, bold, code, italic
from graph.guide_rendering import count_answered_steps, render_guide_summary
from graph.report import MatchedLesson, Report, SiteNote
from graph.state import Conjecture

# distinguishable by shape: no evidence yet, findings fit, a finding contradicts
STANDING_MARKS = {"open": "◌", "supported": "◐", "refuted": "✗"}
MAX_BASIS_LINES = 2  # shown lines of an idea's evidence
MODEL_IDEA_TEXT = "A model wrote this; I did not run it."
MAX_STEP_LINES = 6  # step lines beside the title
MAX_GUIDE_CHARS = 1200  # characters in all


def render_recalled_lessons(report: Report, titles: Mapping[str, str]) -> list[Block]:
    return [blocks.section(*_render_recalled_lines(report.recalled, bool(report.root_causes), titles))] if report.recalled else []


def _render_recalled_lines(lessons: Sequence[MatchedLesson], found: bool, titles: Mapping[str, str]) -> list[Line]:
    if found:
        return [(f"🎓 As in {_format_source(lesson)}: {lesson.title}",) for lesson in lessons]
    return [
        (f"🎓 It sounds like {_format_source(lesson)}, which was: {titles.get(lesson.label, lesson.label)}. That proves nothing here.",)
        for lesson in lessons
    ]


def _format_source(lesson: MatchedLesson) -> str:
    day = date.fromisoformat(lesson.on)
    return f"{lesson.incident}, {day.day} {day:%B}"


def render_site_notes(report: Report) -> list[Block]:
    return [blocks.section(*(line for note in report.notes for line in _render_note_lines(note)))] if report.notes else []


def _render_note_lines(note: SiteNote) -> list[Line]:
    source = f" ({note.source})" if note.source else ""
    return [
        ("📘 From your pages: ", bold(note.title), source, " · ", code(f"rackmedic kb show {note.page}")),
        *((f"“{sentence}”",) for sentence in note.says),
    ]


def render_ideas(ideas: Sequence[Conjecture]) -> list[Block]:
    """Return a section per idea, refuted ones last."""
    if not ideas:
        return []
    ordered = sorted(ideas, key=lambda idea: idea.standing == "refuted")
    head = blocks.section((bold("None of the causes I know is proven. It may be something else:"),), (italic(MODEL_IDEA_TEXT),))
    return [head, *(blocks.section(*_render_idea_lines(idea)) for idea in ordered)]


def _render_idea_lines(idea: Conjecture) -> list[Line]:
    title: Line = (f"{STANDING_MARKS[idea.standing]} ", bold(idea.title), f" · {idea.standing}")
    if idea.standing == "refuted":
        return [title, (f"Against it: {idea.doubt}",)] if idea.doubt else [title]
    return [
        title,
        (idea.cause,),
        *((italic("rests on:"), f" {line}") for line in idea.rests[:MAX_BASIS_LINES]),
        *([(italic("would prove it:"), f" {idea.confirms}")] if idea.confirms else []),
        *([(italic("would refute it:"), f" {idea.refutes}")] if idea.refutes else []),
        *([(italic("I looked for it at:"), f" {'; '.join(idea.looks)}")] if idea.looks else []),
        *([(italic("against it:"), f" {idea.doubt}")] if idea.doubt else []),
        *((f"• {words}",) for words in idea.suggestions),
    ]


def render_guide(report: Report) -> list[Block]:
    run = report.guide
    if run is None:
        return []
    progress = f"{count_answered_steps(run)} of {len(run.steps)} steps answered"
    if not run.called:
        return [
            blocks.line_section(
                "📋 Guide “", bold(run.title), f"”: {progress} by the checks so far. To go through it: ", code(f"run guide {run.id}")
            )
        ]
    resume_line: Line = (
        (" · to continue: ", code(f"run guide {run.id}")) if run.due or any(step.mark == "next" for step in run.steps) else ()
    )
    title: Line = ("📋 ", bold(run.title), f" · {progress}", *resume_line)
    return [blocks.clipped_section(title, *((line,) for line in render_guide_summary(run, MAX_STEP_LINES)), room=MAX_GUIDE_CHARS)]
