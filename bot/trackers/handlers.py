"""Opens tracker tickets from an incident's thread, after everything to be sent was shown.

The ticket is stored before Slack is acknowledged; `bot.trackers.ticket_sync` sends it.
"""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta

import structlog

from bot.cards.buttons import OldButton
from bot.incidents.cards.report_rows import CauseTitles, get_cause_title
from bot.incidents.context import HandlerContext
from bot.incidents.dispatch.inbox import Inbox
from bot.policy.channels import SlackPlace
from bot.refusal import Refusal
from bot.slack.client import SLACK_ERRORS, SlackClient, post_message
from bot.slack.handlers import SlackHandlers, refuse_old_button
from bot.slack.payloads import Payload, get_thread_ts
from bot.slack.people import People
from bot.slack.posted_messages import EditableMessages, IdempotentPoster
from bot.store.external_outbox import ClickResult, Outbox, OutboxRow
from bot.store.unreachable import guard_store
from bot.trackers import cards as followed_ticket
from bot.trackers import cards as ticket_form
from bot.trackers.cards import FollowedTicket, TicketComment, TicketStage, TrackerForm
from bot.trackers.ticket_draft import TrackerDraft, build_draft, redact_tenants, render_plain_text, replace_title
from bot.trackers.ticket_sync import BEGAN_KEY, COMMENTS_UNREAD_KEY, DONE_KEY, SHOWN_KEY, URL_KEY
from bot.trackers.tracker import RemoteComment, Tracker, build_marker
from graph.incident_view import IncidentView
from graph.state import Origin
from graph.state_reader import IncidentStateReader
from tools.inventory.inventory import ChannelRow

log = structlog.get_logger()
TICKET_EVENT_TYPE = "rackmedic_tracker"
MOVED_EVENT_TYPE = "rackmedic_tracker_moved"
REMARK_EVENT_TYPE = "rackmedic_tracker_remark"
LOCK_WAIT = timedelta(seconds=12)
DRAFT_OUTDATED = "The incident moved on meanwhile, so this is not what would be sent now. Open the form again to see it."
NOTHING_TO_SEND = "There is nothing to send yet: this incident was not checked."


