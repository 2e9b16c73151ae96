"""Handlers for tenants' channels: everyone there may report, reply and click; no one there decides anything.

Identity comes from the payload's user and workspace. A button counts only in its own incident's thread. A tenant's
message is never a command: it maps to one of four intents, and the rest is evidence of low trust.
"""

import contextlib
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from bot.cards.blocks import Card
from bot.cards.buttons import OldButton
from bot.incidents.dispatch.fair_semaphore import FairSemaphore
from bot.incidents.dispatch.thread_activity import AnswerPermit
from bot.incidents.handlers import slack_markup
from bot.incidents.handlers.messages import ALWAYS_ANSWERED_INTENTS, build_item, classify_message_addressing, parse_incoming_message
from bot.incidents.handlers.services import MessageServices, ReportWriter
from bot.policy import channels as policy
from bot.policy.channels import SlackPlace
from bot.refusal import Refusal
from bot.slack.client import build_message_args
from bot.slack.payloads import EditedMessage, IncomingMessage, Payload, get_thread_ts
from bot.store.unreachable import guard_store
from bot.tenants.cards import internal_thread, tenant_card
from bot.tenants.cards.answers import AnswerKind, classify_answer
from bot.tenants.cards.phrases import get_phrase
from bot.tenants.error_cards import TenantErrorCards
from bot.tenants.tenant_cards import TenantCards, build_tenant_place
from graph.dialogue.addressed import Addressing
from graph.dialogue.intents import Intent
from graph.dialogue.news import has_complaint, is_empty_message
from graph.dialogue.said import ParsedMessage
from graph.dialogue.tenant_requests import ANY_TIME, TenantRequest, apply_tenant_request
from graph.incident.visibility import list_visible_hosts
from graph.state import REPORT_WITHDRAWN, SIDE_KEY, TENANT_SIDE, InboxItem, InboxItemKind, Origin, TenantThread
from tools.inventory.inventory import ChannelRow, Inventory

WITHDRAWN_TEXT = "The customer took their report back. The incident stays open here until a person closes it."
# Understood intent → what a tenant may ask for. Anything not answered by `classify_answer` or listed here is new facts.
TENANT_INTENTS: Final[Mapping[Intent, Intent]] = {
    Intent.RECHECK: Intent.STILL_BROKEN,
    Intent.STILL_BROKEN: Intent.STILL_BROKEN,
    Intent.REOPEN: Intent.STILL_BROKEN,
    Intent.FIXED: Intent.FIXED,
    Intent.CLOSE: Intent.FIXED,
    Intent.HAND_OFF: Intent.HAND_OFF,
    Intent.STATUS: Intent.STATUS,
    Intent.SAFE_TO: Intent.STATUS,
    Intent.WHO_IS_ON_IT: Intent.STATUS,
    Intent.PAGE_OR_WAIT: Intent.STATUS,
    Intent.WHAT_NOW: Intent.STATUS,
    Intent.SUMMARY: Intent.STATUS,
}
# Button → stored intent.
BUTTON_INTENTS: Final[Mapping[str, Intent]] = {"broken": Intent.STILL_BROKEN, "works": Intent.FIXED, "person": Intent.HAND_OFF}
# Stored intent → phrase id of its acknowledgement.
ACKNOWLEDGEMENT_PHRASES: Final[Mapping[Intent, str]] = {
    Intent.STILL_BROKEN: "heard_broken",
    Intent.FIXED: "heard_works",
    Intent.HAND_OFF: "heard_person",
    Intent.NEW_FACTS: "heard_broken",
}
# A message in progress then finishes before Slack's deadline. Others wait in turns, and a tenant gets at most half of
# the places, so that in a storm each message is stored in time and no tenant blocks another.
MAX_CONCURRENT_MESSAGES: Final = 16


