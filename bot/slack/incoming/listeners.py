"""Slack payload → our value → the inbox. The edge: refusals become one card here, and everything is acknowledged or deliberately not.

What cannot be stored is not acknowledged when Slack would send it again (messages), and told to the person at once when it
would not (clicks, forms, commands). `process_before_response` makes Bolt answer only after a listener has returned, and a listener
for everything keeps Socket Mode from leaving an event unanswered.
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

from bot.cards.approvals import card as approval
from bot.cards.approvals import edit_modal, reject_modal
from bot.cards.blocks import Card
from bot.cards.buttons import BadForm, OldButton
from bot.cards.customers import inside, waits
from bot.cards.customers import living as customers
from bot.cards.incidents import close_modal, held, more, notes
from bot.cards.incidents import feedback as feedback_form
from bot.cards.lessons import lesson
from bot.cards.provider import sending
from bot.cards.text import Line
from bot.cards.trackers import opening
from bot.policy.channels import Place
from bot.refusal import Refusal
from bot.slack.client import SLACK_TROUBLE, post
from bot.slack.context import StoreAway, Surface, Tells, refusal, storing
from bot.slack.incoming import approval_clicks, clicks, commands, feedback, forms, home
from bot.slack.incoming.messages import hear, hear_deletion, hear_edit
from bot.slack.incoming.payloads import Arrival, Rewritten, read_deletion, read_edit, read_message
from bot.slack.manifest import SHORTCUT
from graph.state import Origin

log = structlog.get_logger()

ANYTHING = re.compile(".*", re.DOTALL)
SHARING = re.compile("^channel_(?:un)?shared$")
CUSTOMERS = frozenset(customers.BUTTONS)
AGAIN = 503
"""Not acknowledged: Slack sends it again."""

Body = dict[str, Any]
FORMS: Mapping[str, Callable[[Surface, Body], Awaitable[None]]] = {
    close_modal.CALLBACK: clicks.close,
    reject_modal.CALLBACK: approval_clicks.reject,
    edit_modal.CALLBACK: approval_clicks.edit,
    feedback_form.CALLBACK: feedback.complain,
    more.ASSIGN: forms.assign,
    more.CORRECT: forms.correct,
    opening.CALLBACK: forms.send_to_tracker,
    lesson.CALLBACK: forms.change_lesson,
}
"""Form → who takes it."""


class Door(Protocol):
    """Who takes what happens in channels that are not the operators'."""

    def serves(self, place: Place) -> bool: ...

    async def hear(self, arrival: Arrival) -> None: ...

    async def hear_edit(self, edit: Rewritten, first: Callable[[str], bool]) -> None: ...

    async def press(self, payload: Body) -> None: ...

    def words(self, channel: str) -> "Unwelcome | None":
        """What is read in a channel of theirs where nothing came of what was done; None where it is none of theirs."""
        ...


class Unwelcome(Protocol):
    """The cards for those who are told that nothing came of it."""

    def refused(self, no: Refusal) -> Card: ...

    def not_stored(self, *, will_retry: bool) -> Card: ...

    def bug(self, reference: str, known: Line) -> Card: ...


class OurWords:
    """As our own people read it."""

    def refused(self, no: Refusal) -> Card:
        return refusal(no)

    def not_stored(self, *, will_retry: bool) -> Card:
        return notes.not_stored(will_retry)

    def bug(self, reference: str, known: Line) -> Card:
        return notes.bug(reference, known)


OURS: Final = OurWords()


