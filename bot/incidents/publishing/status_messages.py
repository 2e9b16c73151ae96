"""The status message of each incident: posted once, edited by any process, posted anew where deleted.

The state is read under the incident's lock, so a late writer never shows an older state. The sweeper updates messages
of dead processes.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import structlog

from bot.cards.blocks import Card
from bot.incidents.cards import incident_card as card
from bot.incidents.cards import notes
from bot.incidents.cards.incident_card import IncidentCardView
from bot.incidents.cards.incident_status import get_incident_status
from bot.incidents.cards.progress import ProgressCard
from bot.incidents.publishing.reactions import StatusReactions
from bot.incidents.publishing.thread_roots import NO_CHANNELS, build_thread_links
from bot.policy import channels as policy
from bot.refusal import TooEarly
from bot.slack.client import SLACK_ERRORS
from bot.slack.people import People
from bot.slack.posted_messages import EDIT_LOCK_WAIT, EditableMessages, OriginLookup, PendingMessages, PostedCards
from graph.incident_view import IncidentView
from graph.report import Report
from graph.state import IncidentState, Origin
from tools.inventory.inventory import ChannelRow
from tools.ledger.record import ActionRecord, Refused
from tools.ledger.states import State

log = structlog.get_logger()
STATUS_EVENT_TYPE, REPORT_EVENT_TYPE = "rackmedic_living", "rackmedic_report"
LOCK_WAIT = timedelta(seconds=12)  # how long one writer waits for another


class UpdateInProgress(TooEarly):
    """Another process paints this message at this moment. Whoever asked asks again later."""


async def get_no_state(incident: str) -> IncidentState:
    return IncidentState()


async def get_no_records(incident: str) -> Sequence[ActionRecord]:
    return ()


async def notify_nobody(incident: str) -> None: ...


@dataclass
class StatusMessages:
    """`show_progress` during a turn, `finish_turn` at its end, `refresh_message` when an action moved."""

    kept: EditableMessages
    reactions: StatusReactions
    people: People
    origin_of: OriginLookup
    unsettled: PendingMessages
    bound: Mapping[str, ChannelRow] = field(default_factory=lambda: NO_CHANNELS)
    titles: Mapping[str, str] = field(default_factory=dict)  # cause label → title
    theirs: Collection[str] = ()  # labels of causes that a tenant mends
    _state_of: Callable[[str], Awaitable[IncidentState]] = field(default=get_no_state)
    _records_of: Callable[[str], Awaitable[Sequence[ActionRecord]]] = field(default=get_no_records)
    _beside: Callable[[str], Awaitable[None]] = field(default=notify_nobody)

    @property
    def cards(self) -> PostedCards:
        return self.kept.cards

    def set_sources(
        self,
        *,
        state_of: Callable[[str], Awaitable[IncidentState]] | None = None,
        records_of: Callable[[str], Awaitable[Sequence[ActionRecord]]] | None = None,
        beside: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """Set the sources, which exist later than this object."""
        self._state_of, self._records_of = state_of or self._state_of, records_of or self._records_of
        self._beside = beside or self._beside

    async def get_turn_number(self, incident: str) -> str:
        """Return the running or next turn; progress of earlier turns is dropped."""
        return await self.cards.get(incident, "living_turn")

    async def show_progress(self, busy: ProgressCard, turn: str) -> bool:
        """Show progress; return False where the turn is over. A `queued` card is only posted, never an edit."""
        origin = await self._get_origin(busy.incident)
        if origin is None:
            return True
        current = await self._update_progress(origin, busy, turn)
        if current and busy.stage in ("queued", "execute"):
            self.reactions.schedule_reaction(origin, busy.incident, "looking", turn)
        return current

    async def _update_progress(self, origin: Origin, busy: ProgressCard, turn: str) -> bool:
        incident, first = busy.incident, busy.stage == "queued"
        async with self.cards.hold_lock(incident, "living", wait=timedelta() if first else LOCK_WAIT) as alone:
            if not alone or (first and await self.cards.get(incident, "living")):
                return True
            if await self.get_turn_number(incident) != turn:
                return False
            settled = await self.cards.get(incident, "living_item")
            told = (
                await self._build_message(origin, incident, await self._state_of(incident), busy)
                if settled
                else IncidentCardView(incident, busy=busy)
            )
            await self.unsettled.add_pending(incident)
            await self._put_message(origin, told)
            if busy.likely:
                await self.cards.set(incident, "living_likely", json.dumps([busy.likely.label, busy.likely.says]))
        return True

    async def finish_turn(self, incident: str, state: IncidentState, report: Report) -> bool:
        """Show the status. Return whether the report is on this message, and nowhere else.

        Else a refused edit follows at a sweep: waiting for Slack took minutes with twenty open incidents.
        """
        origin = IncidentView(state).origin or await self._get_origin(incident)
        if origin is None or origin.kind != "slack":
            return False
        shown = await self.cards.get(incident, "living_item")
        here = shown == report.item or (not shown and _is_opening_report(state, report))
        await self.unsettled.add_pending(incident)
        try:
            async with self._hold_message_lock(incident, LOCK_WAIT if here else EDIT_LOCK_WAIT):
                if here:
                    await self.cards.set(incident, "living_item", report.item)
                await self._show_status(origin, incident, state)
        except (*SLACK_ERRORS, UpdateInProgress) as error:
            if here:
                raise
            log.warning("status_message.follows_later", incident=incident, error=str(error)[:200])
        else:
            await self._update_reaction(origin, incident, state)
        return here

    async def refresh_message(self, incident: str) -> None:
        origin = await self._get_origin(incident)
        if origin is not None and await self.cards.get(incident, "living_item"):
            async with self._hold_message_lock(incident):
                await self._put_message(origin, await self._build_message(origin, incident, await self._state_of(incident)))
            await self._beside(incident)

    async def clear_abandoned(self, incident: str) -> None:
        """Replace a dead process's progress by the status."""
        if (origin := await self._get_origin(incident)) is None:
            await self.unsettled.remove_pending(incident)
            return
        state = await self._state_of(incident)
        async with self._hold_message_lock(incident):
            await self._show_status(origin, incident, state)
        await self._update_reaction(origin, incident, state)
        await self._beside(incident)

    # -- what it shows ----------------------------------------------------------------------------------------------

    async def _show_status(self, origin: Origin, incident: str, state: IncidentState) -> None:
        """Progress of the finished turn is dropped from here on."""
        await self.cards.increment(incident, "living_turn")
        await self._note_changed_cause(incident, IncidentView(state).report)
        looked, over = await self.cards.get(incident, "living_item"), state.get("lifecycle") in ("handed_off", "closed")
        if looked or (over and await self.cards.get(incident, "living")):
            await self._put_message(origin, await self._build_message(origin, incident, state))
        elif await self.cards.get(incident, "living"):
            await self._put_message(origin, IncidentCardView(incident))
        await self.unsettled.remove_pending(incident)

    async def _build_message(
        self, origin: Origin, incident: str, state: IncidentState, busy: ProgressCard | None = None
    ) -> IncidentCardView:
        rows = IncidentView(state)
        taken = await self.people.get_name(rows.ticket.taken_by) if rows.ticket and rows.ticket.state in ("taken", "waiting") else ""
        records = await self._load_records(incident)
        stands = get_incident_status(rows, records, taken, self.theirs, await self._list_out_of_contact(incident, records))
        others = await build_thread_links(rows.report, origin, self.origin_of, self.bound) if rows.report else {}
        changed = await self.cards.get(incident, "living_changed")
        found = get_findings_so_far(rows.report) if await self.cards.get(incident, "living_item") else None  # else there was no look yet
        return IncidentCardView(incident, found, rows.stats if state.get("stats") else None, stands, busy, others, changed, self.titles)

    async def _note_changed_cause(self, incident: str, report: Report | None) -> None:
        """Keep a likely cause that the report does not confirm: nothing is retracted silently."""
        before = await self.cards.get(incident, "living_likely")
        label, says = json.loads(before) if before else ("", "")
        found = {row.label for row in report.root_causes} if report else set()
        await self.cards.set(incident, "living_changed", says if label not in found else "")
        await self.cards.drop(incident, "living_likely")

    async def _list_out_of_contact(self, incident: str, records: Sequence[ActionRecord]) -> frozenset[str]:
        running = [row.approval for row in records if row.state is State.EXECUTING]
        return frozenset([name for name in running if await self.cards.get(incident, f"contact:{name}")])

    async def _load_records(self, incident: str) -> Sequence[ActionRecord]:
        try:
            return await self._records_of(incident)
        except Refused as error:
            log.warning("status_message.records_unreadable", incident=incident, why=str(error)[:200])
            return ()

    async def _get_origin(self, incident: str) -> Origin | None:
        origin = await self.origin_of(incident)
        return origin if origin is not None and origin.kind == "slack" and origin.thread_ts else None

    async def _update_reaction(self, origin: Origin, incident: str, state: IncidentState) -> None:
        sign = get_incident_status(IncidentView(state)).sign if state.get("report") else "people"
        self.reactions.schedule_reaction(origin, incident, sign, await self.get_turn_number(incident))

    # -- Slack ------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _hold_message_lock(self, incident: str, wait: timedelta = LOCK_WAIT) -> AsyncIterator[None]:
        async with self.cards.hold_lock(incident, "living", wait=wait) as alone:
            if not alone:
                raise UpdateInProgress(UpdateInProgress.__doc__)
            yield

    async def _put_message(self, origin: Origin, made: IncidentCardView) -> None:
        """Where others can read the channel, show a refusal without findings."""
        inside = made.report is not None or made.busy is None or made.busy.stage != "queued"
        shared = inside and await self.people.is_shared(origin.channel)
        shown: Card = notes.render_refusal(policy.REFUSAL_TEXTS["shared"]) if shared else card.render_incident_card(made)
        item = await self.cards.get(made.incident, "living_item")
        first = {"event_type": STATUS_EVENT_TYPE, "event_payload": {"incident": made.incident}}
        marked = {"event_type": REPORT_EVENT_TYPE, "event_payload": {"item": item}} if item else first
        await self.kept.put_message(origin, made.incident, "living", shown, marked, first)


def _is_opening_report(state: IncidentState, report: Report) -> bool:
    """The report that the incident was opened for goes on the status message; others are replies."""
    item: Mapping[str, Any] = state.get("item") or {}
    return item.get("kind") == "mention" and item.get("id") == report.item


def get_findings_so_far(report: Report | None) -> Report | None:
    """Return the report without its reply, which was posted where it was asked for, unless the reply is all there is."""
    return report.model_copy(update={"reply": ""}) if report and (report.headline or report.root_causes) else report
