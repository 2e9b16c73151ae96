"""Blocks of a diagnosis from lessons, the site's pages, a model's ideas and guides. Only operators see them."""

from collections.abc import Mapping, Sequence
from datetime import date

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.text import Line, bold, code, italic
from graph.guide_rendering import count_answered_steps, render_guide_summary
from graph.report import MatchedLesson, Report, SiteNote
from graph.state import Conjecture

# The marks differ in shape: no evidence yet, the findings fit, a finding contradicts.
STANDING_MARKS = {"open": "◌", "supported": "◐", "refuted": "✗"}
MAX_BASIS_LINES = 2  # of the findings that an idea rests on
MODEL_IDEA_TEXT = "A model wrote this; I did not run it."
MAX_STEP_LINES = 6  # of a guide, below its title
MAX_GUIDE_CHARS = 1200


def render_recalled_lessons(report: Report, titles: Mapping[str, str]) -> list[Block]:
    """Render the lessons of similar incidents. `titles` are those of causes by label."""
    if not report.recalled:
        return []
    lines: list[Line] = []
    for lesson in report.recalled:
        source, cause = _format_source(lesson), titles.get(lesson.label, lesson.label)
        if report.root_causes:
            lines.append((f"🎓 As in {source}: {lesson.title}",))
        else:
            lines.append((f"🎓 It sounds like {source}, which was: {cause}. That proves nothing here.",))
    return [blocks.section(*lines)]


def _format_source(lesson: MatchedLesson) -> str:
    day = date.fromisoformat(lesson.on)
    return f"{lesson.incident}, {day.day} {day:%B}"


def render_site_notes(report: Report) -> list[Block]:
    lines = [line for note in report.notes for line in _render_note_lines(note)]
    return [blocks.section(*lines)] if lines else []


def _render_note_lines(note: SiteNote) -> list[Line]:
    source = f" ({note.source})" if note.source else ""
    return [
        ("📘 From your pages: ", bold(note.title), source, " · ", code(f"rackmedic kb show {note.page}")),
        *((f"“{sentence}”",) for sentence in note.says),
    ]


def render_ideas(ideas: Sequence[Conjecture]) -> list[Block]:
    """Render a section for each idea of the model. Refuted ideas come last."""
    if not ideas:
        return []
    ordered = sorted(ideas, key=lambda idea: idea.standing == "refuted")
    head = blocks.section((bold("None of the causes I know is proven. It may be something else:"),), (italic(MODEL_IDEA_TEXT),))
    return [head, *(blocks.section(*_render_idea_lines(idea)) for idea in ordered)]


def _render_idea_lines(idea: Conjecture) -> list[Line]:
    title: Line = (f"{STANDING_MARKS[idea.standing]} ", bold(idea.title), f" · {idea.standing}")
    if idea.standing == "refuted":
        return [title, (f"Against it: {idea.doubt}",)] if idea.doubt else [title]
    notes = (
        *(("rests on:", finding) for finding in idea.rests[:MAX_BASIS_LINES]),
        ("would prove it:", idea.confirms),
        ("would refute it:", idea.refutes),
        ("I looked for it at:", "; ".join(idea.looks)),
        ("against it:", idea.doubt),
    )
    note_lines: list[Line] = [(italic(name), f" {text}") for name, text in notes if text]
    return [title, (idea.cause,), *note_lines, *((f"• {suggestion}",) for suggestion in idea.suggestions)]


def render_guide(report: Report) -> list[Block]:
    """Render the guide that was called, or that matches the findings, with its progress."""
    run = report.guide
    if run is None:
        return []
    progress = f"{count_answered_steps(run)} of {len(run.steps)} steps answered"
    if not run.called:
        text = f"”: {progress} by the checks so far. To go through it: "
        return [blocks.line_section("📋 Guide “", bold(run.title), text, code(f"run guide {run.id}"))]
    can_continue = bool(run.due) or any(step.mark == "next" for step in run.steps)
    resume_parts: Line = (" · to continue: ", code(f"run guide {run.id}")) if can_continue else ()
    title: Line = ("📋 ", bold(run.title), f" · {progress}", *resume_parts)
    step_lines = [(line,) for line in render_guide_summary(run, MAX_STEP_LINES)]
    return [blocks.clipped_section(title, *step_lines, room=MAX_GUIDE_CHARS)]
