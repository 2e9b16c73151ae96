"""Route a message: into the inbox, to an answer without a turn, or nowhere. What must not be lost is stored before
`handle_message` returns.

What people say to each other in an incident's thread reaches no turn, evidence, ticket or model.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from bot.alerts.posted_alerts import parse_posted_alerts
from bot.cards.blocks import Card, build_card
from bot.incidents.cards import home, notes
from bot.incidents.cards.direct_messages import classify_request
from bot.incidents.dispatch.thread_activity import MAX_MUTE_DURATION, AnswerPermit, PreviousActivity
from bot.incidents.handlers import slack_markup
from bot.incidents.handlers.open_or_join import open_or_join_incident
from bot.incidents.handlers.open_work import list_open_incidents, load_open_incident, render_quota_waits
from bot.incidents.handlers.services import MessageServices
from bot.policy import channels as policy
from bot.refusal import Refusal
from bot.slack.client import build_message_args
from bot.slack.payloads import DeletedMessage, EditedMessage, IncomingMessage
from bot.store.unreachable import guard_store
from graph.dialogue.addressed import (
    Addressing,
    ThreadSituation,
    apply_addressing,
    classify_addressing,
    find_call,
    is_mentioned,
    is_request,
)
from graph.dialogue.intents import Intent
from graph.dialogue.news import has_complaint, is_empty_message
from graph.dialogue.read import parse_message
from graph.dialogue.said import ParsedMessage
from graph.state import InboxItem, InboxItemKind, Origin

NO_INCIDENT = "There is no incident in this thread yet. Mention me and say what is wrong, for example: job 4711 hangs on gpu-[017-020]."
BOT_NAME: Final = "rackmedic"
MAX_PARSED_CHARS = 2000  # read to find the request; all characters are stored
MAX_REQUEST_WORDS = 8  # of a message that only requests something
# Answered despite the answer limit, with or without a mention.
ALWAYS_ANSWERED_INTENTS: Final = frozenset({Intent.STOP, Intent.HAND_OFF, Intent.CLOSE, Intent.TYPED_APPROVAL})
BOT_INTENTS: Final = frozenset({Intent.HELP, Intent.META, Intent.SMALL_TALK, Intent.THANKS})
# Requests that need an incident.
INCIDENT_INTENTS: Final = frozenset(
    {
        Intent.EXPLAIN,
        Intent.ON_APPROVE,
        Intent.WHO_MAY_APPROVE,
        Intent.WHO_IS_ON_IT,
        Intent.ACTION_DETAIL,
        Intent.PAGE_OR_WAIT,
        Intent.TAKE,
        Intent.ASSIGN,
        Intent.WAITS,
        Intent.HAND_OFF,
        Intent.SUMMARY,
        Intent.REPORT,
        Intent.RECHECK,
        Intent.RUN_GUIDE,
        Intent.UNDO,
        Intent.CLOSE,
        Intent.REOPEN,
        Intent.STOP,
        Intent.PAUSE,
        Intent.TYPED_APPROVAL,
    }
)


@dataclass(frozen=True, slots=True)
class IntakeResult:
    """The incident that stored the message, if any."""

    incident: str = ""
    opened: bool = False


async def handle_message(services: MessageServices, message: IncomingMessage) -> IntakeResult:
    """Store, answer or ignore a message. Raises Refusal (to show), StoreUnreachable (do not acknowledge)."""
    async with services.thread_locks.acquire(f"{message.channel} {message.root}"):
        return await _handle_in_order(services, message)


async def handle_edit(services: MessageServices, edit: EditedMessage, first: Callable[[str], bool]) -> IntakeResult:
    """Handle an edit as a message if the thread has no incident, or if the edit added the mention.

    Else tell the author once (`first`) that it is not read again: an approval may rest on the original.
    """
    async with guard_store():
        incident = await services.context.inbox.find_incident(edit.now.team, edit.now.channel, edit.now.root)
    if incident is None or not edit.called_before:
        return await handle_message(services, edit.now)
    policy.require_operator_channel(edit.now.place, services.context.channel_bindings)
    if first(f"{edit.now.key} is not read again"):
        services.context.tasks.spawn_task("not_read_again", _post_not_read_again(services, edit.now))
    return IntakeResult(incident)


async def _post_not_read_again(services: MessageServices, message: IncomingMessage) -> None:
    thread = message.root if message.in_thread else None
    told = build_message_args(notes.render_edit_ignored())
    await services.context.client.chat_postEphemeral(channel=message.channel, user=message.user, thread_ts=thread, **told)


async def handle_deletion(services: MessageServices, gone: DeletedMessage, first: Callable[[str], bool]) -> None:
    """Tell operators once that an incident's first message was deleted, if work or drained nodes remain."""
    async with guard_store():
        incident = await services.context.inbox.find_incident(gone.team, gone.channel, gone.ts)
    row = services.context.channel_bindings.get(gone.channel)
    if incident is None or row is None:
        return
    work = await load_open_incident(services.open_work, incident)
    if (work.lifecycle == "closed" and not work.drained_nodes) or not first(f"{gone.team}.{gone.channel}.{gone.ts} deleted"):
        return
    where = row.internal if row.kind == "tenant" else gone.channel
    if where:
        await services.context.queue_reply(
            Origin(kind="slack", team=gone.team, channel=where), f"{gone.channel}.{gone.ts} deleted", notes.render_thread_deleted(work)
        )


