"""`rackmedic ledger rotate` is killed at any moment: running it again completes the change, waiting approvals are
requested once more, and nothing runs twice.
"""

import asyncio
import itertools
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from bot.settings import Settings, load_settings
from bot.store.ledger_signing_keys import get_key_file, load_ledger_key, load_older_keys
from bot.store.store import claim_version
from tests.support.clock import SetClock
from tests.support.fakes_actions import Office, Plan, Site, die, well
from tests.support.fakes_graph import fact
from tests.support.redis_gate import RedisGate
from tests.support.redis_server import RealServer
from tests.support.terminal import ROOT, environment, rackmedic
from tools.ledger.record import ActionRecord
from tools.ledger.states import State

pytest_plugins = ("tests.support.fixtures_redis",)
HOSTS = ("n1", "n2", "n3", "n4", "m1", "m2", "ctl")
OVER, RUNS, WAITS = "n3", "n2", "n1"
ROTATE = ("ledger", "rotate")
STEP = 4  # every fourth write to Redis: between two changing steps there are more
# virtual seconds: one poll of due actions, until every wait was polled, until a dead holder's action is adopted
AT_ONCE, A_MINUTE, A_SILENCE = 5, 60, 45


class Shell:
    """Start commands as processes that can be killed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin
        assert process.stdout
        self._typed, self._said = process.stdin, process.stdout
        self.pid = 0

    async def run(self, *words: str, environ: dict[str, str]) -> int:
        """Return the exit code (negative: the signal)."""
        self._typed.write(json.dumps({"words": words, "environ": environ}).encode() + b"\n")
        self.pid = int(await self._said.readline())
        return int(await self._said.readline())


@asynccontextmanager
async def shell(log: Path) -> AsyncIterator[Shell]:
    pipe = asyncio.subprocess.PIPE
    with log.open("wb") as sink:
        words = [sys.executable, "-m", "tests.support.command_zygote"]
        process = await asyncio.create_subprocess_exec(*words, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=sink)
    yield Shell(process)
    assert process.stdin
    process.stdin.close()
    assert await process.wait() == 0


@dataclass(frozen=True)
class Evening:
    """The state before the rotation: one finished action, one whose process died, one waiting for approval."""

    office: Office
    incident: str
    rows: dict[str, ActionRecord]  # by host
    key: bytes
    stored: dict[bytes, Any]

    async def again(self, folder: Path) -> Settings:
        """Restore the store and the data folder."""
        redis: Any = self.office.redis
        await redis.flushall()
        for name, row in self.stored.items():
            await redis.restore(name, 0, row)
        shutil.rmtree(folder, ignore_errors=True)
        settings = load_settings(None, {"RACKMEDIC_DATA_DIR": str(folder)})
        folder.mkdir(mode=0o700)
        get_key_file(settings).write_bytes(self.key)
        return settings

    def restarted(self, settings: Settings) -> Office:
        """Start a process with the current keys in a copy of the saved world."""
        before, site = self.office, self.office.site
        clock = SetClock(datetime.now(UTC))
        world = replace(site, clock=clock, records=dict(site.records), effects=list(site.effects), facts=list(site.facts))
        keys = (load_ledger_key(settings), *load_older_keys(settings))
        return Office(before.redis, world, evidence=before.evidence, worker="w2", keys=keys)


async def evening(redis: Redis, folder: Path) -> Evening:
    await claim_version(redis)
    key = load_ledger_key(load_settings(None, {"RACKMEDIC_DATA_DIR": str(folder)}))
    site = Site(clock=SetClock(datetime.now(UTC)), facts=well(*HOSTS))
    for host in (OVER, RUNS, WAITS):
        site.sick(replace(fact(host, "smi", "gpu.throttle.applications_clocks", True, "gpu3")))
    office = Office(redis, site, keys=(key,))
    incident = await office.mention()
    rows = {row.action.target: row for row in await office.pending(incident)}
    await office.click(rows[OVER])
    await office.settle(incident)
    await office.click(rows[RUNS])
    site.at = Plan("start:after")
    await die(office.actions.run_action(rows[RUNS].approval))
    names: list[Any] = await redis.keys()
    return Evening(office, incident, rows, key, {name: await redis.dump(name) for name in names})


async def killed(shell: Shell, gate: RedisGate, environ: dict[str, str], at: int) -> int:
    """Run the rotation, killed before its n-th write to Redis; return its exit code."""

    def listen(gate: RedisGate) -> None:
        if gate.heard == at:
            os.kill(shell.pid, signal.SIGKILL)
            gate.cut()

    gate.heard, gate.on_heard = 0, listen
    ended = await shell.run(*ROTATE, environ=environ)
    gate.on_heard = lambda _: None
    gate.reopen()
    return ended


async def left(office: Office, settings: Settings, key: bytes) -> str:
    """Return how far the rotation went."""
    if load_ledger_key(settings) == key:
        return "nothing changed"
    use = await office.ledger.get_key_status()
    if use.newest != use.current:
        return "the key is there"
    return "the ledger has it" if use.waiting else "through"


async def live(office: Office, incident: str, until: Callable[[list[ActionRecord]], bool], seconds: int) -> list[ActionRecord]:
    """Poll every five seconds until the incident's actions satisfy `until`. Raises AssertionError after `seconds`."""
    for _ in range(0, seconds + 1, 5):
        office.woken.clear()
        await office.actions.wake_due()
        while office.woken:
            await office.actions.handle_wakeup(office.woken.pop(0))
            await office.turns_of(incident)
        rows = await office.ledger.list_incident_records(incident)
        if until(rows):
            return rows
        office.clock.go(seconds=5)
    raise AssertionError(f"not within {seconds} s: {[(row.action.target, row.state.value) for row in rows]}")


