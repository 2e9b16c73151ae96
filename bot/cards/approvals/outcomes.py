"""Short messages in the thread about an action, or about several of one card: that it is in doubt, and that a decision is still wanted."""

from collections.abc import Sequence

from bot.cards import blocks
from bot.cards.approvals import parts, shared_card, words
from bot.cards.approvals.card import Shown
from bot.cards.blocks import Card
from bot.cards.text import Line, bold, exact_code, moment, utc
from tools.ledger.states import State


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
    asks = (bold(words.does(record.action)), " on ", *words.place(record.action), " still waits above")
    until = (": ", bold(parts.count(record)), ", decide until ", moment(record.decide_by), f" ({utc(record.decide_by)}).")
    return blocks.card(
        f"⏳ Still to be decided: {words.headline(record)}", [blocks.section(("⏳ ", *parts.mentioned(shown.group), *asks, *until))]
    )


def remind_all(shown: Sequence[Shown]) -> Card:
    """One more call to the approvers, for everything on the card that still waits."""
    waiting = [one.record for one in shown if one.record.state is State.PENDING]
    hosts, by = words.folded([record.action.target for record in waiting]), min(record.decide_by for record in waiting)
    asks: Line = (bold(words.title(waiting[0].action)), " on ", exact_code(hosts), f" still wait{'s' if len(waiting) == 1 else ''} above: ")
    until: Line = (bold(f"{len(waiting)} of {len(shown)} to be decided"), " until ", moment(by), f" ({utc(by)}).")
    head = f"⏳ Still to be decided: {shared_card.headline(waiting)}"
    return blocks.card(head, [blocks.section(("⏳ ", *parts.mentioned(shown[0].group), *asks, *until))])
