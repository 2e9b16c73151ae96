"""Timeline of an incident's actions, from the audit log without verification (see `audit.verify_chain`)."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from redis.asyncio import Redis

from tools.ledger.audit import PAGE_ENTRIES, get_entry_time
from tools.ledger.redis_replies import decode_texts, parse_line, translate_redis_errors

MAX_READ_ENTRIES = 500_000  # newest first


@dataclass(frozen=True, slots=True)
class ActionEvent:
    """One entry: the ledger's event (`propose`, `vote_approve`, `claim`, `finish_done` …) and its author."""

    at: datetime
    event: str
    approval: str
    by: str


@dataclass(frozen=True, slots=True)
class ActionHistory:
    """Events, oldest first. `whole`: read back to the incident's start."""

    events: tuple[ActionEvent, ...] = ()
    whole: bool = True


async def read_action_history(redis: Redis, prefix: str, incident: str, since: datetime) -> ActionHistory:
    """Read the events of an incident opened at `since`."""
    events: list[ActionEvent] = []
    entries_read = 0
    needle = f'"incident":"{incident}"'
    async for page in _iter_pages_backward(redis, prefix):
        newest_first = [_parse_event(line, incident) for line in reversed(page) if needle in line]
        events += filter(None, newest_first)
        entries_read += len(page)
        oldest = get_entry_time(page[0])
        if oldest is not None and oldest < since:
            break
        if entries_read >= MAX_READ_ENTRIES:
            return ActionHistory(tuple(reversed(events)), whole=False)
    return ActionHistory(tuple(reversed(events)))


async def _iter_pages_backward(redis: Redis, prefix: str) -> AsyncIterator[list[str]]:
    """Yield pages of lines, the newest page first, each with its oldest line first. Appends do not shift indices."""
    async with translate_redis_errors():
        end = int(await redis.llen(f"{prefix}audit"))
    while end > 0:
        start = max(0, end - PAGE_ENTRIES)
        async with translate_redis_errors():
            entries = decode_texts(await redis.lrange(f"{prefix}audit", start, end - 1))
        if entries:
            yield [entry.partition(" ")[2] for entry in entries]
        end = start


def _parse_event(line: str, incident: str) -> ActionEvent | None:
    entry = parse_line(line)
    at = get_entry_time(line)
    approval = str(entry.get("approval") or "")
    if at is None or not approval or entry.get("incident") != incident:
        return None
    return ActionEvent(at, str(entry.get("event")), approval, str(entry.get("by") or ""))
