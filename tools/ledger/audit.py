"""The append-only, hash-chained audit log, written before each effect.

Each head signs everything before it, so a changed, removed or re-ordered entry breaks the chain. A cut end shows
against a head posted elsewhere.
"""

import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from redis.asyncio import Redis

from tools.ledger.redis_replies import decode_text, decode_texts, parse_line, translate_redis_errors
from tools.ledger.seal import Seal

PAGE_ENTRIES = 1000
ALTERED_BRAKES = "altered"  # replaces the brakes' digest after a foreign change of the brakes
# the only event that an earlier key may sign after a key change: a process that was not restarted may still pull the
# kill switch
STOP_EVENT = "stop"


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Result of a verification.

    `broken_at`: index of the first bad entry. `missing_heads`: posted heads that the chain lacks, so its end was cut.
    """

    entries: int
    head: str
    intact: bool
    broken_at: int | None = None
    missing_heads: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        return self.intact and not self.missing_heads


def build_entry(event: str, approval: str, by: str, at: str, **more: Any) -> str:
    """Return one audit line. Callers pass no secrets and no outputs."""
    return json.dumps({"event": event, "approval": approval, "by": by, "at": at, **more}, sort_keys=True, separators=(",", ":"))


def add_brakes_digest(line: str, digest: str) -> str:
    """Add the digest of the brakes in force after the line."""
    return json.dumps({**parse_line(line), "brakes": digest}, sort_keys=True, separators=(",", ":"))


def get_brakes_digest(line: str) -> str:
    """Return the digest, or "" for entries of earlier versions."""
    return str(parse_line(line).get("brakes") or "")


def get_entry_time(line: str) -> datetime | None:
    """Return the entry's time, or None."""
    try:
        at = datetime.fromisoformat(str(parse_line(line).get("at")))
    except ValueError:
        return None
    return at if at.tzinfo else None


def compute_next_head(seal: Seal, head: str, line: str) -> str:
    """Return the head after `line`."""
    return seal.sign("audit", head, line)


def find_signer(seal: Seal, head: str, line: str, signature: str) -> str:
    """Return the id of our key that signed `line` after `head`, or ""."""
    return seal.find_signer(signature, "audit", head, line)


async def iter_rows(redis: Redis, prefix: str, length: int) -> AsyncIterator[tuple[str, str]]:
    """Yield (head after it, line), oldest first."""
    for start in range(0, length, PAGE_ENTRIES):
        async with translate_redis_errors():
            page = decode_texts(await redis.lrange(f"{prefix}audit", start, min(start + PAGE_ENTRIES, length) - 1))
        for entry in page:
            head, _, line = entry.partition(" ")
            yield head, line


async def read_end(redis: Redis, prefix: str) -> tuple[int, str]:
    """Read length and head atomically."""
    async with translate_redis_errors():
        pipe = redis.pipeline(transaction=True)
        pipe.llen(f"{prefix}audit")
        pipe.get(f"{prefix}head")
        length, head = await pipe.execute()
    return int(length), decode_text(head)


async def is_begun_with(redis: Redis, prefix: str, seal: Seal) -> bool:
    """Return whether one of these keys signed the first entry; True for an empty chain."""
    async for signature, line in iter_rows(redis, prefix, min(1, (await read_end(redis, prefix))[0])):
        return bool(find_signer(seal, "", line, signature))
    return True


async def find_newest_signer(redis: Redis, prefix: str, seal: Seal) -> str | None:
    """Return the key id behind the newest entry: "" if not ours, None for an empty chain."""
    async with translate_redis_errors():
        newest = decode_texts(await redis.lrange(f"{prefix}audit", -2, -1))
    if not newest:
        return None
    before = newest[0].partition(" ")[0] if len(newest) > 1 else ""
    signature, _, line = newest[-1].partition(" ")
    return find_signer(seal, before, line, signature)


async def export_entries(redis: Redis, prefix: str) -> AsyncIterator[str]:
    """Yield entries as JSON lines with their heads."""
    length, _ = await read_end(redis, prefix)
    async for head, line in iter_rows(redis, prefix, length):
        yield json.dumps({**parse_line(line), "head": head}, sort_keys=True)


async def verify_chain(redis: Redis, prefix: str, seal: Seal, posted: Iterable[str] = ()) -> AuditReport:
    """Walk the chain and compare its end with the stored head and `posted` heads."""
    length, stored = await read_end(redis, prefix)
    head, count, missing = "", 0, set(posted) - {""}
    age_by_key = {key_id: age for age, key_id in enumerate(seal.ids)}  # the present key is 0
    youngest = len(age_by_key)
    async for signature, line in iter_rows(redis, prefix, length):
        key_id = find_signer(seal, head, line, signature)
        if not key_id or (age_by_key[key_id] > youngest and parse_line(line).get("event") != STOP_EVENT):
            return AuditReport(length, stored, intact=False, broken_at=count, missing_heads=tuple(sorted(missing)))
        head, count, youngest = signature, count + 1, min(youngest, age_by_key[key_id])
        missing.discard(head)
    intact = head == stored and count == length
    return AuditReport(length, stored, intact, None if intact else count, tuple(sorted(missing)))
