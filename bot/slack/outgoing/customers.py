"""The customer's side of an incident in Slack: their one message, and the thread of ours in which it is worked on.

The internal thread is begun, and what the customer wrote quoted into it, as part of the turn that reads it, so that neither is lost nor twice.
Trouble on the customer's side never stops our own: their message is painted again with the next news.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from bot.cards.blocks import Card
from bot.cards.customers import answers, before, inside, living
from bot.cards.customers.phrases import phrase
from bot.cards.customers.reader import reader_of
from bot.cards.customers.view import CustomerView, Known, customer_view, nothing_known
from bot.desk.desk import Board
from bot.desk.inbox import Inbox
from bot.policy.channels import customers_row
from bot.postmortem.gather import CustomerSide
from bot.slack.client import SLACK_TROUBLE, SlackClient, post
from bot.slack.outgoing.living import BeingPainted, no_records, no_state
from bot.slack.outgoing.posts import KeptMessages, Once, Unsettled
from bot.slack.outgoing.roots import ThreadRoots
from bot.slack.people import People
from bot.tasks import InOrder
from graph.conversation.intents import Intent
from graph.conversation.said import Said, said_of
from graph.earlier import Recalled, Sought
from graph.incident.visible import visible_hosts
from graph.ports import Progress, nothing_kept
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
TAKEN_BACK = "customer_withdrawn"
"""Noted until they write again."""
ANSWERED = "customer_answered"
"""The last item of theirs that was answered by a message."""
QUIET = "received/"
"""What is shown on the message and told by no other."""
AGAIN = (2.0, 5.0, 15.0, 30.0, 60.0)
"""Seconds after which a first card is tried again that Slack took not."""
APPROVED = frozenset({State.APPROVED, State.EXECUTING, State.DONE})


async def no_facts(incident: str) -> Sequence[Fact]:
    """Nothing was seen."""
    return ()


def place_of(thread: CustomerThread) -> Origin:
    """The customer's thread as a place to post to."""
    return Origin(kind="slack", team=thread.team, channel=thread.channel, thread_ts=thread.thread_ts, user=thread.user)