@dataclass(frozen=True, slots=True)
class TrackerCards:
    """The message of each tracker ticket."""

    client: SlackClient
    kept: EditableMessages
    inbox: Inbox
    people: People
    outbox: Outbox
    trackers: Mapping[str, Tracker]
    bound: Mapping[str, ChannelRow]

    async def update_card(self, name: str) -> None:
        """Redraw the message and announce a new state. A Slack failure is logged."""
        try:
            if where := await self._find_thread(name):
                await self._put_card(*where)
        except SLACK_ERRORS as error:
            log.warning("trackers.not_painted", row=name, error=str(error)[:200])

    async def quote_remark(self, name: str, said: RemoteComment, beside: str) -> bool:
        """Post a comment once. False if Slack failed; True also where it may not be shown."""
        try:
            where = await self._find_thread(name)
            return where is None or await self._post_remark(*where, said, beside)
        except SLACK_ERRORS as error:
            log.warning("trackers.not_told", row=name, error=str(error)[:200])
            return False

    async def _find_thread(self, name: str) -> tuple[Origin, str, Tracker] | None:
        """Return the thread, or None unless in an unshared operator channel."""
        row = await self.outbox.load_row(name)
        origin, tracker = await self.inbox.get_origin(row.incident), self.trackers.get(row.place)
        if origin is None or origin.kind != "slack" or not origin.thread_ts or tracker is None:
            return None
        bound = self.bound.get(origin.channel)
        if bound is None or bound.kind != "operators" or await self.people.is_shared(origin.channel):
            log.warning("trackers.channel_of_others", incident=row.incident)
            return None
        return origin, name, tracker

    async def _post_remark(self, origin: Origin, name: str, tracker: Tracker, said: RemoteComment, beside: str) -> bool:
        incident, card = name.partition(" ")[0], f"tracker:{tracker.name}:remark:{said.id_hash}"
        async with self.kept.cards.hold_lock(incident, card, wait=LOCK_WAIT) as alone:
            if alone:
                view = await self._build_view(await self.outbox.load_row(name), tracker)
                quoted = followed_ticket.render_comment(view, TicketComment(said.kind, said.by, said.lines, said.at, said.url), beside)
                about = {
                    "event_type": REMARK_EVENT_TYPE,
                    "event_payload": {"incident": incident, "tracker": tracker.name, "remark": said.id_hash},
                }
                await IdempotentPoster(self.client, self.kept.cards).post_once(origin, incident, card, quoted, about)
            return alone

    async def _put_card(self, origin: Origin, name: str, tracker: Tracker) -> None:
        incident, card = name.partition(" ")[0], f"tracker:{tracker.name}"
        async with self.kept.cards.hold_lock(incident, card, wait=LOCK_WAIT) as alone:
            if not alone:
                return
            row = await self.outbox.load_row(name)
            view = await self._build_view(row, tracker)
            about = {"incident": incident, "tracker": tracker.name}
            await self.kept.put_message(
                origin,
                incident,
                card,
                followed_ticket.render_followed_ticket(view),
                {"event_type": TICKET_EVENT_TYPE, "event_payload": about},
            )
            stands = f"{row.ticket}/{row.state}"
            if view.way == "there" and row.state and await self.kept.cards.get(incident, f"{card}:told") != stands:
                mark = {"event_type": MOVED_EVENT_TYPE, "event_payload": {**about, "stands": stands}}
                await post_message(self.client, origin.channel, origin.thread_ts, followed_ticket.render_state_change(view), mark)
                await self.kept.cards.set(incident, f"{card}:told", stands)

    async def _build_view(self, row: OutboxRow, tracker: Tracker) -> FollowedTicket:
        return FollowedTicket(
            row.incident,
            tracker.name,
            tracker.words,
            _classify_progress(row),
            by=await self.people.get_name(row.by),
            shown=row.notes.get(SHOWN_KEY, "") or row.ticket,
            url=row.notes.get(URL_KEY, ""),
            state=row.state,
            done=row.notes.get(DONE_KEY) == "1",
            tells=tracker.tells,
            trouble=row.refused or row.trouble,
            tries=row.tries,
            unread=row.notes.get(COMMENTS_UNREAD_KEY, ""),
            closed=await self.inbox.get_lifecycle(row.incident) == "closed",
        )


def _classify_progress(row: OutboxRow) -> TicketStage:
    if row.refused:
        return "refused"
    if not row.pending:
        return "there"
    return "doubt" if row.notes.get(BEGAN_KEY) else "waiting"


