"""Registers the features' handlers with Bolt, each id once, and shows a handler's failure as a card.

Slack does not resend clicks, forms and commands, so their user is told. It resends an event that was not acknowledged:
one that could not be stored is answered with 503. `process_before_response` makes Bolt answer only after a listener
returned.
"""

import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import structlog
from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncRespond
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.context.async_context import AsyncBoltContext
from slack_bolt.response import BoltResponse
from slack_sdk.errors import SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from bot.cards.blocks import Card, read_only_modal
from bot.cards.buttons import BadForm
from bot.refusal import Refusal
from bot.slack.client import SLACK_ERRORS, SlackClient
from bot.slack.handlers import (
    BugEffects,
    ClickHandler,
    CommandHandler,
    ErrorCardLookup,
    EventHandler,
    FormHandler,
    SlackHandlers,
    get_channel,
    refuse_old_button,
)
from bot.slack.payloads import Payload
from bot.store.unreachable import StoreUnreachable
from bot.tasks import BackgroundTasks

log = structlog.get_logger()
MATCH_ALL_PATTERN: Final = re.compile(".*", re.DOTALL)
RETRY_STATUS: Final = 503  # not acknowledged: Slack retries
Listener = Callable[..., Awaitable[BoltResponse]]
Result = TypeVar("Result")


class SlackRegistry:
    """All handlers of a front end. Raises ValueError for an id that two features register.

    `answer_mention` shows a card to the author of a message whose handling failed.
    """

    def __init__(
        self,
        features: Sequence[SlackHandlers],
        command: CommandHandler,
        error_cards: ErrorCardLookup,
        answer_mention: Callable[[Payload, str, Card], Awaitable[None]],
        tasks: BackgroundTasks,
    ) -> None:
        self.clicks: Mapping[str, ClickHandler] = _merge_tables(feature.clicks for feature in features)
        self.forms: Mapping[str, FormHandler] = _merge_tables(feature.forms for feature in features)
        self.shortcuts: Mapping[str, ClickHandler] = _merge_tables(feature.shortcuts for feature in features)
        self.events: Mapping[str, EventHandler] = _merge_tables(feature.events for feature in features)
        self._deciding = frozenset(action_id for feature in features if feature.decides for action_id in feature.clicks)
        self._command, self._error_cards, self._answer_mention, self._tasks = command, error_cards, answer_mention, tasks

    def register(self, app: AsyncApp) -> None:
        """Register every handler, then a listener for the rest, so that Socket Mode leaves no request unanswered."""
        for event_type, handle_event in self.events.items():
            app.event(event_type)(self._build_event_listener(handle_event))
        for action_id, handle_click in self.clicks.items():
            app.action(action_id)(self._build_click_listener(handle_click))
        for callback_id, handle_form in self.forms.items():
            app.view_submission(callback_id)(self._build_form_listener(handle_form))
        for callback_id, handle_shortcut in self.shortcuts.items():
            app.shortcut(callback_id)(self._build_click_listener(handle_shortcut))
        app.command(MATCH_ALL_PATTERN)(self._handle_command)  # a site's app may call it by another name
        app.action(MATCH_ALL_PATTERN)(self._build_click_listener(refuse_old_button))
        for listen in (app.event, app.view_submission, app.view_closed, app.shortcut, app.options):
            listen(MATCH_ALL_PATTERN)(_acknowledge)
        app.error(self._handle_bug)

    def _build_event_listener(self, handle: EventHandler) -> Listener:
        async def listen(body: dict[str, Any], context: AsyncBoltContext, ack: AsyncAck) -> BoltResponse:
            try:
                await handle(body, context.bot_user_id or "")
            except StoreUnreachable as error:
                log.warning("listeners.not_stored", type=body["event"].get("type"), error=str(error.__cause__))
                return BoltResponse(status=RETRY_STATUS)
            return await ack()

        return listen

    def _build_click_listener(self, handle: ClickHandler) -> Listener:
        async def listen(body: dict[str, Any], ack: AsyncAck, respond: AsyncRespond) -> BoltResponse:
            _, failure = await self._run_handler(handle(body), get_channel(body))
            if failure:
                self._spawn_ephemeral(respond, body, failure)
            return await ack()

        return listen

    def _build_form_listener(self, handle: FormHandler) -> Listener:
        async def listen(body: dict[str, Any], ack: AsyncAck) -> BoltResponse:
            required = _list_required_fields(body["view"])
            try:
                answer, failure = await self._run_handler(handle(body))
            except BadForm as error:
                if required:
                    return await ack(response_action="errors", errors=error.problems)
                answer, failure = None, self._error_cards("").render_refusal(Refusal(str(error)))
            if failure is None:
                return await ack(**(answer or {}))
            if required:
                return await ack(response_action="errors", errors={required[-1]: failure.text})
            return await ack(response_action="update", view=read_only_modal("Not sent", failure.blocks))

        return listen

    async def _handle_command(self, body: dict[str, Any], ack: AsyncAck) -> BoltResponse:
        answer, failure = await self._run_handler(self._command(body), get_channel(body))
        card = failure or answer
        assert card is not None
        return await ack(text=card.text, blocks=list(card.blocks), response_type="ephemeral")

    async def _handle_bug(self, error: Exception, body: dict[str, Any], context: AsyncBoltContext, respond: AsyncRespond) -> None:
        """Log a bug under a reference shown to the user. Not acknowledged, so Slack may retry."""
        reference = secrets.token_hex(4)
        log.error("listeners.bug", reference=reference, type=body.get("type"), exc_info=error)
        card = self._error_cards(get_channel(body)).render_bug(reference, self._classify_effects(body))
        if body.get("event"):
            await self._answer_mention(body, context.bot_user_id or "", card)
        elif body.get("response_url"):
            self._spawn_ephemeral(respond, body, card)

    def _classify_effects(self, body: Payload) -> BugEffects:
        if any(action.get("action_id") in self._deciding for action in body.get("actions") or ()):
            return "decision"
        return "command" if body.get("command") else "message"

    async def _run_handler(self, work: Awaitable[Result], channel: str = "") -> tuple[Result | None, Card | None]:
        """Return a handler's result, and the card of its failure."""
        cards = self._error_cards(channel)
        try:
            return await work, None
        except Refusal as error:
            return None, cards.render_refusal(error)
        except StoreUnreachable as error:
            log.warning("listeners.not_stored", error=str(error.__cause__))
            return None, cards.render_not_stored(will_retry=False)
        except SlackClientError as error:
            log.warning("listeners.slack_refused", error=str(error)[:200])
            return None, cards.render_refusal(Refusal("Slack did not let me do that. Please try again."))

    def _spawn_ephemeral(self, respond: AsyncRespond, body: Payload, card: Card) -> None:
        thread = (body.get("container") or {}).get("thread_ts")
        self._tasks.spawn_task("whisper", _respond_ephemeral(respond, card, thread))


