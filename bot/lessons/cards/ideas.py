"""Causes outside the taxonomy, labelled as a model's. For operators only. Pure."""

from collections.abc import Sequence

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.text import Line, bold, italic
from graph.state import Conjecture

# distinguishable by shape: no evidence yet, findings fit, a finding contradicts
STANDING_MARKS = {"open": "◌", "supported": "◐", "refuted": "✗"}
MAX_BASIS_LINES = 2  # shown lines of an idea's evidence
MODEL_IDEA_TEXT = "A model wrote this; I did not run it."


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