@dataclass(frozen=True, slots=True)
class TrackerHandlers:
    """Works in the incident's own thread only. `customers`: tenant names, never sent."""

    context: HandlerContext
    cards: TrackerCards
    titles: CauseTitles
    customers: Collection[str]

    async def handle_click(self, payload: Payload) -> None:
        """Show the form. Raises Refusal."""
        pressed = ticket_form.parse_open_click(payload)
        tracker = self._find_tracker(pressed.item)
        user, channel = str(payload["user"]["id"]), str(payload["channel"]["id"])
        team = str(payload["team"]["id"])
        await self.context.admit_user(SlackPlace(team, channel), user, fresh=True)
        await self.context.require_permission(f"button.{payload['actions'][0]['action_id']}", user, channel)
        async with guard_store():
            origin = await self.context.inbox.get_origin(pressed.incident)
            known = await self.context.inbox.find_incident(team, channel, get_thread_ts(payload))
        if origin is None or known != pressed.incident or origin.channel != channel:
            raise OldButton
        form = await self._build_form(pressed.incident, origin, tracker)
        await self.context.client.views_open(trigger_id=str(payload["trigger_id"]), view=ticket_form.render_tracker_form(form))

    async def handle_submission(self, payload: Payload) -> None:
        """Queue what was shown, with the given title. Raises Refusal, BadForm."""
        form = ticket_form.parse_tracker_form(payload)
        tracker = self._find_tracker(form.tracker)
        team, user = str(payload["team"]["id"]), str(payload["user"]["id"])
        async with guard_store():
            origin = await self.context.inbox.get_origin(form.incident)
        if origin is None or origin.team != team:
            raise OldButton
        await self.context.admit_user(SlackPlace(team, origin.channel), user, fresh=True)
        await self.context.require_permission(f"form.{payload['view']['callback_id']}", user, origin.channel, origin)
        name = f"{form.incident} {tracker.name}"
        async with guard_store():
            await self._require_no_ticket(name, tracker)
            shown = await self.cards.outbox.load_draft(name, form.digest)
            if shown is None:
                raise Refusal(DRAFT_OUTDATED)
            sent = replace_title(TrackerDraft.model_validate_json(shown), form.title, self.customers)
            came = await self.cards.outbox.queue_draft(name, form.digest, user, instead=sent.to_stored_bytes(), once=True)
        if came is ClickResult.OLD:
            raise Refusal(DRAFT_OUTDATED)
        self.context.tasks.spawn_task("tracker_card", self.cards.update_card(name))

    async def _build_form(self, incident: str, origin: Origin, tracker: Tracker) -> TrackerForm:
        name = f"{incident} {tracker.name}"
        async with guard_store():
            await self._require_no_ticket(name, tracker)
            state = await self.context.load_state(incident)
        if IncidentView(state).report is None:
            raise Refusal(NOTHING_TO_SEND)
        draft = await asyncio.to_thread(build_draft, incident, state, origin, self.titles, self.customers)
        async with guard_store():
            digest = await self.cards.outbox.save_draft(name, draft.to_stored_bytes())
        text, fields = render_plain_text(draft, build_marker(incident)), tracker.list_fields(draft)
        return TrackerForm(incident, tracker.name, tracker.words, digest, draft.title, text, fields, tracker.title_most)

    async def _require_no_ticket(self, name: str, tracker: Tracker) -> None:
        """Raise Refusal if a ticket exists."""
        row = await self.cards.outbox.load_row(name)
        if row.pending:
            raise Refusal(f"It is on its way to {tracker.words} already; the thread says how far it is.")
        if row.ticket and not row.refused:
            raise Refusal(f"{tracker.words} has it already: {row.notes.get(SHOWN_KEY) or row.ticket}.")

    def _find_tracker(self, name: str) -> Tracker:
        tracker = self.cards.trackers.get(name)
        if tracker is None:
            raise OldButton
        return tracker


@dataclass(frozen=True, slots=True)
class ClosingCauses:
    """Causes of closed incidents, safe to send."""

    stored: IncidentStateReader
    titles: CauseTitles
    customers: Collection[str]

    async def get_closing_text(self, incident: str) -> str | None:
        """Return the cause, or None while open."""
        rows = IncidentView(await self.stored.load_state(incident))
        if rows.lifecycle != "closed":
            return None
        held = rows.ticket
        said = [get_cause_title(held.true_label, self.titles), held.true_cause] if held else []
        return redact_tenants(". ".join(word for word in said if word) or "no cause was noted", self.customers)


def build_tracker_handlers(handlers: TrackerHandlers | None) -> SlackHandlers:
    """Return the table of the buttons and the form; without trackers each is refused."""
    return SlackHandlers(
        clicks=dict.fromkeys(ticket_form.BUTTONS, handlers.handle_click if handlers else refuse_old_button),
        forms={ticket_form.CALLBACK_ID: handlers.handle_submission if handlers else refuse_old_button},
    )
