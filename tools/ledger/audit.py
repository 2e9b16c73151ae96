"""The audit log: append-only, chained, written before the effect. Each head signs everything before it, so a changed, removed or
re-ordered entry breaks the chain; a cut end shows against any head that was posted elsewhere."""

import json
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from tools.ledger.record import Seal

PAGE = 1000


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What verification found. `missing_heads` are heads posted elsewhere that the chain never passes through: its end was cut."""

    entries: int
    head: str
    intact: bool
    broken_at: int | None = None
    missing_heads: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """True when nothing was altered, removed or cut, as far as the given heads can tell."""
        return self.intact and not self.missing_heads


def entry(event: str, approval: str, by: str, at: str, **more: Any) -> str:
    """One audit line: what is about to happen to which action, by whom. Never a secret, never an output."""
    return json.dumps({"event": event, "approval": approval, "by": by, "at": at, **more}, sort_keys=True, separators=(",", ":"))


def next_head(seal: Seal, head: str, line: str) -> str:
    """The head after `line`."""
    return seal.of("audit", head, line)


async def entries(redis: Redis, prefix: str) -> AsyncIterator[str]:
    """Every line, oldest first."""
    start = 0
    while page := await redis.lrange(f"{prefix}audit", start, start + PAGE - 1):
        for line in page:
            yield line if isinstance(line, str) else line.decode()
        start += len(page)


async def verify(redis: Redis, prefix: str, seal: Seal, posted: Collection[str] = ()) -> AuditReport:
    """Walk the chain and compare its end with the stored head and with heads that were posted elsewhere."""
    head, count, seen = "", 0, {""}
    async for line in entries(redis, prefix):
        head, count = next_head(seal, head, line), count + 1
        seen.add(head)
    stored = await redis.get(f"{prefix}head")
    stored = stored.decode() if isinstance(stored, bytes) else stored or ""
    missing = tuple(h for h in posted if h not in seen)
    return AuditReport(count, head, intact=head == stored, broken_at=None if head == stored else count, missing_heads=missing)
