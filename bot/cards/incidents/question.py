"""What RackMedic would like to know from the reporter, how to answer, and ideas that it shows and never runs."""

from collections.abc import Sequence

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.text import bold, italic

MOST = 5


def parts(questions: Sequence[str], suggestions: Sequence[str] = ()) -> list[Block]:
    """The part of a report; empty where nothing is asked."""
    asked = [(f"{n}. {words}",) for n, words in enumerate(questions[:MOST], 1)]
    ideas = [(f"• {words}",) for words in suggestions[:MOST]]
    how = (italic("Answer in this thread in your own words, or attach the log. No mention is needed."),)
    return [
        *([blocks.section((bold("Please tell me"),), *asked, how)] if asked else []),
        *([blocks.section((bold("Worth a try by hand"), " (I run none of these)"), *ideas)] if ideas else []),
    ]


def render(questions: Sequence[str], suggestions: Sequence[str] = ()) -> Card:
    """Questions as a card of their own."""
    return blocks.card(
        f"I have a question: {questions[0]}" if questions else "Some ideas", parts(questions, suggestions) or [blocks.say("–")]
    )
