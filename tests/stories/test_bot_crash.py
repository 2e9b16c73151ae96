"""Kill -9 at every point between receiving a mention and finishing its item, on a real Redis: one turn and one report
each.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.incidents.dispatch.dispatcher import Dispatcher
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.lease import Leases
from bot.incidents.dispatch.sweeper import plan_timers
from tests.support.clock import PATIENCE, SetClock
from tests.support.fakes_desk import NODES, BoardOfList, TinyTurns, item, origin
from tests.support.redis_server import RealServer

pytest_plugins = ("tests.support.fixtures_redis",)
KILLED = -9
POINTS = ("stored", *(f"{node}:{edge}" for node in NODES for edge in ("begin", "end", "stored")))
ENDING = ("report:begin", "report:end", "posted", "finish:begin", "finish:end")
MENTIONS = [["1.0", "a"], ["1.0", "b"], ["2.0", "c"]]


class Zygote:
    """Forks workers on demand, so a restart takes milliseconds."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self._process = process
        self._url = url

    def run(self, *jobs: dict[str, Any]) -> list[int]:
        """Run workers concurrently and return their exit codes."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps({"workers": [{"url": self._url, **job} for job in jobs]}) + "\n")
        self._process.stdin.flush()
        ends: list[int] = json.loads(self._process.stdout.readline())
        return ends


def run_zygote(url: str) -> Iterator[Zygote]:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.support.crash_zygote"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=quiet, text=True) as process:
        yield Zygote(process, url)
        assert process.stdin
        process.stdin.close()


@pytest.fixture(scope="module")
def zygote(redis_server: RealServer) -> Iterator[Zygote]:
    yield from run_zygote(redis_server.url)


async def asked(redis: Redis) -> dict[str, int]:
    """Return how often each report was published."""
    rows: Any = await redis.zrange("asked", 0, -1, withscores=True)
    return {member.decode(): int(score) for member, score in rows}


async def assert_each_once(redis: Redis, mentions: list[list[str]]) -> None:
    """Assert one complete turn and one post per item, and nothing left over."""
    ids = [id_ for _, id_ in mentions]
    assert set(await asked(redis)) == set(ids)
    inbox, turns = Inbox(redis, SetClock()), TinyTurns(redis)
    for thread in {thread for thread, _ in mentions}:
        incident = await inbox.find_incident("T", "C", thread)
        assert incident
        state: Any = await turns.load_state(incident)
        mine = [id_ for of, id_ in mentions if of == thread]
        assert state["visits"] == [f"{id_}/{node}" for id_ in mine for node in NODES]
        assert state["done_items"] == mine
        assert await inbox.list_waiting(incident) == []
        assert await redis.exists(f"rm:incident:{{{incident}}}:tries") == 0
    assert await inbox.list_dead_letters() == []


@pytest.mark.parametrize("point", [*POINTS, *ENDING])
async def test_a_process_killed_at_any_point_loses_nothing_and_doubles_nothing(zygote: Zygote, real_redis: Redis, point: str) -> None:
    assert zygote.run({"mentions": MENTIONS, "die_at": point}) == [KILLED]
    assert zygote.run({"mentions": MENTIONS}) == [0]  # Slack redelivers unacknowledged events
    await assert_each_once(real_redis, MENTIONS)
    assert max((await asked(real_redis)).values()) <= 2  # an unrecorded post is requested again, and the board recognises it


async def test_a_process_killed_over_and_over_gets_there(zygote: Zygote, real_redis: Redis) -> None:
    for point in ("summarise:begin", "plan:end", "reflect:begin", "conclude:end", "report:begin"):
        assert zygote.run({"mentions": MENTIONS[:1], "die_at": point}) == [KILLED]
    assert zygote.run({}) == [0]
    await assert_each_once(real_redis, MENTIONS[:1])


async def test_two_processes_on_one_redis_while_a_third_dies(zygote: Zygote, real_redis: Redis) -> None:
    many = [[f"{thread}.0", f"m{thread}-{n}"] for thread in range(5) for n in range(2)]
    ends = zygote.run({"mentions": many, "die_at": "execute:end"}, {"mentions": many}, {})
    assert ends[0] in (KILLED, 0)  # it may never have had a turn
    assert ends[1:] == [0, 0]
    assert zygote.run({}) == [0]
    await assert_each_once(real_redis, sorted(many))


async def test_what_was_acknowledged_survives_redis_being_killed(durable_server: RealServer) -> None:
    for n in range(5):
        async with Redis.from_url(durable_server.url) as redis:
            received = await Inbox(redis, SetClock()).open_or_join(origin(), f"m{n}", lambda i, n=n: item(i, f"m{n}"))  # type: ignore[misc]
        durable_server.kill()
        durable_server.start()
    async with Redis.from_url(durable_server.url) as redis:
        inbox = Inbox(redis, SetClock())
        assert [one.id for one in await inbox.list_waiting(received.incident)] == [f"m{n}" for n in range(5)]
        assert (await inbox.open_or_join(origin(), "m0", lambda i: item(i, "m0"))).duplicate


@pytest.mark.parametrize("point", ["plan:begin", "execute:end", "conclude:end"])
async def test_redis_killed_in_the_middle_of_a_turn_and_back_again(durable_server: RealServer, point: str) -> None:
    killed = False

    async def pull_the_plug(at: str) -> None:
        nonlocal killed
        if at == point and not killed:
            killed = True
            durable_server.kill()

    async def plug_it_in(seconds: float) -> None:
        if durable_server.process is None:
            durable_server.start()
        await asyncio.sleep(seconds / 100)

    async with Redis.from_url(durable_server.url) as redis:
        clock, board = SetClock(), BoardOfList()
        inbox, turns = Inbox(redis, clock), TinyTurns(redis, pull_the_plug)
        leases = Leases(redis, clock, seconds=0.3)
        desk = Dispatcher(inbox, leases, turns, board.observers, clock=clock, timers=plan_timers, pause=plug_it_in)
        incident = (await inbox.open_or_join(origin(), "a", lambda i: item(i, "a"))).incident
        async with asyncio.timeout(PATIENCE):
            while not board.posted:
                await desk.process_incident(incident)
        state: Any = await turns.load_state(incident)
        assert state["visits"] == [f"a/{node}" for node in NODES]
        assert board.posted == ["a"]
        assert await inbox.list_dead_letters() == []
