"""Failures during a soak: a random process is killed periodically, Redis twice, Slack refuses for a minute, the disk
fills once.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from time import monotonic

from deploy.sandbox.slack import SlackSandbox
from tests.soak.disk import SmallDisk
from tests.soak.processes import KeptProcess
from tests.support.redis_server import RealServer


@dataclass(frozen=True, slots=True)
class Plan:
    """`every`: seconds between kills. `…_at`: share of incidents that has ended when the failure starts."""

    every: float = 10.0
    most_kills: int = 0  # 0: no limit
    redis_at: tuple[float, ...] = (0.3, 0.7)
    slack_at: float = 0.45
    slack_seconds: float = 60.0
    disk_at: float = 0.15
    disk_seconds: float = 60.0


@dataclass
class Disasters:
    """Injects the failures of a plan."""

    plan: Plan
    dice: random.Random
    processes: Sequence[KeptProcess]
    redis: RealServer
    slack: SlackSandbox
    disk: SmallDisk
    happened: list[str] = field(default_factory=list)
    last: float = 0.0
    kills: int = 0
    redis_kills: int = 0
    _begun: set[str] = field(default_factory=set)
    _going: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self) -> None:
        """Kill processes until cancelled or `most_kills` is reached."""
        while not self.plan.most_kills or self.kills < self.plan.most_kills:
            await asyncio.sleep(self.plan.every)
            victim = self.dice.choice(self.processes)
            if victim.kill():
                self.kills += 1
                self._note(f"killed {victim.name}")

    def run_checks(self, share: float) -> None:
        """Start the failures that are due. `share`: share of incidents that has ended."""
        for number, at in enumerate(self.plan.redis_at):
            self._at(share, at, f"redis {number}", self._redis)
        self._at(share, self.plan.slack_at, "slack", self._slack)
        self._at(share, self.plan.disk_at, "disk", self._disk)

    async def over(self) -> None:
        """Wait until no failure is in progress."""
        while self._going:
            await asyncio.wait(set(self._going))

    def _at(self, share: float, at: float, name: str, what: Callable[[], Coroutine[None, None, None]]) -> None:
        if share >= at and name not in self._begun:
            self._begun.add(name)
            task = asyncio.create_task(what())
            self._going.add(task)
            task.add_done_callback(self._going.discard)

    async def _redis(self) -> None:
        self._note("killed redis")
        self.redis_kills += 1
        await asyncio.to_thread(self.redis.kill)
        await asyncio.sleep(2)
        await asyncio.to_thread(self.redis.start)
        self._note("redis is back")

    async def _slack(self) -> None:
        self._note(f"Slack answers 429 for {self.plan.slack_seconds:.0f} s")
        self.slack.rates.shut(self.plan.slack_seconds)
        await asyncio.sleep(self.plan.slack_seconds)
        self._note("Slack answers again")

    async def _disk(self) -> None:
        self._note(f"the disk is full: {self.disk.how}")
        await asyncio.to_thread(self.disk.fill)
        await asyncio.sleep(self.plan.disk_seconds)
        await asyncio.to_thread(self.disk.empty)
        self._note("the disk has room")

    def _note(self, what: str) -> None:
        self.last = monotonic()
        self.happened.append(what)