@dataclass(frozen=True, slots=True)
class TenantHandlers:
    """Handles messages and clicks in tenants' channels.

    A handler raises Refusal, which the user sees, and StoreUnreachable, after which the request is not acknowledged.
    """

    services: MessageServices
    cards: TenantCards
    inventory: Inventory
    report_writer: ReportWriter
    places: FairSemaphore = field(default_factory=lambda: FairSemaphore(MAX_CONCURRENT_MESSAGES))

    def is_tenant_channel(self, place: SlackPlace) -> bool:
        row = self.services.context.channel_bindings.get(place.channel)
        return row is not None and row.kind == "tenant"

    async def handle_message(self, message: IncomingMessage) -> None:
        """Store the message, answer it, or ignore it."""
        row = policy.require_tenant_channel(message.place, self.services.context.channel_bindings)
        if message.alert:
            return
        async with self.services.thread_locks.acquire(f"{message.channel} {message.root}"), self.places.hold_slot(row.tenant):
            async with guard_store():
                incident = await self.services.context.inbox.find_incident(message.team, message.channel, message.root)
            if message.mention and not message.twin:
                self.services.context.tasks.spawn_task("as_they_see", self._notify_operator(message, row))
            if incident is not None:
                await self._handle_reply(message, row, incident)
            elif message.mention:
                await self._open_incident(message, row)

    async def handle_edit(self, edit: EditedMessage, is_first: Callable[[str], bool]) -> None:
        """Handle an edited message that was not handled before. Else tell its author once that edits are not read.

        `is_first` returns whether a key is seen for the first time.
        """
        row = policy.require_tenant_channel(edit.now.place, self.services.context.channel_bindings)
        async with guard_store():
            incident = await self.services.context.inbox.find_incident(edit.now.team, edit.now.channel, edit.now.root)
        if incident is None or not edit.called_before:
            await self.handle_message(edit.now)
        elif is_first(f"{edit.now.key} is not read again"):
            thread = edit.now.root if edit.now.in_thread else None
            note = build_message_args(tenant_card.render_text_card(get_phrase("not_read_again", row.language)))
            post = self.services.context.client.chat_postEphemeral(channel=row.channel, user=edit.now.user, thread_ts=thread, **note)
            self.services.context.tasks.spawn_task("not_read_again", post)

    def get_error_cards(self, channel: str) -> TenantErrorCards | None:
        """Return the error cards of a tenant's channel. Return None for another channel."""
        row = self.services.context.channel_bindings.get(channel)
        return TenantErrorCards(row.language) if row is not None and row.kind == "tenant" else None

    async def _open_incident(self, message: IncomingMessage, channel_row: ChannelRow) -> None:
        origin = self._build_origin(message, channel_row)
        parsed = await parse_incoming_message(self.services, message, origin)
        is_empty = not parsed.text or is_empty_message(parsed, message.at)
        if is_empty and not message.files and not message.in_thread:
            await self._post_reply(message, tenant_card.render_text_card(get_phrase("say_more", channel_row.language)))
            return
        async with guard_store():
            kind, data = _classify_first_message(parsed, message)
            build = partial(build_item, message, parsed, kind=kind, data={**data, SIDE_KEY: TENANT_SIDE})
            received = await self.services.context.inbox.open_or_join(origin, message.key, build)
        if not received.duplicate:
            self.services.context.notify_stored(received.incident)
            self.services.context.tasks.spawn_task("customer_card", self.cards.post_first_card(received.incident, channel_row.channel))

    async def _handle_reply(self, message: IncomingMessage, channel_row: ChannelRow, incident: str) -> None:
        """Handle a message in an incident's thread. Conversation among people is only quoted to operators."""
        origin = await self._get_tenant_origin(message, incident)
        if origin is None:
            return
        parsed = self._hide_foreign_hosts(await parse_incoming_message(self.services, message, origin), origin)
        parsed, request = apply_tenant_request(parsed, message.at)
        parsed = _normalize_hand_off(parsed)
        async with guard_store():
            before = await self.services.thread_activity.record_message(
                incident, message.ts, message.user, question=parsed.text.endswith("?")
            )
        addressing = await classify_message_addressing(self.services, message, parsed, before)
        if addressing is Addressing.SILENCE:
            self._quote_internally(origin, incident, message)
            return
        always = message.mention or parsed.intent in ALWAYS_ANSWERED_INTENTS or request in ANY_TIME
        if not await self._admit_answer(message, channel_row, incident, always=always, alone=not before.others):
            self._quote_internally(origin, incident, message)
            return
        has_facts = bool(message.files) or (addressing is Addressing.TAKE and request not in ANY_TIME)
        if request is TenantRequest.WITHDRAW and not has_facts:
            self._quote_internally(origin, incident, message)
            await self._withdraw_report(origin, incident, message.key)
            await self._post_reply(message, tenant_card.render_text_card(get_phrase("withdrawn", channel_row.language)))
            return
        if kind := classify_answer(parsed, message.at, facts=has_facts, want=request, unclear=addressing is Addressing.UNCLEAR):
            self._quote_internally(origin, incident, message)
            self._spawn_reply(message, self._post_answer(message.key, origin, incident, parsed, kind))
            return
        intent = TENANT_INTENTS.get(parsed.intent, Intent.NEW_FACTS)
        if intent is Intent.STATUS:
            self._spawn_reply(message, self._post_status(message.key, incident))
            return
        accepted = ParsedMessage(intent=intent, text=parsed.text)
        data = {**accepted.build_item_data(), SIDE_KEY: TENANT_SIDE}
        item = build_item(message, accepted, incident, kind=accepted.kind, data=data)
        async with guard_store():
            is_new = await self.services.context.inbox.enqueue(item, message.key)
        if is_new:
            self.services.context.notify_stored(incident)
            await self._post_reply(message, tenant_card.render_text_card(get_phrase(ACKNOWLEDGEMENT_PHRASES[intent], channel_row.language)))

    async def _admit_answer(self, message: IncomingMessage, channel_row: ChannelRow, incident: str, *, always: bool, alone: bool) -> bool:
        """Return whether the thread may get another answer now. Announce once that the limit is reached."""
        async with guard_store():
            permit = await self.services.thread_activity.admit_answer(
                incident, message.ts, always=always, mention=message.mention, alone=alone
            )
        if permit is AnswerPermit.TRIP:
            await self._post_reply(message, tenant_card.render_text_card(get_phrase("enough", channel_row.language)))
        return permit is AnswerPermit.GO

    async def _post_status(self, key: str, incident: str) -> None:
        if answer := await self.cards.refresh_status(incident):
            place, card = answer
            await self.services.context.queue_reply(place, key, card)

    async def _post_answer(self, key: str, origin: Origin, incident: str, message: ParsedMessage, kind: AnswerKind) -> None:
        """Answer a question, and start the tenant's report if it asks for one."""
        if answer := await self.cards.answer_question(incident, message, kind):
            place, card = answer
            await self.services.context.queue_reply(place, key, card)
        tenant_place = self.cards.get_tenant_place(origin)
        if kind != "report" or tenant_place is None:
            return
        report_context, withdrawn = await self.cards.get_report_context(incident)
        with contextlib.suppress(Refusal):
            self.report_writer.begin_tenant_report(incident, tenant_place, report_context, withdrawn=withdrawn)

    async def _get_tenant_origin(self, message: IncomingMessage, incident: str) -> Origin | None:
        """Return the incident's origin. Return None if the channel belongs to another tenant now, whose mentions are refused."""
        async with guard_store():
            origin = await self.services.context.inbox.get_origin(incident)
        if origin is not None and policy.find_tenant_channel(origin, self.services.context.channel_bindings) is not None:
            return origin
        if message.mention:
            raise policy.ChannelNotServed("tenant")
        return None

    def _hide_foreign_hosts(self, message: ParsedMessage, origin: Origin) -> ParsedMessage:
        """Return the message with another tenant's hosts as unknown ones."""
        visible_hosts = list_visible_hosts(self.inventory, origin)
        own_hosts = tuple(host for host in message.hosts if host in visible_hosts)
        foreign_hosts = tuple(host for host in message.hosts if host not in visible_hosts)
        if not foreign_hosts:
            return message
        return message.model_copy(update={"hosts": own_hosts, "unknown_hosts": (*message.unknown_hosts, *foreign_hosts)})

    def _build_origin(self, message: IncomingMessage, channel_row: ChannelRow) -> Origin:
        tenant_thread = TenantThread(
            team=message.team,
            channel=message.channel,
            thread_ts=message.root,
            user=message.user,
            user_team=message.user_team or message.team,
        )
        return Origin(
            kind="slack",
            team=message.team,
            channel=channel_row.internal,
            user=message.user,
            tenant=channel_row.tenant,
            customer=tenant_thread,
        )

    def _quote_internally(self, origin: Origin, incident: str, message: IncomingMessage) -> None:
        if origin.thread_ts and not message.twin:
            names = [file.name for file in message.files]
            text = slack_markup.render_plain_text(message.raw)
            self.services.context.tasks.spawn_task("customer_quote", self.cards.quote_message(origin, incident, message.key, text, names))

    async def _post_reply(self, message: IncomingMessage, card: Card) -> None:
        """Post in the thread once. Slack sends two events for a mention, and only one of them is answered."""
        if not message.twin:
            place = Origin(kind="slack", team=message.team, channel=message.channel, thread_ts=message.root, user=message.user)
            await self.services.context.queue_reply(place, message.key, card)

    def _spawn_reply(self, message: IncomingMessage, reply: Coroutine[Any, Any, object]) -> None:
        """Run the reply in the background. Slack sends two events for a mention, and only one of them is answered."""
        if message.twin:
            reply.close()
        else:
            self.services.context.tasks.spawn_task("customer_answer", reply)

    async def _notify_operator(self, message: IncomingMessage, channel_row: ChannelRow) -> None:
        """Tell an operator who mentions RackMedic in a tenant's channel that they are answered like the tenant."""
        people = self.services.context.people
        try:
            policy.require_colleague(await people.get_person(message.user), message.team)
            is_own_team = message.user_team in ("", message.team)
            is_operator = is_own_team and await people.is_in_any(message.user, (channel_row.internal,))
        except Refusal:
            return
        if is_operator:
            thread = message.root if message.in_thread else None
            note = build_message_args(internal_thread.render_visibility_note(channel_row.tenant, channel_row.internal))
            await self.services.context.client.chat_postEphemeral(channel=message.channel, user=message.user, thread_ts=thread, **note)

    async def handle_click(self, payload: Payload) -> None:
        """Store the click as a message of the tenant. Raises OldButton outside the incident's own thread."""
        click = tenant_card.parse_tenant_click(payload)
        origin, channel_row = await self._check_click_thread(payload, click.incident)
        key = _build_click_key(payload, channel_row)
        if click.does == "withdraw":
            await self._withdraw_report(origin, click.incident, key)
            return
        intent = BUTTON_INTENTS[click.does]
        message = ParsedMessage(intent=intent)
        item = InboxItem(
            id=key,
            kind=message.kind,
            incident=click.incident,
            at=self.services.context.clock.now(),
            user=str(payload["user"]["id"]),
            data={**message.build_item_data(), SIDE_KEY: TENANT_SIDE},
        )
        async with guard_store():
            is_new = await self.services.context.inbox.enqueue(item, key)
        if is_new:
            self.services.context.notify_stored(click.incident)
            place = build_tenant_place(origin.customer) if origin.customer else origin
            card = tenant_card.render_text_card(get_phrase(ACKNOWLEDGEMENT_PHRASES[intent], channel_row.language))
            await self.services.context.queue_reply(place, key, card)

    async def _withdraw_report(self, origin: Origin, incident: str, key: str) -> None:
        """Stop reminders for the tenant, and tell the incident that its report was withdrawn."""
        item = InboxItem(id=key, kind="timer", incident=incident, at=self.services.context.clock.now(), data={"why": REPORT_WITHDRAWN})
        async with guard_store():
            is_new = await self.services.context.inbox.enqueue(item, key)
        if is_new:
            self.services.context.notify_stored(incident)
            self.services.context.tasks.spawn_task("customer_withdraws", self._record_withdrawal(origin, incident))

    async def _record_withdrawal(self, origin: Origin, incident: str) -> None:
        await self.cards.withdraw_report(incident)
        await self.cards.post_note(origin, internal_thread.render_note(WITHDRAWN_TEXT))

    async def _check_click_thread(self, payload: Payload, incident: str) -> tuple[Origin, ChannelRow]:
        """Return the incident's origin and its channel. Raises OldButton if the click came from another thread."""
        channel = str(payload["channel"]["id"])
        channel_row = policy.require_tenant_channel(SlackPlace("", channel), self.services.context.channel_bindings)
        async with guard_store():
            origin = await self.services.context.inbox.get_origin(incident)
        if origin is None or origin.customer is None:
            raise OldButton
        if policy.find_tenant_channel(origin, self.services.context.channel_bindings) is None:
            raise OldButton
        if (origin.customer.channel, origin.customer.thread_ts) != (channel, get_thread_ts(payload)):
            raise OldButton
        return origin, channel_row


