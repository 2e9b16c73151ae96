"""The cards of actions in Slack: one message for each action, or for several of a kind, edited as the ledger's records move,
and short ones below it.

Every painting reads the records anew, so a late one never shows an old state. Slack being away stops no remedy: the trouble is raised to
the driver, which shows it again later; what Slack will never take is dropped.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from weakref import WeakValueDictionary

import structlog
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.cards.approvals import card as approval
from bot.cards.approvals import outcomes, shared_card
from bot.cards.approvals.card import Shown
from bot.cards.blocks import Card
from bot.cards.incidents import notes
from bot.policy import channels
from bot.policy.approvals import Rights, can_still_be_decided
from bot.policy.channels import Place
from bot.slack.client import said
from bot.slack.outgoing.approval_view import Known, Sources, Viewer
from bot.slack.outgoing.living import LivingMessages
from bot.slack.outgoing.posts import POSTING, Once, OriginOf, PostedCards
from bot.slack.outgoing.shared_cards import Batches
from bot.slack.pace import Urgency, urgent
from bot.slack.people import People
from graph.ports import Ports
from graph.state import Incident, Origin
from tools.acting.cancels import would_cancel
from tools.acting.deletes import would_delete
from tools.acting.dry_run import dry_run
from tools.acting.jobs import read_node_jobs
from tools.ledger.book import Book
from tools.ledger.record import Record, Refused
from tools.ledger.states import TERMINAL, State
from tools.transport import Transport

log = structlog.get_logger()
METADATA = "rackmedic_approval"
CARD, REMIND, OUTCOME = "card", "remind", "outcome"
GONE = frozenset({"message_not_found", "channel_not_found", "is_archived", "cant_update_message", "not_in_channel", "thread_not_found"})
"""Slack will never take it: trying again is no use."""


class BeingPosted(Exception):
    """Another process posts this card at this moment, with our action on it. Whoever asked asks again later."""


class ActionCards:
    """`bot.actions.driver.Show` for incidents that live in Slack; others are passed over in silence. Raises SLACK_TROUBLE and CannotTell."""

    def __init__(self, client: AsyncWebClient, cards: PostedCards, people: People, sources: Sources, living: LivingMessages) -> None:
        self._client, self._cards, self._people, self.sources, self._living = client, cards, people, sources, living
        self._once, self._batches, self._viewer = Once(client, cards), Batches(cards), Viewer(cards, people, sources)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def approval(self, record: Record, incident_state: Incident) -> None:
        """Post the card, or join one of its kind, with what a dry run of its conditions sees."""
        origin = await self.sources.origin_of(record.action.incident)
        if origin is None or origin.kind != "slack":
            return
        batch = await self._batches.join(record, await self._beside(record), self.sources.clock.now())
        async with self._lock(f"look at {batch}"):
            await asyncio.gather(*(self._viewer.look(row) for row in await self._rows(record, batch)))
        await self._show(record, CARD)

    async def changed(self, record: Record) -> None:
        """Bring the card up to date."""
        await self._show(record, CARD)

    async def held(self, record: Record, why: str) -> None:
        """Say on the card why an approved action waits."""
        await self._viewer.keep(record, "held", why)
        await self._show(record, CARD)

    async def contact(self, record: Record, says: str) -> None:
        """Say on the card of a running action that its host does not answer."""
        await self._viewer.keep(record, "contact", says)
        await self._show(record, CARD)

    async def outcome(self, record: Record) -> None:
        """Say on the card how it ended, and below it where nobody else would: what is in doubt waits for somebody to look."""
        await self._show(record, CARD)
        await self._show(record, OUTCOME)

    async def remind(self, record: Record) -> None:
        """Call the approvers once more."""
        await self._show(record, REMIND)

    async def known(self, record: Record) -> Sequence[tuple[str, str]]:
        """Return what is stored with the card."""
        return [(str(name), str(value)) for name, value in json.loads(await self._viewer.note(record, "known") or "[]")]

    # -- showing ----------------------------------------------------------------------------------------------------

    async def _show(self, record: Record, what: str) -> None:
        batch = await self._batches.of(record.action)
        async with self._lock(batch):
            try:
                with urgent(Urgency.DECISION):
                    await self._do(record, batch, what)
            except SlackApiError as trouble:
                if trouble.response["error"] not in GONE:
                    raise
                log.warning("action_cards.gone", approval=record.approval, what=what, error=trouble.response["error"])
        await self._living.refresh(record.action.incident)

    def _lock(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())

    async def _do(self, record: Record, batch: str, what: str) -> None:
        origin = await self.sources.origin_of(record.action.incident)
        if origin is None or origin.kind != "slack":
            return
        if what == CARD:
            await self._paint(origin, record, batch)
            return
        shown = await self._all(origin, record, batch)
        own = next((one for one in shown if one.record.approval == record.approval), shown[0])
        if what == REMIND and can_still_be_decided(own.record, self.sources.clock.now()):
            await self._post(origin, record, REMIND, batch, outcomes.remind(own) if len(shown) == 1 else outcomes.remind_all(shown))
        if what == OUTCOME and own.record.state is State.UNKNOWN:
            await self._post(
                origin, record, f"{OUTCOME}:{own.record.state}", record.approval, outcomes.render(own, among_others=len(shown) > 1)
            )

    async def _paint(self, origin: Origin, record: Record, batch: str) -> None:
        """Post the card or edit it, until it shows what the ledger holds: the records may move while Slack takes its time."""
        incident, name, painted = record.action.incident, f"{CARD}:{batch}", ""
        while True:
            shown = await self._all(origin, record, batch)
            before = await self._cards.get(incident, name)
            if not before and all(one.record.state in TERMINAL for one in shown):
                return
            card = await self._for(origin, approval.render(shown[0]) if len(shown) == 1 else shared_card.render(shown, self.sources.brakes))
            looks = hashlib.sha256(json.dumps(card.blocks).encode()).hexdigest()
            if looks == painted:
                return
            ts = before if before not in ("", POSTING) else await self._first(origin, incident, batch, card, looks)
            if looks != await self._cards.get(incident, f"looks:{batch}"):
                await self._client.chat_update(channel=origin.channel, ts=ts, **said(card))
                await self._cards.set(incident, f"looks:{batch}", looks)
            painted = looks

    async def _first(self, origin: Origin, incident: str, batch: str, card: Card, looks: str) -> str:
        """Post the card; one that is posted meanwhile, or was before a crash, shows something older."""
        async with self._alone(incident, name := f"{CARD}:{batch}"):
            new = not await self._cards.get(incident, name)
            ts = await self._once.post(origin, incident, name, card, _metadata(batch, CARD))
            if new:
                await self._cards.set(incident, f"looks:{batch}", looks)
            return ts

    async def _post(self, origin: Origin, record: Record, what: str, about: str, card: Card) -> str:
        incident = record.action.incident
        async with self._alone(incident, name := f"{what}:{about}"):
            return await self._once.post(origin, incident, name, await self._for(origin, card), _metadata(about, what))

    @asynccontextmanager
    async def _alone(self, incident: str, name: str) -> AsyncIterator[None]:
        """Actions of one card may be driven by different processes; one of them posts."""
        async with self._cards.alone(incident, name) as alone:
            if not alone:
                raise BeingPosted(BeingPosted.__doc__)
            yield

    async def _for(self, origin: Origin, card: Card) -> Card:
        """The card, unless the channel is no place for it: then that is said, and nothing of the inside."""
        try:
            shared = await self._people.shared(origin.channel)
            channels.serve(Place(origin.team, origin.channel, shared=shared), self.sources.bound)
        except channels.NotServed as no:
            return notes.refused(str(no))
        return card

    # -- what is on a card ------------------------------------------------------------------------------------------

    async def _all(self, origin: Origin, record: Record, batch: str) -> list[Shown]:
        """Every action on the card, as it is now."""
        rows = await self._rows(record, batch)
        queued = await self._viewer.queued(rows)
        return [replace(await self._viewer.shown(origin, row), queued=queued) for row in rows]

    async def _rows(self, record: Record, batch: str) -> list[Record]:
        """Their records as the ledger has them now. One that cannot be read is left out, unless it is the one that we were told of."""
        found: list[Record] = []
        for name in await self._batches.rows(record.action.incident, batch):
            try:
                found.append(await self.sources.record_of(name))
            except Refused as why:
                log.warning("action_cards.unreadable", approval=name, why=str(why)[:200])
                found += [record] if name == record.approval else []
        return found or [record]

    async def _beside(self, record: Record) -> list[Record]:
        """What else the incident put up; nothing where that cannot be read."""
        try:
            return await self.sources.of_incident(record.action.incident)
        except Refused as why:
            log.warning("action_cards.alone", approval=record.approval, why=str(why)[:200])
            return []


def _metadata(about: str, what: str) -> dict[str, object]:
    """By which a message of ours is found again after a crash."""
    return {"event_type": METADATA, "event_payload": {"approval": about, "what": what}}


def cards_over(
    client: AsyncWebClient,
    cards: PostedCards,
    people: People,
    origin_of: OriginOf,
    known: Known,
    ports: Ports,
    transport: Transport,
    living: LivingMessages,
) -> Callable[[Book, Rights, str], ActionCards]:
    """The cards, once the ledger is open (`bot.run.actions.ShowOf`)."""

    def show(book: Book, rights: Rights, warning: str) -> ActionCards:
        sources = Sources(
            record_of=book.record,
            of_incident=book.of_incident,
            origin_of=origin_of,
            bound=channels.bindings(ports.inventory.channels),
            group_of=rights.group_of,
            evidence=ports.evidence,
            clock=ports.clock,
            dry_run=lambda action: dry_run(action, transport, ports.inventory),
            would_delete=lambda action: would_delete(action, transport),
            would_cancel=lambda action: would_cancel(action, transport),
            node_jobs=lambda action: read_node_jobs(action, ports.inventory, transport),
            known=known,
            brakes=book.brakes,
            warning=warning,
        )
        living.reads(records_of=book.of_incident)
        return ActionCards(client, cards, people, sources, living)

    return show
