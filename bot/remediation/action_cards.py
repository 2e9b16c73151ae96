"""Approval cards in Slack: one message per action or batch, edited as the ledger's records change.

Every update reads the records again, so a late update never shows an old state. A Slack failure stops no remedy: it is
raised to the runner, which retries.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from weakref import WeakValueDictionary

import structlog
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.cards.blocks import Card
from bot.incidents.cards import notes
from bot.incidents.publishing.status_messages import StatusMessages
from bot.policy import channels
from bot.policy.approvals import ApprovalRights, can_still_be_decided
from bot.policy.channels import SlackPlace
from bot.remediation.approval_card_data import ApprovalCardLoader, ApprovalCardSources, IncidentKnowledge
from bot.remediation.cards import approval_card, outcomes, shared_card
from bot.remediation.cards.approval_card import ApprovalCardView
from bot.slack.client import build_message_args
from bot.slack.people import People
from bot.slack.posted_messages import POSTING, IdempotentPoster, OriginLookup, PostedCards
from bot.slack.rate_limits import Urgency, with_urgency
from graph.context import GraphContext
from graph.state import IncidentState, Origin
from tools.action import Action
from tools.execution.conditions import dry_run
from tools.execution.previews import preview_cancel, preview_delete, read_node_jobs
from tools.ledger.reader import LedgerReader
from tools.ledger.record import ActionRecord, Refused, list_targets
from tools.ledger.states import TERMINAL_STATES, State
from tools.transport import Transport

# Decide which actions share a card: same remedy and cause, proposed within two minutes, one per host.
#
# Each keeps its own digest, votes and claim. A Redis script decides atomically, so that no action gets two cards.

MAX_ACTIONS_PER_CARD = 10  # Further actions get another card.
JOIN_WINDOW = timedelta(minutes=2)  # A later action gets its own card and mention.
JOIN_CARD_SCRIPT = """
local h, id, key = KEYS[1], ARGV[1], ARGV[2]
local now, after, most = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local weight, room, shut = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8]
local on = redis.call('HGET', h, 'batch:'..id)
if on then return on end
local batch = redis.call('HGET', h, 'joinable:'..key)
if batch and batch ~= shut and redis.call('HEXISTS', h, 'card:'..id) == 0 then
  local rows, since, used = redis.call('HGET', h, 'rows:'..batch), redis.call('HGET', h, 'since:'..batch), redis.call('HGET', h, 'used:'..batch)
  local _, others = string.gsub(rows, ' ', ' ')
  if tonumber(since) >= after and others + 1 < most and tonumber(used) + weight <= room then
    redis.call('HSET', h, 'rows:'..batch, rows..' '..id, 'used:'..batch, tonumber(used) + weight, 'batch:'..id, batch)
    return batch
  end
end
redis.call('HSET', h, 'rows:'..id, id, 'since:'..id, ARGV[3], 'used:'..id, ARGV[6], 'batch:'..id, id, 'joinable:'..key, id)
return id
"""


class CardBatches:
    """Batches, each named by the approval id of its first action."""

    def __init__(self, cards: PostedCards) -> None:
        self._cards = cards

    async def get_batch(self, action: Action) -> str:
        return await self._cards.get(action.incident, f"batch:{action.approval}") or action.approval

    async def list_approvals(self, incident: str, batch: str) -> list[str]:
        """Return the approval ids in joining order."""
        return (await self._cards.get(incident, f"rows:{batch}")).split() or [batch]

    async def join_batch(self, record: ActionRecord, others: Sequence[ActionRecord], now: datetime) -> str:
        """Assign the action and all pending ones like it to batches. `others` are the incident's records."""
        waiting = [row for row in others if row.state is State.PENDING and build_batch_key(row.action) == build_batch_key(record.action)]
        for row in sorted(waiting, key=lambda row: row.action.target):
            await self._join_action(row, others, now)
        return await self._join_action(record, others, now)

    async def _join_action(self, record: ActionRecord, others: Sequence[ActionRecord], now: datetime) -> str:
        action = record.action
        shut = await self._find_closed_batch(action, others)
        weight = shared_card.count_row_chars(action)
        numbers = (_to_milliseconds(now), _to_milliseconds(now - JOIN_WINDOW), MAX_ACTIONS_PER_CARD, weight, shared_card.MAX_ROWS_CHARS)
        return await self._cards.run_script(
            JOIN_CARD_SCRIPT, action.incident, action.approval, build_batch_key(action), *map(str, numbers), shut
        )

    async def _find_closed_batch(self, action: Action, others: Sequence[ActionRecord]) -> str:
        """Return the latest such batch if it is all decided or already has this host."""
        batch = await self._cards.get(action.incident, f"joinable:{build_batch_key(action)}")
        if not batch:
            return ""
        names = set(await self.list_approvals(action.incident, batch))
        batch_records = [row for row in others if row.approval in names]
        has_pending = any(row.state is State.PENDING for row in batch_records)
        batch_hosts = {host for row in batch_records for host in list_targets(row.action)}
        return "" if has_pending and not batch_hosts.intersection(list_targets(action)) else batch


