"""At a tenant's site: the provider message and its buttons.

The document is shown as a file in the thread before anyone can send it.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

import structlog

from bot.cards.buttons import ButtonClick, OldButton
from bot.incidents.context import HandlerContext
from bot.incidents.dispatch.inbox import Inbox
from bot.policy.channels import SlackPlace
from bot.provider import cards as provider_ticket
from bot.provider.cards import ProviderTicketView
from bot.provider.provider_updates import ProviderMessage, build_card_causes, parse_found_causes
from bot.provider.ticket_documents import BuiltTicket, IncidentNotFound
from bot.refusal import Refusal
from bot.slack.client import SLACK_ERRORS, SlackClient, post_message
from bot.slack.handlers import SlackHandlers, refuse_old_button
from bot.slack.payloads import Payload, get_thread_ts
from bot.slack.people import People
from bot.slack.posted_messages import EditableMessages, IdempotentPoster
from bot.store.external_outbox import ClickResult, Outbox, OutboxRow
from bot.store.unreachable import guard_store
from graph.incident_view import IncidentView
from graph.report import Report
from graph.state import IncidentState, Origin
from kb.taxonomy.taxonomy import Taxonomy

log = structlog.get_logger()
CARD_NAME = "provider"
ANNOUNCED_NAME = "provider_told"
PROVIDER_EVENT_TYPE = "rackmedic_provider"
MOVED_EVENT_TYPE = "rackmedic_provider_moved"
MESSAGE_EVENT_TYPE = "rackmedic_provider_said"
LOCK_WAIT = timedelta(seconds=12)
DRAFT_OUTDATED = "This is not what would be sent now. Press “Send to provider…” again to see it."
NOT_SHOWN = (
    "I could not show you what would leave, so nothing is sent: Slack did not take the file. `rackmedic ticket export` writes it to one."
)
TicketDocumentBuilder = Callable[[str], Awaitable[BuiltTicket]]


@dataclass(frozen=True, slots=True)
class ProviderCards:
    """Draws the provider message after turns and on each change."""

    client: SlackClient
    kept: EditableMessages
    inbox: Inbox
    people: People
    outbox: Outbox
    taxonomy: Taxonomy

    async def update_card(self, incident: str) -> None:
        """Redraw the message and announce a new state. A Slack failure is logged."""
        origin = await self.inbox.get_origin(incident)
        if origin is None or origin.kind != "slack" or not origin.thread_ts:
            return
        try:
            await self._put_card(origin, incident)
        except SLACK_ERRORS as error:
            log.warning("provider.not_painted", incident=incident, error=str(error)[:200])

    async def _put_card(self, origin: Origin, incident: str) -> None:
        async with self.kept.cards.hold_lock(incident, CARD_NAME, wait=LOCK_WAIT) as alone:
            if not alone:
                return
            row = await self.outbox.load_row(incident)
            view = await self.build_view(row)
            await self.kept.put_message(
                origin,
                incident,
                CARD_NAME,
                provider_ticket.render_provider_ticket(view),
                {"event_type": PROVIDER_EVENT_TYPE, "event_payload": {"incident": incident}},
            )
            stands = f"{row.ticket}/{'yours' if view.is_for_this_site else row.state}"
            if row.ticket and row.state and await self.kept.cards.get(incident, ANNOUNCED_NAME) != stands:
                mark = {"event_type": MOVED_EVENT_TYPE, "event_payload": {"stands": stands}}
                await post_message(self.client, origin.channel, origin.thread_ts, provider_ticket.render_update(view), mark)
                await self.kept.cards.set(incident, ANNOUNCED_NAME, stands)

    async def build_view(self, row: OutboxRow) -> ProviderTicketView:
        by = await self.people.get_name(row.by)
        found = build_card_causes(parse_found_causes(row.notes))
        return ProviderTicketView(row.incident, row.stage, row.draft, by, row.ticket, row.state, row.trouble, row.refused, row.tries, found)

    async def post_provider_message(self, incident: str, ticket: str, words: ProviderMessage) -> bool:
        """Post a provider message once; True if it is in the thread."""
        origin = await self.inbox.get_origin(incident)
        if origin is None or origin.kind != "slack" or not origin.thread_ts:
            return False
        about = f"{ticket}/{words.n}"
        marked = {"event_type": MESSAGE_EVENT_TYPE, "event_payload": {"about": about}}
        try:
            await IdempotentPoster(self.client, self.kept.cards).post_once(
                origin, incident, f"provider_said:{about}", provider_ticket.render_provider_message(ticket, words.text), marked
            )
        except SLACK_ERRORS as error:
            log.warning("provider.not_said", incident=incident, error=str(error)[:200])
            return False
        return True

    async def update_after_turn(self, incident: str, state: IncidentState, report: Report) -> None:
        """Offer a ticket once the provider is needed; then keep it up to date."""
        row = await self.outbox.load_row(incident)
        if row.stage != "offered" or _needs_provider(IncidentView(state), self.taxonomy):
            await self.update_card(incident)


def _needs_provider(incident_view: IncidentView, taxonomy: Taxonomy) -> bool:
    """Return True if handed off, or if a cause is not the tenant's to fix."""
    if incident_view.ticket is not None and incident_view.ticket.handed:
        return True
    report = incident_view.report
    found = [taxonomy.leaves[row.label] for row in (report.root_causes if report else ()) if row.label in taxonomy.leaves]
    return any(leaf.owner != "customer" for leaf in found)


