"""The first message of an incident was deleted, and with it the way to its thread: those who are on call are told what is still going on there, where
they read. What is only told in a thread that nobody finds would be lost: a node that we hold, an action that waits.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bot.cards.incidents import notes
from bot.slack.client import post
from bot.slack.context import Surface, storing
from bot.slack.incoming.open_work import open_work


@dataclass(frozen=True, slots=True)
class Deletion:
    """The first message of a thread that is no more."""

    team: str
    channel: str
    ts: str


def read_deletion(body: Mapping[str, Any]) -> Deletion | None:
    """Slack tells of it as a deletion, or, where there are replies, as a change into a tombstone. Of a reply it is nobody's business."""
    event: Mapping[str, Any] = body.get("event") or {}
    message = event.get("message") or {}
    buried = event.get("subtype") == "message_changed" and message.get("subtype") == "tombstone"
    if not (buried or event.get("subtype") == "message_deleted"):
        return None
    ts, root = str(message.get("ts") or event.get("deleted_ts") or ""), (event.get("previous_message") or {}).get("thread_ts")
    if not ts or (root and root != ts):
        return None
    return Deletion(str(body.get("team_id") or event.get("team") or ""), str(event.get("channel") or ""), ts)


async def hear_deletion(surface: Surface, gone: Deletion, first: Callable[[str], bool]) -> None:
    """Tell the operators' channel, where something is still going on, once."""
    async with storing():
        incident = await surface.inbox.find(gone.team, gone.channel, gone.ts)
    row = surface.bound.get(gone.channel)
    if incident is None or row is None:
        return
    work = await open_work(surface, incident)
    if (work.lifecycle == "closed" and not work.held) or not first(f"{gone.team}.{gone.channel}.{gone.ts} deleted"):
        return
    where = row.internal if row.kind == "tenant" else gone.channel
    if where:
        surface.tasks.spawn("thread_deleted", post(surface.client, where, "", notes.thread_deleted(work)))
