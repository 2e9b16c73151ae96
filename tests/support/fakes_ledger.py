"""Approval stories: a set clock, voters, and a host that keeps the node kit's contract."""

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from redis.asyncio import Redis

from tests.support.clock import SetClock
from tools.action import Action, Condition, new_approval_id
from tools.execution import runner as act
from tools.execution.kit import get_current_kit_version
from tools.ledger import brakes, record, states
from tools.ledger.ledger import Ledger
from tools.transport import CommandResult, Unreachable

KEY = b"a key that only these tests know"
POLICY, CATALOGUE = "policy-1", "catalogue-1"
PEOPLE = frozenset({"T1:ANN", "T1:BOB", "T1:CID"})
BDF = "0000:9b:00.0"
BOOT = "8d3a1c52-0b1f-4f53-9a57-6a6d1c1f0a01"
OTHER_BOOT = "11111111-2222-4333-8444-555555555555"
IDLE = Condition("node", "no process uses this GPU", ("nvidia-smi", "--query-compute-apps=pid", "-i", BDF), "")


def action(**changes: Any) -> Action:
    """Return a GPU reset with `changes`."""
    plain = Action(
        approval=new_approval_id(),
        incident="inc-1",
        remedy="gpu_reset",
        args={"bdf": BDF},
        argv=("gpu_reset", BDF),
        command=("nvidia-smi", "--gpu-reset", "-i", BDF),
        limit_seconds=180,
        risk="disruptive",
        target="gpu-017",
        via="gpu-017",
        devices=("gpu-017/gpu5",),
        boot_id=BOOT,
        conditions=(IDLE,),
        proof=("smi", "dmesg"),
        proves="GPU.BUS.Fell_Off",
        policy=POLICY,
        catalogue=CATALOGUE,
    )
    return replace(plain, **changes)


@dataclass
class Host:
    """Answers as `rackmedic-act` does, and counts what it really did. `guarded` False is a host that lost its records."""

    boot_id: str = BOOT
    idle: bool = True
    answers: bool = True
    guarded: bool = True
    stays_running: bool = False
    records: dict[str, str] = field(default_factory=dict)
    effects: Counter[str] = field(default_factory=Counter)
    asked: list[tuple[str, ...]] = field(default_factory=list)

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        if not self.answers:
            raise Unreachable(host, "no route to host")
        words = tuple(argv)
        if words[0] == "cat":
            return CommandResult(f"{self.boot_id}\n".encode())
        if words[3] == "version":
            return CommandResult(f"{get_current_kit_version()}\n".encode())
        self.asked.append(words[3:])
        return CommandResult(f"{self._start(*words[4:]) if words[3] == 'start' else self._settle(words[4])}\n".encode())

    async def aclose(self) -> None:
        return None

    def _start(self, digest: str, boot_id: str, *words: str) -> str:
        if self.guarded and digest in self.records:
            return self.records[digest]
        if boot_id != self.boot_id:
            return "refused the host has booted since the approval"
        if not self.idle:
            self.records[digest] = "refused no process uses this GPU: found '4711'"
            return self.records[digest]
        self.effects[digest] += 1
        self.records[digest] = "running" if self.stays_running else "done 0"
        return "started"

    def _settle(self, digest: str) -> str:
        return self.records.setdefault(digest, "never")


async def expire_due(ledger: Any) -> list[Any]:
    """Expire due actions as a sweep does. Silent lease holders stay due, because a worker must adopt them."""
    ended = []
    for approval in await ledger.list_due():
        try:
            if (await ledger.get_record(approval)).state in states.OPEN_STATES:
                ended.append(await ledger.end_action(approval, states.Transition.EXPIRE, "rackmedic", "no decision or start in time"))
        except (record.NotOpen, record.TamperedRecord):
            continue  # another worker was quicker; or it was tampered with and must not keep the others from expiring
    return [row for row in ended if row.state is states.State.EXPIRED]


class Desk:
    """One Redis, one ledger, voters and a host."""

    def __init__(self, redis: Redis, **options: Any) -> None:
        self.redis: Any = redis  # raw bytes, which the client's types do not cover
        self.clock, self.host = SetClock(), Host()
        self.heads: list[tuple[int, str]] = []
        self.refusals, self.states, self.brakes = record, states, brakes
        self._clicks = itertools.count()
        self.ledger = self.replica(**options)

    def replica(self, clock: SetClock | None = None, key: bytes = KEY, **options: Any) -> Any:
        """Open the ledger as another process on the same Redis."""
        return Ledger(self.redis, key, clock or self.clock, anchor=self._keep, **options)

    def _keep(self, length: int, head: str) -> None:
        self.heads.append((length, head))

    def action(self, target: str = "gpu-017", **changes: Any) -> Action:
        return action(**{"target": target, "via": target, "devices": (), **changes})

    def terms(self, **changes: Any) -> Any:
        """Return terms under which any one of three people may decide."""
        return self.refusals.ApprovalTerms(**{"approvers": PEOPLE, "quorum": 1, "group": "h100", "group_size": 100, **changes})

    async def ask(self, action: Action | None = None, **terms: Any) -> Any:
        return await self.ledger.propose(action or self.action(), self.terms(**terms))

    async def click(self, row: Any, who: str = "ANN", verdict: str = "approve", **more: Any) -> Any:
        """Vote; every click has its own delivery id."""
        delivery = more.pop("delivery", f"click-{next(self._clicks)}")
        return await more.pop("ledger", self.ledger).vote(row.approval, row.digest, f"T1:{who}", verdict, delivery, more.pop("reason", ""))

    async def approved(self, action: Action | None = None, **terms: Any) -> Any:
        return await self.click(await self.ask(action, **terms))

    async def claim(self, row: Any, worker: str = "w1", **more: Any) -> Any:
        """Claim the action; everybody may still approve unless `authorised` says otherwise."""
        ledger = more.pop("ledger", self.ledger)
        asked = {"policy": POLICY, "catalogue": CATALOGUE, "authorised": PEOPLE, **more}
        return await ledger.claim(row.approval, row.digest, worker, **asked)

    async def perform(self, held: Any, ledger: Any = None) -> Any:
        """Run the claimed action as a worker does and record its outcome."""
        book = ledger or self.ledger

        async def pause(seconds: float) -> None:
            self.clock.go(seconds=seconds)

        ended = await act.run_action(held, self.host, clock=self.clock, beat=book.send_heartbeat, pause=pause)
        return await book.finish(held, ended.state, exit_status=ended.exit_status, output=ended.output, says=ended.says)

    async def ran(self, row: Any, **more: Any) -> Any:
        return await self.perform(await self.claim(row, **more))

    async def dump(self) -> dict[bytes, bytes]:
        """Return the whole store, to prove that nothing changed."""
        return {key: await self._value(key) for key in sorted(await self.redis.keys("*"))}

    async def _value(self, key: bytes) -> bytes:
        reads: dict[bytes, Any] = {
            b"string": self.redis.get,
            b"hash": self.redis.hgetall,
            b"set": self.redis.smembers,
            b"list": lambda k: self.redis.lrange(k, 0, -1),
            b"zset": lambda k: self.redis.zrange(k, 0, -1, withscores=True),
        }
        found = await reads[await self.redis.type(key)](key)
        return repr(sorted(found.items()) if isinstance(found, dict) else sorted(found) if isinstance(found, set) else found).encode()

    async def audit(self) -> list[str]:
        return [line async for line in self.ledger.export_audit()]

    def key(self, *parts: str) -> str:
        """Return a store key, for tests that write by hand."""
        return "rm:ledger:" + ":".join(parts)
