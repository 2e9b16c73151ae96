"""Publish reports, end cards and tickets to Slack, each once."""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import structlog
from slack_sdk.web.async_client import AsyncWebClient

from bot.cards.blocks import Card
from bot.incidents.cards import diagnosis, handoff_card, incident_card, notes, questions
from bot.incidents.cards.handoff_content import Handoff, build_handoff, format_evidence_file, list_output_digests
from bot.incidents.cards.incident_status import get_incident_status
from bot.incidents.cards.report_rows import NO_CAUSE_TITLES, CauseTitles
from bot.incidents.publishing.pending_edits import PendingEdits
from bot.incidents.publishing.progress_updates import ProgressUpdates
from bot.incidents.publishing.report_attachments import ReportAttachments, has_attachments
from bot.incidents.publishing.status_messages import REPORT_EVENT_TYPE
from bot.incidents.publishing.thread_roots import NO_CHANNELS, build_thread_links
from bot.policy import channels as policy
from bot.slack.client import SLACK_ERRORS
from bot.slack.people import People
from bot.slack.posted_messages import POSTING, IdempotentPoster, OriginLookup, PostedCards
from bot.trackers import cards as ticket_form
from bot.trackers.cards import TrackerChoices
from graph.context import Progress
from graph.incident_view import IncidentView
from graph.report import Report
from graph.state import REMINDER_DUE, HandoffTicket, HumanCorrection, IncidentState, Origin
from tools.evidence import EvidenceStore
from tools.inventory.inventory import ChannelRow

log = structlog.get_logger()
TICKET_EVENT_TYPE, END_EVENT_TYPE, NOTICE_EVENT_TYPE = "rackmedic_ticket", "rackmedic_end", "rackmedic_over"
END_CARD, TICKET_CARD = "end", "ticket"  # names in PostedCards
NOTICE_AFTER_SECONDS = 60.0  # people who wait this long no longer look at the message that is edited
# Events of a remediation with their own message. All others show on the action's card, the status message or the end
# card.
ANNOUNCED_EVENTS = frozenset({"recurred", "busy", "unreachable", "shows", "cannot", "given_back", "in_service"})
MAX_OUTPUTS = 40


