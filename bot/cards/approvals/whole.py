"""The dialog behind "Show all": every action of a card whole, with its full digest, preconditions and where it stands. To read, not to decide."""

from collections.abc import Sequence

from bot.cards import blocks
from bot.cards.approvals import card as approval
from bot.cards.approvals import parts, words
from bot.cards.blocks import Block, TooLong
from bot.cards.text import Line, bold, exact_code, italic
from tools.ledger.record import Record

BELOW = 260


def render(records: Sequence[Record]) -> Block:
    """The dialog. Deciding stays on the card, where Slack asks once more."""
    head = blocks.section((bold(words.does_each([record.action for record in records])),))
    note = blocks.context(("Approve and reject on the card. This shows how it stood when it was opened.",))
    return blocks.page(f"All {len(records)} actions", [head, *map(_one, records), note])


def _one(record: Record) -> Block:
    action = record.action
    mark, word = words.standing(record)
    above: list[Line] = [(f"{mark} ", *words.place(action), " · ", bold(word)), ("digest ", exact_code(action.digest))]
    below: list[Line] = [
        (parts.count(record), f" · {action.risk} · time limit {action.limit_seconds} s · {action.approval}"),
        *((f"• {says}",) for says in filter(None, (words.fault(action), *(condition.says for condition in action.conditions)))),
        (italic(f"boot {action.boot_id or '–'}"),),
    ]
    try:
        return blocks.framed(above, approval.command(action), below, BELOW)
    except TooLong as why:
        return blocks.section((bold("Too large to show whole"), f": {action.approval}, {why}"))
