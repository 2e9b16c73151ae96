"""One action among others on a card: where it stands, its host, its exact command, the beginning of its digest, and its own buttons.

Host and command are whole, or the action gets a card of its own (`weight`); what stands below them is cut to `BELOW`. A command that is
the same for all stands once above the rows; each is then a line.
"""

from bot.cards import blocks
from bot.cards.approvals import card as approval
from bot.cards.approvals import files, parts, words
from bot.cards.approvals.card import Shown
from bot.cards.blocks import Block, TooLong
from bot.cards.text import Line, bold, code
from tools.action import Action
from tools.ledger.record import Record
from tools.ledger.states import OPEN, State

BELOW = 300
"""Room below the command: preconditions, votes, how it went."""
STANDS = 50
"""Room for the words that say where it stands."""
ROOM = 8600
"""What the rows of one card may weigh together, so that a message holds them with all that is said once for all."""
PREFIX = 16
MOST_VOTES = 2


def render(shown: Shown, *, told_above: bool = False) -> list[Block]:
    """The row in its present state. `told_above`: its command, and what all rows say alike, stand above them all."""
    record = shown.record
    if not told_above:
        text = blocks.framed((_above(record, shown.held),), approval.command(record.action), _below(shown), BELOW)
        return [blocks.divider(), text, *approval.buttons(record)]
    own = _below(shown, held_alike=all_hold(shown))
    return [blocks.lined(_above(record, shown.held), own, BELOW), *approval.buttons(record)]


def all_hold(shown: Shown) -> bool:
    """Whether a dry run saw every precondition fulfilled."""
    return bool(shown.seen) and all(one.ok is True for one in shown.seen)


def weight(action: Action) -> int:
    """What the row may come to at most; more than all the room where it cannot be a row."""
    try:
        core = blocks.framed(((*words.place(action), *_digest(action)),), approval.command(action), (), 0)
    except TooLong:
        return ROOM + 1
    text = blocks.weight(core) + STANDS + BELOW
    return text + approval.buttons_weight(action) if text < blocks.SECTION else ROOM + 1


def _above(record: Record, held: str) -> Line:
    mark, word = words.standing(record, held)
    count: Line = (" · ", parts.count(record)) if record.state is State.PENDING and (record.approvals or record.terms.quorum > 1) else ()
    return (f"{mark} ", *words.place(record.action), " · ", bold(word), *count, *_digest(record.action))


def _digest(action: Action) -> Line:
    return (" ", code(f"{action.digest[:PREFIX]}…"))


def _below(shown: Shown, *, held_alike: bool = False) -> list[Line]:
    record = shown.record
    held: list[Line] = (
        [*([] if held_alike else _held(shown)), *files.known_lines(record.action, shown.known)] if record.state in OPEN else []
    )
    votes = parts.vote_lines(record, shown.names)[-MOST_VOTES:]
    return [*held, *parts.stands_lines(record, shown.names, shown.began, shown.held), *votes]


def _held(shown: Shown) -> list[Line]:
    """What a dry run saw of the preconditions: those that do not hold one by one, the others as a number."""
    if not shown.seen:
        return []
    bad = [one for one in shown.seen if one.ok is not True]
    good, every = len(shown.seen) - len(bad), len(shown.seen)
    held: Line = (f"✓ {good} of {every} precondition{'s' if every > 1 else ''} hold{'s' if good == 1 else ''}",)
    return [*map(parts.saw, bad), *([held] if good else [])]
