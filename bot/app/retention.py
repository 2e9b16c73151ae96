"""Background jobs on stored evidence: retention, and storing again what the disk refused."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import structlog
from redis.exceptions import RedisError, ResponseError

from bot.settings import Settings
from bot.store.private_redis import rotate_log
from bot.tasks import run_periodically
from tools.clock import Clock
from tools.evidence import PruneResult, prune_evidence

if TYPE_CHECKING:  # it loads LangGraph, and `doctor` only reads the note
    from bot.store.closed_incidents import ClosedIncidentStore


# Retries writing evidence that the disk refused.

log = structlog.get_logger()
RETRY_INTERVAL_SECONDS = 10.0


class BufferedEvidence(Protocol):
    """An evidence store that buffers what its disk refuses."""

    def get_trouble(self) -> str: ...

    async def retry_buffered(self) -> int: ...


class EvidenceRetrier:
    def __init__(self, evidence: BufferedEvidence) -> None:
        self._evidence = evidence
        self._said = ""

    async def run(self) -> None:
        await run_periodically("evidence", self.retry_once, RETRY_INTERVAL_SECONDS)

    async def retry_once(self) -> None:
        why = self._evidence.get_trouble()
        left = await self._evidence.retry_buffered() if why else 0
        if left and why != self._said:
            log.error("evidence.not_kept", why=why, held=left)
        elif self._said and not left:
            log.info("evidence.kept_again", after=self._said)
        self._said = why if left else ""


# Removes expired evidence and, above a size limit, closed incidents; rotates the private Redis' log.
#
# Nothing that an open incident or its ticket cites is removed, and nothing at all if open incidents cannot be listed.
# Processes may share a data folder: one that finds a recent run does nothing.

CLEAR_INTERVAL_SECONDS = 3600.0
FIRST_DELAY_SECONDS = 60.0
NOTE_FILE = "retention.json"
GB, MB = 1 << 30, 1 << 20
MAX_CLOSED_MEGABYTES = 512  # Redis memory for closed incidents; above it those closed longest ago go first


@dataclass(frozen=True, slots=True)
class RetentionRun:
    """Last run, for `doctor`. `at`: seconds since 1970; `cited`: bytes kept only for open incidents."""

    at: float
    outputs: int
    bytes: int
    cited: int
    incidents: int


def load_last_run(folder: Path) -> RetentionRun | None:
    try:
        return RetentionRun(**json.loads((folder / NOTE_FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None


class Retention:
    def __init__(
        self,
        settings: Settings,
        open_incidents: Callable[[], Awaitable[list[str]]],
        closed: "ClosedIncidentStore",
        clock: Clock,
        *,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._settings, self._open, self._closed, self._clock, self._pause = settings, open_incidents, closed, clock, pause

    async def run(self) -> None:
        """Clear hourly until cancelled."""
        await self._pause(FIRST_DELAY_SECONDS)
        await run_periodically("retention", self.clear_expired, CLEAR_INTERVAL_SECONDS, expected=(RedisError, OSError), pause=self._pause)

    async def clear_expired(self) -> RetentionRun | None:
        """Remove what has expired; None if a recent run was recorded."""
        now, folder = self._clock.now().timestamp(), self._settings.data_dir
        before = load_last_run(folder)
        if before is not None and now - before.at < CLEAR_INTERVAL_SECONDS / 2:
            return None
        open_now = frozenset(await self._open())
        pruned = await asyncio.to_thread(self._prune_evidence, open_now, now)
        gone = await self._trim_closed()
        done = RetentionRun(now, pruned.outputs, pruned.bytes, pruned.cited, gone)
        await asyncio.to_thread(_write_note, folder, done)
        log.info("retention.done", **asdict(done))
        return done

    async def _trim_closed(self) -> int:
        try:
            return await self._closed.trim_to_bytes(MAX_CLOSED_MEGABYTES * MB)
        except ResponseError as e:  # an in-memory or managed Redis may not report sizes: the limit in days still applies
            log.info("retention.closed_incidents_not_measured", why=str(e))
            return 0

    def _prune_evidence(self, open_now: frozenset[str], now: float) -> PruneResult:
        settings = self._settings
        rotate_log(settings.data_dir)
        return prune_evidence(settings.evidence_dir, settings.evidence_days, int(settings.evidence_gb * GB), open_now, now)


def _write_note(folder: Path, done: RetentionRun) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = folder / f"{NOTE_FILE}.{os.getpid()}"
    draft.write_text(json.dumps(asdict(done)))
    draft.replace(folder / NOTE_FILE)