async def _handle_in_order(services: MessageServices, message: IncomingMessage) -> IntakeResult:
    async with guard_store():
        incident = await services.context.inbox.find_incident(message.team, message.channel, message.root)
    if incident is None and await _in_joined_thread(services, message):
        return IntakeResult()
    if incident is None and not message.mention:
        return IntakeResult()
    if incident is None and message.place.type == "im":
        async with guard_store():
            await services.direct_messages.store(
                _build_origin(message), message.key, message.at, classify_request(slack_markup.render_plain_text(message.raw))
            )
        return IntakeResult()
    policy.require_operator_channel(message.place, services.context.channel_bindings)
    if message.alert:
        return await _handle_alert(services, message, incident)
    said = await parse_incoming_message(services, message, _build_origin(message))
    if incident is not None:
        return await _handle_reply(services, message, said, incident)
    policy.require_colleague(await services.context.people.get_person(message.user), message.team)
    await services.context.require_permission(f"intent.{said.intent}", message.user, message.channel)
    return await _handle_first_mention(services, message, said)


async def _handle_alert(services: MessageServices, message: IncomingMessage, incident: str | None) -> IntakeResult:
    """Read listed alerts where the format is known, else a report."""
    said = ParsedMessage(intent=Intent.NEW_FACTS, text=slack_markup.render_plain_text(message.raw))
    if incident:
        return await _store_message(services, message, said, incident)
    posted = parse_posted_alerts(said.text, f"{message.channel} {message.source}") if services.submit_alert_batch else None
    if services.submit_alert_batch is None or posted is None:
        return await _open_incident(services, message, said)
    async with guard_store():
        told = await services.submit_alert_batch(message.channel, message.ts, posted)
    return IntakeResult(told[0] if told else "")


async def parse_incoming_message(services: MessageServices, message: IncomingMessage, origin: Origin) -> ParsedMessage:
    """Parse the request by rules, off the event loop. A bare mention asks for the status."""
    text = slack_markup.render_plain_text(slack_markup.strip_bot_mention(message.raw, message.us))
    if not text and not message.files:
        return ParsedMessage(intent=Intent.STATUS)
    said = await asyncio.to_thread(parse_message, text[:MAX_PARSED_CHARS], services.vocabulary_of(origin), message.at)
    return said.model_copy(update={"text": text})


