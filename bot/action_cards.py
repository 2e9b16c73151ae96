"""The cards of actions in Slack: one message for each approval, edited as the ledger's record moves, and short ones below it.

Every painting reads the record anew, so a late one never shows an old state. Slack being away stops no remedy: the trouble is raised to
the driver, which shows it again later; what Slack will never take is dropped.
"""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from weakref import WeakValueDictionary

import structlog
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot import policy
from bot.approvals import Rights
from bot.blocks import Card
from bot.cards import POSTING, Cards
from bot.dry_run import dry_run
from bot.living import OriginOf
from bot.once import Once
from bot.people import People
from bot.policy import Place
from bot.slack_client import said
from bot.views import approval, outcome, refusal
from bot.views.approval import Shown
from graph.ports import Clock, Ports
from graph.state import Incident, Origin
from kb.redact import redact
from tools.action import Action
from tools.conditions import ConditionSeen
from tools.evidence import EvidenceStore
from tools.inventory import ChannelRow
from tools.ledger.book import Book
from tools.ledger.record import Record, Refused, requesters_of
from tools.ledger.states import TERMINAL, State
from tools.transport import Transport

log = structlog.get_logger()
METADATA = "rackmedic_approval"
CARD, REMIND, OUTCOME = "card", "remind", "outcome"
MOST_TAIL = 12
GONE = frozenset({"message_not_found", "channel_not_found", "is_archived", "cant_update_message", "not_in_channel", "thread_not_found"})
"""Slack will never take it: trying again is no use."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What the cards are rendered from. `group_of` is the approver group of a place; `warning` stands on every card."""

    record_of: Callable[[str], Awaitable[Record]]
    origin_of: OriginOf
    bound: Mapping[str, ChannelRow]
    group_of: Callable[[Origin], str]
    evidence: EvidenceStore
    clock: Clock
    dry_run: Callable[[Action], Awaitable[Sequence[ConditionSeen]]]
    warning: str = ""


