"""Workers that can be killed: import once, then fork the workers of each JSON line on stdin.

A line is `{"workers": [{"url", "mentions": [[thread, id], …], "die_at": POINT, "slack": [token, url]}, …]}`; the answer
lists their exit codes (negative: the signal). A worker stores its mentions, then works and sweeps until all inboxes on the
Redis are empty. With `slack`, its turns close their incidents and its observers are the bot's.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import structlog
from redis.asyncio import Redis

from bot.incidents.dispatch.dispatcher import REPORT_OBSERVER, Dispatcher, TurnObserver
from bot.incidents.dispatch.fingerprint import IncidentFingerprint
from bot.incidents.dispatch.inbox import EMPTY_FINGERPRINT, Inbox
from bot.incidents.dispatch.lease import Leases
from bot.incidents.dispatch.sweeper import Sweeper, plan_timers
from bot.incidents.dispatch.wakeups import LocalWakeups
from graph.report import Report
from graph.state import IncidentState, Lifecycle
from tests.support.clock import PATIENCE, WallClock
from tests.support.fakes_desk import TinyTurns, item, origin, with_work
from tests.support.real_observers import ClosingTurns, build_observers, watch_observers

LEASE = 0.4  # lease seconds, how long a killed worker's incident stays locked
BUSY_LEASE = 1.0  # the same where cards are drawn between two steps


class Doom:
    """Kill this process at one named point."""

    def __init__(self, die_at: str) -> None:
        self._die_at = die_at

    async def at(self, point: str) -> None:
        await asyncio.sleep(0)
        if point == self._die_at:
            os.kill(os.getpid(), signal.SIGKILL)


class DoomedInbox(Inbox):
    doom: Doom

    async def finish_observing(self, incident: str, token: str, item: str) -> None:
        await super().finish_observing(incident, token, item)
        await self.doom.at("posted")

    async def finish_item(
        self,
        incident: str,
        token: str,
        item: str,
        lifecycle: Lifecycle,
        timers: Mapping[str, datetime],
        *,
        keep: timedelta | None,
        fingerprint: IncidentFingerprint = EMPTY_FINGERPRINT,
    ) -> None:
        await self.doom.at("finish:begin")
        await super().finish_item(incident, token, item, lifecycle, timers, keep=keep, fingerprint=fingerprint)
        await self.doom.at("finish:end")


class RedisBoard:
    """Count atomically how often each report was published; a real board would post it once."""

    def __init__(self, redis: Redis, doom: Doom) -> None:
        self._redis = redis
        self._doom = doom

    async def publish_report(self, incident: str, state: IncidentState, report: Report) -> None:
        await self._doom.at("report:begin")
        await self._redis.zincrby("asked", 1, report.item)
        await self._doom.at("report:end")


async def work(job: Mapping[str, Any]) -> None:
    doom = Doom(job.get("die_at", ""))
    redis = Redis.from_url(job["url"])
    inbox = DoomedInbox(redis, WallClock())
    inbox.doom = doom
    turns, seconds = TinyTurns(redis, doom.at), LEASE
    observers: Mapping[str, TurnObserver] = {REPORT_OBSERVER: RedisBoard(redis, doom).publish_report}
    if slack := job.get("slack"):
        turns, seconds = ClosingTurns(redis, doom.at), BUSY_LEASE
        observers = watch_observers(redis, build_observers(redis, inbox, *slack), doom.at)
    leases = Leases(redis, WallClock(), seconds=seconds, url=job["url"])
    desk = Dispatcher(inbox, leases, turns, observers, clock=WallClock(), timers=plan_timers)
    for thread, id_ in job.get("mentions", []):
        await inbox.open_or_join(origin(thread), id_, lambda incident, id_=id_: item(incident, id_))  # type: ignore[misc]
        await doom.at("stored")
    wakeups = LocalWakeups()
    await wakeups.start(desk.process_incident)
    sweeper = Sweeper(inbox, wakeups, every=0.05, patience=timedelta(seconds=0.1))
    sweeping = asyncio.create_task(sweeper.run())
    async with asyncio.timeout(PATIENCE):
        while await with_work(redis):  # noqa: ASYNC110  the work may be another process's
            await asyncio.sleep(0.02)
    sweeping.cancel()
    await wakeups.wait_until_idle()
    await redis.aclose()


def fork(job: Mapping[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        asyncio.run(work(job))
        code = 0
    finally:
        os._exit(code)


def main() -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    for line in sys.stdin:
        pids = [fork(job) for job in json.loads(line)["workers"]]
        ends = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
        sys.stdout.write(json.dumps(ends) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
