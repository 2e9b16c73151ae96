"""The audit log: append-only, chained, written before the effect. Each head signs everything before it, so a changed, removed or
re-ordered entry breaks the chain; a cut end shows against any head that was posted elsewhere."""

import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from redis.asyncio import Redis

from tools.ledger.redis_replies import decode_text, decode_texts, parse_line, translate_redis_errors
from tools.ledger.seal import Seal

PAGE_ENTRIES = 1000
ALTERED_BRAKES = "altered"
"""What stands in the place of the brakes' digest where they were changed by somebody else."""
STOP_EVENT = "stop"
"""All that an earlier key may still sign after a later one: whoever was not restarted may pull the kill switch, which starts nothing."""


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What verification found. `broken_at` is the first entry (from 0) that the chain does not lead to.
    `missing_heads` are heads posted elsewhere that the chain never passes through: its end was cut."""

    entries: int
    head: str
    intact: bool
    broken_at: int | None = None
    missing_heads: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """True when nothing was altered, removed or cut, as far as the given heads can tell."""
        return self.intact and not self.missing_heads


def build_entry(event: str, approval: str, by: str, at: str, **more: Any) -> str:
    """One audit line: what is about to happen to which action, by whom. Never a secret, never an output."""
    return json.dumps({"event": event, "approval": approval, "by": by, "at": at, **more}, sort_keys=True, separators=(",", ":"))


def add_brakes_digest(line: str, digest: str) -> str:
    """The line, with the digest of the brakes that are in force after it."""
    return json.dumps({**parse_line(line), "brakes": digest}, sort_keys=True, separators=(",", ":"))


def get_brakes_digest(line: str) -> str:
    """The digest of the brakes in force after an entry; empty where the entry says none, as those of earlier versions."""
    return str(parse_line(line).get("brakes") or "")


def get_entry_time(line: str) -> datetime | None:
    """When an entry was written, as it says itself; None where it does not."""
    try:
        at = datetime.fromisoformat(str(parse_line(line).get("at")))
    except ValueError:
        return None
    return at if at.tzinfo else None


def compute_next_head(seal: Seal, head: str, line: str) -> str:
    """The head after `line`."""
    return seal.sign("audit", head, line)


def find_signer(seal: Seal, head: str, line: str, said: str) -> str:
    """The id of the key with which `line` was signed after `head`; empty where none of ours says so."""
    return seal.find_signer(said, "audit", head, line)


async def iter_rows(redis: Redis, prefix: str, length: int) -> AsyncIterator[tuple[str, str]]:
    """The first `length` rows, oldest first, as (head after it, line)."""
    for start in range(0, length, PAGE_ENTRIES):
        async with translate_redis_errors():
            page = decode_texts(await redis.lrange(f"{prefix}audit", start, min(start + PAGE_ENTRIES, length) - 1))
        for row in page:
            head, _, line = row.partition(" ")
            yield head, line


async def read_end(redis: Redis, prefix: str) -> tuple[int, str]:
    """Length and head at one moment: others may append while we walk."""
    async with translate_redis_errors():
        pipe = redis.pipeline(transaction=True)
        pipe.llen(f"{prefix}audit")
        pipe.get(f"{prefix}head")
        length, head = await pipe.execute()
    return int(length), decode_text(head)


async def is_begun_with(redis: Redis, prefix: str, seal: Seal) -> bool:
    """Whether the chain's first entry is signed with one of these keys; true of an empty chain."""
    async for said, line in iter_rows(redis, prefix, min(1, (await read_end(redis, prefix))[0])):
        return bool(find_signer(seal, "", line, said))
    return True


async def find_newest_signer(redis: Redis, prefix: str, seal: Seal) -> str | None:
    """The id of the key that the newest entry is signed with; empty where it is none of ours, None of an empty chain."""
    async with translate_redis_errors():
        newest = decode_texts(await redis.lrange(f"{prefix}audit", -2, -1))
    if not newest:
        return None
    before = newest[0].partition(" ")[0] if len(newest) > 1 else ""
    said, _, line = newest[-1].partition(" ")
    return find_signer(seal, before, line, said)


async def export_entries(redis: Redis, prefix: str) -> AsyncIterator[str]:
    """Every entry as one JSON line, its head added."""
    length, _ = await read_end(redis, prefix)
    async for head, line in iter_rows(redis, prefix, length):
        yield json.dumps({**parse_line(line), "head": head}, sort_keys=True)


async def verify_chain(redis: Redis, prefix: str, seal: Seal, posted: Iterable[str] = ()) -> AuditReport:
    """Walk the chain and compare its end with the stored head and with heads that were posted elsewhere."""
    length, stored = await read_end(redis, prefix)
    head, count, missing = "", 0, set(posted) - {""}
    age = {name: years for years, name in enumerate(seal.ids)}
    youngest = len(age)
    async for said, line in iter_rows(redis, prefix, length):
        name = find_signer(seal, head, line, said)
        if not name or (age[name] > youngest and parse_line(line).get("event") != STOP_EVENT):
            return AuditReport(length, stored, intact=False, broken_at=count, missing_heads=tuple(sorted(missing)))
        head, count, youngest = said, count + 1, min(youngest, age[name])
        missing.discard(head)
    intact = head == stored and count == length
    return AuditReport(length, stored, intact, None if intact else count, tuple(sorted(missing)))