async def _handle_reply(services: MessageServices, arrival: IncomingMessage, message: ParsedMessage, incident: str) -> IntakeResult:
    async with guard_store():
        before = await services.thread_activity.record_message(incident, arrival.ts, arrival.user, question=message.text.endswith("?"))
    what = await classify_message_addressing(services, arrival, message, before)
    if what is Addressing.SILENCE:
        return (
            await _answer_passed_over(services, arrival, message, incident)
            if _is_alone_with_bot(services, arrival, message, before)
            else IntakeResult()
        )
    message = apply_addressing(message, what)
    if arrival.mention or message.kind != "reply":
        policy.require_colleague(await services.context.people.get_person(arrival.user), arrival.team)
        await services.context.require_permission(f"intent.{message.intent}", arrival.user, arrival.channel)
    async with guard_store():
        always = message.intent in ALWAYS_ANSWERED_INTENTS
        may = await services.thread_activity.admit_answer(
            incident, arrival.ts, always=always, mention=arrival.mention, alone=not before.others
        )
    if may is not AnswerPermit.GO:
        return (
            await _post_answer(services, arrival, notes.render_answer_limit(MAX_MUTE_DURATION))
            if may is AnswerPermit.TRIP
            else IntakeResult()
        )
    if message.intent is Intent.HELP:
        return await _post_answer(services, arrival, home.render_help(slack_markup.list_help_rows()))
    return await _store_message(services, arrival, message, incident)


def _is_alone_with_bot(services: MessageServices, arrival: IncomingMessage, message: ParsedMessage, previous: PreviousActivity) -> bool:
    paused = previous.quiet_until is not None and previous.quiet_until > services.context.clock.now()
    wanted = not (services.context.channel_bindings[arrival.channel].mention_only or paused or previous.lifecycle == "closed")
    return wanted and not previous.others and bool(message.text) and not find_call(message.text, (arrival.us, BOT_NAME))


async def _answer_passed_over(services: MessageServices, arrival: IncomingMessage, message: ParsedMessage, incident: str) -> IntakeResult:
    """Say that it was not understood: once per window, but for each request."""
    async with guard_store():
        first = await services.thread_activity.record_ignored_reply(incident, arrival.ts)
    return await _post_answer(services, arrival, notes.render_not_understood()) if first or is_request(message) else IntakeResult()


async def _in_joined_thread(services: MessageServices, message: IncomingMessage) -> bool:
    """Handle a message in a thread whose report joined another incident; return whether it is done.

    A mention that reports something is read as a report.
    """
    if not message.in_thread or message.alert or services.context.channel_bindings.get(message.channel) is None:
        return False
    async with guard_store():
        incident = await services.context.inbox.find_joined_incident(message.team, message.channel, message.root)
        other = await services.context.inbox.get_origin(incident) if incident else None
    if other is None or not policy.can_follow_thread(_build_origin(message), other, services.context.channel_bindings):
        return False
    said = await parse_incoming_message(services, message, _build_origin(message))
    us = (message.us, BOT_NAME)
    mentioned = message.mention or is_mentioned(said.text, us)
    to_somebody_else = bool(find_call(said.text, us)) and not mentioned
    if message.mention and not (said.text and is_request_only(said) and said.intent in INCIDENT_INTENTS):
        return False
    if to_somebody_else or not is_request(said) or (services.context.channel_bindings[message.channel].mention_only and not mentioned):
        return not message.mention
    policy.require_operator_channel(message.place, services.context.channel_bindings)
    await _post_answer(services, message, notes.render_ask_in_joined_thread(other.team, other.channel, other.thread_ts))
    return True


async def classify_message_addressing(
    services: MessageServices, arrival: IncomingMessage, message: ParsedMessage, previous: PreviousActivity
) -> Addressing:
    """Return whether a message is for us. Slack is asked for names only where a name could matter."""
    row, us = services.context.channel_bindings[arrival.channel], (arrival.us, BOT_NAME)
    here = ThreadSituation(
        mentioned=arrival.mention or is_mentioned(message.text, us),
        called=find_call(message.text, us),
        follows=previous.follows,
        after_question=previous.after_question,
        asked=previous.asked,
        mention_only=row.mention_only,
        paused=previous.quiet_until is not None and previous.quiet_until > services.context.clock.now(),
        closed=previous.lifecycle == "closed",
        files=bool(arrival.files),
        alone=not previous.others,
    )
    what = classify_addressing(message, here)
    if what is Addressing.SILENCE or here.mentioned or here.called or " " not in message.text:
        return what
    told = await asyncio.gather(*(services.context.people.get_name(user) for user in previous.others))
    names = {word for name in told for word in name.split() if len(word) > 2}
    return classify_addressing(message, replace(here, called=find_call(message.text, us, names)))