async def build_slack_app(client: SlackClient, registry: SlackRegistry) -> AsyncApp:
    """Build the Bolt app.

    `auth.test` is called here: Bolt would call it at the first event and acknowledge that event even on failure.
    """
    us = AuthorizeResult.from_auth_test_response(bot_token=str(client.token), auth_test_response=await client.auth_test())

    async def authorize() -> AuthorizeResult:
        return us

    app = AsyncApp(
        name="rackmedic",  # without a name, Bolt reads the source of every module on the stack for one
        client=AsyncWebClient(base_url=client.base_url),
        authorize=authorize,
        process_before_response=True,
        raise_error_for_unhandled_request=False,
    )
    registry.register(app)
    return app


def _merge_tables(tables: Iterable[Mapping[str, Result]]) -> dict[str, Result]:
    merged: dict[str, Result] = {}
    for table in tables:
        if twice := merged.keys() & table.keys():
            raise ValueError(f"registered twice: {', '.join(sorted(twice))}")
        merged.update(table)
    return merged


async def _acknowledge(ack: AsyncAck) -> BoltResponse:
    return await ack()


def _list_required_fields(view: Payload) -> list[str]:
    """Return the required inputs; form errors show under the last. A preview has none."""
    return [str(block["block_id"]) for block in view["blocks"] if block["type"] == "input" and not block.get("optional")]


async def _respond_ephemeral(respond: AsyncRespond, card: Card, thread_ts: str | None) -> None:
    """Show a card to one user; a Slack failure is only logged."""
    try:
        await respond(text=card.text, blocks=list(card.blocks), response_type="ephemeral", replace_original=False, thread_ts=thread_ts)
    except SLACK_ERRORS as error:
        log.warning("listeners.not_told", error=str(error)[:200])