Recall = Callable[[Sought], Awaitable[Recalled]]
CustomerAnswer = tuple[Origin, Card]  # where to post, and what


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
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    _firsts: InOrder = field(default_factory=InOrder)
    _state_of: Callable[[str], Awaitable[Incident]] = field(default=no_state)
    _records_of: Callable[[str], Awaitable[Sequence[Record]]] = field(default=no_records)
    _facts_of: Callable[[str], Awaitable[Sequence[Fact]]] = field(default=no_facts)
    _recall: Recall = field(default=nothing_kept)

    def reads(
        self,
        *,
        state_of: Callable[[str], Awaitable[Incident]] | None = None,
        records_of: Callable[[str], Awaitable[Sequence[Record]]] | None = None,
        facts_of: Callable[[str], Awaitable[Sequence[Fact]]] | None = None,
        recall: Recall | None = None,
    ) -> None:
        """From where stored incidents, the ledger's records, what was seen last and closed incidents come."""
        self._recall = recall or self._recall
        self._state_of, self._records_of = state_of or self._state_of, records_of or self._records_of
        self._facts_of = facts_of or self._facts_of

    # -- the internal thread ------------------------------------------------------------------------------------------

    async def home(self, item: Item) -> Origin | None:
        """Where the incident lives, its thread begun; what a customer said in this item stands in it."""
        origin = await self.inbox.origin(item.incident)
        if origin is None or origin.customer is None:
            return origin
        if item.data.get(SIDE) == CUSTOMER:
            await self.kept.cards.drop(item.incident, TAKEN_BACK)
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
        """It quotes the item that it is begun for."""

        async def first() -> Card:
            return inside.root(item.incident, origin.tenant, came.channel, item.text, _files(item))

        roots = ThreadRoots(self.client, self.kept.cards, self.inbox, self.people)
        return await roots.begin(item.incident, origin, ROOT, first, stands_for=f"said:{item.id}")

    # -- the customer's message ---------------------------------------------------------------------------------------

    async def paint(self, incident: str, state: Incident | None = None) -> None:
        """Show where it stands; say it as well where that is news. Raises what Slack raises."""
        origin = await self.inbox.origin(incident)
        where = self.theirs(origin)
        if origin is None or where is None:
            return
        async with self.kept.cards.alone(incident, "customer", wait=PATIENCE) as alone:
            if not alone:
                raise BeingPainted(BeingPainted.__doc__)
            view = await self._view(incident, origin, state or await self._state_of(incident))
            marked = {"event_type": LIVING, "event_payload": {"incident": incident}}
            await self.kept.put(where, incident, "customer", living.render(view), marked)
            await self._tell(where, view, _asked_by(state) if state else None)

    async def paint_quietly(self, incident: str) -> None:
        """The same between turns, where Slack's trouble is written down and no more."""
        try:
            await self.paint(incident)
        except (*SLACK_TROUBLE, BeingPainted) as trouble:
            log.warning("customers.not_painted", incident=incident, error=str(trouble)[:200])

    async def paint_first(self, incident: str, channel: str) -> None:
        """That they were heard: one after another in a channel, which takes a message a second, and again where Slack had no turn for it. Whoever
        waits for their share would else read nothing for an hour."""
        async with self._firsts.of(channel):
            for seconds in AGAIN:
                try:
                    return await self.paint(incident)
                except (*SLACK_TROUBLE, BeingPainted) as trouble:
                    log.warning("customers.not_painted", incident=incident, error=str(trouble)[:200], again=seconds)
                await self.pause(seconds)
        return await self.paint_quietly(incident)

    async def again(self, incident: str) -> CustomerAnswer | None:
        """Bring their message up to date; return what to say where they ask how things stand, also where nothing was found yet."""
        await self.paint_quietly(incident)
        origin = await self.inbox.origin(incident)
        where = self.theirs(origin)
        return None if origin is None or where is None else (where, living.asked(await self.view(incident, origin)))

    async def answer(self, incident: str, said: Said, kind: answers.Answered) -> CustomerAnswer | None:
        """Return what they asked, from what they may know already."""
        origin = await self.inbox.origin(incident)
        where = self.theirs(origin)
        if origin is None or where is None:
            return None
        view = await self.view(incident, origin)
        own = visible_hosts(self.inventory, origin)
        named = tuple(self.inventory.hosts[host].called for host in said.hosts if host in own)
        unknown = (*said.unknown_hosts, *(host for host in said.hosts if host not in own))
        card = answers.answer(kind, view, named, unknown)
        if kind == "again" and (seen := await self._before(incident, origin)):
            card = living.said(phrase("answer_again", view.language), *seen)
        return where, card

    async def _before(self, incident: str, origin: Origin) -> list[str]:
        """Their own earlier reports like this one, in lines; nothing where none is kept, or nobody could look."""
        state = await self._state_of(incident)
        reader = reader_of(self.inventory, self.words, origin, self.language(origin), self.known, ())
        asked = before.sought(IncidentRows({**state, "id": incident}), origin, reader)
        return before.lines((await self._recall(asked)).found, origin, reader)

    async def side(self, incident: str) -> tuple[CustomerSide, bool]:
        """What a page for the customer is made with, and whether they took their report back."""
        languages = {channel: row.language for channel, row in self.bound.items()}
        withdrawn = bool(await self.kept.cards.get(incident, TAKEN_BACK))
        return CustomerSide(self.inventory, self.words, languages, self.known), withdrawn

    async def withdraw(self, incident: str) -> None:
        """The customer needs it no more; our side decides what that means."""
        await self.kept.cards.set(incident, TAKEN_BACK, "yes")
        await self.paint_quietly(incident)

    def theirs(self, origin: Origin | None) -> Origin | None:
        """The customer's thread of an incident; None where no customer reported it, or where the channel is that customer's no more."""
        bound = origin is not None and customers_row(origin, self.bound)
        return place_of(origin.customer) if bound and origin and origin.customer else None

    def language(self, origin: Origin) -> str:
        """In which the customer of an incident is answered."""
        row = self.bound.get(origin.customer.channel) if origin.customer else None
        return row.language if row else "en"

    async def _tell(self, where: Origin, view: CustomerView, item: Item | None) -> None:
        """A message of its own for what is news, and for each look that they asked for; each once. `item`: what of theirs a turn just answered."""
        stands = f"{view.stage}/{view.state}{'/reminded' if living.still_asked(view) else ''}"
        before = await self.kept.cards.get(view.incident, "customer_told") or ""
        broken = item is not None and _still_broken(item)
        fresh = item is not None and item.id != await self.kept.cards.get(view.incident, ANSWERED)
        if not living.news(view, stands, before, broken=broken):
            if item is None or not fresh or not before:
                return
            await self._post(where, living.looked_again(view, broken=broken), stands)
        elif stands != QUIET:
            await self._post(where, living.moved(view), stands)
        await self.kept.cards.set(view.incident, "customer_told", stands)
        if item is not None:
            await self.kept.cards.set(view.incident, ANSWERED, item.id)

    async def _post(self, where: Origin, card: Card, stands: str) -> None:
        marked = {"event_type": MOVED, "event_payload": {"stands": stands}}
        await post(self.client, where.channel, where.thread_ts, card, marked)

    async def view(self, incident: str, origin: Origin) -> CustomerView:
        """What their message shows now."""
        return await self._view(incident, origin, await self._state_of(incident))

    async def _view(self, incident: str, origin: Origin, state: Incident) -> CustomerView:
        reader = reader_of(self.inventory, self.words, origin, self.language(origin), self.known, await self._facts_of(incident))
        rows = IncidentRows({**state, "id": incident})
        withdrawn = rows.silence.withdrawn or bool(await self.kept.cards.get(incident, TAKEN_BACK))
        return customer_view(rows, reader, begun=await self._begun(incident), withdrawn=withdrawn)

    async def _begun(self, incident: str) -> frozenset[str]:
        try:
            return frozenset(row.approval for row in await self._records_of(incident) if row.state in APPROVED)
        except Refused as why:
            log.warning("customers.records_unreadable", incident=incident, why=str(why)[:200])
            return frozenset()


