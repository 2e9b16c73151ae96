"""A report → its own incident, or the open one that concerns the same and that whoever asks may read about.

Whoever joins is told so, once, with a link, however many join at once; it pings nobody. Where that thread is not for them they get their own, in
which nothing is put up for decision that is decided there. An alert that repeats is noted and neither told nor looked at again.
A person's report joins only an incident that is worked on: a stopped one, or one that has been silent for minutes, gets no further reports.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from bot.cards.incidents import notes
from bot.desk.concern import concern_of
from bot.desk.inbox import Received
from bot.policy import channels as policy
from bot.slack.context import Surface, storing
from graph.rows import IncidentRows
from graph.state import Item, Origin
from tools.ledger.states import State

SILENT_AFTER: Final = timedelta(minutes=5)  # without a word in the thread, a new report gets a look of its own
ACTING: Final = frozenset({State.APPROVED, State.EXECUTING})


async def take_in(surface: Surface, origin: Origin, key: str, text: str, make: Callable[[str], Item], *, alert: bool = False) -> Received:
    """Store what `make` makes for the incident it goes to, and wake somebody. `text` is what was written."""
    about = concern_of(text, surface.vocabulary_of(origin).hosts, alert=alert)

    unreadable: list[str] = []

    async def joins(incident: str) -> bool:
        other = await surface.inbox.origin(incident)
        if other is None or not policy.may_follow(origin, other, surface.bound):
            unreadable.append(incident)
            return False
        return alert or await _is_worked_on(surface, incident)

    async with storing():
        received = await surface.inbox.open(origin, key, make, about=about, joins=joins)
        elsewhere = received.joined or (received.duplicate and await surface.inbox.find(*origin.door) != received.incident)
        other = await surface.inbox.origin(received.incident) if elsewhere and not alert else None
    if not received.duplicate:
        surface.stored(received.incident, opened=received.opened)
    if (
        other is not None
    ):  # that its thread may be followed was asked before joining; whoever died before telling tells it when Slack sends it again
        await surface.say(origin, key, notes.joined(other.team, other.channel, other.thread_ts))
    if unreadable and received.opened and about.hosts and not alert and not received.duplicate:
        await surface.say(origin, key, notes.beside())
    return received


async def _is_worked_on(surface: Surface, incident: str) -> bool:
    """Return whether a second report joins this incident: a turn waits or runs, an action is under way, or a person wrote lately."""
    waiting = await surface.inbox.peek(incident)
    if waiting:
        return waiting[-1].kind != "stop"
    rows = IncidentRows(await surface.state_of(incident))
    if rows.stopped:
        return False
    last = await surface.pulse.last_word(incident)
    if last is None or surface.clock.now() - last < SILENT_AFTER or await _acts(surface, incident):
        return True
    if not any(row.open or row.outcome == "unknown" for row in rows.ladders):
        await surface.inbox.let_go_of_causes(incident)
    return False


async def _acts(surface: Surface, incident: str) -> bool:
    """Return whether an action of the incident is approved or runs."""
    if surface.approvals is None:
        return False
    return any(record.state in ACTING for record in await surface.approvals.book.of_incident(incident))
