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
    editable_messages: EditableMessages
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
        async with self.editable_messages.cards.hold_lock(incident, CARD_NAME, wait=LOCK_WAIT) as alone:
            if not alone:
                return
            row = await self.outbox.load_row(incident)
            view = await self.build_view(row)
            await self.editable_messages.put_message(
                origin,
                incident,
                CARD_NAME,
                provider_ticket.render_provider_ticket(view),
                {"event_type": PROVIDER_EVENT_TYPE, "event_payload": {"incident": incident}},
            )
            if row.ticket and row.state:
                await self._announce_state(origin, incident, view)

    async def _announce_state(self, origin: Origin, incident: str, view: ProviderTicketView) -> None:
        """Post the ticket's state in the thread if it differs from the one posted last."""
        state = f"{view.ticket}/{'yours' if view.is_for_this_site else view.state}"
        cards = self.editable_messages.cards
        if await cards.get(incident, ANNOUNCED_NAME) != state:
            poster = IdempotentPoster(self.client, cards)
            await poster.post_change(origin, incident, provider_ticket.render_update(view), MOVED_EVENT_TYPE, ANNOUNCED_NAME, state)

    async def build_view(self, outbox_row: OutboxRow) -> ProviderTicketView:
        sender_name = await self.people.get_name(outbox_row.by)
        causes = build_card_causes(parse_found_causes(outbox_row.notes))
        return ProviderTicketView(
            outbox_row.incident,
            outbox_row.stage,
            outbox_row.draft,
            sender_name,
            outbox_row.ticket,
            outbox_row.state,
            outbox_row.trouble,
            outbox_row.refused,
            outbox_row.tries,
            causes,
        )

    async def post_provider_message(self, incident: str, ticket: str, message: ProviderMessage) -> bool:
        """Post a provider's message once. Return whether it is in the thread now."""
        origin = await self.inbox.get_origin(incident)
        if origin is None or origin.kind != "slack" or not origin.thread_ts:
            return False
        message_id = f"{ticket}/{message.n}"
        metadata = {"event_type": MESSAGE_EVENT_TYPE, "event_payload": {"about": message_id}}
        card = provider_ticket.render_provider_message(ticket, message.text)
        try:
            await IdempotentPoster(self.client, self.editable_messages.cards).post_once(
                origin, incident, f"provider_said:{message_id}", card, metadata
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
    """Return whether the incident was handed off, or has a cause that the tenant cannot fix."""
    if incident_view.ticket is not None and incident_view.ticket.handed:
        return True
    root_causes = incident_view.report.root_causes if incident_view.report else ()
    leaves = [taxonomy.leaves[cause.label] for cause in root_causes if cause.label in taxonomy.leaves]
    return any(leaf.owner != "customer" for leaf in leaves)


@dataclass(frozen=True, slots=True)
class ProviderHandlers:
    """Handles the buttons of the provider message. Only this workspace's members may press them, in the incident's thread."""

    context: HandlerContext
    cards: ProviderCards
    document_of: TicketDocumentBuilder

    async def handle_click(self, payload: Payload) -> None:
        """Show, send or drop the draft. Raises Refusal if the user may not, or if the draft is outdated."""
        click = provider_ticket.parse_provider_click(payload)
        user = str(payload["user"]["id"])
        origin = await self._authorize_click(payload, click)
        await self.context.require_permission(f"button.{payload['actions'][0]['action_id']}", user, origin.channel, origin)
        match click.does:
            case "show":
                self.context.tasks.spawn_task("provider_shows", self._show_document(origin, click.incident))
            case "send":
                await self._queue_sending(click, user)
            case _:
                async with guard_store():
                    await self.cards.outbox.drop_draft(click.incident)
                self._spawn_update(click.incident)

    async def _authorize_click(self, payload: Payload, click: ButtonClick) -> Origin:
        team, channel, user = str(payload["team"]["id"]), str(payload["channel"]["id"]), str(payload["user"]["id"])
        await self.context.admit_user(SlackPlace(team, channel), user, fresh=True)
        async with guard_store():
            origin = await self.context.inbox.get_origin(click.incident)
            thread_incident = await self.context.inbox.find_incident(team, channel, get_thread_ts(payload))
        if origin is None or thread_incident != click.incident or origin.channel != channel:
            raise OldButton
        return origin

    async def _show_document(self, origin: Origin, incident: str) -> None:
        """Upload the document, then show the send button: people must be able to read what they send."""
        try:
            built = await self.document_of(incident)
            canonical = built.document.to_canonical_bytes()
            readable = json.dumps(json.loads(canonical), indent=1, ensure_ascii=False)
            await self.context.client.files_upload_v2(
                channel=origin.channel,
                thread_ts=origin.thread_ts,
                content=readable,
                filename=f"ticket-{incident}.json",
                title="What would leave for your provider",
                initial_comment=provider_ticket.format_attachment_note(facts_kept=built.facts_kept),
            )
        except (IncidentNotFound, *SLACK_ERRORS) as error:
            log.warning("provider.not_shown", incident=incident, error=str(error)[:200])
            reason = str(error) if isinstance(error, IncidentNotFound) else NOT_SHOWN
            await post_message(self.context.client, origin.channel, origin.thread_ts, provider_ticket.render_refusal(reason))
            return
        await self.cards.outbox.save_draft(incident, canonical)
        await self.cards.update_card(incident)

    async def _queue_sending(self, click: ButtonClick, user: str) -> None:
        """Queue the draft before the click is acknowledged. `TicketSender` sends it."""
        async with guard_store():
            result = await self.cards.outbox.queue_draft(click.incident, click.item, user)
        if result is ClickResult.OLD:
            raise Refusal(DRAFT_OUTDATED)
        self._spawn_update(click.incident)

    def _spawn_update(self, incident: str) -> None:
        self.context.tasks.spawn_task("provider_card", self.cards.update_card(incident))