class BoardWithCustomers:
    """A board whose reports customers see too, in their words and their thread. What their thread does not take is shown by a sweep (`unsettled`):
    a customer who deletes it, or an archived channel, holds up nothing on our side."""

    def __init__(self, board: Board, customers: CustomerCards, unsettled: Unsettled) -> None:
        self._board, self._customers, self._unsettled = board, customers, unsettled

    async def progress(self, p: Progress) -> None:
        """News of a look are the operators'."""
        await self._board.progress(p)

    async def report(self, incident: str, state: Incident, report: Report) -> None:
        """Ours first: whatever happens on the customer's side, on-call has it."""
        await self._board.report(incident, state, report)
        try:
            await self._customers.paint(incident, state)
        except (*SLACK_TROUBLE, BeingPainted) as trouble:
            log.warning("customers.follows_later", incident=incident, error=str(trouble)[:200])
            await self._unsettled.note(incident)


def _files(item: Item) -> tuple[str, ...]:
    return tuple(str(row.get("name") or "file") for row in item.data.get("files", []))


def _asked_by(state: Incident) -> Item | None:
    """The item that the turn answered, where a customer wants a look by it."""
    row = state.get("item")
    item = Item.model_validate(row) if row else None
    return item if item and item.data.get(SIDE) == CUSTOMER and item.kind != "hand_off" else None


def _still_broken(item: Item) -> bool:
    said = said_of(item)
    return said is None or said.intent is not Intent.FIXED
