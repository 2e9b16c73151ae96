"""Posts what lies in the outbox, each answer once: a process that finds one begun looks for its metadata in the thread before it posts."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import structlog
from slack_sdk.errors import SlackApiError

from bot.refusal import Refusal
from bot.slack.client import SLACK_TROUBLE, SlackClient
from bot.slack.outbox import Outbox, card_of
from bot.slack.outgoing.no_turns import NoTurns
from bot.slack.outgoing.posts import Once
from bot.slack.people import People
from graph.report import Report
from graph.state import Incident, Item, Origin

log = structlog.get_logger()
GIVE_UP_AFTER: Final = timedelta(hours=1)
LATE: Final = timedelta(seconds=15)  # after which it is asked again who reads the channel
HOPELESS: Final = frozenset({"channel_not_found", "not_in_channel", "is_archived", "restricted_action", "invalid_blocks", "msg_too_long"})


@dataclass(frozen=True, slots=True)
class OutboxPosts(NoTurns):
    """Turns and board of the desk that empties the outbox."""

    client: SlackClient
    outbox: Outbox
    people: People

    async def report(self, incident: str, state: Incident, report: Report) -> None:
        """Post the oldest answer of the thread, once. Raises what posting raises, until `GIVE_UP_AFTER`."""
        [item], origin = await self.outbox.inbox.peek(incident, 1), await self.outbox.inbox.origin(incident)
        if origin is None:
            return
        await self.cards.keep(incident, closed=False)
        try:
            if await self._may_be_read(origin, item):
                await Once(self.client, self.cards).post(origin, incident, f"answer:{item.id}", card_of(item), mark(item))
        except (*SLACK_TROUBLE, Refusal) as trouble:
            if not self._is_hopeless(item, trouble):
                raise
            log.exception("outbox.not_posted", item=item.id, channel=origin.channel)

    async def _may_be_read(self, origin: Origin, item: Item) -> bool:
        """A channel may have been given to another customer, or one of the operators opened to others, while the answer waited."""
        whose = self.outbox.whose(origin.channel)
        late = self.outbox.clock.now() - item.at >= LATE
        if whose == item.data["for"] and not (whose.startswith("operators") and late and await self.people.shared(origin.channel)):
            return True
        log.warning("outbox.not_theirs_any_more", item=item.id, channel=origin.channel)
        return False

    def _is_hopeless(self, item: Item, trouble: Exception) -> bool:
        refused = isinstance(trouble, SlackApiError) and trouble.response["error"] in HOPELESS
        return refused or self.outbox.clock.now() - item.at >= GIVE_UP_AFTER


def mark(item: Item) -> dict[str, Any]:
    """Return the metadata of an answer."""
    return {"event_type": "rackmedic_answer", "event_payload": {"asked": item.id}}