class ActionCards:
    """`bot.action_board.Show` for incidents that live in Slack; others are passed over in silence. Raises SLACK_TROUBLE and CannotTell."""

    def __init__(self, client: AsyncWebClient, cards: Cards, people: People, sources: Sources) -> None:
        self._client, self._cards, self._people, self._from = client, cards, people, sources
        self._once = Once(client, cards)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def approval(self, record: Record, incident_state: Incident) -> None:
        """Post the card, with what a dry run of its conditions sees."""
        origin = await self._from.origin_of(record.action.incident)
        if origin is None or origin.kind != "slack":
            return
        if not await self._note(record, "seen"):
            await self._keep(record, "seen", await self._dry_run(record.action))
        await self._show(record, CARD)

    async def changed(self, record: Record) -> None:
        """Bring the card up to date."""
        await self._show(record, CARD)

    async def held(self, record: Record, why: str) -> None:
        """Say on the card why an approved action waits."""
        await self._keep(record, "held", why)
        await self._show(record, CARD)

    async def outcome(self, record: Record) -> None:
        """Say in the thread how it ended, and on the card."""
        await self._show(record, CARD)
        await self._show(record, OUTCOME)

    async def remind(self, record: Record) -> None:
        """Call the approvers once more."""
        await self._show(record, REMIND)

    # -- showing ----------------------------------------------------------------------------------------------------

    async def _show(self, record: Record, what: str) -> None:
        lock = self._locks.setdefault(record.approval, asyncio.Lock())
        async with lock:
            try:
                await self._do(record, what)
            except SlackApiError as trouble:
                if trouble.response["error"] not in GONE:
                    raise
                log.warning("action_cards.gone", approval=record.approval, what=what, error=trouble.response["error"])

    async def _do(self, record: Record, what: str) -> None:
        origin = await self._from.origin_of(record.action.incident)
        if origin is None or origin.kind != "slack":
            return
        if what == CARD:
            await self._paint(origin, record)
            return
        record = await self._latest(record)
        shown = await self._shown(origin, record)
        if what == REMIND and record.state is State.PENDING:
            await self._post(origin, record, REMIND, await self._for(origin, outcome.remind(shown)))
        if what == OUTCOME and not _replaced(record):
            name = f"{OUTCOME}:{record.outcome or record.state}"
            await self._post(origin, record, name, await self._for(origin, outcome.render(shown)))

    async def _paint(self, origin: Origin, record: Record) -> None:
        """Post the card or edit it, until it shows what the ledger holds: the record may move while Slack takes its time."""
        incident, name, painted = record.action.incident, f"{CARD}:{record.approval}", ""
        while True:
            record = await self._latest(record)
            before = await self._cards.get(incident, name)
            if not before and record.state in TERMINAL:
                return
            card = await self._for(origin, approval.render(await self._shown(origin, record)))
            looks = hashlib.sha256(json.dumps(card.blocks).encode()).hexdigest()
            if looks == painted:
                return
            ts = await self._post(origin, record, CARD, card)
            if before and (before == POSTING or looks != await self._note(record, "looks")):
                await self._client.chat_update(channel=origin.channel, ts=ts, **said(card))
            await self._keep(record, "looks", looks)
            painted = looks

    async def _post(self, origin: Origin, record: Record, what: str, card: Card) -> str:
        metadata = {"event_type": METADATA, "event_payload": {"approval": record.approval, "what": what}}
        return await self._once.post(origin, record.action.incident, f"{what}:{record.approval}", card, metadata)

    async def _for(self, origin: Origin, card: Card) -> Card:
        """The card, unless the channel is no place for it: then that is said, and nothing of the inside."""
        try:
            shared = await self._people.shared(origin.channel)
            policy.serve(Place(origin.team, origin.channel, shared=shared), self._from.bound)
        except policy.NotServed as no:
            return refusal.render(str(no))
        return card

    # -- rendering --------------------------------------------------------------------------------------------------

    async def _latest(self, record: Record) -> Record:
        """The record as the ledger has it now; where it does not answer, as it was."""
        try:
            return await self._from.record_of(record.approval)
        except Refused:
            return record

    async def _shown(self, origin: Origin, record: Record) -> Shown:
        seen, at = _read_seen(await self._note(record, "seen"))
        return Shown(
            record,
            group=self._from.group_of(origin),
            names=await self._names(record),
            seen=seen,
            seen_at=at,
            began=await self._began(record),
            held=await self._note(record, "held") if record.state is State.APPROVED else "",
            tail=await self._tail(record),
            warning=self._from.warning,
        )

    async def _names(self, record: Record) -> dict[str, str]:
        people = {vote.voter for vote in record.votes} | requesters_of(record.action) | {record.ended_by}
        return {who: await self._people.name(who.partition(":")[2]) for who in sorted(people) if ":" in who}

    async def _began(self, record: Record) -> datetime | None:
        """When it was first seen running."""
        if record.state is not State.EXECUTING:
            return None
        if not (began := await self._note(record, "began")):
            await self._keep(record, "began", began := self._from.clock.now().isoformat())
        return datetime.fromisoformat(began)

    async def _tail(self, record: Record) -> list[str]:
        text = await self._from.evidence.get(record.output) if record.output else None
        return [line for line in (text or "").splitlines() if line.strip()][-MOST_TAIL:]

    async def _dry_run(self, action: Action) -> str:
        rows = await self._from.dry_run(action)
        at = self._from.clock.now().isoformat()
        return json.dumps({"at": at, "rows": [[row.says, row.ok, redact(row.saw)[:200]] for row in rows]})

    # -- notes beside the card --------------------------------------------------------------------------------------

    async def _note(self, record: Record, name: str) -> str:
        return await self._cards.get(record.action.incident, f"{name}:{record.approval}")

    async def _keep(self, record: Record, name: str, value: str) -> None:
        await self._cards.set(record.action.incident, f"{name}:{record.approval}", value)


def _replaced(record: Record) -> bool:
    """Nobody had approved it yet, and another card stands in its place: its own card says so, and that is enough."""
    return record.state is State.SUPERSEDED and record.start_by is None


def cards_over(
    client: AsyncWebClient, cards: Cards, people: People, origin_of: OriginOf, ports: Ports, transport: Transport
) -> Callable[[Book, Rights, str], ActionCards]:
    """The cards, once the ledger is open (`bot.actions_open.ShowOf`)."""

    def show(book: Book, rights: Rights, warning: str) -> ActionCards:
        sources = Sources(
            record_of=book.record,
            origin_of=origin_of,
            bound=policy.bindings(ports.inventory.channels),
            group_of=rights.group_of,
            evidence=ports.evidence,
            clock=ports.clock,
            dry_run=lambda action: dry_run(action, transport, ports.inventory),
            warning=warning,
        )
        return ActionCards(client, cards, people, sources)

    return show


def _read_seen(note: str) -> tuple[list[ConditionSeen], datetime | None]:
    if not note:
        return [], None
    kept: dict[str, Any] = json.loads(note)
    return [ConditionSeen(says, ok, saw) for says, ok, saw in kept["rows"]], datetime.fromisoformat(kept["at"])