class Listeners:
    """One method a kind of payload. Each returns what Slack is answered. `door`: of customers' channels, where they are served."""

    def __init__(self, surface: Surface, door: Door | None = None) -> None:
        self._surface = surface
        self._door = door
        self._told: OrderedDict[str, None] = OrderedDict()

    def register(self, app: AsyncApp) -> None:
        """Everything, so that nothing is left unanswered."""
        app.event(re.compile("^(app_mention|message)$"))(self.message)
        app.event("app_home_opened")(self.home_opened)
        app.event("assistant_thread_started")(self.chat_begun)
        app.event(SHARING)(self.sharing)
        app.event(ANYTHING)(self.nothing)
        app.action(ANYTHING)(self.action)
        app.view_submission(ANYTHING)(self.submission)
        app.view_closed(ANYTHING)(self.nothing)
        app.shortcut(ANYTHING)(self.shortcut)
        app.command(ANYTHING)(self.command)
        app.options(ANYTHING)(self.nothing)
        app.error(self.bug)

    async def message(self, body: Body, context: AsyncBoltContext, ack: AsyncAck) -> BoltResponse:
        us = context.bot_user_id or ""
        if deleted := read_deletion(body):
            await self._refused(hear_deletion(self._surface, deleted, self._first))
            return await ack()
        edit, arrival = read_edit(body, us), read_message(body, us, self._surface.alert_bots)
        arrival = edit.now if edit else arrival
        if arrival is None:
            return await ack()
        try:
            await self._hear(arrival, edit)
        except Refusal as no:
            if arrival.mention and not arrival.twin and not arrival.alert:
                await self._say(arrival, self._words(arrival.channel).refused(no))
        except StoreAway as away:
            log.warning("listeners.not_stored", key=arrival.key, error=str(away.__cause__))
            if not arrival.alert and self._first(arrival.key):
                card = self._words(arrival.channel).not_stored(will_retry=True)
                self._surface.tasks.spawn("not_stored", post(self._surface.client, arrival.channel, arrival.root, card))
            return BoltResponse(status=AGAIN)
        return await ack()

    async def _hear(self, arrival: Arrival, edit: Rewritten | None) -> None:
        """To whoever answers in that channel."""
        if self._door is not None and self._door.serves(arrival.place):
            await (self._door.hear_edit(edit, self._first) if edit else self._door.hear(arrival))
        elif edit:
            await hear_edit(self._surface, edit, self._first)
        else:
            await hear(self._surface, arrival)

    async def home_opened(self, body: Body, ack: AsyncAck) -> BoltResponse:
        event = body["event"]
        if event.get("tab", "home") == "home":
            work = home.publish(self._surface, str(event["user"]), str(body.get("team_id", "")))
            self._surface.tasks.spawn("home", work)
        elif event["tab"] == "messages":
            self._surface.direct.greet(str(event["channel"]))
        return await ack()

    async def chat_begun(self, body: Body, ack: AsyncAck) -> BoltResponse:
        """Of an app whose conversation is threads. That people then look at another channel is heard by `nothing`: it is none of our business."""
        begun = body["event"]["assistant_thread"]
        self._surface.direct.greet(str(begun["channel_id"]), str(begun["thread_ts"]))
        return await ack()

    async def sharing(self, body: Body, ack: AsyncAck) -> BoltResponse:
        """A channel opens to another organisation, or closes: a channel of the operators that others read is served no more from now on.
        Still shared is one that another organisation left (`is_ext_shared`)."""
        event = body["event"]
        shared = event["type"] == "channel_shared" or event.get("is_ext_shared") is not False
        log.warning("listeners.sharing", channel=event.get("channel"), shared=shared)
        try:
            async with storing():
                await self._surface.people.turned(str(event.get("channel") or ""), shared=shared)
        except StoreAway:
            return BoltResponse(status=AGAIN)
        return await ack()

    async def action(self, body: Body, ack: AsyncAck, respond: AsyncRespond) -> BoltResponse:
        action_id = body["actions"][0].get("action_id")
        theirs = self._door is not None and action_id in CUSTOMERS
        work = self._door.press(body) if self._door is not None and theirs else _taker(action_id)(self._surface, body)
        if card := await self._refused(work, _channel(body)):
            self._whisper(respond, body, card)
        return await ack()

    async def shortcut(self, body: Body, ack: AsyncAck, respond: AsyncRespond) -> BoltResponse:
        if body.get("callback_id") == SHORTCUT and (card := await self._refused(clicks.diagnose(self._surface, body), _channel(body))):
            self._whisper(respond, body, card)
        return await ack()

    async def submission(self, body: Body, ack: AsyncAck) -> BoltResponse:
        answer: Body = {}
        work = self._submitted(body, answer)
        if work is None:
            return await ack()
        try:
            card = await self._refused(work)
        except BadForm as wrong:
            card = notes.refused(str(wrong))
            if _fields(body["view"]):
                return await ack(response_action="errors", errors=wrong.problems)
        if card is None:
            return await ack(**answer)
        if not (fields := _fields(body["view"])):
            return await ack(response_action="update", view=inside.not_sent(card))
        return await ack(response_action="errors", errors={fields[-1]: card.text})

    def _submitted(self, body: Body, answer: Body) -> Awaitable[None] | None:
        """`answer` is filled with what Slack is to do with the form."""
        callback = body["view"].get("callback_id", "")
        if callback in inside.FORMS and self._surface.telling is not None:
            return _told(self._surface.telling, body, answer)
        take = FORMS.get(callback)
        return take(self._surface, body) if take else None

    async def command(self, body: Body, ack: AsyncAck) -> BoltResponse:
        shown: list[Card] = []

        async def run() -> None:
            shown.append(await commands.command(self._surface, body))

        card = await self._refused(run(), str(body.get("channel_id") or "")) or shown[0]
        return await ack(text=card.text, blocks=list(card.blocks), response_type="ephemeral")

    async def nothing(self, ack: AsyncAck) -> BoltResponse:
        """Heard, and none of our business."""
        return await ack()

    async def bug(self, error: Exception, body: Body, context: AsyncBoltContext, respond: AsyncRespond) -> None:
        """Ours to mend: written down under a reference that the person is given. Not acknowledged, so Slack may send it again."""
        reference = secrets.token_hex(4)
        log.error("listeners.bug", reference=reference, type=body.get("type"), exc_info=error)
        card = self._words(_channel(body)).bug(reference, _known(body))
        arrival = read_message(body, context.bot_user_id or "") if body.get("event") else None
        if arrival and arrival.mention and self._first(arrival.key):
            await self._say(arrival, card)
        elif body.get("response_url"):
            self._whisper(respond, body, card)

    def _words(self, channel: str) -> Unwelcome:
        """In which words people of a channel are told that nothing came of it."""
        return (self._door.words(channel) if self._door else None) or OURS

    async def _refused(self, work: Awaitable[None], channel: str = "") -> Card | None:
        """Do it; what the person must be told when it was not done."""
        words = self._words(channel)
        try:
            await work
        except Refusal as no:
            return words.refused(no)
        except StoreAway as away:
            log.warning("listeners.not_stored", error=str(away.__cause__))
            return words.not_stored(will_retry=False)
        except SlackClientError as trouble:
            log.warning("listeners.slack_refused", error=str(trouble)[:200])
            return words.refused(Refusal("Slack did not let me do that. Please try again."))
        return None

    async def _say(self, arrival: Arrival, card: Card) -> None:
        place = Origin(kind="slack", team=arrival.team, channel=arrival.channel, thread_ts=arrival.root, user=arrival.user)
        await self._surface.say(place, arrival.key, card)

    def _whisper(self, respond: AsyncRespond, body: Body, card: Card) -> None:
        thread = (body.get("container") or {}).get("thread_ts")
        self._surface.tasks.spawn("whisper", _respond(respond, card, thread))

    def _first(self, key: str) -> bool:
        """True once a key, as far as the last thousand go."""
        known = key in self._told
        self._told[key] = None
        while len(self._told) > 1000:
            self._told.popitem(last=False)
        return not known


