"""Real processes, a redis-server with durable writes, the real node kit, and SIGKILL."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from tests.support.clock import PATIENCE, SetClock
from tests.support.fakes_ledger import CATALOGUE, KEY, PEOPLE, POLICY, Desk
from tests.support.fakes_nodekit import BOOT, Node
from tests.support.node_transport import OneNode
from tests.support.redis_server import RealServer
from tools.execution import runner as act
from tools.ledger.brakes import Brakes
from tools.ledger.ledger import Ledger
from tools.ledger.record import KillSwitchOn, NotFound, NotOpen, Refused, StoreDown

pytest_plugins = ("tests.support.fixtures_redis",)
pytestmark = pytest.mark.tier2

ROOT = Path(__file__).parents[2]
PROCESSES, APPROVALS = 4, 20


@pytest.fixture
async def desk(durable_server: RealServer) -> AsyncIterator[Desk]:
    async with connect(durable_server) as redis:
        desk = Desk(redis)
        desk.clock.at = datetime.now(UTC)
        yield desk


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path / "node")
    yield node
    node.kill_all()


def connect(server: RealServer) -> Redis:
    """Return a client that fails at once when the server is gone, and reconnects later."""
    return Redis(unix_socket_path=str(server.socket), retry=Retry(NoBackoff(), 1))


def ledger_at(redis: Redis, at: datetime) -> Ledger:
    """Open the ledger as a freshly started process."""
    return Ledger(redis, KEY, SetClock(at))


def process(server: RealServer, name: str, what: str, *rest: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "tests.properties.ledger_process", str(server.socket), name, what, str(PROCESSES), *rest]
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def resets(node: Node) -> int:
    """Count the node's real GPU resets."""
    return sum("--gpu-reset" in call for call in node.calls)


async def approved(desk: Desk, **more: Any) -> Any:
    return await desk.approved(desk.action(boot_id=BOOT, **more))


async def run_it(ledger: Ledger, held: Any, node: Node) -> Any:
    """Run or settle the action on the node and record its outcome."""

    async def pause(seconds: float) -> None:
        await asyncio.to_thread(node.idle)

    clock = SetClock(datetime.now(UTC))
    ended = await act.run_action(held, OneNode(node), clock=clock, beat=ledger.send_heartbeat, pause=pause)
    return await ledger.finish(held, ended.state, exit_status=ended.exit_status, output=ended.output, says=ended.says)


async def claim(ledger: Ledger, row: Any, worker: str = "w") -> Any:
    return await ledger.claim(row.approval, row.digest, worker, policy=POLICY, catalogue=CATALOGUE, authorised=PEOPLE)


