"""What an approver must know of a job before it is cancelled: how many tasks end with it, whose they are, where. Shown beside the action; what
is approved is the job of that number.
"""

from bot.cards.approvals.process import Rows
from bot.cards.approvals.words import folded
from bot.cards.text import Line, bold, plain
from kb.redact import redact
from tools.acting.cancels import Cancels

WOULD_END, UNREAD = "would end", "could not be read"
LONGEST = 200


def known_of(seen: Cancels) -> Rows:
    """What would end, as it is noted with the card."""
    if seen.why:
        return ((UNREAD, plain(redact(seen.why))[:LONGEST]),)
    if not seen.states:
        return ((WOULD_END, "no task: Slurm lists none any more"),)
    count = sum(seen.states.values())
    states = ", ".join(f"{number} {state.lower()}" for state, number in seen.states.items())
    whose, where = " and ".join(seen.owners[:3]), folded(seen.hosts) if seen.hosts else "no host yet"
    said = f"{count} task{'s' if count != 1 else ''} ({states}) of {whose}, on {where}"
    return ((WOULD_END, plain(redact(said))[:LONGEST]),)


def lines(known: Rows) -> list[Line]:
    """`Would end: 6 tasks (5 running, 1 pending) of alice, on gpu-[001-003]`."""
    return [
        ("⚠ What would end ", bold("could not be read"), f": {value}") if name == UNREAD else ("Would end: ", bold(value))
        for name, value in known
    ]
