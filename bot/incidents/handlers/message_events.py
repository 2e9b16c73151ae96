"""Slack's events of messages, edits and deletions, in any channel."""

from collections import OrderedDict
from collections.abc import Collection
from typing import Final

import structlog
from slack_sdk.errors import SlackClientError

from bot.cards.blocks import Card
from bot.incidents.handlers.messages import handle_deletion, handle_edit, handle_message
from bot.incidents.handlers.services import MessageServices
from bot.refusal import Refusal
from bot.slack.client import post_message
from bot.slack.handlers import ErrorCardLookup
from bot.slack.payloads import EditedMessage, IncomingMessage, Payload, parse_deletion, parse_edit, parse_message
from bot.store.unreachable import StoreUnreachable
from bot.tenants.handlers import TenantHandlers
from graph.state import Origin

log = structlog.get_logger()
MAX_REMEMBERED_KEYS: Final = 1000


class RecentKeys:
    """The last MAX_REMEMBERED_KEYS keys of this process."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, None] = OrderedDict()

    def is_first_time(self, key: str) -> bool:
        """Return True once per key."""
        known = key in self._known
        self._known[key] = None
        while len(self._known) > MAX_REMEMBERED_KEYS:
            self._known.popitem(last=False)
        return not known


class MessageEvents:
    """Gives a message to the tenants' handlers if it came from a tenant's channel, else to the operators'."""

    def __init__(
        self, services: MessageServices, tenants: TenantHandlers | None, error_cards: ErrorCardLookup, alert_bots: Collection[str] = ()
    ) -> None:
        self._services, self._tenants, self._error_cards, self._alert_bots = services, tenants, error_cards, alert_bots
        self._seen = RecentKeys()

    async def handle(self, body: Payload, us: str) -> None:
        """Handle a message, an edit or a deletion. Raises StoreUnreachable, after telling a message's author."""
        if deleted := parse_deletion(body):
            try:
                await handle_deletion(self._services, deleted, self._seen.is_first_time)
            except (Refusal, StoreUnreachable, SlackClientError) as error:
                log.warning("listeners.deletion_not_told", error=str(error)[:200])
            return
        edit = parse_edit(body, us)
        message = edit.now if edit else parse_message(body, us, self._alert_bots)
        if message is None:
            return
        try:
            await self._route_message(message, edit)
        except Refusal as error:
            if message.mention and not message.twin and not message.alert:
                await self._queue_reply(message, self._error_cards(message.channel).render_refusal(error))
        except StoreUnreachable:
            if not message.alert and self._seen.is_first_time(message.key):
                card = self._error_cards(message.channel).render_not_stored(will_retry=True)
                self._services.context.tasks.spawn_task(
                    "not_stored", post_message(self._services.context.client, message.channel, message.root, card)
                )
            raise

    async def _route_message(self, message: IncomingMessage, edit: EditedMessage | None) -> None:
        if self._tenants is not None and self._tenants.is_tenant_channel(message.place):
            await (self._tenants.handle_edit(edit, self._seen.is_first_time) if edit else self._tenants.handle_message(message))
        elif edit:
            await handle_edit(self._services, edit, self._seen.is_first_time)
        else:
            await handle_message(self._services, message)

    async def answer_mention(self, body: Payload, us: str, card: Card) -> None:
        """Answer a mention whose handling failed, once."""
        message = parse_message(body, us)
        if message and message.mention and self._seen.is_first_time(message.key):
            await self._queue_reply(message, card)

    async def _queue_reply(self, message: IncomingMessage, card: Card) -> None:
        place = Origin(kind="slack", team=message.team, channel=message.channel, thread_ts=message.root, user=message.user)
        await self._services.context.queue_reply(place, message.key, card)