async def _store_message(services: MessageServices, arrival: IncomingMessage, message: ParsedMessage, incident: str) -> IntakeResult:
    data = {} if arrival.alert else message.build_item_data()
    async with guard_store():
        new = await services.context.inbox.enqueue(build_item(arrival, message, incident, kind=message.kind, data=data), arrival.key)
    if new:
        services.context.notify_stored(incident)
    return IntakeResult(incident)


async def _handle_first_mention(services: MessageServices, arrival: IncomingMessage, message: ParsedMessage) -> IntakeResult:
    """List open incidents, help, or open an incident."""
    bare = message.text == "" and not arrival.files
    if bare and arrival.in_thread:
        return await _open_incident(services, arrival, message)
    if bare or (
        is_request_only(message) and message.intent in BOT_INTENTS and not arrival.files and not has_complaint(message.text, arrival.at)
    ):
        return await _post_answer(services, arrival, home.render_help(slack_markup.list_help_rows()))
    if is_request_only(message) and message.intent is Intent.STATUS:
        return await _post_open_incidents(services, arrival)
    if is_request_only(message) and message.intent in INCIDENT_INTENTS and not arrival.files:
        raise Refusal(NO_INCIDENT)
    if not (arrival.in_thread or arrival.files) and is_empty_message(message, arrival.at):
        return await _post_answer(services, arrival, notes.render_empty_report())
    return await _open_incident(services, arrival, message)


def is_request_only(message: ParsedMessage) -> bool:
    """Return whether a message names nothing to examine."""
    names = message.hosts or message.unknown_hosts or message.group or message.job or message.device or message.labels or message.category
    return message.sure and not names and len(message.text.split()) <= MAX_REQUEST_WORDS


async def _open_incident(services: MessageServices, arrival: IncomingMessage, message: ParsedMessage) -> IntakeResult:
    make = partial(build_item, arrival, message, kind="mention", data={})
    received = await open_or_join_incident(services, _build_origin(arrival), arrival.key, message.text, make, alert=arrival.alert)
    return IntakeResult(received.incident, received.opened)


def _build_origin(message: IncomingMessage) -> Origin:
    return Origin(kind="slack", team=message.team, channel=message.channel, thread_ts=message.root, user=message.user)


def build_item(arrival: IncomingMessage, message: ParsedMessage, incident: str, *, kind: InboxItemKind, data: dict[str, Any]) -> InboxItem:
    """Return the inbox item, with pointers to files and earlier messages."""
    more: dict[str, Any] = {"files": [file.to_json() for file in arrival.files]} if arrival.files else {}
    if kind == "mention" and arrival.in_thread:
        more["root"] = {"channel": arrival.channel, "ts": arrival.thread_ts, "upto": arrival.ts}
    return InboxItem(
        id=arrival.key, kind=kind, incident=incident, at=arrival.at, user=arrival.user, text=message.text, data={**data, **more}
    )


async def _post_answer(services: MessageServices, message: IncomingMessage, shown: Card) -> IntakeResult:
    """Queue an answer; of a mention's two events only one answers."""
    if not message.twin:
        await services.context.queue_reply(_build_origin(message), message.key, shown)
    return IntakeResult()


async def _post_open_incidents(services: MessageServices, message: IncomingMessage) -> IntakeResult:
    rows = await list_open_incidents(services.open_work)
    return await _post_answer(
        services,
        message,
        build_card(
            "Open incidents", home.render_incident_list(rows, services.context.clock.now(), await render_quota_waits(services.open_work))
        ),
    )
