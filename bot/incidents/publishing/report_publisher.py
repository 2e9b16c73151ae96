"""Publish reports, end cards and tickets to Slack, each once."""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import structlog
from slack_sdk.web.async_client import AsyncWebClient

from bot.cards.blocks import Card
from bot.incidents.cards import diagnosis, handoff_card, incident_card, notes
from bot.incidents.cards.handoff_content import Handoff, build_handoff, format_evidence_file, list_output_digests
from bot.incidents.cards.incident_status import get_incident_status
from bot.incidents.cards.report_rows import NO_CAUSE_TITLES, CauseTitles
from bot.incidents.publishing.incident_reports import IncidentReportWriter
from bot.incidents.publishing.pending_edits import PendingEdits
from bot.incidents.publishing.progress_updates import ProgressUpdates
from bot.incidents.publishing.report_attachments import ReportAttachments, has_attachments
from bot.incidents.publishing.status_messages import REPORT_EVENT_TYPE, get_no_state
from bot.incidents.publishing.thread_roots import NO_CHANNELS, build_thread_links
from bot.policy import channels as policy
from bot.reports.drawing_source import DrawingSource
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
    """Ignores incidents that do not live in Slack."""

    def __init__(
        self,
        client: AsyncWebClient,
        cards: PostedCards,
        living: ProgressUpdates,
        people: People,
        origin_of: OriginLookup,
        evidence: EvidenceStore,
        bound: Mapping[str, ChannelRow] = NO_CHANNELS,
        titles: CauseTitles = NO_CAUSE_TITLES,
        trackers: TrackerChoices = (),
    ) -> None:
        self._client = client
        self._cards = cards
        self._once = IdempotentPoster(client, cards)
        self._living = living
        self._people = people
        self._origin_of = origin_of
        self._evidence = evidence
        self._outputs_of = ReportAttachments(client, cards, evidence, DrawingSource(evidence, people.get_name))
        self._bound = bound
        self._titles = titles
        self._trackers = trackers
        self._owed = PendingEdits(client, cards, living.unsettled, (END_CARD, TICKET_CARD))
        self._state_of: Callable[[str], Awaitable[IncidentState]] = get_no_state

    def set_state_source(self, state_of: Callable[[str], Awaitable[IncidentState]]) -> None:
        self._state_of = state_of

    def set_chart_source(self, drawn_from: DrawingSource) -> None:
        """Without it, charts use only data stored with the incident."""
        self._outputs_of.drawn_from = drawn_from

    def set_report_writer(self, pages: IncidentReportWriter) -> None:
        self._outputs_of.pages = pages

    async def publish_progress(self, progress: Progress) -> None:
        self._living.queue_update(progress)

    async def publish_report(self, incident: str, state: IncidentState, report: Report) -> None:
        """Publish report, end card, attachments and ticket."""
        origin = await self._get_origin(incident, state)
        if origin is None or origin.kind != "slack":
            return
        here = await self._living.finish_turn(incident, state, report)
        if not here and (made := await self._render_report(incident, state, report, origin)) is not None:
            card = await self._redact_for_channel(origin, made)
            await self._once.post_once(
                origin, incident, f"report:{report.item}", card, {"event_type": REPORT_EVENT_TYPE, "event_payload": {"item": report.item}}
            )
        if here and self._needs_notice(state, report):
            card = await self._redact_for_channel(origin, incident_card.render_look_finished(report))
            await self._once.post_once(
                origin, incident, f"over:{report.item}", card, {"event_type": NOTICE_EVENT_TYPE, "event_payload": {"item": report.item}}
            )
        await self._post_end_card(origin, incident, state, report)
        if has_attachments(report, state) and not await self._people.is_shared(origin.channel):
            await self._outputs_of.upload_report_files(origin, incident, report, state)
            await self._outputs_of.post_closing_timeline(origin, incident, state)
        if await self._is_handed_off(incident, state):
            await self._post_ticket(origin, incident, build_handoff(state), str(state.get("facts", "")))
        await self._cards.set_retention(incident, closed=state.get("lifecycle") == "closed")
        await self._owed.note_pending(incident)

    async def retry_pending_edits(self, incident: str) -> None:
        origin = await self._origin_of(incident)
        if origin is None or origin.kind != "slack":
            return

        async def drawn(name: str) -> Card:
            state = await self._state_of(incident)
            return (
                await self._render_end_card(origin, state)
                if name == END_CARD
                else await self._render_ticket(origin, incident, build_handoff(state))
            )

        await self._owed.retry_pending(origin, incident, drawn)

    def _needs_notice(self, state: IncidentState, report: Report) -> bool:
        """Return whether a long look would end with an edit only, which notifies no reader."""
        rows = IncidentView(state)
        return not report.actions and not report.reply and rows.ticket is None and rows.stats.makespan_seconds >= NOTICE_AFTER_SECONDS

    async def _is_handed_off(self, incident: str, state: IncidentState) -> bool:
        """Closing alone also creates a ticket, to record the cause."""
        held = IncidentView(state).ticket
        return held is not None and ((held.handed and held.state != "resolved") or bool(await self._cards.get(incident, TICKET_CARD)))

    async def _render_report(self, incident: str, state: IncidentState, report: Report, origin: Origin) -> Card | None:
        """Return None without news. A timer may repeat open questions."""
        item: Mapping[str, Any] = state.get("item") or {}
        if item.get("kind") == "ask" and not report.reply:
            return None
        if item.get("kind") == "action_result" and (not report.reply or (item.get("data") or {}).get("event") not in ANNOUNCED_EVENTS):
            return None
        if item.get("kind") == "timer" and not report.reply and not IncidentView(state).is_timer_recheck:
            asks = (item.get("data") or {}).get("why") == REMINDER_DUE and report.questions
            return diagnosis.render_question_card(report.questions) if asks else None
        rows = IncidentView(state)
        held = rows.ticket or HandoffTicket()
        told = (item.get("data") or {}).get("said") or {}
        word = rows.correction or HumanCorrection()
        users = (item.get("user"), told.get("person"), rows.owner, word.by, held.taken_by, held.closed_by)
        people = {str(user) for user in users if user}
        named, others = await self._replace_user_ids(report, people), await build_thread_links(report, origin, self._origin_of, self._bound)
        return diagnosis.render_diagnosis(incident, named, rows.stats if state.get("stats") else None, others, self._titles)

    async def _post_end_card(self, origin: Origin, incident: str, state: IncidentState, report: Report) -> None:
        """Post once that all remediations hold, and edit it. If one stops holding, the next card is new."""
        rows, known = IncidentView(state), await self._cards.get(incident, END_CARD)
        holds = rows.lifecycle in ("watching", "closed") and any(row.proven for row in rows.remediations)
        moved = report.reply and (state.get("item") or {}).get("kind") == "action_result"
        if not (moved and (holds or known)) and not (known and rows.lifecycle == "closed"):
            return
        card = await self._render_end_card(origin, state)
        ts = await self._once.post_once(
            origin, incident, END_CARD, card, {"event_type": END_EVENT_TYPE, "event_payload": {"item": report.item}}
        )
        if known:
            await self._owed.edit_message(origin, incident, END_CARD, ts, card)
        if not holds:
            await self._cards.drop(incident, END_CARD)

    async def _render_end_card(self, origin: Origin, state: IncidentState) -> Card:
        rows = IncidentView(state)
        return await self._redact_for_channel(
            origin, incident_card.render_cured_message(get_incident_status(rows), rows.report.headline if rows.report else "")
        )

    async def _replace_user_ids(self, report: Report, people: set[str]) -> Report:
        """Replace user ids by names, which are no mentions."""
        reply = report.reply
        for user in people:
            if user in reply:
                reply = reply.replace(user, await self._people.get_name(user))
        return report.model_copy(update={"reply": reply})

    async def _get_origin(self, incident: str, state: IncidentState) -> Origin | None:
        return IncidentView(state).origin or await self._origin_of(incident)

    async def _redact_for_channel(self, origin: Origin, card: Card) -> Card:
        """Return a refusal where others can read the channel now."""
        shared = await self._people.is_shared(origin.channel)
        return notes.render_refusal(policy.REFUSAL_TEXTS["shared"]) if shared else card

    async def _post_ticket(self, origin: Origin, incident: str, handoff: Handoff, facts: str) -> None:
        """Post one ticket per incident and edit it."""
        card = await self._render_ticket(origin, incident, handoff)
        shown = hashlib.sha256(json.dumps(card.blocks).encode()).hexdigest()
        known = await self._cards.get(incident, TICKET_CARD)
        ts = await self._once.post_once(
            origin, incident, TICKET_CARD, card, {"event_type": TICKET_EVENT_TYPE, "event_payload": {"incident": incident}}
        )
        if known and shown != await self._cards.get(incident, "ticket_shown"):
            await self._owed.edit_message(origin, incident, TICKET_CARD, ts, card)
        await self._cards.set(incident, "ticket_shown", shown)
        await self._upload_evidence(origin, incident, handoff, facts)

    async def _render_ticket(self, origin: Origin, incident: str, handoff: Handoff) -> Card:
        named = handoff.ticket.model_copy(
            update={
                "taken_by": await self._people.get_name(handoff.ticket.taken_by),
                "closed_by": await self._people.get_name(handoff.ticket.closed_by),
            }
        )
        return await self._redact_for_channel(
            origin,
            handoff_card.render_ticket(
                replace(handoff, ticket=named), self._titles, ticket_form.render_open_buttons(incident, self._trackers)
            ),
        )

    async def _upload_evidence(self, origin: Origin, incident: str, handoff: Handoff, facts: str) -> None:
        """Best effort: the ticket is complete without the file."""
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
            known = await self._evidence.get_facts(facts)
        except KeyError:
            known = []
        outputs = {sha: await self._evidence.get_text(sha) for sha in list_output_digests(handoff, known)[:MAX_OUTPUTS]}
        return {sha: text for sha, text in outputs.items() if text is not None}
