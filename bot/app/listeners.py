"""Parses Slack payloads and calls handlers. Refusals become cards here.

If a payload cannot be stored, messages are not acknowledged, so Slack retries; clicks, forms and commands are not
retried, so the user is told. `process_before_response` makes Bolt answer only after a listener returned.
"""

import re
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

import structlog
from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncRespond
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.context.async_context import AsyncBoltContext
from slack_bolt.response import BoltResponse
from slack_sdk.errors import SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from bot.cards.blocks import Card
from bot.cards.buttons import BadForm, OldButton
from bot.cards.text import Line
from bot.incidents.cards import close_modal, drained_nodes, incident_menu, notes
from bot.incidents.cards import feedback as feedback_form
from bot.incidents.context import HandlerContext, StoreUnreachable, TenantUpdatesPort, guard_store, render_refusal
from bot.incidents.handlers import commands, feedback, forms, home, incident_clicks
from bot.incidents.handlers.messages import handle_deletion, handle_edit, handle_message
from bot.lessons.cards import lesson
from bot.policy.channels import SlackPlace
from bot.provider.cards import provider_ticket
from bot.refusal import Refusal
from bot.remediation import approval_clicks
from bot.remediation.cards import approval_card as approval
from bot.remediation.cards import edit_modal, reject_modal
from bot.slack.client import SLACK_ERRORS, post_message
from bot.slack.manifest import SHORTCUT
from bot.slack.payloads import EditedMessage, IncomingMessage, parse_deletion, parse_edit, parse_message
from bot.tenants.cards import internal_thread, quota_waiting
from bot.tenants.cards import tenant_card as customers
from bot.trackers.cards import ticket_form
from graph.state import Origin

log = structlog.get_logger()

MATCH_ALL_PATTERN = re.compile(".*", re.DOTALL)
SHARING_EVENT_PATTERN = re.compile("^channel_(?:un)?shared$")
TENANT_ACTION_IDS = frozenset(customers.BUTTONS)
RETRY_STATUS = 503  # not acknowledged: Slack retries

Body = dict[str, Any]
# form callback id -> handler
FORM_HANDLERS: Mapping[str, Callable[[HandlerContext, Body], Awaitable[None]]] = {
    close_modal.CALLBACK_ID: incident_clicks.handle_close_form,
    reject_modal.CALLBACK_ID: approval_clicks.handle_reject_form,
    edit_modal.CALLBACK_ID: approval_clicks.handle_edit_form,
    feedback_form.CALLBACK_ID: feedback.handle_feedback_form,
    incident_menu.ASSIGN_CALLBACK_ID: forms.handle_assign_form,
    incident_menu.CORRECT_CALLBACK_ID: forms.handle_correct_form,
    ticket_form.CALLBACK_ID: forms.handle_tracker_form,
    lesson.CALLBACK_ID: forms.handle_lesson_form,
}


class TenantHandlers(Protocol):
    def is_tenant_channel(self, place: SlackPlace) -> bool: ...

    async def handle_message(self, message: IncomingMessage) -> None: ...

    async def handle_edit(self, edit: EditedMessage, first: Callable[[str], bool]) -> None: ...

    async def handle_click(self, payload: Body) -> None: ...

    def get_error_cards(self, channel: str) -> "ErrorCards | None":
        """Return a tenant channel's error cards, or None for other channels."""
        ...


class ErrorCards(Protocol):
    """Cards shown when a request failed."""

    def render_refusal(self, no: Refusal) -> Card: ...

    def render_not_stored(self, *, will_retry: bool) -> Card: ...

    def render_bug(self, reference: str, known: Line) -> Card: ...


class OperatorErrorCards:
    def render_refusal(self, no: Refusal) -> Card:
        return render_refusal(no)

    def render_not_stored(self, *, will_retry: bool) -> Card:
        return notes.render_not_stored(will_retry)

    def render_bug(self, reference: str, known: Line) -> Card:
        return notes.render_internal_error(reference, known)


OPERATOR_ERROR_CARDS: Final = OperatorErrorCards()


