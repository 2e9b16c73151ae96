"""A process that only empties the trackers' outbox: `python -m tests.support.courier_process URL FILE SECONDS`, its
clock SECONDS ahead.
"""

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog
from redis.asyncio import Redis

from bot.store.external_outbox import Outbox, build_tracker_outbox_keys
from bot.trackers.ticket_sync import TicketSync
from bot.trackers.tracker import RemoteComment
from bot.trackers.tracker_kinds import open_trackers


class LateClock:
    def __init__(self, ahead: timedelta) -> None:
        self._ahead = ahead

    def now(self) -> datetime:
        return datetime.now(UTC) + self._ahead


async def nothing_shown(_: str) -> None: ...


async def nothing_told(name: str, said: RemoteComment, beside: str) -> bool:
    return True


async def open_still(_: str) -> None: ...


async def work(url: str, file: str, seconds: str) -> None:
    clock = LateClock(timedelta(seconds=float(seconds)))
    trackers = {tracker.name: tracker for tracker in open_trackers(Path(file), clock)}
    redis = Redis.from_url(url)
    outbox = Outbox(redis, clock, build_tracker_outbox_keys())
    await TicketSync(outbox, trackers, clock, nothing_shown, open_still, nothing_told, every=0.05).run()


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(work(*sys.argv[1:4]))
