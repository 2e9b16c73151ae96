"""Questions to the reporter, and the choice of the host that they meant."""

from collections.abc import Mapping, Sequence
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.buttons import ButtonClick, encode_button_value, parse_select_choice
from bot.cards.text import bold, italic
from tools.inventory.name_suggestions import UnknownName

MAX_QUESTIONS = 5
HOST_CHOICE_ACTION_ID = "question.meant"
SELECT_ACTIONS = {HOST_CHOICE_ACTION_ID: "reply"}  # a choice counts as a reply of the person who chose


def render_host_choice(incident: str, item: str, unknown: Sequence[UnknownName]) -> list[Block]:
    """Offer hosts with names similar to the unknown ones."""
    offered = {row.name: [(host, host) for host in row.nearest if len(host) <= blocks.MAX_OPTION_VALUE_CHARS] for row in unknown}
    return (
        [blocks.select_row(HOST_CHOICE_ACTION_ID, encode_button_value(incident, item), "Which host is meant?", offered)]
        if any(offered.values())
        else []
    )


def parse_host_choice(payload: Mapping[str, Any]) -> ButtonClick:
    return parse_select_choice(payload, SELECT_ACTIONS)


def render_question_blocks(questions: Sequence[str], suggestions: Sequence[str] = ()) -> list[Block]:
    question_lines = [(f"{n}. {words}",) for n, words in enumerate(questions[:MAX_QUESTIONS], 1)]
    ideas = [(f"• {words}",) for words in suggestions[:MAX_QUESTIONS]]
    hint = (italic("Answer here in your own words, or attach the log."),)
    return [
        *([blocks.section((bold("Please tell me"),), *question_lines, hint)] if question_lines else []),
        *([blocks.section((bold("Worth a try by hand"), " (I run none of these)"), *ideas)] if ideas else []),
    ]


def render_question_card(questions: Sequence[str], suggestions: Sequence[str] = ()) -> Card:
    return blocks.build_card(
        f"I have a question: {questions[0]}" if questions else "Some ideas",
        render_question_blocks(questions, suggestions) or [blocks.line_section("–")],
    )
