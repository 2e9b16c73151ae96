"""What RackMedic would like to know from the reporter, how to answer, and ideas that it shows and never runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.buttons import Press, carry, read_choice
from bot.cards.text import bold, italic
from tools.inventory.nearest import UnknownName

MOST = 5
MEANT = "question.meant"
CHOICES = {MEANT: "reply"}
"""What is chosen is said in the thread by whoever chose it: a new fact like any other."""


def meant(incident: str, item: str, unknown: Sequence[UnknownName]) -> list[Block]:
    """The hosts that may be meant by names that nobody knows, to choose from; empty where none is like them."""
    offered = {row.name: [(host, host) for host in row.nearest if len(host) <= blocks.OPTION_VALUE] for row in unknown}
    return [blocks.choice(MEANT, carry(incident, item), "Which host is meant?", offered)] if any(offered.values()) else []


def read(payload: Mapping[str, Any]) -> Press:
    """What was chosen."""
    return read_choice(payload, CHOICES)


def parts(questions: Sequence[str], suggestions: Sequence[str] = ()) -> list[Block]:
    """The part of a report; empty where nothing is asked."""
    asked = [(f"{n}. {words}",) for n, words in enumerate(questions[:MOST], 1)]
    ideas = [(f"• {words}",) for words in suggestions[:MOST]]
    how = (italic("Answer here in your own words, or attach the log."),)
    return [
        *([blocks.section((bold("Please tell me"),), *asked, how)] if asked else []),
        *([blocks.section((bold("Worth a try by hand"), " (I run none of these)"), *ideas)] if ideas else []),
    ]


def render(questions: Sequence[str], suggestions: Sequence[str] = ()) -> Card:
    """Questions as a card of their own."""
    return blocks.card(
        f"I have a question: {questions[0]}" if questions else "Some ideas", parts(questions, suggestions) or [blocks.say("–")]
    )
