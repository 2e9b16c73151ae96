"""The tenant's side of an incident in Slack: one status message, and the internal thread.

The turn that reads a tenant's message also begins the thread and quotes the message, so that neither is lost or
doubled. An error on the tenant's side never stops the operators' side; the next update retries.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from bot.cards.blocks import Card
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.publishing.status_messages import UpdateInProgress
from bot.incidents.publishing.thread_roots import ThreadRoots
from bot.policy.channels import find_tenant_channel
from bot.reports.incident_sources import TenantReportContext
from bot.slack.client import SLACK_ERRORS, SlackClient, post_message
from bot.slack.people import People
from bot.slack.posted_messages import EditableMessages, IdempotentPoster, PendingMessages
from bot.tasks import KeyedLocks
from bot.tenants.cards import answers, internal_thread, past_incidents, tenant_card
from bot.tenants.cards.driver_versions import SlotValueLookup
from bot.tenants.cards.phrases import get_phrase
from bot.tenants.cards.view import TenantView, build_tenant_view, build_tenant_view_context, get_no_slot_values
from graph.closed_incidents import ClosedIncidentMatches, ClosedIncidentQuery
from graph.dialogue.intents import Intent
from graph.dialogue.said import ParsedMessage, get_parsed_message
from graph.incident.visibility import list_visible_hosts
from graph.incident_view import IncidentView
from graph.report import Report
from graph.state import SIDE_KEY, TENANT_SIDE, InboxItem, IncidentState, Origin, TenantThread
from kb.customers.cause_words import CustomerWords
from tools.fact import Fact
from tools.inventory.inventory import ChannelRow, Inventory
from tools.ledger.record import ActionRecord
from tools.ledger.refusals import Refused
from tools.ledger.states import State

log = structlog.get_logger()
ROOT_EVENT_TYPE = "rackmedic_customer_root"
QUOTE_EVENT_TYPE = "rackmedic_customer_said"
STATUS_EVENT_TYPE = "rackmedic_customer"
NEWS_EVENT_TYPE = "rackmedic_customer_moved"
LOCK_WAIT = timedelta(seconds=12)
WITHDRAWN_NOTE = "customer_withdrawn"  # Set until the tenant writes again.
ANNOUNCED_NOTE = "customer_told"  # The status of the last message.
ANSWERED_NOTE = "customer_answered"  # The tenant's last item that got its own message.
QUIET_STATUS = "received/"  # Shown on the card without a message of its own.
RETRY_DELAYS_SECONDS = (2.0, 5.0, 15.0, 30.0, 60.0)  # Before the next try of a first card.
APPROVED_STATES = frozenset({State.APPROVED, State.EXECUTING, State.DONE})
ClosedIncidentSearch = Callable[[ClosedIncidentQuery], Awaitable[ClosedIncidentMatches]]
TenantAnswer = tuple[Origin, Card]  # where to post, and what


def build_tenant_place(thread: TenantThread) -> Origin:
    return Origin(kind="slack", team=thread.team, channel=thread.channel, thread_ts=thread.thread_ts, user=thread.user)


@dataclass(frozen=True, slots=True)
class TenantCards:
    """`resolve_thread` runs before a turn, `update_card` after it and when an action changes."""

    client: SlackClient
    editable_messages: EditableMessages
    inbox: Inbox
    inventory: Inventory
    words: CustomerWords
    channel_bindings: Mapping[str, ChannelRow]
    people: People
    pending_messages: PendingMessages
    load_state: Callable[[str], Awaitable[IncidentState]]
    load_records: Callable[[str], Awaitable[Sequence[ActionRecord]]]
    load_facts: Callable[[str], Awaitable[Sequence[Fact]]]
    find_closed_incidents: ClosedIncidentSearch
    get_slot_values: SlotValueLookup = get_no_slot_values
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    _first_card_locks: KeyedLocks = field(default_factory=KeyedLocks)

    # -- the internal thread ------------------------------------------------------------------------------------------

    async def resolve_thread(self, item: InboxItem) -> Origin | None:
        """Return the internal thread, begun if needed, with the item's message quoted."""
        origin = await self.inbox.get_origin(item.incident)
        if origin is None or origin.customer is None:
            return origin
        if item.data.get(SIDE_KEY) == TENANT_SIDE:
            await self.editable_messages.cards.drop(item.incident, WITHDRAWN_NOTE)
        if not origin.thread_ts:
            return await self._begin_thread(item, origin, origin.customer)
        if item.data.get(SIDE_KEY) == TENANT_SIDE and (item.text or _list_file_names(item)):
            await self.quote_message(origin, item.incident, item.id, item.text, _list_file_names(item))
        return origin

    async def quote_message(self, origin: Origin, incident: str, key: str, words: str, files: Sequence[str]) -> None:
        """Quote a tenant's message in the internal thread, once; skip a shared channel."""
        if await self.people.is_shared(origin.channel):
            return
        marked = {"event_type": QUOTE_EVENT_TYPE, "event_payload": {"item": key}}
        await IdempotentPoster(self.client, self.editable_messages.cards).post_once(
            origin, incident, f"said:{key}", internal_thread.render_tenant_message(origin.tenant, words, files), marked
        )

    async def post_note(self, origin: Origin, card: Card) -> None:
        """Post in the internal thread, once it exists and unless the channel is shared."""
        if origin.thread_ts and not await self.people.is_shared(origin.channel):
            await post_message(self.client, origin.channel, origin.thread_ts, card)

    async def _begin_thread(self, item: InboxItem, origin: Origin, came: TenantThread) -> Origin:

        async def first() -> Card:
            return internal_thread.render_root_message(item.incident, origin.tenant, came.channel, item.text, _list_file_names(item))

        roots = ThreadRoots(self.client, self.editable_messages.cards, self.inbox, self.people)
        return await roots.begin_thread(item.incident, origin, ROOT_EVENT_TYPE, first, stands_for=f"said:{item.id}")

    # -- the customer's message ---------------------------------------------------------------------------------------

    async def update_card(self, incident: str, state: IncidentState | None = None) -> None:
        """Update the status message, and post news separately. Raises Slack's errors."""
        origin = await self.inbox.get_origin(incident)
        place = self.get_tenant_place(origin)
        if origin is None or place is None:
            return
        async with self.editable_messages.cards.hold_lock(incident, "customer", wait=LOCK_WAIT) as alone:
            if not alone:
                raise UpdateInProgress(UpdateInProgress.message)
            view = await self._build_view(incident, origin, state or await self.load_state(incident))
            marked = {"event_type": STATUS_EVENT_TYPE, "event_payload": {"incident": incident}}
            await self.editable_messages.put_message(place, incident, "customer", tenant_card.render_tenant_card(view), marked)
            await self._post_news(place, view, _get_asking_item(state) if state else None)

    async def update_after_turn(self, incident: str, state: IncidentState, report: Report) -> None:
        """Update the status message, or leave it to a sweep: a deleted thread must not keep the item in the inbox."""
        try:
            await self.update_card(incident, state)
        except (*SLACK_ERRORS, UpdateInProgress) as error:
            log.warning("tenant_card.follows_later", incident=incident, error=str(error)[:200])
            await self.pending_messages.add_pending(incident)

    async def update_card_quietly(self, incident: str) -> None:
        """Update the status message between turns; Slack errors are only logged."""
        try:
            await self.update_card(incident)
        except (*SLACK_ERRORS, UpdateInProgress) as error:
            log.warning("tenant_card.not_painted", incident=incident, error=str(error)[:200])

    async def post_first_card(self, incident: str, channel: str) -> None:
        """Post the first status message with retries, one at a time per channel, which takes one message a second."""
        async with self._first_card_locks.acquire(channel):
            for seconds in RETRY_DELAYS_SECONDS:
                try:
                    return await self.update_card(incident)
                except (*SLACK_ERRORS, UpdateInProgress) as error:
                    log.warning("tenant_card.not_painted", incident=incident, error=str(error)[:200], again=seconds)
                await self.pause(seconds)
        return await self.update_card_quietly(incident)

    async def refresh_status(self, incident: str) -> TenantAnswer | None:
        """Update the status message and return an answer to a status question."""
        await self.update_card_quietly(incident)
        origin = await self.inbox.get_origin(incident)
        place = self.get_tenant_place(origin)
        return (
            None if origin is None or place is None else (place, tenant_card.render_progress_answer(await self.load_view(incident, origin)))
        )

    async def answer_question(self, incident: str, message: ParsedMessage, kind: answers.AnswerKind) -> TenantAnswer | None:
        """Return the answer from what the tenant may already know."""
        origin = await self.inbox.get_origin(incident)
        place = self.get_tenant_place(origin)
        if origin is None or place is None:
            return None
        view = await self.load_view(incident, origin)
        own = list_visible_hosts(self.inventory, origin)
        named_hosts = tuple(self.inventory.hosts[host].name_for_tenant for host in message.hosts if host in own)
        unknown = (*message.unknown_hosts, *(host for host in message.hosts if host not in own))
        card = answers.render_answer(kind, view, named_hosts, unknown)
        if kind == "again" and (past_reports := await self._list_past_reports(incident, origin)):
            card = tenant_card.render_text_card(get_phrase("answer_again", view.language), *past_reports)
        return place, card

    async def _list_past_reports(self, incident: str, origin: Origin) -> list[str]:
        """Return the tenant's own similar past reports as lines."""
        state = await self.load_state(incident)
        reader = build_tenant_view_context(self.inventory, self.words, origin, self.get_language(origin), self.get_slot_values, ())
        past_query = past_incidents.build_past_query(IncidentView({**state, "id": incident}), origin, reader)
        return past_incidents.format_past_incidents((await self.find_closed_incidents(past_query)).found, origin, reader)

    async def get_report_context(self, incident: str) -> tuple[TenantReportContext, bool]:
        """Return the context of a tenant's report page, and whether the report was withdrawn."""
        languages = {channel: row.language for channel, row in self.channel_bindings.items()}
        withdrawn = bool(await self.editable_messages.cards.get(incident, WITHDRAWN_NOTE))
        return TenantReportContext(self.inventory, self.words, languages, self.get_slot_values), withdrawn

    async def withdraw_report(self, incident: str) -> None:
        """Mark the report withdrawn; the operators' side decides what follows."""
        await self.editable_messages.cards.set(incident, WITHDRAWN_NOTE, "yes")
        await self.update_card_quietly(incident)

    def get_tenant_place(self, origin: Origin | None) -> Origin | None:
        """Return the tenant's thread; None without one, or if the channel is no longer that tenant's."""
        bound = origin is not None and find_tenant_channel(origin, self.channel_bindings)
        return build_tenant_place(origin.customer) if bound and origin and origin.customer else None

    def get_language(self, origin: Origin) -> str:
        row = self.channel_bindings.get(origin.customer.channel) if origin.customer else None
        return row.language if row else "en"

    async def _post_news(self, where: Origin, view: TenantView, item: InboxItem | None) -> None:
        """Post each news once, and an answer for each recheck. `item`: the tenant's item that a turn just answered."""
        status = f"{view.stage}/{view.state}{'/reminded' if tenant_card.has_open_reminder(view) else ''}"
        last_announced_status = await self.editable_messages.cards.get(view.incident, ANNOUNCED_NOTE) or ""
        tenant_reports_failure = item is not None and _is_still_broken(item)
        fresh = item is not None and item.id != await self.editable_messages.cards.get(view.incident, ANSWERED_NOTE)
        answered = {} if item is None else {ANSWERED_NOTE: item.id}
        if tenant_card.should_announce(view, status, last_announced_status, tenant_reports_failure=tenant_reports_failure):
            card = None if status == QUIET_STATUS else tenant_card.render_update(view)
        elif item is None or not fresh or not last_announced_status:
            return
        else:
            card = tenant_card.render_recheck_result(view, tenant_reports_failure=tenant_reports_failure)
        cards = self.editable_messages.cards
        if card is None:
            await cards.set_all(view.incident, {ANNOUNCED_NOTE: status, **answered})
            return
        poster = IdempotentPoster(self.client, cards)
        await poster.post_change(where, view.incident, card, NEWS_EVENT_TYPE, ANNOUNCED_NOTE, status, answered)

    async def load_view(self, incident: str, origin: Origin) -> TenantView:
        return await self._build_view(incident, origin, await self.load_state(incident))

    async def _build_view(self, incident: str, origin: Origin, state: IncidentState) -> TenantView:
        reader = build_tenant_view_context(
            self.inventory, self.words, origin, self.get_language(origin), self.get_slot_values, await self.load_facts(incident)
        )
        rows = IncidentView({**state, "id": incident})
        withdrawn = rows.tenant_silence.withdrawn or bool(await self.editable_messages.cards.get(incident, WITHDRAWN_NOTE))
        return build_tenant_view(rows, reader, begun=await self._list_begun_approvals(incident), withdrawn=withdrawn)

    async def _list_begun_approvals(self, incident: str) -> frozenset[str]:
        try:
            return frozenset(record.approval for record in await self.load_records(incident) if record.state in APPROVED_STATES)
        except Refused as error:
            log.warning("tenant_card.records_unreadable", incident=incident, why=str(error)[:200])
            return frozenset()


def _list_file_names(item: InboxItem) -> tuple[str, ...]:
    return tuple(str(row.get("name") or "file") for row in item.data.get("files", []))


def _get_asking_item(state: IncidentState) -> InboxItem | None:
    """Return the item that the turn answered, if a tenant asked for checks with it."""
    row = state.get("item")
    item = InboxItem.model_validate(row) if row else None
    return item if item and item.data.get(SIDE_KEY) == TENANT_SIDE and item.kind != "hand_off" else None


def _is_still_broken(item: InboxItem) -> bool:
    parsed = get_parsed_message(item)
    return parsed is None or parsed.intent is not Intent.FIXED
