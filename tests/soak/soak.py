"""One soak, from the first report to a minute after the last kill."""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from time import monotonic
from typing import Any

import yaml
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff
from redis.exceptions import RedisError

from bot.store.keys import RedisKeys
from bot.tasks import to_coroutine
from deploy.sandbox.demo import Sandbox, run_sandbox
from deploy.sandbox.slack import SlackSandbox
from deploy.sandbox.slack.workspace.workspace import Channel
from tests.soak.disasters import Disasters, Plan
from tests.soak.disk import SmallDisk, small_disk
from tests.soak.people import Patience, People, SoakIncident, channel_of, text_on
from tests.soak.processes import KeptProcess, kept
from tests.soak.promises import Seen, Thread, broken
from tests.support.clock import WallClock
from tests.support.redis_server import RealServer
from tools.ledger.reader import LedgerReader
from tools.ledger.redis_replies import decode_hash, decode_text, decode_texts

# allows many hosts under change at once; brakes have their own tests
SETTINGS = {
    "RACKMEDIC_LEASE_SECONDS": "5",
    "RACKMEDIC_BRAKE_AT_ONCE": "1",
    "RACKMEDIC_BREAKER_HOST_RATIO": "1",
    "RACKMEDIC_BRAKE_WINDOW_MINUTES": "0.1",
    "RACKMEDIC_LOG_FORMAT": "json",
}
SETTLE = 60.0  # seconds after the last kill until every card is right and no lease is held
PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Sized:
    """The size of a soak."""

    incidents: int = 300
    seed: int = 1
    workers: int = 3
    at_once: int = 20
    plan: Plan = field(default_factory=Plan)
    patience: Patience = field(default_factory=Patience)
    # factor on Slack's published rate limits, which otherwise bound a soak: about sixty card updates a minute
    slack_pace: float = 1.0
    most_seconds: float = 7200.0