def build_batch_key(action: Action) -> str:
    """Return what must be equal on one card. An exclusive check never shares one."""
    alone = action.approval if action.remedy == "run_check" else ""
    return f"{action.remedy} {action.proves} {action.requested_by} {alone}".rstrip()


def _to_milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)


log = structlog.get_logger()
APPROVAL_EVENT_TYPE = "rackmedic_approval"
CARD_KIND = "card"
REMINDER_KIND = "remind"
OUTCOME_KIND = "outcome"
# No retry can fix these: logged and dropped.
PERMANENT_SLACK_ERRORS = frozenset(
    {"message_not_found", "channel_not_found", "is_archived", "cant_update_message", "not_in_channel", "thread_not_found"}
)


class CardPostInProgress(Exception):
    """Another process posts this card at this moment, with our action on it. Whoever asked asks again later."""


class ActionCards:
    """`ActionCardPublisher` for Slack incidents. Raises SLACK_ERRORS, SlackAnswerMissing, CardPostInProgress."""

    def __init__(
        self, client: AsyncWebClient, cards: PostedCards, people: People, sources: ApprovalCardSources, living: StatusMessages
    ) -> None:
        self._client, self._cards, self._people, self.sources, self._living = client, cards, people, sources, living
        self._once, self._batches, self._viewer = (
            IdempotentPoster(client, cards),
            CardBatches(cards),
            ApprovalCardLoader(cards, people, sources),
        )
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def post_approval_card(self, record: ActionRecord, incident_state: IncidentState) -> None:
        """Join a batch, dry-run the conditions, and show the card."""
        origin = await self.sources.origin_of(record.action.incident)
        if origin is None or origin.kind != "slack":
            return
        batch = await self._batches.join_batch(record, await self._list_other_records(record), self.sources.clock.now())
        async with self._get_lock(f"look at {batch}"):
            await asyncio.gather(*(self._viewer.gather_preview(row) for row in await self._load_records(record, batch)))
        await self._show_card(record, CARD_KIND)

    async def update_card(self, record: ActionRecord) -> None:
        await self._show_card(record, CARD_KIND)

    async def show_wait_reason(self, record: ActionRecord, why: str) -> None:
        await self._viewer.set_note(record, "held", why)
        await self._show_card(record, CARD_KIND)

    async def show_contact_state(self, record: ActionRecord, says: str) -> None:
        await self._viewer.set_note(record, "contact", says)
        await self._show_card(record, CARD_KIND)

    async def post_outcome(self, record: ActionRecord) -> None:
        """Update the card. Post a message too if the outcome is unknown, because an approver must check the host."""
        await self._show_card(record, CARD_KIND)
        await self._show_card(record, OUTCOME_KIND)

    async def post_reminder(self, record: ActionRecord) -> None:
        await self._show_card(record, REMINDER_KIND)

    async def list_known_rows(self, record: ActionRecord) -> Sequence[tuple[str, str]]:
        return [(str(name), str(value)) for name, value in json.loads(await self._viewer.get_note(record, "known") or "[]")]

    # -- showing ----------------------------------------------------------------------------------------------------

    async def _show_card(self, record: ActionRecord, what: str) -> None:
        batch = await self._batches.get_batch(record.action)
        async with self._get_lock(batch):
            try:
                with with_urgency(Urgency.DECISION):
                    await self._render_and_post(record, batch, what)
            except SlackApiError as error:
                if error.response["error"] not in PERMANENT_SLACK_ERRORS:
                    raise
                log.warning("action_cards.gone", approval=record.approval, what=what, error=error.response["error"])
        await self._living.refresh_message(record.action.incident)

    def _get_lock(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())

    async def _render_and_post(self, record: ActionRecord, batch: str, what: str) -> None:
        origin = await self.sources.origin_of(record.action.incident)
        if origin is None or origin.kind != "slack":
            return
        if what == CARD_KIND:
            await self._paint_card(origin, record, batch)
            return
        card_data = await self._load_card_data(origin, record, batch)
        own = next((one for one in card_data if one.record.approval == record.approval), card_data[0])
        if what == REMINDER_KIND and can_still_be_decided(own.record, self.sources.clock.now()):
            await self._post_once(
                origin,
                record,
                REMINDER_KIND,
                batch,
                outcomes.render_reminder(own) if len(card_data) == 1 else outcomes.render_shared_reminder(card_data),
            )
        if what == OUTCOME_KIND and own.record.state is State.UNKNOWN:
            await self._post_once(
                origin,
                record,
                f"{OUTCOME_KIND}:{own.record.state}",
                record.approval,
                outcomes.render_outcome(own, among_others=len(card_data) > 1),
            )

    async def _paint_card(self, origin: Origin, record: ActionRecord, batch: str) -> None:
        """Post or edit until the card matches the ledger: records may change while Slack answers."""
        incident, name, painted = record.action.incident, f"{CARD_KIND}:{batch}", ""
        while True:
            card_data = await self._load_card_data(origin, record, batch)
            before = await self._cards.get(incident, name)
            if not before and all(one.record.state in TERMINAL_STATES for one in card_data):
                return
            card = await self._redact_for_channel(
                origin,
                approval_card.render_approval_card(card_data[0])
                if len(card_data) == 1
                else shared_card.render_shared_card(card_data, self.sources.brakes),
            )
            card_digest = hashlib.sha256(json.dumps(card.blocks).encode()).hexdigest()
            if card_digest == painted:
                return
            ts = before if before not in ("", POSTING) else await self._post_first(origin, incident, batch, card, card_digest)
            if card_digest != await self._cards.get(incident, f"looks:{batch}"):
                await self._client.chat_update(channel=origin.channel, ts=ts, **build_message_args(card))
                await self._cards.set(incident, f"looks:{batch}", card_digest)
            painted = card_digest

    async def _post_first(self, origin: Origin, incident: str, batch: str, card: Card, looks: str) -> str:
        """Post the card. If it was posted before, it may be outdated, and the caller edits it."""
        async with self._hold_card_lock(incident, name := f"{CARD_KIND}:{batch}"):
            new = not await self._cards.get(incident, name)
            ts = await self._once.post_once(origin, incident, name, card, _build_metadata(batch, CARD_KIND))
            if new:
                await self._cards.set(incident, f"looks:{batch}", looks)
            return ts

    async def _post_once(self, origin: Origin, record: ActionRecord, what: str, about: str, card: Card) -> str:
        incident = record.action.incident
        async with self._hold_card_lock(incident, name := f"{what}:{about}"):
            return await self._once.post_once(
                origin, incident, name, await self._redact_for_channel(origin, card), _build_metadata(about, what)
            )

    @asynccontextmanager
    async def _hold_card_lock(self, incident: str, name: str) -> AsyncIterator[None]:
        """Let only one process post a card."""
        async with self._cards.hold_lock(incident, name) as alone:
            if not alone:
                raise CardPostInProgress(CardPostInProgress.__doc__)
            yield

    async def _redact_for_channel(self, origin: Origin, card: Card) -> Card:
        """Return a refusal instead of the card if the channel may not show operator content."""
        try:
            shared = await self._people.is_shared(origin.channel)
            channels.require_operator_channel(SlackPlace(origin.team, origin.channel, shared=shared), self.sources.bound)
        except channels.ChannelNotServed as error:
            return notes.render_refusal(str(error))
        return card

    # -- what is on a card ------------------------------------------------------------------------------------------

    async def _load_card_data(self, origin: Origin, record: ActionRecord, batch: str) -> list[ApprovalCardView]:
        rows = await self._load_records(record, batch)
        queued = await self._viewer.get_queued(rows)
        return [replace(await self._viewer.load_card_data(origin, row), queued=queued) for row in rows]

    async def _load_records(self, record: ActionRecord, batch: str) -> list[ActionRecord]:
        """Return the batch's current records. Skip unreadable ones, except `record` itself."""
        records: list[ActionRecord] = []
        for name in await self._batches.list_approvals(record.action.incident, batch):
            try:
                records.append(await self.sources.record_of(name))
            except Refused as error:
                log.warning("action_cards.unreadable", approval=name, why=str(error)[:200])
                records += [record] if name == record.approval else []
        return records or [record]

    async def _list_other_records(self, record: ActionRecord) -> list[ActionRecord]:
        try:
            return await self.sources.of_incident(record.action.incident)
        except Refused as error:
            log.warning("action_cards.alone", approval=record.approval, why=str(error)[:200])
            return []


