"""The outbox of short answers: stored before Slack is acknowledged, posted once."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import structlog
from slack_sdk.errors import SlackApiError

from bot.cards.blocks import Card
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.wakeups import LocalWakeups
from bot.incidents.publishing.answer_only_runner import AnswerOnlyRunner
from bot.refusal import Refusal
from bot.slack.client import SLACK_ERRORS, UNREDACTED_FIELDS, SlackClient
from bot.slack.people import People
from bot.slack.posted_messages import IdempotentPoster
from graph.report import Report
from graph.state import InboxItem, IncidentState, Origin
from kb.redact import redact_data
from tools.clock import Clock
from tools.inventory.inventory import ChannelRow

# Short answers without a turn, stored before Slack is acknowledged: rate limits or a crash only delay them.


@dataclass(frozen=True, slots=True)
class AnswerOutbox:
    """One per process. An answered thread is not an incident, so `inbox` has other keys."""

    inbox: Inbox
    wakeups: LocalWakeups
    clock: Clock
    bound: Mapping[str, ChannelRow]

    async def store_answer(self, place: Origin, key: str, card: Card) -> None:
        """Store an answer and wake this process. Posted once per key and card."""
        said = redact_data({"text": card.text, "blocks": list(card.blocks)}, UNREDACTED_FIELDS)
        id_ = f"{key} {hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]}"

        def item(thread: str) -> InboxItem:
            data = {"card": said, "for": self.get_channel_owner(place.channel)}
            return InboxItem(id=id_, kind="ask", incident=thread, at=self.clock.now(), user=place.user, data=data)

        received = await self.inbox.open_or_join(place, id_, item)
        if not received.duplicate:
            await self.wakeups.wake(received.incident)

    def get_channel_owner(self, channel: str) -> str:
        """Return the channel's owner: an answer is not posted after its channel changed owners."""
        row = self.bound.get(channel)
        return f"{row.kind} {row.tenant}".strip() if row else ""


def parse_card(item: InboxItem) -> Card:
    said = item.data["card"]
    return Card(tuple(said["blocks"]), str(said["text"]))


# Post the outbox's answers, each once: after a crash the thread is searched for the answer first.

log = structlog.get_logger()
GIVE_UP_AFTER: Final = timedelta(hours=1)
RECHECK_READERS_AFTER: Final = timedelta(seconds=15)  # after which it is asked again who reads the channel
PERMANENT_SLACK_ERRORS: Final = frozenset(
    {"channel_not_found", "not_in_channel", "is_archived", "restricted_action", "invalid_blocks", "msg_too_long"}
)


@dataclass(frozen=True, slots=True)
class OutboxPublisher(AnswerOnlyRunner):
    """Turns of the outbox's dispatcher, and the observer that posts its answers."""

    client: SlackClient
    outbox: AnswerOutbox
    people: People

    async def publish_report(self, incident: str, state: IncidentState, report: Report) -> None:
        """Post the oldest answer. Re-raises errors until GIVE_UP_AFTER."""
        [item], origin = await self.outbox.inbox.list_waiting(incident, 1), await self.outbox.inbox.get_origin(incident)
        if origin is None:
            return
        await self.cards.set_retention(incident, closed=False)
        try:
            if await self._can_be_read(origin, item):
                await IdempotentPoster(self.client, self.cards).post_once(
                    origin, incident, f"answer:{item.id}", parse_card(item), build_metadata(item)
                )
        except (*SLACK_ERRORS, Refusal) as error:
            if not self._is_hopeless(item, error):
                raise
            log.exception("outbox.not_posted", item=item.id, channel=origin.channel)

    async def _can_be_read(self, origin: Origin, item: InboxItem) -> bool:
        """The channel may have changed owners, or been shared, while the answer waited."""
        whose = self.outbox.get_channel_owner(origin.channel)
        late = self.outbox.clock.now() - item.at >= RECHECK_READERS_AFTER
        if whose == item.data["for"] and not (whose.startswith("operators") and late and await self.people.is_shared(origin.channel)):
            return True
        log.warning("outbox.not_theirs_any_more", item=item.id, channel=origin.channel)
        return False

    def _is_hopeless(self, item: InboxItem, trouble: Exception) -> bool:
        refused = isinstance(trouble, SlackApiError) and trouble.response["error"] in PERMANENT_SLACK_ERRORS
        return refused or self.outbox.clock.now() - item.at >= GIVE_UP_AFTER


def build_metadata(item: InboxItem) -> dict[str, Any]:
    return {"event_type": "rackmedic_answer", "event_payload": {"asked": item.id}}