# impatient people and a faster Slack: with the published limits twenty incidents take five minutes
SHORT = Sized(
    20,
    plan=Plan(every=4.0, most_kills=3, redis_at=(0.3,), slack_seconds=5.0, disk_seconds=5.0),
    patience=Patience(press_again=8.0, say_again=15.0, second=1.0),
    slack_pace=8.0,
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Measurements, broken promises and failures that happened."""

    broken: tuple[str, ...]
    figures: dict[str, Any]
    happened: tuple[str, ...]


@dataclass
class Soak:
    """The parts of a running soak."""

    size: Sized
    world: Sandbox
    redis: Redis
    people: People
    disasters: Disasters
    processes: list[KeptProcess]
    say: Callable[[str], None]
    began: float = field(default_factory=monotonic)

    async def run(self) -> Outcome:
        await self.world.slack.connected(timeout=PATIENCE * 3)
        self.began = monotonic()
        killing = asyncio.create_task(self.disasters.run())
        watching = asyncio.create_task(self._watch())
        late = ""
        try:
            async with asyncio.timeout(self.size.most_seconds):
                await self.people.run(self.size.incidents, self.size.at_once)
        except TimeoutError:
            late = f"not all incidents ended within {self.size.most_seconds:.0f} s"
        finally:
            for task in (killing, watching):
                task.cancel()
            await asyncio.gather(killing, watching, return_exceptions=True)
        worked = monotonic() - self.began
        self.disasters.start_due(1.0)
        await self.disasters.over()
        seen, settled = await self._settled()
        return Outcome((*([late] if late else []), *broken(seen)), self._figures(seen, worked, settled), tuple(self.disasters.happened))

    async def _watch(self) -> None:
        """Start failures that are due and report progress every five seconds."""
        while True:
            over = sum(one.over for one in self.people.all)
            self.disasters.start_due(over / self.size.incidents)
            going = [one for one in self.people.all if not one.over]
            slowest = max((monotonic() - one.began for one in going), default=0.0)
            self.say(
                f"{monotonic() - self.began:5.0f} s  {over} ended, {len(going)} open (the oldest {slowest:.0f} s), {self.disasters.kills} kills"
            )
            self._keep_threads()
            await asyncio.sleep(5)

    def _keep_threads(self) -> None:
        """Write the threads' current text for debugging."""
        threads = {
            one.name or str(one.number): [text_on(row) for row in self.world.slack.thread(one.channel, one.ts)] for one in self.people.all
        }
        (Path(self.world.settings["RACKMEDIC_DATA_DIR"]).parent / "threads.json").write_text(json.dumps(threads, indent=1))

    async def _settled(self) -> tuple[Seen, float]:
        """Return the observation once nothing is broken, or after SETTLE seconds, and the seconds it took."""
        start = monotonic()
        while True:
            seen = await self._look()
            now = monotonic()
            if not broken(seen) or now - start > SETTLE:
                return seen, now - start
            await asyncio.sleep(1)

    async def _look(self) -> Seen:
        keys = {
            name: [key.decode() async for key in self.redis.scan_iter(match=name)]
            for name in ("rm:*:lease", "rm:ledger:target:*", "rm:incident:*:inbox")
        }
        return Seen(
            threads=[await self._thread(one) for one in self.people.all],
            executions=dict(self.world.cluster.executions),
            leases=[*keys["rm:*:lease"], *keys["rm:ledger:target:*"]],
            waiting=keys["rm:incident:*:inbox"],
            set_aside=int(await to_coroutine(self.redis.llen("rm:dead"))),
            ended_by_themselves={one.name: one.ended_by_itself for one in self.processes},
            unsafe=len(self.world.cluster.unsafe_commands),
        )

    async def _thread(self, one: SoakIncident) -> Thread:
        book = LedgerReader(self.redis, (Path(self.world.settings["RACKMEDIC_DATA_DIR"]) / "ledger.key").read_bytes(), WallClock())
        cards = decode_hash(await to_coroutine(self.redis.hgetall(f"rm:incident:{{{one.name}}}:cards"))) if one.name else {}
        batches = {name[5:]: rows.split() for name, rows in cards.items() if name.startswith("rows:")}
        records = await book.list_incident_records(one.name) if one.name else []
        return Thread(one.number, one.name, self.world.slack.thread(one.channel, one.ts), records, batches, one.over)

    def _figures(self, seen: Seen, worked: float, settled: float) -> dict[str, Any]:
        rows = sorted(one.ended - one.began for one in self.people.all if one.over)
        first = sorted(one.reported - one.began for one in self.people.all if one.reported)
        slack = self.world.slack.stats()
        return {
            "incidents": len(self.people.all),
            "ended": len(rows),
            "seconds": round(worked),
            "settled_seconds": round(settled, 1),
            "kills": {one.name: one.killed for one in self.processes} | {"redis": self.disasters.redis_kills},
            "actions_run": len(seen.executions),
            "actions": sum(len(one.records) for one in seen.threads),
            "presses": sum(one.presses for one in self.people.all),
            "report_seconds": spread(first),
            "incident_seconds": spread(rows),
            "refused_by_rate": {name: times for name, times in slack["refusals"].items() if name.endswith(":ratelimited")},
            "asked_of_slack": slack["calls"],
            "events": slack["counts"],
            "disk": self.disasters.disk.how,
        }


def spread(rows: list[float]) -> dict[str, float]:
    """Return median, 95th percentile and maximum."""
    if not rows:
        return {}
    return {name: round(rows[min(len(rows) - 1, int(len(rows) * share))], 1) for name, share in (("p50", 0.5), ("p95", 0.95), ("max", 1.0))}


@contextlib.asynccontextmanager
async def soaking(folder: Path, size: Sized, say: Callable[[str], None]) -> AsyncIterator[Soak]:
    """Start sandbox, Redis, processes and people."""
    (folder / "redis").mkdir(parents=True)
    server = RealServer(folder / "redis", "always")
    server.start()
    try:
        async with run_sandbox(folder, nodes=size.at_once + 4, job="") as plain:
            apart(plain)
            hurried(plain.slack, size.slack_pace)
            settings = dict(plain.settings) | SETTINGS | {"RACKMEDIC_REDIS_URL": server.url}
            world = replace(plain, settings=settings)
            with small_disk(Path(settings["RACKMEDIC_DATA_DIR"]) / "evidence") as disk:
                async with _looking(server) as redis, kept(settings, folder, size.workers) as processes:
                    yield Soak(
                        size, world, redis, _people(size, world, redis), _disasters(size, processes, server, world, disk), processes, say
                    )
    finally:
        server.kill()


def apart(world: Sandbox) -> None:
    """Give each node its own group and channel, so that incidents do not join."""
    file = Path(world.settings["RACKMEDIC_INVENTORY"])
    site = yaml.safe_load(file.read_text())
    nodes = [name for name in site["hosts"] if name.startswith("gpu-")]
    every = site["groups"].pop("demo")
    site["groups"] |= {node: {**every, "hosts": node} for node in nodes}
    row = site["channels"][0]
    site["channels"] = [{**row, "channel": channel_of(node), "name": node, "groups": [node]} for node in nodes]
    file.write_text(yaml.safe_dump(site, sort_keys=False))
    members = world.slack.workspace.channels[row["channel"]].members
    world.slack.workspace.channels |= {channel_of(node): Channel(channel_of(node), node, list(members)) for node in nodes}


def hurried(slack: SlackSandbox, pace: float) -> None:
    """Multiply each method's rate limit by `pace`."""
    for method, rate in slack.rates.rules.items():
        slack.rates.set(method, rate.per_minute * pace, ceil(rate.burst * pace), rate.per_channel)


@contextlib.asynccontextmanager
async def _looking(server: RealServer) -> AsyncIterator[Redis]:
    async with Redis.from_url(server.url, retry=Retry(ConstantBackoff(0.5), 60)) as redis:
        yield redis


def _people(size: Sized, world: Sandbox, redis: Redis) -> People:
    async def incident_at(channel: str, ts: str) -> str:
        with contextlib.suppress(RedisError):
            return decode_text(await redis.get(RedisKeys().thread_key("T0RACK", channel, ts)))
        return ""

    async def open_ones() -> set[str]:
        return set(decode_texts(await redis.zrange("rm:open", 0, -1)))

    nodes = [name for name in world.cluster.hosts if name.startswith("gpu-")]
    return People(world, nodes, incident_at, open_ones, size.patience)


def _disasters(size: Sized, processes: list[KeptProcess], server: RealServer, world: Sandbox, disk: SmallDisk) -> Disasters:
    return Disasters(size.plan, random.Random(size.seed), processes, server, world.slack, disk)