def _build_metadata(about: str, what: str) -> dict[str, object]:
    """Return metadata that finds the message again after a crash."""
    return {"event_type": APPROVAL_EVENT_TYPE, "event_payload": {"approval": about, "what": what}}


def build_action_cards(
    client: AsyncWebClient,
    cards: PostedCards,
    people: People,
    origin_of: OriginLookup,
    known: IncidentKnowledge,
    ports: GraphContext,
    transport: Transport,
    living: StatusMessages,
) -> Callable[[LedgerReader, ApprovalRights, str], ActionCards]:
    """Return a factory of the cards, for use once the ledger is open."""

    def show(ledger: LedgerReader, rights: ApprovalRights, warning: str) -> ActionCards:
        sources = ApprovalCardSources(
            record_of=ledger.get_record,
            of_incident=ledger.list_incident_records,
            origin_of=origin_of,
            bound=channels.build_channel_bindings(ports.inventory.channels),
            group_of=rights.get_mention_group,
            evidence=ports.evidence,
            clock=ports.clock,
            dry_run=lambda action: dry_run(action, transport, ports.inventory),
            would_delete=lambda action: preview_delete(action, transport),
            would_cancel=lambda action: preview_cancel(action, transport),
            node_jobs=lambda action: read_node_jobs(action, ports.inventory, transport),
            known=known,
            brakes=ledger.brakes,
            warning=warning,
        )
        living.set_sources(records_of=ledger.list_incident_records)
        return ActionCards(client, cards, people, sources, living)

    return show
