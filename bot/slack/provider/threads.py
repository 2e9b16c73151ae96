"""At the provider: the thread of a ticket that a customer's own RackMedic sent, begun as part of the first turn, so that it is neither lost nor
twice."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bot.cards.blocks import Card
from bot.cards.provider import arrived
from bot.desk.inbox import Inbox
from bot.provider.kept import TicketBook
from bot.slack.client import SlackClient
from bot.slack.outgoing.posts import Once, PostedCards
from bot.slack.outgoing.roots import ThreadRoots
from bot.slack.people import People
from graph.state import Item, Origin

ROOT, NEWS = "rackmedic_ticket_root", "rackmedic_ticket_news"
HomeOf = Callable[[Item], Awaitable[Origin | None]]


@dataclass(frozen=True, slots=True)
class TicketThreads:
    """`home` before a turn. `otherwise`: where the incidents live that no ticket opened."""

    client: SlackClient
    cards: PostedCards
    inbox: Inbox
    people: People
    book: TicketBook
    otherwise: HomeOf

    async def home(self, item: Item) -> Origin | None:
        """Where the incident lives, its thread begun; what a newer document said stands in it."""
        origin = await self.inbox.origin(item.incident)
        if origin is None or not origin.ticket:
            return await self.otherwise(item)
        if not origin.thread_ts:
            return await self._begin(item, origin)
        if "told" in item.data:
            await self._news(item, origin)
        return origin

    async def _begin(self, item: Item, origin: Origin) -> Origin:
        """It shows the item that it is begun for."""
        roots = ThreadRoots(self.client, self.cards, self.inbox, self.people)
        return await roots.begin(item.incident, origin, ROOT, lambda: self._first(item.incident, origin), stands_for=f"told:{item.id}")

    async def _first(self, incident: str, origin: Origin) -> Card:
        document = await self.book.document(origin.ticket)
        return arrived.render(incident, origin.tenant, document) if document else arrived.lost(origin.tenant)

    async def _news(self, item: Item, origin: Origin) -> None:
        document = await self.book.document(origin.ticket)
        if document is None or await self.people.shared(origin.channel):
            return
        marked = {"event_type": NEWS, "event_payload": {"item": item.id}}
        await Once(self.client, self.cards).post(origin, item.incident, f"told:{item.id}", arrived.news(origin.tenant, document), marked)
