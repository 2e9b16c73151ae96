"""At the provider: a ticket's thread, created within the first turn, so that it is neither lost nor doubled."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bot.cards.blocks import Card
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.publishing.thread_roots import ThreadRoots
from bot.provider import cards as received_ticket
from bot.provider.ticket_documents import TicketStore
from bot.slack.client import SlackClient
from bot.slack.people import People
from bot.slack.posted_messages import IdempotentPoster, PostedCards
from graph.state import InboxItem, Origin

ROOT_EVENT_TYPE = "rackmedic_ticket_root"
NEWS_EVENT_TYPE = "rackmedic_ticket_news"
OriginResolver = Callable[[InboxItem], Awaitable[Origin | None]]


@dataclass(frozen=True, slots=True)
class TicketThreads:
    """`otherwise` resolves incidents without ticket."""

    client: SlackClient
    cards: PostedCards
    inbox: Inbox
    people: People
    book: TicketStore
    otherwise: OriginResolver

    async def resolve_thread(self, item: InboxItem) -> Origin | None:
        """Return the thread, creating it or posting a newer document."""
        origin = await self.inbox.get_origin(item.incident)
        if origin is None or not origin.ticket:
            return await self.otherwise(item)
        if not origin.thread_ts:
            return await self._begin_thread(item, origin)
        if "told" in item.data:
            await self._post_news(item, origin)
        return origin

    async def _begin_thread(self, item: InboxItem, origin: Origin) -> Origin:
        roots = ThreadRoots(self.client, self.cards, self.inbox, self.people)
        return await roots.begin_thread(
            item.incident, origin, ROOT_EVENT_TYPE, lambda: self._render_root(item.incident, origin), stands_for=f"told:{item.id}"
        )

    async def _render_root(self, incident: str, origin: Origin) -> Card:
        document = await self.book.load_document(origin.ticket)
        return (
            received_ticket.render_received_ticket(incident, origin.tenant, document)
            if document
            else received_ticket.render_ticket_lost(origin.tenant)
        )

    async def _post_news(self, item: InboxItem, origin: Origin) -> None:
        document = await self.book.load_document(origin.ticket)
        if document is None or await self.people.is_shared(origin.channel):
            return
        marked = {"event_type": NEWS_EVENT_TYPE, "event_payload": {"item": item.id}}
        await IdempotentPoster(self.client, self.cards).post_once(
            origin, item.incident, f"told:{item.id}", received_ticket.render_ticket_update(origin.tenant, document), marked
        )
