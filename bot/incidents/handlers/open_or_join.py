"""Route a report to a new incident, or to the open one that matches and that the reporter may read.

Where the reporter may not read that thread, the report gets its own incident, which leaves shared decisions to the
other. A person's report joins only an incident that is worked on; a repeated alert is dropped.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from bot.incidents.cards import notes
from bot.incidents.dispatch.fingerprint import compute_fingerprint
from bot.incidents.dispatch.inbox import EnqueueResult
from bot.incidents.handlers.services import MessageServices
from bot.policy import channels as policy
from bot.store.unreachable import guard_store
from graph.incident_view import IncidentView
from graph.state import InboxItem, Origin
from tools.ledger.states import State

INACTIVITY_LIMIT: Final = timedelta(minutes=5)  # without a word in the thread, a new report gets its own incident
ACTIVE_STATES: Final = frozenset({State.APPROVED, State.EXECUTING})


async def open_or_join_incident(
    services: MessageServices, origin: Origin, key: str, text: str, make: Callable[[str], InboxItem], *, alert: bool = False
) -> EnqueueResult:
    """Store the item that `make` builds for its incident, and wake a worker."""
    about = compute_fingerprint(text, services.vocabulary_of(origin).hosts, alert=alert)

    unreadable: list[str] = []

    async def joins(incident: str) -> bool:
        other = await services.context.inbox.get_origin(incident)
        if other is None or not policy.can_follow_thread(origin, other, services.context.channel_bindings):
            unreadable.append(incident)
            return False
        return alert or await _is_worked_on(services, incident)

    async with guard_store():
        received = await services.context.inbox.open_or_join(origin, key, make, fingerprint=about, may_join=joins)
        elsewhere = received.joined or (
            received.duplicate and await services.context.inbox.find_incident(*origin.source_key) != received.incident
        )
        other = await services.context.inbox.get_origin(received.incident) if elsewhere and not alert else None
    if not received.duplicate:
        services.context.notify_stored(received.incident, opened=received.opened)
    if other is not None:  # `joins` checked that the thread may be read; after a crash here Slack's redelivery repeats the answer
        await services.context.queue_reply(origin, key, notes.render_joined_thread(other.team, other.channel, other.thread_ts))
    if unreadable and received.opened and about.hosts and not alert and not received.duplicate:
        await services.context.queue_reply(origin, key, notes.render_joined_hidden_thread())
    return received


async def _is_worked_on(services: MessageServices, incident: str) -> bool:
    """Return whether a report may join: work waits or runs, or the thread was active lately.

    An idle incident without open remediations releases its causes.
    """
    waiting = await services.context.inbox.list_waiting(incident)
    if waiting:
        return waiting[-1].kind != "stop"
    rows = IncidentView(await services.context.load_state(incident))
    if rows.is_stopped:
        return False
    last = await services.thread_activity.get_last_message_time(incident)
    if last is None or services.context.clock.now() - last < INACTIVITY_LIMIT or await _has_active_action(services, incident):
        return True
    if not any(remediation.is_open or remediation.outcome == "unknown" for remediation in rows.remediations):
        await services.context.inbox.release_causes(incident)
    return False


async def _has_active_action(services: MessageServices, incident: str) -> bool:
    if services.context.approvals is None:
        return False
    return any(record.state in ACTIVE_STATES for record in await services.context.approvals.brakes.list_incident_records(incident))
