"""The customer's side of an incident in Slack: their one message, and the thread of ours in which it is worked on.

The internal thread is begun, and what the customer wrote quoted into it, as part of the turn that reads it, so that neither is lost nor twice.
Trouble on the customer's side never stops our own: their message is painted again with the next news.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import structlog

from bot.cards.blocks import Card
from bot.cards.customers import answers, inside, living
from bot.cards.customers.drivers import with_drivers
from bot.cards.customers.view import CustomerReader, CustomerView, Known, customer_view, nothing_known
from bot.cards.incidents import notes
from bot.desk.desk import Board
from bot.desk.inbox import Inbox
from bot.policy import channels as policy
from bot.slack.client import SLACK_TROUBLE, SlackClient, post
from bot.slack.outgoing.living import BeingPainted, no_records, no_state
from bot.slack.outgoing.posts import POSTING, KeptMessages, Once
from bot.slack.people import People
from graph.conversation.said import Said
from graph.incident.visible import visible_hosts
from graph.ports import Progress
from graph.report import Report
from graph.rows import IncidentRows
from graph.state import CUSTOMER, SIDE, CustomerThread, Incident, Item, Origin
from kb.customers.words import CustomerWords
from tools.fact import Fact
from tools.inventory.hosts import ChannelRow, Inventory
from tools.ledger.record import Record, Refused
from tools.ledger.states import State

log = structlog.get_logger()
ROOT, QUOTE, LIVING, MOVED = "rackmedic_customer_root", "rackmedic_customer_said", "rackmedic_customer", "rackmedic_customer_moved"
PATIENCE = timedelta(seconds=12)
QUIET = "received/"
"""What is shown on the message and told by no other."""
HISTORY = 200
"""Messages of the internal channel among which a thread is looked for that was begun before a crash."""
APPROVED = frozenset({State.APPROVED, State.EXECUTING, State.DONE})


async def no_facts(incident: str) -> Sequence[Fact]:
    """Nothing was seen."""
    return ()


def place_of(thread: CustomerThread) -> Origin:
    """The customer's thread as a place to post to."""
    return Origin(kind="slack", team=thread.team, channel=thread.channel, thread_ts=thread.thread_ts, user=thread.user)