class Listeners:
    """One method per kind of payload. `door` handles tenants' channels."""

    def __init__(self, handler_context: HandlerContext, door: TenantHandlers | None = None) -> None:
        self._surface = handler_context
        self._door = door
        self._told: OrderedDict[str, None] = OrderedDict()

    def register(self, app: AsyncApp) -> None:
        """Register a listener for every event, so that Socket Mode leaves none unanswered."""
        app.event(re.compile("^(app_mention|message)$"))(self.handle_message)
        app.event("app_home_opened")(self.handle_home_opened)
        app.event("assistant_thread_started")(self.handle_assistant_thread)
        app.event(SHARING_EVENT_PATTERN)(self.handle_sharing_change)
        app.event(MATCH_ALL_PATTERN)(self.ignore_event)
        app.action(MATCH_ALL_PATTERN)(self.handle_action)
        app.view_submission(MATCH_ALL_PATTERN)(self.handle_submission)
        app.view_closed(MATCH_ALL_PATTERN)(self.ignore_event)
        app.shortcut(MATCH_ALL_PATTERN)(self.handle_shortcut)
        app.command(MATCH_ALL_PATTERN)(self.handle_command)
        app.options(MATCH_ALL_PATTERN)(self.ignore_event)
        app.error(self.handle_error)

    async def handle_message(self, body: Body, context: AsyncBoltContext, ack: AsyncAck) -> BoltResponse:
        us = context.bot_user_id or ""
        if deleted := parse_deletion(body):
            await self._run_with_error_card(handle_deletion(self._surface, deleted, self._is_first_time))
            return await ack()
        edit, arrival = parse_edit(body, us), parse_message(body, us, self._surface.alert_bots)
        arrival = edit.now if edit else arrival
        if arrival is None:
            return await ack()
        try:
            await self._route_message(arrival, edit)
        except Refusal as no:
            if arrival.mention and not arrival.twin and not arrival.alert:
                await self._queue_reply(arrival, self._get_error_cards(arrival.channel).render_refusal(no))
        except StoreUnreachable as away:
            log.warning("listeners.not_stored", key=arrival.key, error=str(away.__cause__))
            if not arrival.alert and self._is_first_time(arrival.key):
                card = self._get_error_cards(arrival.channel).render_not_stored(will_retry=True)
                self._surface.tasks.spawn_task("not_stored", post_message(self._surface.client, arrival.channel, arrival.root, card))
            return BoltResponse(status=RETRY_STATUS)
        return await ack()

    async def _route_message(self, message: IncomingMessage, edit: EditedMessage | None) -> None:
        if self._door is not None and self._door.is_tenant_channel(message.place):
            await (self._door.handle_edit(edit, self._is_first_time) if edit else self._door.handle_message(message))
        elif edit:
            await handle_edit(self._surface, edit, self._is_first_time)
        else:
            await handle_message(self._surface, message)

    async def handle_home_opened(self, body: Body, ack: AsyncAck) -> BoltResponse:
        event = body["event"]
        if event.get("tab", "home") == "home":
            work = home.publish_home_tab(self._surface, str(event["user"]), str(body.get("team_id", "")))
            self._surface.tasks.spawn_task("home", work)
        elif event["tab"] == "messages":
            self._surface.direct.greet(str(event["channel"]))
        return await ack()

    async def handle_assistant_thread(self, body: Body, ack: AsyncAck) -> BoltResponse:
        begun = body["event"]["assistant_thread"]
        self._surface.direct.greet(str(begun["channel_id"]), str(begun["thread_ts"]))
        return await ack()

    async def handle_sharing_change(self, body: Body, ack: AsyncAck) -> BoltResponse:
        """Record whether a channel is shared: a shared operator channel is not served.

        A channel that one organisation left may still be shared (`is_ext_shared`).
        """
        event = body["event"]
        shared = event["type"] == "channel_shared" or event.get("is_ext_shared") is not False
        log.warning("listeners.sharing", channel=event.get("channel"), shared=shared)
        try:
            async with guard_store():
                await self._surface.people.record_sharing(str(event.get("channel") or ""), shared=shared)
        except StoreUnreachable:
            return BoltResponse(status=RETRY_STATUS)
        return await ack()

    async def handle_action(self, body: Body, ack: AsyncAck, respond: AsyncRespond) -> BoltResponse:
        action_id = body["actions"][0].get("action_id")
        theirs = self._door is not None and action_id in TENANT_ACTION_IDS
        work = self._door.handle_click(body) if self._door is not None and theirs else _find_click_handler(action_id)(self._surface, body)
        if card := await self._run_with_error_card(work, _get_channel(body)):
            self._spawn_ephemeral(respond, body, card)
        return await ack()

    async def handle_shortcut(self, body: Body, ack: AsyncAck, respond: AsyncRespond) -> BoltResponse:
        if body.get("callback_id") == SHORTCUT and (
            card := await self._run_with_error_card(incident_clicks.handle_diagnose_shortcut(self._surface, body), _get_channel(body))
        ):
            self._spawn_ephemeral(respond, body, card)
        return await ack()

    async def handle_submission(self, body: Body, ack: AsyncAck) -> BoltResponse:
        answer: Body = {}
        work = self._route_submission(body, answer)
        if work is None:
            return await ack()
        try:
            card = await self._run_with_error_card(work)
        except BadForm as wrong:
            card = notes.render_refusal(str(wrong))
            if _list_required_fields(body["view"]):
                return await ack(response_action="errors", errors=wrong.problems)
        if card is None:
            return await ack(**answer)
        if not (fields := _list_required_fields(body["view"])):
            return await ack(response_action="update", view=internal_thread.render_not_sent(card))
        return await ack(response_action="errors", errors={fields[-1]: card.text})

    def _route_submission(self, body: Body, answer: Body) -> Awaitable[None] | None:
        """Return the handler call, or None. `answer` receives the response for Slack."""
        callback = body["view"].get("callback_id", "")
        if callback in internal_thread.FORM_CALLBACK_IDS and self._surface.telling is not None:
            return _handle_tenant_update(self._surface.telling, body, answer)
        take = FORM_HANDLERS.get(callback)
        return take(self._surface, body) if take else None

    async def handle_command(self, body: Body, ack: AsyncAck) -> BoltResponse:
        shown: list[Card] = []

        async def run() -> None:
            shown.append(await commands.handle_command(self._surface, body))

        card = await self._run_with_error_card(run(), str(body.get("channel_id") or "")) or shown[0]
        return await ack(text=card.text, blocks=list(card.blocks), response_type="ephemeral")

    async def ignore_event(self, ack: AsyncAck) -> BoltResponse:
        return await ack()

    async def handle_error(self, error: Exception, body: Body, context: AsyncBoltContext, respond: AsyncRespond) -> None:
        """Log a bug under a reference shown to the user. Not acknowledged, so Slack may retry."""
        reference = secrets.token_hex(4)
        log.error("listeners.bug", reference=reference, type=body.get("type"), exc_info=error)
        card = self._get_error_cards(_get_channel(body)).render_bug(reference, _choose_effects_note(body))
        arrival = parse_message(body, context.bot_user_id or "") if body.get("event") else None
        if arrival and arrival.mention and self._is_first_time(arrival.key):
            await self._queue_reply(arrival, card)
        elif body.get("response_url"):
            self._spawn_ephemeral(respond, body, card)

    def _get_error_cards(self, channel: str) -> ErrorCards:
        return (self._door.get_error_cards(channel) if self._door else None) or OPERATOR_ERROR_CARDS

    async def _run_with_error_card(self, work: Awaitable[None], channel: str = "") -> Card | None:
        """Await `work`; return the card of a failure."""
        words = self._get_error_cards(channel)
        try:
            await work
        except Refusal as no:
            return words.render_refusal(no)
        except StoreUnreachable as away:
            log.warning("listeners.not_stored", error=str(away.__cause__))
            return words.render_not_stored(will_retry=False)
        except SlackClientError as trouble:
            log.warning("listeners.slack_refused", error=str(trouble)[:200])
            return words.render_refusal(Refusal("Slack did not let me do that. Please try again."))
        return None

    async def _queue_reply(self, message: IncomingMessage, card: Card) -> None:
        place = Origin(kind="slack", team=message.team, channel=message.channel, thread_ts=message.root, user=message.user)
        await self._surface.queue_reply(place, message.key, card)

    def _spawn_ephemeral(self, respond: AsyncRespond, body: Body, card: Card) -> None:
        thread = (body.get("container") or {}).get("thread_ts")
        self._surface.tasks.spawn_task("whisper", _respond_ephemeral(respond, card, thread))

    def _is_first_time(self, key: str) -> bool:
        """Return True once per key, for the last 1000 keys."""
        known = key in self._told
        self._told[key] = None
        while len(self._told) > 1000:
            self._told.popitem(last=False)
        return not known


