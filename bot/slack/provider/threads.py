"""At the provider: the thread of a ticket that a customer's own RackMedic sent, begun as part of the first turn, so that it is neither lost nor
twice."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bot.cards.blocks import Card
from bot.cards.incidents import notes
from bot.cards.provider import arrived
from bot.desk.inbox import Inbox
from bot.policy import channels as policy
from bot.provider.kept import TicketBook
from bot.slack.client import SlackClient, post
from bot.slack.outgoing.posts import POSTING, Once, PostedCards
from bot.slack.people import People
from graph.state import Item, Origin

ROOT, NEWS = "rackmedic_ticket_root", "rackmedic_ticket_news"
HISTORY = 200
"""Messages of the channel among which a thread is looked for that was begun before a crash."""
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
        marked = {"event_type": ROOT, "event_payload": {"incident": item.incident}}
        ts = await self.cards.claim(item.incident, "root")
        if ts == POSTING:
            ts = await self._found(origin.channel, marked)
        if not ts:
            ts = await post(self.client, origin.channel, "", await self._first(origin), marked)
        await self.cards.set(item.incident, "root", ts)
        await self.cards.set(item.incident, f"told:{item.id}", ts)  # it shows the item that it was begun for
        team = str((await self.client.auth_test())["team_id"])
        settled = origin.model_copy(update={"team": team, "thread_ts": ts})
        await self.inbox.settle(item.incident, settled)
        return settled

    async def _first(self, origin: Origin) -> Card:
        """Nothing of a customer is written where others can read the operators' channel by now."""
        if await self.people.shared(origin.channel):
            return notes.refused(policy.WHY_NOT["shared"])
        document = await self.book.document(origin.ticket)
        return arrived.render(origin.tenant, document) if document else arrived.lost(origin.tenant)

    async def _news(self, item: Item, origin: Origin) -> None:
        document = await self.book.document(origin.ticket)
        if document is None or await self.people.shared(origin.channel):
            return
        marked = {"event_type": NEWS, "event_payload": {"item": item.id}}
        await Once(self.client, self.cards).post(origin, item.incident, f"told:{item.id}", arrived.news(origin.tenant, document), marked)

    async def _found(self, channel: str, marked: Mapping[str, Any]) -> str:
        answer = await self.client.conversations_history(channel=channel, limit=HISTORY, include_all_metadata=True)
        return next((str(row["ts"]) for row in answer["messages"] if row.get("metadata") == marked), "")
