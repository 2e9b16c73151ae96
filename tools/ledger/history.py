"""When what happened to an incident's actions, from the audit log: moments that their records do not hold. As the log has it: whether that was
altered, `audit.verify` says."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from redis.asyncio import Redis

from tools.ledger.audit import PAGE_ENTRIES, get_entry_time
from tools.ledger.redis_replies import decode_texts, parse_line, translate_redis_errors

MAX_READ_ENTRIES = 500_000
"""Entries that are read, the newest first."""


@dataclass(frozen=True, slots=True)
class ActionEvent:
    """One entry: `event` is the ledger's own word (`propose`, `vote_approve`, `claim`, `finish_done` …), `by` who made it so."""

    at: datetime
    event: str
    approval: str
    by: str


@dataclass(frozen=True, slots=True)
class ActionHistory:
    """Oldest first. `whole`: the log was read back to where the incident began."""

    events: tuple[ActionEvent, ...] = ()
    whole: bool = True


async def read_action_history(redis: Redis, prefix: str, incident: str, since: datetime) -> ActionHistory:
    """Of the actions of an incident that was opened at `since`; older entries are not read."""
    found: list[ActionEvent] = []
    read, sought = 0, f'"incident":"{incident}"'
    async for page in _iter_pages_backward(redis, prefix):
        found += [event for line in reversed(page) if sought in line and (event := _parse_event(line, incident))]
        read += len(page)
        oldest = get_entry_time(page[0])
        if oldest is not None and oldest < since:
            break
        if read >= MAX_READ_ENTRIES:
            return ActionHistory(tuple(reversed(found)), whole=False)
    return ActionHistory(tuple(reversed(found)))


async def _iter_pages_backward(redis: Redis, prefix: str) -> AsyncIterator[list[str]]:
    """Pages of lines, the newest page first, each oldest first. Who appends meanwhile moves nothing: the log only grows at its end."""
    async with translate_redis_errors():
        end = int(await redis.llen(f"{prefix}audit"))
    while end > 0:
        start = max(0, end - PAGE_ENTRIES)
        async with translate_redis_errors():
            rows = decode_texts(await redis.lrange(f"{prefix}audit", start, end - 1))
        if rows:
            yield [row.partition(" ")[2] for row in rows]
        end = start


def _parse_event(line: str, incident: str) -> ActionEvent | None:
    """An entry about an action of the incident; None of what only names it, or cannot be read."""
    row, at = parse_line(line), get_entry_time(line)
    approval = str(row.get("approval") or "")
    if at is None or not approval or row.get("incident") != incident:
        return None
    return ActionEvent(at, str(row.get("event")), approval, str(row.get("by") or ""))
