"""The line between a customer's own RackMedic and their provider's put together, each end where its settings switch it on."""

from bot.desk.inbox import Inbox
from bot.provider.kept import TicketBook
from bot.slack.client import SlackClient
from bot.slack.outgoing.customers import CustomerCards
from bot.slack.outgoing.posts import PostedCards
from bot.slack.people import People
from bot.slack.provider.threads import TicketThreads
from bot.store.store import Store
from graph.state import Item, Origin


def ticket_threads(
    store: Store, client: SlackClient, cards: PostedCards, inbox: Inbox, people: People, customers: CustomerCards | None
) -> TicketThreads:
    """Where incidents live: those of tickets in threads of their own, all others as ever. A ticket may be imported without any link."""

    async def as_stored(item: Item) -> Origin | None:
        return await inbox.origin(item.incident)

    return TicketThreads(client, cards, inbox, people, TicketBook(store.redis), customers.home if customers else as_stored)
