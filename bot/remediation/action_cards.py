"""Approval cards in Slack: one message per action or batch, edited as the ledger's records change.

Every update reads the records again, so a late update never shows an old state. A Slack failure stops no remedy: it is
raised to the runner, which retries.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from weakref import WeakValueDictionary

import structlog
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.cards.blocks import Card
from bot.incidents.cards import notes
from bot.incidents.publishing.status_messages import StatusMessages
from bot.policy import channels
from bot.policy.approvals import can_still_be_decided
from bot.policy.channels import SlackPlace
from bot.remediation.approval_card_data import ApprovalCardLoader, ApprovalCardSources
from bot.remediation.card_batches import CardBatches
from bot.remediation.cards import approval_card, outcomes, shared_card
from bot.remediation.cards.approval_card import ApprovalCardView
from bot.slack.client import build_message_args
from bot.slack.people import People
from bot.slack.posted_messages import POSTING, IdempotentPoster, PostedCards
from bot.slack.rate_limits import Urgency, with_urgency
from graph.state import IncidentState, Origin
from tools.ledger.record import ActionRecord
from tools.ledger.refusals import Refused
from tools.ledger.states import TERMINAL_STATES, State

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
    message = "Another process posts this card now, with this action on it. The caller must ask again later."


class ActionCards:
    """`ActionCardPublisher` for Slack incidents. Raises SLACK_ERRORS, SlackAnswerMissing, CardPostInProgress."""

    def __init__(
        self, client: AsyncWebClient, cards: PostedCards, people: People, sources: ApprovalCardSources, status_messages: StatusMessages
    ) -> None:
        self._client = client
        self._cards = cards
        self._people = people
        self.sources = sources
        self._status_messages = status_messages
        self._once = IdempotentPoster(client, cards)
        self._batches = CardBatches(cards)
        self._viewer = ApprovalCardLoader(cards, people, sources)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def post_approval_card(self, record: ActionRecord, incident_state: IncidentState) -> None:
        """Join a batch, dry-run the conditions, and show the card."""
        origin = await self.sources.origin_of(record.action.incident)
        if origin is None or origin.kind != "slack":
            return
        batch = await self._batches.join_batch(record, await self._list_other_records(record), self.sources.clock.now())
        async with self._get_lock(f"look at {batch}"):
            await asyncio.gather(*(self._viewer.gather_preview(record) for record in await self._load_records(record, batch)))
        await self._show_card(record, CARD_KIND)

    async def update_card(self, record: ActionRecord) -> None:
        await self._show_card(record, CARD_KIND)

    async def show_wait_reason(self, record: ActionRecord, reason: str) -> None:
        await self._viewer.set_note(record, "held", reason)
        await self._show_card(record, CARD_KIND)

    async def show_contact_state(self, record: ActionRecord, note: str) -> None:
        await self._viewer.set_note(record, "contact", note)
        await self._show_card(record, CARD_KIND)

    async def post_outcome(self, record: ActionRecord) -> None:
        """Update the card. Post a message too if the outcome is unknown, because an approver must check the host."""
        await self._show_card(record, CARD_KIND)
        await self._show_card(record, OUTCOME_KIND)

    async def post_reminder(self, record: ActionRecord) -> None:
        await self._show_card(record, REMINDER_KIND)

    async def list_known_rows(self, record: ActionRecord) -> Sequence[tuple[str, str]]:
        return [(str(name), str(value)) for name, value in json.loads(await self._viewer.get_note(record, "known") or "[]")]

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
        await self._status_messages.refresh_message(record.action.incident)

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
        own = next((view for view in card_data if view.record.approval == record.approval), card_data[0])
        is_shared_card = len(card_data) > 1
        if what == REMINDER_KIND and can_still_be_decided(own.record, self.sources.clock.now()):
            reminder = outcomes.render_shared_reminder(card_data) if is_shared_card else outcomes.render_reminder(own)
            await self._post_once(origin, record, REMINDER_KIND, batch, reminder)
        if what == OUTCOME_KIND and own.record.state is State.UNKNOWN:
            outcome = outcomes.render_outcome(own, among_others=is_shared_card)
            await self._post_once(origin, record, f"{OUTCOME_KIND}:{own.record.state}", record.approval, outcome)

    async def _paint_card(self, origin: Origin, record: ActionRecord, batch: str) -> None:
        """Post or edit the card until it matches the ledger, because records may change while Slack answers."""
        incident, name, posted_digest = record.action.incident, f"{CARD_KIND}:{batch}", ""
        while True:
            card_data = await self._load_card_data(origin, record, batch)
            posted_ts = await self._cards.get(incident, name)
            if not posted_ts and all(view.record.state in TERMINAL_STATES for view in card_data):
                return
            card = await self._redact_for_channel(origin, self._render_card(card_data))
            card_digest = hashlib.sha256(json.dumps(card.blocks).encode()).hexdigest()
            if card_digest == posted_digest:
                return
            ts = posted_ts if posted_ts not in ("", POSTING) else await self._post_first(origin, incident, batch, card, card_digest)
            if card_digest != await self._cards.get(incident, f"looks:{batch}"):
                await self._client.chat_update(channel=origin.channel, ts=ts, **build_message_args(card))
                await self._cards.set(incident, f"looks:{batch}", card_digest)
            posted_digest = card_digest

    def _render_card(self, card_data: Sequence[ApprovalCardView]) -> Card:
        if len(card_data) == 1:
            return approval_card.render_approval_card(card_data[0])
        return shared_card.render_shared_card(card_data, self.sources.brakes)

    async def _post_first(self, origin: Origin, incident: str, batch: str, card: Card, digest: str) -> str:
        """Post the card. If it was posted before, it may be outdated, and the caller edits it."""
        name = f"{CARD_KIND}:{batch}"
        async with self._hold_card_lock(incident, name):
            is_new = not await self._cards.get(incident, name)
            ts = await self._once.post_once(origin, incident, name, card, _build_metadata(batch, CARD_KIND))
            if is_new:
                await self._cards.set(incident, f"looks:{batch}", digest)
            return ts

    async def _post_once(self, origin: Origin, record: ActionRecord, what: str, about: str, card: Card) -> str:
        incident, name = record.action.incident, f"{what}:{about}"
        async with self._hold_card_lock(incident, name):
            return await self._once.post_once(
                origin, incident, name, await self._redact_for_channel(origin, card), _build_metadata(about, what)
            )

    @asynccontextmanager
    async def _hold_card_lock(self, incident: str, name: str) -> AsyncIterator[None]:
        """Let only one process post a card."""
        async with self._cards.hold_lock(incident, name) as alone:
            if not alone:
                raise CardPostInProgress(CardPostInProgress.message)
            yield

    async def _redact_for_channel(self, origin: Origin, card: Card) -> Card:
        """Return a refusal instead of the card if the channel may not show operator content."""
        try:
            shared = await self._people.is_shared(origin.channel)
            channels.require_operator_channel(SlackPlace(origin.team, origin.channel, shared=shared), self.sources.bound)
        except channels.ChannelNotServed as error:
            return notes.render_refusal(str(error))
        return card

    async def _load_card_data(self, origin: Origin, record: ActionRecord, batch: str) -> list[ApprovalCardView]:
        records = await self._load_records(record, batch)
        queued = await self._viewer.get_queued(records)
        return [replace(await self._viewer.load_card_data(origin, shown), queued=queued) for shown in records]

    async def _load_records(self, record: ActionRecord, batch: str) -> list[ActionRecord]:
        """Return the batch's current records. Skip unreadable ones, except `record` itself."""
        records: list[ActionRecord] = []
        for approval in await self._batches.list_approvals(record.action.incident, batch):
            try:
                records.append(await self.sources.record_of(approval))
            except Refused as error:
                log.warning("action_cards.unreadable", approval=approval, why=str(error)[:200])
                if approval == record.approval:
                    records.append(record)
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