class SlackReportPublisher:
    """Publishes to the incident's Slack thread. Incidents that were not opened in Slack are ignored."""

    def __init__(
        self,
        client: AsyncWebClient,
        cards: PostedCards,
        progress_updates: ProgressUpdates,
        people: People,
        origin_of: OriginLookup,
        evidence: EvidenceStore,
        load_state: Callable[[str], Awaitable[IncidentState]],
        attachments: ReportAttachments,
        channel_bindings: Mapping[str, ChannelRow] = NO_CHANNELS,
        titles: CauseTitles = NO_CAUSE_TITLES,
        trackers: TrackerChoices = (),
    ) -> None:
        self._client = client
        self._cards = cards
        self._once = IdempotentPoster(client, cards)
        self._progress_updates = progress_updates
        self._people = people
        self._origin_of = origin_of
        self._evidence = evidence
        self._load_state = load_state
        self._attachments = attachments
        self._channel_bindings = channel_bindings
        self._titles = titles
        self._trackers = trackers
        self._pending_edits = PendingEdits(client, cards, progress_updates.pending_messages, (END_CARD, TICKET_CARD))

    async def publish_progress(self, progress: Progress) -> None:
        self._progress_updates.queue_update(progress)

    async def publish_report(self, incident: str, state: IncidentState, report: Report) -> None:
        """Publish report, end card, attachments and ticket."""
        origin = await self._get_origin(incident, state)
        if origin is None or origin.kind != "slack":
            return
        is_on_status_message = await self._progress_updates.finish_turn(incident, state, report)
        reply = None if is_on_status_message else await self._render_report(incident, state, report, origin)
        if reply is not None:
            card = await self._redact_for_channel(origin, reply)
            await self._once.post_once(
                origin, incident, f"report:{report.item}", card, {"event_type": REPORT_EVENT_TYPE, "event_payload": {"item": report.item}}
            )
        if is_on_status_message and self._needs_notice(state, report):
            card = await self._redact_for_channel(origin, incident_card.render_look_finished(report))
            await self._once.post_once(
                origin, incident, f"over:{report.item}", card, {"event_type": NOTICE_EVENT_TYPE, "event_payload": {"item": report.item}}
            )
        await self._post_end_card(origin, incident, state, report)
        if has_attachments(report, state) and not await self._people.is_shared(origin.channel):
            await self._attachments.upload_report_files(origin, incident, report, state)
            await self._attachments.post_closing_timeline(origin, incident, state)
        if await self._is_handed_off(incident, state):
            await self._post_ticket(origin, incident, build_handoff(state), str(state.get("facts", "")))
        await self._cards.set_retention(incident, closed=state.get("lifecycle") == "closed")
        await self._pending_edits.note_pending(incident)

    async def retry_pending_edits(self, incident: str) -> None:
        origin = await self._origin_of(incident)
        if origin is None or origin.kind != "slack":
            return

        async def render_card(name: str) -> Card:
            state = await self._load_state(incident)
            if name == END_CARD:
                return await self._render_end_card(origin, state)
            return await self._render_ticket(origin, incident, build_handoff(state))

        await self._pending_edits.retry_pending(origin, incident, render_card)

    def _needs_notice(self, state: IncidentState, report: Report) -> bool:
        """Return whether long checks would end with an edit only, for which Slack sends no notification."""
        view = IncidentView(state)
        has_own_message = bool(report.actions or report.reply) or view.ticket is not None
        return not has_own_message and view.stats.makespan_seconds >= NOTICE_AFTER_SECONDS

    async def _is_handed_off(self, incident: str, state: IncidentState) -> bool:
        """Return whether the ticket is shown. Closing an incident makes a ticket too, to record the cause, which is not shown."""
        ticket = IncidentView(state).ticket
        if ticket is None:
            return False
        is_open = ticket.handed and ticket.state != "resolved"
        return is_open or bool(await self._cards.get(incident, TICKET_CARD))

    async def _render_report(self, incident: str, state: IncidentState, report: Report, origin: Origin) -> Card | None:
        """Return the card of the turn's reply. Return None if there is no news. A timer may repeat open questions."""
        item: Mapping[str, Any] = state.get("item") or {}
        if item.get("kind") == "ask" and not report.reply:
            return None
        if item.get("kind") == "action_result" and (not report.reply or (item.get("data") or {}).get("event") not in ANNOUNCED_EVENTS):
            return None
        if item.get("kind") == "timer" and not report.reply and not IncidentView(state).is_timer_recheck:
            is_reminder = (item.get("data") or {}).get("why") == REMINDER_DUE and report.questions
            return questions.render_question_card(report.questions) if is_reminder else None
        view = IncidentView(state)
        ticket = view.ticket or HandoffTicket()
        message = (item.get("data") or {}).get("said") or {}
        correction = view.correction or HumanCorrection()
        users = (item.get("user"), message.get("person"), view.owner, correction.by, ticket.taken_by, ticket.closed_by)
        named_report = await self._replace_user_ids(report, {str(user) for user in users if user})
        thread_links = await build_thread_links(report, origin, self._origin_of, self._channel_bindings)
        stats = view.stats if state.get("stats") else None
        return diagnosis.render_diagnosis(incident, named_report, stats, thread_links, self._titles)

    async def _post_end_card(self, origin: Origin, incident: str, state: IncidentState, report: Report) -> None:
        """Post once that all remediations hold, and edit this card later. If one stops holding, the next card is a new one."""
        view = IncidentView(state)
        is_posted = bool(await self._cards.get(incident, END_CARD))
        holds = view.lifecycle in ("watching", "closed") and any(remediation.proven for remediation in view.remediations)
        has_action_news = bool(report.reply) and (state.get("item") or {}).get("kind") == "action_result"
        is_closing = is_posted and view.lifecycle == "closed"
        if not is_closing and not (has_action_news and (holds or is_posted)):
            return
        card = await self._render_end_card(origin, state)
        ts = await self._once.post_once(
            origin, incident, END_CARD, card, {"event_type": END_EVENT_TYPE, "event_payload": {"item": report.item}}
        )
        if is_posted:
            await self._pending_edits.edit_message(origin, incident, END_CARD, ts, card)
        if not holds:
            await self._cards.drop(incident, END_CARD)

    async def _render_end_card(self, origin: Origin, state: IncidentState) -> Card:
        view = IncidentView(state)
        headline = view.report.headline if view.report else ""
        return await self._redact_for_channel(origin, incident_card.render_cured_message(get_incident_status(view), headline))

    async def _replace_user_ids(self, report: Report, people: set[str]) -> Report:
        """Replace user ids by names, which do not mention anyone."""
        reply = report.reply
        for user in people:
            if user in reply:
                reply = reply.replace(user, await self._people.get_name(user))
        return report.model_copy(update={"reply": reply})

    async def _get_origin(self, incident: str, state: IncidentState) -> Origin | None:
        return IncidentView(state).origin or await self._origin_of(incident)

    async def _redact_for_channel(self, origin: Origin, card: Card) -> Card:
        """Return the card, or a refusal if another organisation can read the channel now."""
        if await self._people.is_shared(origin.channel):
            return notes.render_refusal(policy.REFUSAL_TEXTS["shared"])
        return card

    async def _post_ticket(self, origin: Origin, incident: str, handoff: Handoff, facts: str) -> None:
        """Post the ticket of the incident once, and edit it later."""
        card = await self._render_ticket(origin, incident, handoff)
        digest = hashlib.sha256(json.dumps(card.blocks).encode()).hexdigest()
        is_posted = bool(await self._cards.get(incident, TICKET_CARD))
        ts = await self._once.post_once(
            origin, incident, TICKET_CARD, card, {"event_type": TICKET_EVENT_TYPE, "event_payload": {"incident": incident}}
        )
        if is_posted and digest != await self._cards.get(incident, "ticket_shown"):
            await self._pending_edits.edit_message(origin, incident, TICKET_CARD, ts, card)
        await self._cards.set(incident, "ticket_shown", digest)
        await self._upload_evidence(origin, incident, handoff, facts)

    async def _render_ticket(self, origin: Origin, incident: str, handoff: Handoff) -> Card:
        named_ticket = handoff.ticket.model_copy(
            update={
                "taken_by": await self._people.get_name(handoff.ticket.taken_by),
                "closed_by": await self._people.get_name(handoff.ticket.closed_by),
            }
        )
        buttons = ticket_form.render_open_buttons(incident, self._trackers)
        card = handoff_card.render_ticket(replace(handoff, ticket=named_ticket), self._titles, buttons)
        return await self._redact_for_channel(origin, card)

    async def _upload_evidence(self, origin: Origin, incident: str, handoff: Handoff, facts: str) -> None:
        """Upload the evidence once. A failure is logged, because the ticket is complete without the file."""
        name = f"{incident}-evidence.txt"
        before = await self._cards.claim(incident, "file")
        if before not in ("", POSTING) or await self._people.is_shared(origin.channel):
            return
        try:
            if before != POSTING or not await self._has_file(origin, name):
                text = format_evidence_file(handoff, await self._load_outputs(handoff, facts))
                await self._client.files_upload_v2(
                    channel=origin.channel,
                    thread_ts=origin.thread_ts,
                    content=text,
                    filename=name,
                    title=f"Evidence of incident {incident}",
                )
        except SLACK_ERRORS as error:
            log.warning("board.evidence_not_uploaded", incident=incident, error=str(error)[:200])
            return
        await self._cards.set(incident, "file", name)

    async def _has_file(self, origin: Origin, name: str) -> bool:
        return any(file.get("name") == name for message in await self._once.fetch_thread(origin) for file in message.get("files") or [])

    async def _load_outputs(self, handoff: Handoff, facts: str) -> dict[str, str]:
        try:
            stored_facts = await self._evidence.get_facts(facts)
        except KeyError:
            stored_facts = []
        digests = list_output_digests(handoff, stored_facts)[:MAX_OUTPUTS]
        outputs = {digest: await self._evidence.get_text(digest) for digest in digests}
        return {digest: text for digest, text in outputs.items() if text is not None}