def of(rows: list[ActionRecord], host: str) -> list[State]:
    return [row.state for row in rows if row.action.target == host]


async def goes_on(office: Office, incident: str, within: int) -> None:
    """The waiting action is requested once more in time and runs; what ran is settled and not run again."""
    await live(office, incident, lambda rows: of(rows, WAITS) == [State.SUPERSEDED, State.PENDING], within)
    (anew,) = await office.pending(incident)
    await office.click(anew)
    everything = {OVER: [State.DONE], RUNS: [State.DONE], WAITS: [State.SUPERSEDED, State.DONE]}
    await live(office, incident, lambda rows: {host: of(rows, host) for host in everything} == everything, A_SILENCE)
    assert sorted(host for host, _, _ in office.site.effects) == sorted(everything)
    assert (await office.ledger.verify_audit()).good


async def test_it_is_ended_by_running_it_again_wherever_it_was_killed(tmp_path: Path, durable_server: RealServer) -> None:
    folder, gate = tmp_path / "data", RedisGate(durable_server.socket, tmp_path / "gate.sock")
    environ = environment({"RACKMEDIC_DATA_DIR": str(folder), "RACKMEDIC_REDIS_URL": gate.url})
    async with Redis.from_url(durable_server.url) as redis, gate.standing(), shell(tmp_path / "log") as typed:
        before, met = await evening(redis, folder), set[str]()
        for at in itertools.count(1, STEP):
            settings = await before.again(folder)
            if await killed(typed, gate, environ, at) == 0:
                break
            met.add(await left(before.restarted(settings), settings, before.key))
            ended = await asyncio.to_thread(rackmedic, *ROTATE, environ=environ)
            assert ended.returncode == 0, ended.stderr
            await goes_on(before.restarted(settings), before.incident, A_MINUTE)
            assert (await asyncio.to_thread(rackmedic, "audit", "verify", environ=environ)).returncode == 0
        assert met == {"nothing changed", "the key is there", "the ledger has it", "through"}
        await goes_on(before.restarted(settings), before.incident, AT_ONCE)