async def build_slack_app(handler_context: HandlerContext, door: TenantHandlers | None = None) -> AsyncApp:
    """Build the Bolt app.

    `auth.test` is called here: Bolt would call it at the first event and acknowledge that event even on failure.
    """
    token = str(handler_context.client.token)
    us = AuthorizeResult.from_auth_test_response(bot_token=token, auth_test_response=await handler_context.client.auth_test())

    async def authorize() -> AuthorizeResult:
        return us

    client = AsyncWebClient(base_url=handler_context.client.base_url)
    app = AsyncApp(
        name="rackmedic",  # without a name, Bolt reads the source of every module on the stack for one
        client=client,
        authorize=authorize,
        process_before_response=True,
        raise_error_for_unhandled_request=False,
    )
    Listeners(handler_context, door).register(app)
    return app


def _find_click_handler(action_id: str) -> Callable[[HandlerContext, Body], Awaitable[None]]:
    if action_id in approval.BUTTONS:
        return approval_clicks.handle_click
    if action_id in provider_ticket.BUTTONS:
        return _forward_to_provider
    if action_id in ticket_form.BUTTONS:
        return _forward_to_tracker
    if action_id in internal_thread.BUTTONS:
        return _forward_to_tenant_updates
    if action_id in lesson.BUTTONS:
        return _forward_to_lessons
    if action_id in quota_waiting.BUTTONS:
        return home.handle_quota_waiver
    return home.handle_return_click if action_id in drained_nodes.BUTTONS else incident_clicks.handle_click