async def test_four_processes_that_claim_twenty_approvals_at_once_get_each_once(desk: Desk, durable_server: RealServer) -> None:
    rows = [await desk.approved(desk.action(f"gpu-{i:03}", incident=f"inc-{i}"), group_size=1000, group=f"g{i}") for i in range(APPROVALS)]
    names = [row.approval for row in rows]
    with ExitStack() as stack:
        racers = [stack.enter_context(process(durable_server, f"w{i}", "race", *names)) for i in range(PROCESSES)]
        said = [(await asyncio.to_thread(racer.communicate, timeout=PATIENCE))[0] for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * PROCESSES
    claimed = [line.split()[1] for text in said for line in text.splitlines()]
    assert sorted(claimed) == sorted(names), "each approval was claimed by exactly one process"
    assert {(await desk.ledger.get_record(name)).state for name in names} == {"done"}
    assert (await desk.ledger.verify_audit(head for _, head in desk.heads)).good


@pytest.mark.parametrize("started", [True, False], ids=["after the start", "before the start"])
async def test_after_the_holder_is_killed_the_adopter_only_finds_out(
    desk: Desk, durable_server: RealServer, node: Node, started: bool
) -> None:
    row = await approved(desk)
    holder = process(durable_server, "w1", "hold", row.approval, *([str(node.root)] if started else []))
    with holder:
        assert holder.stdout is not None
        assert await asyncio.to_thread(holder.stdout.readline) == f"claimed {row.approval}\n"
        assert await asyncio.to_thread(holder.stdout.readline) == "holding\n"
        holder.kill()
    later = ledger_at(desk.redis, datetime.now(UTC) + timedelta(seconds=Brakes().beat_seconds + 1))
    adopted = await later.adopt(row.approval, "w2")
    assert adopted is not None
    assert not adopted.may_start
    ended = await run_it(later, adopted, node)
    assert (ended.state, resets(node)) == (("done", 1) if started else ("failed", 0))
    assert node.start(row.digest, *row.action.argv).word in ("done", "never"), "and it can never start again"
    assert resets(node) == int(started)


async def test_what_redis_acknowledged_is_there_after_it_was_killed(desk: Desk, durable_server: RealServer) -> None:
    waiting, ready, running = await desk.ask(), await approved(desk, target="gpu-018"), await approved(desk, target="gpu-019")
    held = await desk.claim(running)
    durable_server.kill()
    with pytest.raises(StoreDown):
        await desk.claim(ready)
    durable_server.start()
    fresh = ledger_at(desk.redis, desk.clock.at)
    assert [(await fresh.get_record(row.approval)).state for row in (waiting, ready, running)] == ["pending", "approved", "executing"]
    assert (await fresh.get_record(ready.approval)).approvals == 1
    with pytest.raises(NotOpen):
        await claim(fresh, running)
    await desk.ledger.send_heartbeat(held)
    assert (await desk.ledger.finish(held, "done")).state == "done"
    assert (await claim(desk.ledger, ready)).may_start
    assert (await fresh.verify_audit(head for _, head in desk.heads)).good


async def test_every_proposal_that_was_acknowledged_before_the_kill_is_there(desk: Desk, durable_server: RealServer) -> None:
    acknowledged: list[str] = []

    async def propose(i: int) -> None:
        row = await desk.ask(desk.action(f"gpu-{i:03}"))
        acknowledged.append(row.approval)
        if len(acknowledged) == 30:
            durable_server.kill()

    said = await asyncio.gather(*(propose(i) for i in range(60)), return_exceptions=True)
    assert {type(answer) for answer in said if answer is not None} == {StoreDown}
    durable_server.start()
    fresh = ledger_at(desk.redis, desk.clock.at)
    for approval in acknowledged:
        assert (await fresh.get_record(approval)).state == "pending"
    assert (await fresh.verify_audit(head for _, head in desk.heads)).good


class PowerCut:
    """Remove the last writes from disk: what a machine loses whose Redis flushes once a second."""

    def __init__(self, server: RealServer) -> None:
        self._server = server
        (self._file,) = server.directory.glob("appendonlydir/*.incr.aof")
        self._kept = 0

    def from_here_on(self) -> None:
        self._kept = self._file.stat().st_size

    def happens(self) -> None:
        """Cut in the middle of a write."""
        self._server.kill()
        data = self._file.read_bytes()
        assert len(data) > self._kept + 17
        self._file.write_bytes(data[: self._kept + 17])
        self._server.start()


@pytest.fixture
def power_cut(durable_server: RealServer) -> PowerCut:
    return PowerCut(durable_server)


async def test_after_a_power_cut_that_lost_the_claim_the_host_refuses_to_run_it_again(desk: Desk, power_cut: PowerCut, node: Node) -> None:
    row = await approved(desk)
    power_cut.from_here_on()
    first = await run_it(desk.ledger, await desk.claim(row), node)
    assert (first.state, resets(node)) == ("done", 1)
    power_cut.happens()
    fresh = ledger_at(desk.redis, desk.clock.at)
    assert (await fresh.get_record(row.approval)).state == "approved", "this Redis does not know that it ran"
    again = await claim(fresh, row)
    assert again.may_start, "nothing in the store could tell this process"
    second = await run_it(fresh, again, node)
    assert (second.state, second.exit_status) == ("done", 0), "the host says what became of it the first time"
    assert resets(node) == 1


async def test_after_a_power_cut_in_mid_action_the_running_command_is_found_and_not_started_again(
    desk: Desk, power_cut: PowerCut, node: Node
) -> None:
    node.stub("nvidia-smi", f'case "$*" in *gpu-reset*) {node.gate("reset")} ;; esac')
    row = await approved(desk)
    power_cut.from_here_on()
    held = await desk.claim(row)
    assert (await act.start_action(held, OneNode(node))).word == "started"
    power_cut.happens()
    fresh = ledger_at(desk.redis, desk.clock.at)
    again = await claim(fresh, row)
    assert (await act.start_action(again, OneNode(node))).word == "running"
    await asyncio.to_thread(node.open_gate, "reset")
    assert (await run_it(fresh, again, node)).state == "done"
    assert resets(node) == 1


async def test_a_process_that_lived_through_the_power_cut_stops_everything(desk: Desk, power_cut: PowerCut, node: Node) -> None:
    row = await approved(desk)
    power_cut.from_here_on()
    await run_it(desk.ledger, await desk.claim(row), node)
    power_cut.happens()
    with pytest.raises(KillSwitchOn, match="went back in time"):
        await desk.claim(row)
    newcomer = ledger_at(desk.redis, desk.clock.at)
    assert "went back in time" in (await newcomer.get_brake_status()).stopped
    with pytest.raises(KillSwitchOn):
        await claim(newcomer, row)
    posted = [head for _, head in desk.heads]
    assert (await newcomer.verify_audit(posted)).missing_heads, "the heads posted elsewhere show what was lost"
    assert resets(node) == 1


async def test_when_redis_lost_everything_no_old_card_does_anything(desk: Desk, durable_server: RealServer, node: Node) -> None:
    row = await approved(desk)
    held = await desk.claim(row)
    await desk.redis.flushall()
    fresh = ledger_at(desk.redis, desk.clock.at)
    with pytest.raises(NotFound):
        await fresh.vote(row.approval, row.digest, "T1:BOB", "approve", "click")
    with pytest.raises(Refused):
        await run_it(fresh, held, node)
    assert (await fresh.get_record((await fresh.propose(replace(row.action, approval="apr-00"), row.terms)).approval)).state == "pending"


async def test_after_a_restore_from_an_older_copy_everything_stops_until_people_looked(
    desk: Desk, durable_server: RealServer, node: Node, tmp_path: Path
) -> None:
    """Stop, inspect, resume: the copy holds an approval that has run since."""
    heads: list[tuple[int, str]] = []
    ledger = Ledger(desk.redis, KEY, SetClock(desk.clock.at), anchor=lambda length, head: heads.append((length, head)))
    card = await approved(desk)
    copy = {key: await desk.redis.dump(key) for key in await desk.redis.keys("*")}
    await run_it(ledger, await desk.claim(card, ledger=ledger), node)
    assert resets(node) == 1
    await desk.redis.flushall()
    for key, value in copy.items():
        await desk.redis.restore(key, 0, value)
    durable_server.kill()
    durable_server.start()
    fresh = Ledger(desk.redis, KEY, SetClock(desk.clock.at), seen=heads[-1])  # a fresh process, with the head kept outside Redis
    with pytest.raises(KillSwitchOn, match="went back in time"):
        await desk.claim(card, ledger=fresh)
    assert not (await fresh.verify_audit([head for _, head in heads])).good, "the heads in the log are not in the copy"
    await fresh.resume("T1:BOB")
    again = await run_it(fresh, await desk.claim(card, ledger=fresh), node)
    assert (again.state, resets(node)) == ("done", 1), "the host's own record says what became of it"


async def test_what_was_approved_before_an_older_copy_was_made_starts_no_more(desk: Desk, node: Node) -> None:
    card = await approved(desk)
    hours_later = Ledger(desk.redis, KEY, SetClock(desk.clock.at + timedelta(hours=2)))
    with pytest.raises(Refused):
        await desk.claim(card, ledger=hours_later)
    assert resets(node) == 0
