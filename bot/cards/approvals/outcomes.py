"""Short messages in the thread about an action: how it ended, and that a decision is still wanted."""

from bot.cards import blocks
from bot.cards.approvals import parts, words
from bot.cards.approvals.card import Shown
from bot.cards.blocks import Card
from bot.cards.text import bold, code, moment, utc


def render(shown: Shown, *, among_others: bool = False) -> Card:
    """How it ended, and what proves it. Among others it is called what its row on the card calls it."""
    record = shown.record
    mark, word = words.standing(record)
    head = f"{mark} {word.capitalize()}: {words.what(record.action)}" if among_others else words.headline(record)
    return blocks.card(
        head,
        [
            blocks.section((bold(head),)),
            *parts.stands(record, shown.names, shown.began, ""),
            *parts.output(shown.tail),
            blocks.context((f"{record.approval} · digest {record.digest}",)),
        ],
    )


def remind(shown: Shown) -> Card:
    """One more call to the approvers."""
    record = shown.record
    asks = (code(record.action.remedy), " on ", *words.place(record.action), " still waits above")
    until = (": ", bold(parts.count(record)), ", decide until ", moment(record.decide_by), f" ({utc(record.decide_by)}).")
    return blocks.card(
        f"⏳ Still to be decided: {words.headline(record)}", [blocks.section(("⏳ ", *parts.mentioned(shown.group), *asks, *until))]
    )
