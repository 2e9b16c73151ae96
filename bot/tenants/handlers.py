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
    """Raises Refusal (to show) and StoreUnreachable (do not acknowledge)."""

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

    async def handle_edit(self, edit: EditedMessage, first: Callable[[str], bool]) -> None:
        """Handle an edited message that was not handled before; else tell its author, once, that edits are not read.

        `first` returns whether a text is said for the first time. Raises as `handle_message`.
        """
        row = policy.require_tenant_channel(edit.now.place, self.services.context.channel_bindings)
        async with guard_store():
            incident = await self.services.context.inbox.find_incident(edit.now.team, edit.now.channel, edit.now.root)
        if incident is None or not edit.called_before:
            await self.handle_message(edit.now)
        elif first(f"{edit.now.key} is not read again"):
            thread = edit.now.root if edit.now.in_thread else None
            told = build_message_args(tenant_card.render_text_card(get_phrase("not_read_again", row.language)))
            whisper = self.services.context.client.chat_postEphemeral(channel=row.channel, user=edit.now.user, thread_ts=thread, **told)
            self.services.context.tasks.spawn_task("not_read_again", whisper)

    def get_error_cards(self, channel: str) -> TenantErrorCards | None:
        """Return the error cards of a tenant's channel; None for another channel."""
        row = self.services.context.channel_bindings.get(channel)
        return TenantErrorCards(row.language) if row is not None and row.kind == "tenant" else None

    # -- messages -----------------------------------------------------------------------------------------------------

    async def _open_incident(self, message: IncomingMessage, channel_row: ChannelRow) -> None:
        origin = self._build_origin(message, channel_row)
        said = await parse_incoming_message(self.services, message, origin)
        if not (message.files or message.in_thread) and (not said.text or is_empty_message(said, message.at)):
            await self._post_reply(message, tenant_card.render_text_card(get_phrase("say_more", channel_row.language)))
            return
        async with guard_store():
            kind, data = _classify_first_message(said, message)
            make = partial(build_item, message, said, kind=kind, data={**data, SIDE_KEY: TENANT_SIDE})
            received = await self.services.context.inbox.open_or_join(origin, message.key, make)
        if not received.duplicate:
            self.services.context.notify_stored(received.incident)
            self.services.context.tasks.spawn_task("customer_card", self.cards.post_first_card(received.incident, channel_row.channel))

    async def _handle_reply(self, message: IncomingMessage, channel_row: ChannelRow, incident: str) -> None:
        """Handle a message in an incident's thread. Conversation among people is only quoted to operators."""
        origin = await self._get_tenant_origin(message, incident)
        if origin is None:
            return
        said, want = apply_tenant_request(
            self._hide_foreign_hosts(await parse_incoming_message(self.services, message, origin), origin), message.at
        )
        said = _normalize_hand_off(said)
        async with guard_store():
            before = await self.services.thread_activity.record_message(
                incident, message.ts, message.user, question=said.text.endswith("?")
            )
        heed = await classify_message_addressing(self.services, message, said, before)
        if heed is Addressing.SILENCE:
            self._quote_internally(origin, incident, message)
            return
        always = message.mention or said.intent in ALWAYS_ANSWERED_INTENTS or want in ANY_TIME
        if not await self._admit_answer(message, channel_row, incident, always=always, alone=not before.others):
            self._quote_internally(origin, incident, message)
            return
        facts = bool(message.files) or (heed is Addressing.TAKE and want not in ANY_TIME)
        if want is TenantRequest.WITHDRAW and not facts:
            self._quote_internally(origin, incident, message)
            await self._withdraw_report(origin, incident, message.key)
            await self._post_reply(message, tenant_card.render_text_card(get_phrase("withdrawn", channel_row.language)))
            return
        if kind := classify_answer(said, message.at, facts=facts, want=want):
            self._quote_internally(origin, incident, message)
            self._spawn_reply(message, self._post_answer(message.key, origin, incident, said, kind))
            return
        intent = TENANT_INTENTS.get(said.intent, Intent.NEW_FACTS)
        if intent is Intent.STATUS:
            self._spawn_reply(message, self._post_status(message.key, incident))
            return
        told = ParsedMessage(intent=intent, text=said.text)
        item = build_item(message, told, incident, kind=told.kind, data={**told.build_item_data(), SIDE_KEY: TENANT_SIDE})
        async with guard_store():
            new = await self.services.context.inbox.enqueue(item, message.key)
        if new:
            self.services.context.notify_stored(incident)
            await self._post_reply(message, tenant_card.render_text_card(get_phrase(ACKNOWLEDGEMENT_PHRASES[intent], channel_row.language)))

    async def _admit_answer(self, message: IncomingMessage, channel_row: ChannelRow, incident: str, *, always: bool, alone: bool) -> bool:
        """Return whether the thread may get another answer now; announce the limit once."""
        async with guard_store():
            may = await self.services.thread_activity.admit_answer(
                incident, message.ts, always=always, mention=message.mention, alone=alone
            )
        if may is AnswerPermit.TRIP:
            await self._post_reply(message, tenant_card.render_text_card(get_phrase("enough", channel_row.language)))
        return may is AnswerPermit.GO

    async def _post_status(self, key: str, incident: str) -> None:
        if answer := await self.cards.refresh_status(incident):
            await self.services.context.queue_reply(answer[0], key, answer[1])

    async def _post_answer(self, key: str, origin: Origin, incident: str, message: ParsedMessage, kind: AnswerKind) -> None:
        """Answer in words, and start the tenant's report if it was requested."""
        if answer := await self.cards.answer_question(incident, message, kind):
            await self.services.context.queue_reply(answer[0], key, answer[1])
        where = self.cards.get_tenant_place(origin)
        if kind != "report" or where is None:
            return
        side, withdrawn = await self.cards.get_report_context(incident)
        with contextlib.suppress(Refusal):
            self.report_writer.begin_tenant_report(incident, where, side, withdrawn=withdrawn)

    async def _get_tenant_origin(self, message: IncomingMessage, incident: str) -> Origin | None:
        """Return the incident's origin; None if the channel now belongs to another tenant, whose mentions are refused."""
        async with guard_store():
            origin = await self.services.context.inbox.get_origin(incident)
        if origin is not None and policy.find_tenant_channel(origin, self.services.context.channel_bindings) is not None:
            return origin
        if message.mention:
            raise policy.ChannelNotServed("tenant")
        return None

    def _hide_foreign_hosts(self, message: ParsedMessage, origin: Origin) -> ParsedMessage:
        """Treat another tenant's hosts as unknown."""
        own = list_visible_hosts(self.inventory, origin)
        others = tuple(host for host in message.hosts if host not in own)
        named = {"hosts": tuple(host for host in message.hosts if host in own), "unknown_hosts": (*message.unknown_hosts, *others)}
        return message.model_copy(update=named) if others else message

    def _build_origin(self, message: IncomingMessage, channel_row: ChannelRow) -> Origin:
        came = TenantThread(
            team=message.team,
            channel=message.channel,
            thread_ts=message.root,
            user=message.user,
            user_team=message.user_team or message.team,
        )
        return Origin(
            kind="slack", team=message.team, channel=channel_row.internal, user=message.user, tenant=channel_row.tenant, customer=came
        )

    def _quote_internally(self, origin: Origin, incident: str, message: IncomingMessage) -> None:
        if origin.thread_ts and not message.twin:
            names = [file.name for file in message.files]
            words = slack_markup.render_plain_text(message.raw)
            self.services.context.tasks.spawn_task("customer_quote", self.cards.quote_message(origin, incident, message.key, words, names))

    async def _post_reply(self, message: IncomingMessage, card: Card) -> None:
        """Post in the thread once; of a mention's two events only one answers."""
        if not message.twin:
            place = Origin(kind="slack", team=message.team, channel=message.channel, thread_ts=message.root, user=message.user)
            await self.services.context.queue_reply(place, message.key, card)

    def _spawn_reply(self, message: IncomingMessage, speaks: Coroutine[Any, Any, object]) -> None:
        """Of a mention's two events only one answers."""
        if message.twin:
            speaks.close()
        else:
            self.services.context.tasks.spawn_task("customer_answer", speaks)

    async def _notify_operator(self, message: IncomingMessage, channel_row: ChannelRow) -> None:
        """Tell an operator who mentions RackMedic there, ephemerally, that they are answered as a tenant."""
        people = self.services.context.people
        try:
            policy.require_colleague(await people.get_person(message.user), message.team)
            ours = message.user_team in ("", message.team) and await people.is_in_any(message.user, (channel_row.internal,))
        except Refusal:
            return
        if ours:
            thread = message.root if message.in_thread else None
            shown = build_message_args(internal_thread.render_visibility_note(channel_row.tenant, channel_row.internal))
            await self.services.context.client.chat_postEphemeral(channel=message.channel, user=message.user, thread_ts=thread, **shown)

    # -- clicks -------------------------------------------------------------------------------------------------------

    async def handle_click(self, payload: Payload) -> None:
        pressed = tenant_card.parse_tenant_click(payload)
        origin, row = await self._check_click_thread(payload, pressed.incident)
        if pressed.does == "withdraw":
            await self._withdraw_report(origin, pressed.incident, _build_click_key(payload, row))
            return
        intent, user, key = BUTTON_INTENTS[pressed.does], payload["user"], _build_click_key(payload, row)
        told = ParsedMessage(intent=intent)
        data = {**told.build_item_data(), SIDE_KEY: TENANT_SIDE}
        item = InboxItem(
            id=key, kind=told.kind, incident=pressed.incident, at=self.services.context.clock.now(), user=str(user["id"]), data=data
        )
        async with guard_store():
            new = await self.services.context.inbox.enqueue(item, key)
        if new:
            self.services.context.notify_stored(pressed.incident)
            where = build_tenant_place(origin.customer) if origin.customer else origin
            shown = tenant_card.render_text_card(get_phrase(ACKNOWLEDGEMENT_PHRASES[intent], row.language))
            await self.services.context.queue_reply(where, key, shown)

    async def _withdraw_report(self, origin: Origin, incident: str, key: str) -> None:
        """Stop reminders for the tenant, and tell the incident, which decides."""
        item = InboxItem(id=key, kind="timer", incident=incident, at=self.services.context.clock.now(), data={"why": REPORT_WITHDRAWN})
        async with guard_store():
            new = await self.services.context.inbox.enqueue(item, key)
        if new:
            self.services.context.notify_stored(incident)
            self.services.context.tasks.spawn_task("customer_withdraws", self._record_withdrawal(origin, incident))

    async def _record_withdrawal(self, origin: Origin, incident: str) -> None:
        await self.cards.withdraw_report(incident)
        await self.cards.post_note(origin, internal_thread.render_note(WITHDRAWN_TEXT))

    async def _check_click_thread(self, payload: Payload, incident: str) -> tuple[Origin, ChannelRow]:
        """Return the origin if the click came from the incident's own tenant thread; else raise OldButton."""
        channel = str(payload["channel"]["id"])
        row = policy.require_tenant_channel(SlackPlace("", channel), self.services.context.channel_bindings)
        async with guard_store():
            origin = await self.services.context.inbox.get_origin(incident)
        if (
            origin is None
            or origin.customer is None
            or policy.find_tenant_channel(origin, self.services.context.channel_bindings) is None
            or (origin.customer.channel, origin.customer.thread_ts) != (channel, get_thread_ts(payload))
        ):
            raise OldButton
        return origin, row


