"""Edits of posted messages. An edit that Slack refuses now is made at a sweep, from the state at that time."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.cards.blocks import Card
from bot.slack.client import SLACK_ERRORS, build_message_args
from bot.slack.posted_messages import EDIT_LOCK_WAIT, UNEDITABLE_ERRORS, PendingMessages, PostedCards
from graph.state import Origin

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class PendingEdits:
    """Reports do not wait for edits: items that did were retried until dead-lettered."""

    client: AsyncWebClient
    cards: PostedCards
    unsettled: PendingMessages
    names: tuple[str, ...]

    async def edit_message(self, origin: Origin, incident: str, name: str, ts: str, card: Card) -> None:
        """Edit the message, or note the edit as pending."""
        async with self.cards.hold_lock(incident, "owed", wait=EDIT_LOCK_WAIT) as alone:
            if alone:
                await self._try_edit(origin, incident, name, ts, card)
            else:
                await self.cards.set(incident, _build_pending_key(name), ts)  # another edit is running; a sweep makes this one

    async def _try_edit(self, origin: Origin, incident: str, name: str, ts: str, card: Card) -> None:
        try:
            await self.client.chat_update(channel=origin.channel, ts=ts, **build_message_args(card))
        except SLACK_ERRORS as error:
            if not (isinstance(error, SlackApiError) and error.response["error"] in UNEDITABLE_ERRORS):
                log.warning("edit.follows_later", incident=incident, card=name, error=str(error)[:200])
                await self.cards.set(incident, _build_pending_key(name), ts)
                return
            log.info("edit.message_gone", incident=incident, card=name)
        await self.cards.drop(incident, _build_pending_key(name))

    async def note_pending(self, incident: str) -> None:
        """Register pending edits for the sweep. Call after all that may unregister the incident."""
        if [name for name in self.names if await self.cards.get(incident, _build_pending_key(name))]:
            await self.unsettled.add_pending(incident)

    async def retry_pending(self, origin: Origin, incident: str, drawn: Callable[[str], Awaitable[Card]]) -> None:
        """Make pending edits, rendered anew by `drawn`."""
        try:
            async with self.cards.hold_lock(incident, "owed") as alone:
                for name in self.names if alone else ():
                    if ts := await self.cards.get(incident, _build_pending_key(name)):
                        await self._try_edit(origin, incident, name, ts, await drawn(name))
        finally:
            await self.note_pending(incident)


def _build_pending_key(name: str) -> str:
    return f"{name}_owed"