def _build_click_key(payload: Payload, channel_row: ChannelRow) -> str:
    """Return a key that is the same for repeated deliveries of a click."""
    action, user = payload["actions"][0], payload["user"]
    click_id = action.get("action_ts") or payload.get("trigger_id")
    return f"{user.get('team_id')}.{channel_row.channel}.{action['action_id']}.{user['id']}.{click_id}"


def _classify_first_message(message: ParsedMessage, arrival: IncomingMessage) -> tuple[InboxItemKind, dict[str, Any]]:
    """Classify a first message: a report, or only a request for a person, which needs no checks."""
    request = _normalize_hand_off(apply_tenant_request(message, arrival.at)[0])
    names_something = bool(message.hosts or message.unknown_hosts or message.job or message.device)
    has_attachments = bool(arrival.files) or arrival.in_thread
    is_report = names_something or has_attachments or has_complaint(message.text, arrival.at)
    if request.intent is not Intent.HAND_OFF or is_report:
        return "mention", {}
    hand_off = ParsedMessage(intent=Intent.HAND_OFF, text=message.text)
    return hand_off.kind, hand_off.build_item_data()


def _normalize_hand_off(message: ParsedMessage) -> ParsedMessage:
    """Treat a probable request for a person as one: a needless hand-off costs less than a missed one."""
    if message.intent is Intent.NOT_UNDERSTOOD and Intent.HAND_OFF in message.suggestions:
        return message.model_copy(update={"intent": Intent.HAND_OFF, "sure": True})
    return message