def _build_click_key(payload: Payload, channel_row: ChannelRow) -> str:
    """Return a key that is the same for repeated deliveries of a click."""
    action, user = payload["actions"][0], payload["user"]
    return f"{user.get('team_id')}.{channel_row.channel}.{action['action_id']}.{user['id']}.{action.get('action_ts') or payload.get('trigger_id')}"


def _classify_first_message(message: ParsedMessage, arrival: IncomingMessage) -> tuple[InboxItemKind, dict[str, Any]]:
    """Classify a first message: a report, or only a request for a person, which needs no checks."""
    wish = _normalize_hand_off(apply_tenant_request(message, arrival.at)[0])
    named = message.hosts or message.unknown_hosts or message.job or message.device
    if wish.intent is not Intent.HAND_OFF or named or arrival.files or arrival.in_thread or has_complaint(message.text, arrival.at):
        return "mention", {}
    told = ParsedMessage(intent=Intent.HAND_OFF, text=message.text)
    return told.kind, told.build_item_data()


def _normalize_hand_off(message: ParsedMessage) -> ParsedMessage:
    """Treat a probable request for a person as one: a needless hand-off costs less than a missed one."""
    nearly = message.intent is Intent.NOT_UNDERSTOOD and Intent.HAND_OFF in message.suggestions
    return message.model_copy(update={"intent": Intent.HAND_OFF, "sure": True}) if nearly else message
