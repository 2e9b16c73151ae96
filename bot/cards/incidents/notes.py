"""One helpful line: what will not be done, and what to do instead."""

from bot.cards import blocks
from bot.cards.blocks import Card


def render(words: str) -> Card:
    """`words` are a Refusal's."""
    return blocks.card(words, [blocks.say(f"🚫 {words}")])


def note(words: str) -> Card:
    """One line for one person: it goes on, and how they will see that."""
    return blocks.card(words, [blocks.say(f"⏳ {words}")])
