"""Short answers without a turn, stored before Slack is acknowledged: rate limits or a crash only delay them."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from bot.cards.blocks import Card
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.wakeups import LocalWakeups
from bot.slack.client import UNREDACTED_FIELDS
from graph.state import InboxItem, Origin
from kb.redact import redact_data
from tools.clock import Clock
from tools.inventory.inventory import ChannelRow


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