async def slack_app(surface: Surface, door: Door | None = None) -> AsyncApp:
    """The Bolt app. Who we are is asked once, now: Bolt would ask at the first event, and acknowledge that event even if it cannot tell."""
    token = str(surface.client.token)
    us = AuthorizeResult.from_auth_test_response(bot_token=token, auth_test_response=await surface.client.auth_test())

    async def authorize() -> AuthorizeResult:
        return us

    client = AsyncWebClient(base_url=surface.client.base_url)
    app = AsyncApp(
        name="rackmedic",  # without a name, Bolt reads the source of every module on the stack for one
        client=client,
        authorize=authorize,
        process_before_response=True,
        raise_error_for_unhandled_request=False,
    )
    Listeners(surface, door).register(app)
    return app


def _taker(action_id: str) -> Callable[[Surface, Body], Awaitable[None]]:
    """Who takes a click."""
    if action_id in approval.BUTTONS:
        return approval_clicks.press
    if action_id in sending.BUTTONS:
        return _to_provider
    if action_id in opening.BUTTONS:
        return _to_tracker
    if action_id in inside.BUTTONS:
        return _to_customer
    if action_id in lesson.BUTTONS:
        return _to_lessons
    if action_id in waits.BUTTONS:
        return home.let_in
    return home.press if action_id in held.BUTTONS else clicks.press


async def _to_customer(surface: Surface, body: Body) -> None:
    if surface.telling is None:
        raise OldButton
    await surface.telling.press(body)


async def _to_provider(surface: Surface, body: Body) -> None:
    if surface.sending is None:
        raise OldButton
    await surface.sending.press(body)


async def _to_tracker(surface: Surface, body: Body) -> None:
    if surface.tracking is None:
        raise OldButton
    await surface.tracking.press(body)


async def _to_lessons(surface: Surface, body: Body) -> None:
    if surface.teaching is None:
        raise OldButton
    await surface.teaching.press(body)


def _channel(body: Body) -> str:
    """Where an event, a click or a command happened; empty where that is no channel."""
    where = (body.get("event") or {}).get("channel") or (body.get("channel") or {}).get("id") or body.get("channel_id")
    return str(where or "")


def _known(body: Body) -> Line:
    """What is known when something broke, by what was begun: a decision may have been counted, a command may have taken effect."""
    clicked = [str(action.get("action_id")) for action in body.get("actions") or ()]
    if any(name in approval.BUTTONS for name in clicked):
        return notes.A_DECISION
    return notes.A_COMMAND if body.get("command") else notes.A_MESSAGE


def _fields(view: Body) -> list[str]:
    """The fields of a form that must be filled; a refusal of the whole is said under the last. A preview has none."""
    return [str(block["block_id"]) for block in view["blocks"] if block["type"] == "input" and not block.get("optional")]


async def _told(telling: Tells, body: Body, answer: Body) -> None:
    """What is written to a customer lays its preview over the form; the preview sends it, and both close."""
    if body["view"]["callback_id"] == inside.TELL_FORM:
        answer.update(response_action="push", view=await telling.preview(body))
    else:
        await telling.send(body)
        answer.update(response_action="clear")


async def _respond(respond: AsyncRespond, card: Card, thread_ts: str | None) -> None:
    """Tell one person. Their click stays undone whether or not Slack passes this on."""
    try:
        await respond(text=card.text, blocks=list(card.blocks), response_type="ephemeral", replace_original=False, thread_ts=thread_ts)
    except SLACK_TROUBLE as trouble:
        log.warning("listeners.not_told", error=str(trouble)[:200])
