"""A process that works only on wake-ups and never sweeps: `python -m tests.support.wakeup_worker URL NAME`. Prints
`ready`.
"""

import asyncio
import sys

import structlog
from redis.asyncio import Redis

from bot.incidents.dispatch.dispatcher import REPORT_OBSERVER, Dispatcher
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.lease import Leases
from bot.incidents.dispatch.sweeper import plan_timers
from bot.incidents.dispatch.wakeups import StreamWakeups
from tests.support.clock import WallClock
from tests.support.crash_zygote import Doom, RedisBoard
from tests.support.fakes_desk import TinyTurns

UNACKNOWLEDGED_MS = 1000  # a wake-up of a dead process goes to another after this time


async def work(url: str, name: str) -> None:
    redis, clock = Redis.from_url(url), WallClock()
    leases = Leases(redis, clock, seconds=5)
    board = RedisBoard(redis, Doom(""))
    desk = Dispatcher(
        Inbox(redis, clock), leases, TinyTurns(redis), {REPORT_OBSERVER: board.publish_report}, clock=clock, timers=plan_timers
    )
    await StreamWakeups(url, name=name, unacknowledged_ms=UNACKNOWLEDGED_MS).start(desk.process_incident)
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(work(sys.argv[1], sys.argv[2]))