@dataclass(frozen=True, slots=True)
class ProviderHandlers:
    """Handles buttons: only for this workspace's members, in the incident's own thread."""

    context: HandlerContext
    cards: ProviderCards
    document_of: TicketDocumentBuilder

    async def handle_click(self, payload: Payload) -> None:
        """Show, send or drop the draft. Raises Refusal."""
        pressed = provider_ticket.parse_provider_click(payload)
        user = str(payload["user"]["id"])
        origin = await self._authorize_click(payload, pressed)
        await self.context.require_permission(f"button.{payload['actions'][0]['action_id']}", user, origin.channel, origin)
        match pressed.does:
            case "show":
                self.context.tasks.spawn_task("provider_shows", self._show_document(origin, pressed.incident))
            case "send":
                await self._queue_sending(pressed, user)
            case _:
                async with guard_store():
                    await self.cards.outbox.drop_draft(pressed.incident)
                self._spawn_update(pressed.incident)

    async def _authorize_click(self, payload: Payload, click: ButtonClick) -> Origin:
        team, channel, user = str(payload["team"]["id"]), str(payload["channel"]["id"]), str(payload["user"]["id"])
        await self.context.admit_user(SlackPlace(team, channel), user, fresh=True)
        async with guard_store():
            origin = await self.context.inbox.get_origin(click.incident)
            known = await self.context.inbox.find_incident(team, channel, get_thread_ts(payload))
        if origin is None or known != click.incident or origin.channel != channel:
            raise OldButton
        return origin

    async def _show_document(self, origin: Origin, incident: str) -> None:
        """Upload the file first: no send button without readable content."""
        try:
            made = await self.document_of(incident)
            raw = made.document.to_canonical_bytes()
            whole = json.dumps(json.loads(raw), indent=1, ensure_ascii=False)
            await self.context.client.files_upload_v2(
                channel=origin.channel,
                thread_ts=origin.thread_ts,
                content=whole,
                filename=f"ticket-{incident}.json",
                title="What would leave for your provider",
                initial_comment=provider_ticket.format_attachment_note(facts_kept=made.facts_kept),
            )
        except (IncidentNotFound, *SLACK_ERRORS) as error:
            log.warning("provider.not_shown", incident=incident, error=str(error)[:200])
            words = str(error) if isinstance(error, IncidentNotFound) else NOT_SHOWN
            await post_message(self.context.client, origin.channel, origin.thread_ts, provider_ticket.render_refusal(words))
            return
        await self.cards.outbox.save_draft(incident, made.document.to_canonical_bytes())
        await self.cards.update_card(incident)

    async def _queue_sending(self, click: ButtonClick, user: str) -> None:
        """Queue before the click is acknowledged; `TicketSender` sends."""
        async with guard_store():
            came = await self.cards.outbox.queue_draft(click.incident, click.item, user)
        if came is ClickResult.OLD:
            raise Refusal(DRAFT_OUTDATED)
        self._spawn_update(click.incident)

    def _spawn_update(self, incident: str) -> None:
        self.context.tasks.spawn_task("provider_card", self.cards.update_card(incident))


def build_provider_handlers(handlers: ProviderHandlers | None) -> SlackHandlers:
    """Return the table of the buttons; without a provider each is refused."""
    return SlackHandlers(clicks=dict.fromkeys(provider_ticket.BUTTONS, handlers.handle_click if handlers else refuse_old_button))
