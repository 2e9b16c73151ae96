"""Time to store an event (what an ack waits for), and a turn's overhead, on a private durable Redis.

`python -m tests.bench.perf.inbox [INCIDENTS]`: prints one JSON document.
"""

import asyncio
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bot.incidents.dispatch.dispatcher import Dispatcher
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.lease import Leases
from bot.incidents.dispatch.sweeper import plan_timers
from bot.store.store import open_store
from tests.support.clock import SetClock
from tests.support.fakes_desk import BoardOfList, TinyTurns, item, origin


def shown(times: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(times, n=100)
    return {"p50": round(cuts[49], 3), "p95": round(cuts[94], 3), "p99": round(cuts[98], 3)}


async def stored_at_a_rate(inbox: Inbox, incidents: int, per_second: float) -> list[float]:
    """Return milliseconds per stored event at an even arrival rate, independent of earlier ones."""
    times: list[float] = []

    async def one(n: int) -> None:
        begun = time.perf_counter()
        await inbox.open_or_join(origin(f"{n}.0"), f"m{n}", lambda incident: item(incident, f"m{n}"))
        times.append((time.perf_counter() - begun) * 1000)

    async with asyncio.TaskGroup() as group:
        for n in range(incidents):
            group.create_task(one(n))
            await asyncio.sleep(1 / per_second)
    return times


async def measure(incidents: int, directory: Path) -> dict[str, Any]:
    store = await open_store(None, directory)
    clock = SetClock()
    inbox, board = Inbox(store.redis, clock), BoardOfList()
    desk = Dispatcher(inbox, Leases(store.redis, clock), TinyTurns(store.redis), board.observers, clock=clock, timers=plan_timers)
    times = await stored_at_a_rate(inbox, incidents, 200.0)
    begun = time.perf_counter()
    for incident in await inbox.list_open_incidents():
        await desk.process_incident(incident)
    each = (time.perf_counter() - begun) * 1000 / incidents
    await store.aclose()
    return {"schema": 1, "store_ms_at_200_per_s": shown(times), "turn_of_five_empty_nodes_ms": round(each, 2), "posted": len(board.posts)}


def main() -> None:
    directory = Path(tempfile.mkdtemp(prefix="rackmedic-bench-"))
    try:
        sys.stdout.write(json.dumps(asyncio.run(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 400, directory))) + "\n")
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