@dataclass
class CustomerCards:
    """`home` before a turn, `paint` after it and whenever an action moved. Incidents that no customer reported are passed over."""

    client: SlackClient
    kept: KeptMessages
    inbox: Inbox
    inventory: Inventory
    words: CustomerWords
    bound: Mapping[str, ChannelRow]
    people: People
    known: Known = nothing_known
    _state_of: Callable[[str], Awaitable[Incident]] = field(default=no_state)
    _records_of: Callable[[str], Awaitable[Sequence[Record]]] = field(default=no_records)
    _facts_of: Callable[[str], Awaitable[Sequence[Fact]]] = field(default=no_facts)

    def reads(
        self,
        *,
        state_of: Callable[[str], Awaitable[Incident]] | None = None,
        records_of: Callable[[str], Awaitable[Sequence[Record]]] | None = None,
        facts_of: Callable[[str], Awaitable[Sequence[Fact]]] | None = None,
    ) -> None:
        """From where stored incidents, the ledger's records and what was seen last come."""
        self._state_of, self._records_of = state_of or self._state_of, records_of or self._records_of
        self._facts_of = facts_of or self._facts_of

    # -- the internal thread ------------------------------------------------------------------------------------------

    async def home(self, item: Item) -> Origin | None:
        """Where the incident lives, its thread begun; what a customer said in this item stands in it."""
        origin = await self.inbox.origin(item.incident)
        if origin is None or origin.customer is None:
            return origin
        if not origin.thread_ts:
            return await self._begin(item, origin, origin.customer)
        if item.data.get(SIDE) == CUSTOMER and (item.text or _files(item)):
            await self.quote(origin, item.incident, item.id, item.text, _files(item))
        return origin

    async def quote(self, origin: Origin, incident: str, key: str, words: str, files: Sequence[str]) -> None:
        """What a customer wrote, in the internal thread, once; nothing where others can read that by now."""
        if await self.people.shared(origin.channel):
            return
        marked = {"event_type": QUOTE, "event_payload": {"item": key}}
        await Once(self.client, self.kept.cards).post(origin, incident, f"said:{key}", inside.quoted(origin.tenant, words, files), marked)

    async def note(self, origin: Origin, card: Card) -> None:
        """A message in the internal thread, which is there by the first turn."""
        if origin.thread_ts and not await self.people.shared(origin.channel):
            await post(self.client, origin.channel, origin.thread_ts, card)

    async def _begin(self, item: Item, origin: Origin, came: CustomerThread) -> Origin:
        marked = {"event_type": ROOT, "event_payload": {"incident": item.incident}}
        cards = self.kept.cards
        ts = await cards.claim(item.incident, "root")
        if ts == POSTING:
            ts = await self._found(origin.channel, marked)
        if not ts:
            shared = await self.people.shared(origin.channel)
            ours = inside.root(item.incident, origin.tenant, came.channel, item.text, _files(item))
            first = notes.refused(policy.WHY_NOT["shared"]) if shared else ours
            ts = await post(self.client, origin.channel, "", first, marked)
        await cards.set(item.incident, "root", ts)
        await cards.set(item.incident, f"said:{item.id}", ts)  # it quotes the item that it was begun for
        settled = origin.model_copy(update={"thread_ts": ts})
        await self.inbox.settle(item.incident, settled)
        return settled

    async def _found(self, channel: str, marked: Mapping[str, Any]) -> str:
        answer = await self.client.conversations_history(channel=channel, limit=HISTORY, include_all_metadata=True)
        return next((str(row["ts"]) for row in answer["messages"] if row.get("metadata") == marked), "")

    # -- the customer's message ---------------------------------------------------------------------------------------

    async def paint(self, incident: str, state: Incident | None = None) -> None:
        """Show where it stands; say it as well where that is news. Raises what Slack raises."""
        origin = await self.inbox.origin(incident)
        if origin is None or origin.customer is None:
            return
        where = place_of(origin.customer)
        async with self.kept.cards.alone(incident, "customer", wait=PATIENCE) as alone:
            if not alone:
                raise BeingPainted(BeingPainted.__doc__)
            view = await self._view(incident, origin, state or await self._state_of(incident))
            marked = {"event_type": LIVING, "event_payload": {"incident": incident}}
            await self.kept.put(where, incident, "customer", living.render(view), marked)
            await self._tell(where, view)

    async def paint_quietly(self, incident: str) -> None:
        """The same between turns, where Slack's trouble is written down and no more."""
        try:
            await self.paint(incident)
        except (*SLACK_TROUBLE, BeingPainted) as trouble:
            log.warning("customers.not_painted", incident=incident, error=str(trouble)[:200])

    async def again(self, incident: str) -> None:
        """Where are we? Brought up to date, and its line said once more."""
        await self.kept.cards.drop(incident, "customer_told")
        await self.paint_quietly(incident)

    async def answer(self, incident: str, said: Said) -> None:
        """What they asked, from what they may know already."""
        origin = await self.inbox.origin(incident)
        if origin is None or origin.customer is None:
            return
        where, view = place_of(origin.customer), await self._view(incident, origin, await self._state_of(incident))
        own = visible_hosts(self.inventory, origin)
        named = tuple(self.inventory.hosts[host].called for host in said.hosts if host in own)
        unknown = (*said.unknown_hosts, *(host for host in said.hosts if host not in own))
        await post(self.client, where.channel, where.thread_ts, answers.answer(said.intent, view, named, unknown))

    async def withdraw(self, incident: str) -> None:
        """The customer needs it no more; our side decides what that means."""
        await self.kept.cards.set(incident, "customer_withdrawn", "yes")
        await self.paint_quietly(incident)

    def language(self, origin: Origin) -> str:
        """In which the customer of an incident is answered."""
        row = self.bound.get(origin.customer.channel) if origin.customer else None
        return row.language if row else "en"

    async def _tell(self, where: Origin, view: CustomerView) -> None:
        """A message of its own for what is news; each once."""
        stands = f"{view.stage}/{view.state}"
        before = await self.kept.cards.get(view.incident, "customer_told")
        if stands == before or (stands == QUIET and not before):
            return
        if stands != QUIET:
            await post(
                self.client, where.channel, where.thread_ts, living.moved(view), {"event_type": MOVED, "event_payload": {"stands": stands}}
            )
        await self.kept.cards.set(view.incident, "customer_told", stands)

    async def _view(self, incident: str, origin: Origin, state: Incident) -> CustomerView:
        own = frozenset(visible_hosts(self.inventory, origin))
        others = frozenset(self.inventory.workers) - own
        names = {host: self.inventory.hosts[host].called for host in own}
        known = with_drivers(self.known, await self._facts_of(incident), own)
        reader = CustomerReader(own, self.words, self.language(origin), known, others, names)
        withdrawn = bool(await self.kept.cards.get(incident, "customer_withdrawn"))
        return customer_view(IncidentRows({**state, "id": incident}), reader, begun=await self._begun(incident), withdrawn=withdrawn)

    async def _begun(self, incident: str) -> frozenset[str]:
        try:
            return frozenset(row.approval for row in await self._records_of(incident) if row.state in APPROVED)
        except Refused as why:
            log.warning("customers.records_unreadable", incident=incident, why=str(why)[:200])
            return frozenset()


class BoardWithCustomers:
    """A board whose reports customers see too, in their words and their thread."""

    def __init__(self, board: Board, customers: CustomerCards) -> None:
        self._board, self._customers = board, customers

    async def progress(self, p: Progress) -> None:
        """News of a look are the operators'."""
        await self._board.progress(p)

    async def report(self, incident: str, state: Incident, report: Report) -> None:
        """Ours first: whatever happens on the customer's side, on-call has it."""
        await self._board.report(incident, state, report)
        await self._customers.paint(incident, state)


def _files(item: Item) -> tuple[str, ...]:
    return tuple(str(row.get("name") or "file") for row in item.data.get("files", []))
