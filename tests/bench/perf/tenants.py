"""One tenant's storm while another asks: stored events, repeated messages, and the other's first card.

Compares with the first card without the storm. `python -m tests.bench.perf.tenants [--events 200] [--wait 60]`: prints
one JSON document. The sandbox shares the machine with the bot, so other load shows in all seconds; `ahead` counts
earlier messages instead.
"""

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from redis.asyncio import Redis

from bot.incidents.dispatch.inbox import Inbox
from deploy.sandbox.demo import Sandbox, run_bot, run_sandbox
from deploy.sandbox.slack.workspace.people import BOT_USER
from deploy.sandbox.slack.workspace.workspace import Channel
from tests.support.clock import WallClock
from tests.support.redis_server import RealServer

TEAM, STORMY, CALM = "T0RACK", "C0CUSTACME", "C0CUSTGLOBEX"
CARLA, STAN, OURS = "U0CARLA", "U0STRANGE", "C0GPUINC"
GLOBEX: Mapping[str, Any] = {
    "group": {"globex": {"hosts": "gpu-002", "tenant": "globex"}},
    "channel": {"channel": CALM, "name": "cust-globex", "kind": "tenant", "tenant": "globex", "internal": OURS, "language": "en"},
}
LIVING, REPORT, WAITS = "rackmedic_customer", "rackmedic_report", "rackmedic_customer_waits"


@contextlib.asynccontextmanager
async def two_customers(directory: Path, url: str, shares: Mapping[str, Any] | None = None) -> AsyncIterator[Sandbox]:
    """Run the sandbox with a second tenant on this Redis; `shares` as in a policy file."""
    async with run_sandbox(directory, language="en") as plain:
        workspace, people = plain.slack.workspace, ["U0OLGA", "U0PRIYA", "U0ANTON", STAN, BOT_USER]
        workspace.channels[CALM] = Channel(CALM, "cust-globex", people, "Shared with Globex", shared_with={"T0GLOBEX"})
        path = Path(plain.settings["RACKMEDIC_INVENTORY"])
        site = yaml.safe_load(path.read_text())
        site["groups"] |= GLOBEX["group"]
        site["channels"].append(GLOBEX["channel"])
        path.write_text(yaml.safe_dump(site, sort_keys=False))
        policy = directory / "policy.yaml"
        policy.write_text(yaml.safe_dump({"shares": dict(shares or {})}))
        more = {"RACKMEDIC_REDIS_URL": url} | ({"RACKMEDIC_POLICY": str(policy)} if shares else {})
        yield replace(plain, settings={**plain.settings, **more})


@dataclass(frozen=True, slots=True)
class FirstCard:
    """The other tenant's first card: its delay, and the stormy tenant's messages before it."""

    seconds: float
    ahead: Counter[str]  # messages by kind, outside the other's channel

    def row(self) -> dict[str, Any]:
        return {"seconds": round(self.seconds, 2), "ahead": dict(self.ahead), "reports_ahead": self.ahead[REPORT]}


async def storm(world: Sandbox, events: int) -> list[str]:
    """Post `events` mentions of one tenant at once; return their threads."""
    told = [f"@rackmedic the loss of run {number} looks odd since this morning" for number in range(events)]
    return [await world.slack.say(CARLA, STORMY, text) for text in told]


async def first_card(world: Sandbox, number: int) -> FirstCard:
    """Ask as the other tenant and wait for the first card."""
    before, began = posted(world), time.perf_counter()
    thread = await world.slack.say(STAN, CALM, f"@rackmedic training on gpu-002 is half as fast as yesterday ({number})")
    await world.slack.wait_for(lambda: [row for row in world.slack.thread(CALM, thread) if kind(row) == LIVING])
    return FirstCard(time.perf_counter() - began, posted(world) - before)


def posted(world: Sandbox) -> Counter[str]:
    """Count the bot's messages outside the calm tenant's channel, by kind."""
    rows = [row for channel in (STORMY, OURS) for row in world.slack.messages(channel) if row.get("bot_id")]
    return Counter(kind(row) for row in rows)


def kind(row: Mapping[str, Any]) -> str:
    return str((row.get("metadata") or {}).get("event_type") or "")


def shown(world: Sandbox, threads: Sequence[str], what: str) -> Counter[str]:
    """Count messages of this kind per thread."""
    bodies = [message.body for message in world.slack.workspace.channel(STORMY).messages.values()]
    found = Counter(str(body.get("thread_ts")) for body in bodies if kind(body) == what)
    return Counter({thread: found[thread] for thread in threads})


async def stored(redis: Redis, threads: Sequence[str]) -> int:
    """Count threads with an incident."""
    inbox = Inbox(redis, WallClock())
    return sum([await inbox.find_incident(TEAM, STORMY, thread) is not None for thread in threads])


async def measure(events: int, wait: float) -> dict[str, Any]:
    """Measure the other tenant's card twice alone (the first warms up), amid the storm, and after it."""
    with tempfile.TemporaryDirectory() as folder:
        server = RealServer(Path(folder))
        server.start()
        try:
            async with (
                two_customers(Path(folder), server.url) as world,
                run_bot(world, dict(os.environ), Path(folder) / "bot.log"),
                Redis(unix_socket_path=str(server.socket)) as redis,
            ):
                await world.slack.connected(timeout=120)
                alone = [await first_card(world, number) for number in range(2)]
                return {"schema": 1, "load": os.getloadavg()[0], "events": events, **await stormy(world, redis, events, wait, alone[1])}
        finally:
            server.kill()


async def stormy(world: Sandbox, redis: Redis, events: int, wait: float, alone: FirstCard) -> dict[str, Any]:
    before = Counter(world.slack.hub.counts)
    threads = await storm(world, events)
    amid = await first_card(world, 2)
    await asyncio.sleep(wait)
    counts = Counter(world.slack.hub.counts) - before
    kept = await stored(redis, threads)
    late = await first_card(world, 3)
    cards, waits = shown(world, threads, LIVING), shown(world, threads, WAITS)
    return {
        "first_delivery": {"stored": kept, "sent": counts["events_api"], "acknowledged": counts["acked"], "sent_again": counts["timeouts"]},
        "alone": alone.row(),
        "amid": amid.row(),
        "ratio": round(amid.seconds / alone.seconds, 1),
        f"after_{wait:g}_s": {
            **late.row(),
            "threads_with_card": sum(cards[one] > 0 for one in threads),
            "threads_with_two": sum(cards[one] > 1 for one in threads),
            "threads_told_to_wait": sum(waits[one] > 0 for one in threads),
            "threads_told_twice": sum(waits[one] > 1 for one in threads),
        },
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--events", type=int, default=200)
    parser.add_argument("--wait", type=float, default=60, help="seconds after which the storm's own messages are counted")
    given = parser.parse_args()
    sys.stdout.write(json.dumps(asyncio.run(measure(given.events, given.wait)), indent=1) + "\n")
