"""The dialog behind "Show all": every action of a card whole, with its full digest, preconditions and where it stands. To read, not to decide."""

from collections.abc import Mapping, Sequence

from bot.cards import blocks
from bot.cards.approvals import card as approval
from bot.cards.approvals import files, parts, words
from bot.cards.approvals.process import Rows
from bot.cards.blocks import Block, TooLong
from bot.cards.text import Line, bold, exact_code, italic
from tools.ledger.record import Record

BELOW = 260
PAGE = 2600
NOTHING_KNOWN: Mapping[str, Rows] = {}


def render(records: Sequence[Record], known: Mapping[str, Rows] = NOTHING_KNOWN) -> Block:
    """The dialog. Deciding stays on the card, where Slack asks once more. `known`: by approval id, what is stored with its card."""
    head = blocks.section((bold(words.does_each([record.action for record in records])),))
    note = blocks.context(("Approve and reject on the card. This shows how it stood when it was opened.",))
    title = f"All {len(records)} actions" if len(records) > 1 else "The whole action"
    every = [block for record in records for block in (_one(record), *_files(known.get(record.approval, ())))]
    return blocks.page(title, [head, *every, note])


def _files(known: Rows) -> list[Block]:
    """All files that a deletion takes, as many to a block as it holds."""
    lines, found = files.every_line(known), list[Block]()
    while lines:
        count, room = 0, PAGE
        while count < len(lines) and (room := room - len(lines[count]) - 1) >= 0:
            count += 1
        found.append(blocks.quote(lines[: max(1, count)], width=PAGE))
        lines = lines[max(1, count) :]
    return found


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