async def _forward_to_tenant_updates(handler_context: HandlerContext, body: Body) -> None:
    if handler_context.telling is None:
        raise OldButton
    await handler_context.telling.handle_click(body)


async def _forward_to_provider(handler_context: HandlerContext, body: Body) -> None:
    if handler_context.sending is None:
        raise OldButton
    await handler_context.sending.handle_click(body)


async def _forward_to_tracker(handler_context: HandlerContext, body: Body) -> None:
    if handler_context.tracking is None:
        raise OldButton
    await handler_context.tracking.handle_click(body)


async def _forward_to_lessons(handler_context: HandlerContext, body: Body) -> None:
    if handler_context.teaching is None:
        raise OldButton
    await handler_context.teaching.handle_click(body)


def _get_channel(body: Body) -> str:
    where = (body.get("event") or {}).get("channel") or (body.get("channel") or {}).get("id") or body.get("channel_id")
    return str(where or "")


def _choose_effects_note(body: Body) -> Line:
    """Choose the note: a decision may have been counted, a command may have run."""
    clicked = [str(action.get("action_id")) for action in body.get("actions") or ()]
    if any(name in approval.BUTTONS for name in clicked):
        return notes.DECISION_ERROR_TEXT
    return notes.COMMAND_ERROR_TEXT if body.get("command") else notes.MESSAGE_ERROR_TEXT


def _list_required_fields(view: Body) -> list[str]:
    """Return the required inputs; form errors show under the last. A preview has none."""
    return [str(block["block_id"]) for block in view["blocks"] if block["type"] == "input" and not block.get("optional")]


async def _handle_tenant_update(telling: TenantUpdatesPort, body: Body, answer: Body) -> None:
    """Push the preview of an update, or send it and close both forms."""
    if body["view"]["callback_id"] == internal_thread.TELL_FORM_CALLBACK_ID:
        answer.update(response_action="push", view=await telling.build_preview(body))
    else:
        await telling.handle_send(body)
        answer.update(response_action="clear")


async def _respond_ephemeral(respond: AsyncRespond, card: Card, thread_ts: str | None) -> None:
    """Show a card to one user; a Slack failure is only logged."""
    try:
        await respond(text=card.text, blocks=list(card.blocks), response_type="ephemeral", replace_original=False, thread_ts=thread_ts)
    except SLACK_ERRORS as trouble:
        log.warning("listeners.not_told", error=str(trouble)[:200])
