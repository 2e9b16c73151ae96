"""The first message of a thread that RackMedic starts: posted once, then the incident's origin."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bot.cards.blocks import Card
from bot.cards.text import Part, thread_link
from bot.incidents.cards import diagnosis, notes
from bot.incidents.dispatch.inbox import Inbox
from bot.policy import channels as policy
from bot.slack.client import SlackClient, post_message
from bot.slack.people import People
from bot.slack.posted_messages import POSTING, OriginLookup, PostedCards
from graph.report import Report
from graph.state import Origin
from tools.inventory.inventory import ChannelRow

# Links from a report to other incidents' threads.

NO_CHANNELS: Mapping[str, ChannelRow] = {}


async def build_thread_links(report: Report, origin: Origin, origin_of: OriginLookup, bound: Mapping[str, ChannelRow]) -> dict[str, Part]:
    """Return incident → link, only for threads that the readers may open."""
    found: dict[str, Part] = {}
    for incident in dict.fromkeys(row.incident for row in report.shared):
        other = await origin_of(incident)
        if other is not None and policy.can_follow_thread(origin, other, bound):
            found[incident] = thread_link(other.team, other.channel, other.thread_ts, diagnosis.OTHER_THREAD_TEXT)
    for row in report.threads:
        other = await origin_of(row.incident)
        if other is not None and policy.can_follow_thread(origin, other, bound):
            found[row.incident] = thread_link(other.team, other.channel, other.thread_ts, f"{row.opened:%Y-%m-%d}")
    return found


HISTORY_LIMIT = 200  # messages searched for a root that was posted before a crash


@dataclass(frozen=True, slots=True)
class ThreadRoots:
    """Starts threads of incidents that have none."""

    client: SlackClient
    cards: PostedCards
    inbox: Inbox
    people: People

    async def begin_thread(
        self, incident: str, origin: Origin, kind: str, first: Callable[[], Awaitable[Card]], *, stands_for: str = ""
    ) -> Origin:
        """Post the first message and return the new origin. Where others read the channel, post a refusal.

        `kind`: its event type. `stands_for`: the card that it also is.
        """
        marked = {"event_type": kind, "event_payload": {"incident": incident}}
        ts = await self.cards.claim(incident, "root")
        if ts == POSTING:
            ts = await self._find_root(origin.channel, marked)
        if not ts:
            card = notes.render_refusal(policy.REFUSAL_TEXTS["shared"]) if await self.people.is_shared(origin.channel) else await first()
            ts = await post_message(self.client, origin.channel, "", card, marked)
        for name in filter(None, ("root", stands_for)):
            await self.cards.set(incident, name, ts)
        team = origin.team or str((await self.client.auth_test())["team_id"])
        settled = origin.model_copy(update={"team": team, "thread_ts": ts})
        await self.inbox.set_origin(incident, settled)
        return settled

    async def _find_root(self, channel: str, marked: Mapping[str, Any]) -> str:
        answer = await self.client.conversations_history(channel=channel, limit=HISTORY_LIMIT, include_all_metadata=True)
        return next((str(row["ts"]) for row in answer["messages"] if row.get("metadata") == marked), "")
