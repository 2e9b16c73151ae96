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
from bot.incidents.cards import notes
from bot.incidents.cards.incident_card import IncidentCardView, render_incident_card
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
from tools.ledger.record import ActionRecord
from tools.ledger.refusals import Refused
from tools.ledger.states import State

log = structlog.get_logger()
STATUS_EVENT_TYPE, REPORT_EVENT_TYPE = "rackmedic_living", "rackmedic_report"
LOCK_WAIT = timedelta(seconds=12)  # how long one writer waits for another


class UpdateInProgress(TooEarly):
    message = "Another process edits this message now. The caller must ask again later."


async def skip_tenant_card(incident: str) -> None:
    """Do nothing: no tenants' channels are served."""


@dataclass(frozen=True, slots=True)
class StatusMessages:
    """Posts and edits the status messages.

    `show_progress` is called during a turn, `finish_turn` at its end, and `refresh_message` when an action changed its state.
    """

    editable_messages: EditableMessages
    reactions: StatusReactions
    people: People
    origin_of: OriginLookup
    pending_messages: PendingMessages
    load_state: Callable[[str], Awaitable[IncidentState]]
    load_records: Callable[[str], Awaitable[Sequence[ActionRecord]]]
    channel_bindings: Mapping[str, ChannelRow] = field(default_factory=lambda: NO_CHANNELS)
    titles: Mapping[str, str] = field(default_factory=dict)  # cause label → title
    tenant_labels: Collection[str] = ()  # labels of causes that the tenant must fix
    update_tenant_card: Callable[[str], Awaitable[None]] = skip_tenant_card

    @property
    def cards(self) -> PostedCards:
        return self.editable_messages.cards

    async def get_turn_number(self, incident: str) -> str:
        """Return the number of the running or next turn. Progress of an earlier turn is dropped."""
        return await self.cards.get(incident, "living_turn")

    async def show_progress(self, progress: ProgressCard, turn: str) -> bool:
        """Show the progress of a turn. Return False if the turn is over. A `queued` card is posted, never edited in."""
        origin = await self._get_origin(progress.incident)
        if origin is None:
            return True
        is_current = await self._update_progress(origin, progress, turn)
        if is_current and progress.stage in ("queued", "execute"):
            self.reactions.schedule_reaction(origin, progress.incident, "looking", turn)
        return is_current

    async def _update_progress(self, origin: Origin, progress: ProgressCard, turn: str) -> bool:
        incident, is_first = progress.incident, progress.stage == "queued"
        async with self.cards.hold_lock(incident, "living", wait=timedelta() if is_first else LOCK_WAIT) as alone:
            if not alone or (is_first and await self.cards.get(incident, "living")):
                return True
            if await self.get_turn_number(incident) != turn:
                return False
            if await self.cards.get(incident, "living_item"):
                view = await self._build_message(origin, incident, await self.load_state(incident), progress)
            else:
                view = IncidentCardView(incident, busy=progress)
            await self.pending_messages.add_pending(incident)
            await self._put_message(origin, view)
            if progress.likely:
                await self.cards.set(incident, "living_likely", json.dumps([progress.likely.label, progress.likely.says]))
        return True

    async def finish_turn(self, incident: str, state: IncidentState, report: Report) -> bool:
        """Show the status. Return whether the report is on this message; else the caller posts it as a reply.

        If the report is a reply, an edit that Slack refuses is left to the sweeper: waiting for Slack took minutes with
        twenty open incidents.
        """
        origin = IncidentView(state).origin or await self._get_origin(incident)
        if origin is None or origin.kind != "slack":
            return False
        shown_item = await self.cards.get(incident, "living_item")
        is_on_message = shown_item == report.item or (not shown_item and _is_opening_report(state, report))
        await self.pending_messages.add_pending(incident)
        try:
            async with self._hold_message_lock(incident, LOCK_WAIT if is_on_message else EDIT_LOCK_WAIT):
                if is_on_message:
                    await self.cards.set(incident, "living_item", report.item)
                await self._show_status(origin, incident, state)
        except (*SLACK_ERRORS, UpdateInProgress) as error:
            if is_on_message:
                raise
            log.warning("status_message.follows_later", incident=incident, error=str(error)[:200])
        else:
            await self._update_reaction(origin, incident, state)
        return is_on_message

    async def refresh_message(self, incident: str) -> None:
        origin = await self._get_origin(incident)
        if origin is not None and await self.cards.get(incident, "living_item"):
            async with self._hold_message_lock(incident):
                await self._put_message(origin, await self._build_message(origin, incident, await self.load_state(incident)))
            await self.update_tenant_card(incident)

    async def clear_abandoned(self, incident: str) -> None:
        """Show the status where a dead process left its progress."""
        if (origin := await self._get_origin(incident)) is None:
            await self.pending_messages.remove_pending(incident)
            return
        state = await self.load_state(incident)
        async with self._hold_message_lock(incident):
            await self._show_status(origin, incident, state)
        await self._update_reaction(origin, incident, state)
        await self.update_tenant_card(incident)

    async def _show_status(self, origin: Origin, incident: str, state: IncidentState) -> None:
        """Show the status, and drop further progress of the finished turn."""
        await self.cards.increment(incident, "living_turn")
        await self._note_changed_cause(incident, IncidentView(state).report)
        has_report = await self.cards.get(incident, "living_item")
        has_message = await self.cards.get(incident, "living")
        is_over = state.get("lifecycle") in ("handed_off", "closed")
        if has_report or (is_over and has_message):
            await self._put_message(origin, await self._build_message(origin, incident, state))
        elif has_message:
            await self._put_message(origin, IncidentCardView(incident))
        await self.pending_messages.remove_pending(incident)

    async def _build_message(
        self, origin: Origin, incident: str, state: IncidentState, progress: ProgressCard | None = None
    ) -> IncidentCardView:
        incident_view = IncidentView(state)
        ticket, report = incident_view.ticket, incident_view.report
        assignee = await self.people.get_name(ticket.taken_by) if ticket and ticket.state in ("taken", "waiting") else ""
        records = await self._load_records(incident)
        out_of_contact = await self._list_out_of_contact(incident, records)
        status = get_incident_status(incident_view, records, assignee, self.tenant_labels, out_of_contact)
        thread_links = await build_thread_links(report, origin, self.origin_of, self.channel_bindings) if report else {}
        retracted_cause = await self.cards.get(incident, "living_changed")
        has_report = await self.cards.get(incident, "living_item")  # else nothing was checked yet
        findings = get_findings_so_far(report) if has_report else None
        stats = incident_view.stats if state.get("stats") else None
        return IncidentCardView(incident, findings, stats, status, progress, thread_links, retracted_cause, self.titles)

    async def _note_changed_cause(self, incident: str, report: Report | None) -> None:
        """Keep the likely cause that was shown if the report does not confirm it, so that the card can retract it."""
        likely_cause = await self.cards.get(incident, "living_likely")
        label, text = json.loads(likely_cause) if likely_cause else ("", "")
        confirmed_labels = {cause.label for cause in report.root_causes} if report else set()
        await self.cards.set(incident, "living_changed", "" if label in confirmed_labels else text)
        await self.cards.drop(incident, "living_likely")

    async def _list_out_of_contact(self, incident: str, records: Sequence[ActionRecord]) -> frozenset[str]:
        """Return the running actions whose host does not answer now."""
        running = [record.approval for record in records if record.state is State.EXECUTING]
        return frozenset([approval for approval in running if await self.cards.get(incident, f"contact:{approval}")])

    async def _load_records(self, incident: str) -> Sequence[ActionRecord]:
        try:
            return await self.load_records(incident)
        except Refused as error:
            log.warning("status_message.records_unreadable", incident=incident, why=str(error)[:200])
            return ()

    async def _get_origin(self, incident: str) -> Origin | None:
        origin = await self.origin_of(incident)
        return origin if origin is not None and origin.kind == "slack" and origin.thread_ts else None

    async def _update_reaction(self, origin: Origin, incident: str, state: IncidentState) -> None:
        sign = get_incident_status(IncidentView(state)).sign if state.get("report") else "people"
        self.reactions.schedule_reaction(origin, incident, sign, await self.get_turn_number(incident))

    @asynccontextmanager
    async def _hold_message_lock(self, incident: str, wait: timedelta = LOCK_WAIT) -> AsyncIterator[None]:
        async with self.cards.hold_lock(incident, "living", wait=wait) as alone:
            if not alone:
                raise UpdateInProgress(UpdateInProgress.message)
            yield

    async def _put_message(self, origin: Origin, view: IncidentCardView) -> None:
        """Post or edit the message. It shows a refusal if another organisation can read the channel."""
        has_findings = view.report is not None or view.busy is None or view.busy.stage != "queued"
        card: Card = render_incident_card(view)
        if has_findings and await self.people.is_shared(origin.channel):
            card = notes.render_refusal(policy.REFUSAL_TEXTS["shared"])
        item = await self.cards.get(view.incident, "living_item")
        status_metadata = {"event_type": STATUS_EVENT_TYPE, "event_payload": {"incident": view.incident}}
        metadata = {"event_type": REPORT_EVENT_TYPE, "event_payload": {"item": item}} if item else status_metadata
        await self.editable_messages.put_message(origin, view.incident, "living", card, metadata, status_metadata)


def _is_opening_report(state: IncidentState, report: Report) -> bool:
    """Return whether the report answers the message that opened the incident. Later reports are replies."""
    item: Mapping[str, Any] = state.get("item") or {}
    return item.get("kind") == "mention" and item.get("id") == report.item


def get_findings_so_far(report: Report | None) -> Report | None:
    """Return the report without its reply, which was posted already. Keep the reply of a report that has nothing else."""
    if report and (report.headline or report.root_causes):
        return report.model_copy(update={"reply": ""})
    return report
