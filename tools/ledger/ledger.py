"""Approvals in Redis: propose, vote, claim, finish. Each transition is one atomic script that first appends to the audit chain.

Python verifies every signature and counts the votes; the script then compares the very bytes that were verified, so nothing can
change between looking and setting. Time never runs backwards: the scripts keep a high-water mark of all callers' clocks.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol, cast

from redis.asyncio import Redis

from tools.action import Action
from tools.ledger import audit, record
from tools.ledger.claim import Claim, issue
from tools.ledger.record import Record, Refused, Seal, Terms, Vote, approving, moment, read_votes, votes_bytes
from tools.ledger.scripts import SCRIPTS
from tools.ledger.states import Event, State, after

Finished = Literal["done", "failed", "unknown"]
ATTEMPTS = 50

REFUSALS: Mapping[str, type[Refused]] = {
    "not_open": record.NotOpen,
    "tampered": record.Tampered,
    "late": record.TooLate,
    "already": record.AlreadyVoted,
    "replayed": record.Replayed,
    "stopped": record.Stopped,
    "breaker": record.BreakerOpen,
    "busy": record.TargetBusy,
    "blast": record.BlastRadius,
    "fleet": record.FleetLimit,
    "lost": record.LostClaim,
}


class Clock(Protocol):
    """UTC now."""

    def now(self) -> datetime: ...


@dataclass(frozen=True, slots=True)
class Brakes:
    """How much may be changed. `at_once` and `window` are shares of a group, never less than one host."""

    blast_hosts: int = 4
    blast_seconds: int = 3600
    at_once: float = 0.05
    window: float = 0.10
    window_seconds: int = 600
    beat_seconds: int = 30

    def at_once_of(self, group_size: int) -> int:
        """Hosts of a group that may be under change at the same time."""
        return max(1, int(self.at_once * group_size))

    def window_of(self, group_size: int) -> int:
        """Distinct hosts of a group that may be changed within the window before the breaker trips."""
        return max(3, int(self.window * group_size))


@dataclass(frozen=True, slots=True)
class Status:
    """The brakes as they stand."""

    stopped: str
    breakers: tuple[str, ...]
    executing: tuple[str, ...]
    unknown: tuple[str, ...]


def forget_head(length: int, head: str) -> None:
    """Where no log is kept of audit heads."""


class Ledger:
    """`distrust` says why no remedy may run on this store (it forgets), empty when it may. `anchor` gets every new audit head."""

    def __init__(
        self,
        redis: Redis,
        key: bytes,
        clock: Clock,
        *,
        brakes: Brakes | None = None,
        distrust: str = "",
        anchor: Callable[[int, str], None] = forget_head,
        prefix: str = "rm:ledger:",
    ) -> None:
        self._redis, self._seal, self._clock = redis, Seal(key), clock
        self._brakes, self._distrust, self._anchor, self._prefix = brakes or Brakes(), distrust, anchor, prefix
        self._scripts = {name: redis.register_script(text) for name, text in SCRIPTS.items()}

    # -- asking -----------------------------------------------------------------------------------------------------

    async def propose(self, action: Action, terms: Terms) -> Record:
        """Put an action up for decision. Proposing the same approval id again returns what is there, unchanged."""
        now = self._clock.now()
        request, canonical = terms.canonical(), action.canonical()
        decide_by = _ms(now + timedelta(seconds=terms.decide_seconds))
        mac = self._seal.of("request", canonical, request, str(decide_by))
        line = self._line(
            "propose", action, "rackmedic", now, digest=action.digest, remedy=action.remedy, target=action.target, quorum=terms.quorum
        )
        targets = " ".join(targets_of(action))
        rest = (canonical, action.digest, request, mac, decide_by, action.incident, targets, terms.group)
        word = await self._call("propose", action.approval, line, *rest)
        if word not in ("ok", "exists"):
            raise Refused(f"the ledger answered {word!r}")
        found = await self.record(action.approval)
        if found.digest != action.digest:
            raise record.WrongDigest(record.WrongDigest.__doc__)
        return found

    async def vote(
        self, approval: str, digest: str, voter: str, verdict: Literal["approve", "deny"], delivery: str, reason: str = ""
    ) -> Record:
        """Count one person's word. `voter` is `TEAM:USER` of the verified click, `delivery` its unique id. Raises a Refused."""
        for _ in range(ATTEMPTS):
            seen = await self.record(approval)
            self._may_vote(seen, digest, voter)
            now = self._clock.now()
            vote = Vote(approval, digest, voter, verdict, now.isoformat(), delivery, reason)
            text = vote.canonical()
            becomes = _becomes(seen, vote)
            line = self._line(f"vote_{verdict}", seen.action, voter, now, digest=digest, becomes=becomes.value, reason=reason)
            signed = f"{self._seal.of('vote', text)} {text}"
            rest = (
                seen.digest,
                seen.raw["request"],
                seen.raw_votes,
                voter,
                signed,
                delivery,
                becomes.value,
                seen.terms.start_seconds * 1000,
                reason,
            )
            word = await self._once("vote", approval, line, *rest)
            if word == "ok":
                return await self.record(approval)
            if word != "retry":
                raise _refusal(word)
            await _pause()
        raise Refused("the ledger is too busy; try again")

    def _may_vote(self, seen: Record, digest: str, voter: str) -> None:
        if seen.digest != digest:
            raise record.WrongDigest(record.WrongDigest.__doc__)
        if voter == seen.action.requested_by:
            raise record.OwnRequest(record.OwnRequest.__doc__)
        if voter not in seen.terms.approvers:
            raise record.NotAnApprover(record.NotAnApprover.__doc__)

    # -- acting -----------------------------------------------------------------------------------------------------

    async def claim(self, approval: str, digest: str, worker: str, *, policy: str, catalogue: str, authorised: frozenset[str]) -> Claim:
        """The right to run the action, once. `authorised` are those who may approve it as of now. Raises a Refused."""
        if self._distrust:
            raise record.Forgetful(f"{record.Forgetful.__doc__} ({self._distrust})")
        for _ in range(ATTEMPTS):
            seen = await self.record(approval)
            await self._may_claim(seen, digest, policy, catalogue, authorised)
            covered = await self._covered(seen)
            now, brakes, size = self._clock.now(), self._brakes, seen.terms.group_size
            line = self._line("claim", seen.action, worker, now, digest=digest, supersedes=covered)
            limits = (
                brakes.blast_hosts,
                brakes.blast_seconds * 1000,
                brakes.at_once_of(size),
                brakes.window_of(size),
                brakes.window_seconds * 1000,
            )
            rest = (digest, seen.raw["request"], seen.raw_votes, worker, brakes.beat_seconds * 1000, *limits, " ".join(covered))
            word = await self._once("claim", approval, line, *rest)
            if word.startswith("ok "):
                return issue(seen.action, int(word.split()[1]), worker, may_start=True)
            if word == "trip":
                await self._trip(seen, worker)
            if word != "retry":
                raise _refusal(word)
            await _pause()
        raise Refused("the ledger is too busy; try again")

    async def _may_claim(self, seen: Record, digest: str, policy: str, catalogue: str, authorised: frozenset[str]) -> None:
        if seen.digest != digest:
            raise record.WrongDigest(record.WrongDigest.__doc__)
        if seen.state is not State.APPROVED:
            raise record.NotOpen(f"{record.NotOpen.__doc__} It is {seen.state}.")
        if (seen.action.policy, seen.action.catalogue) != (policy, catalogue):
            await self.end(seen.approval, Event.SUPERSEDE, "rackmedic", "policy or catalogue changed since the card was shown")
            raise record.VersionChanged(record.VersionChanged.__doc__)
        if len(approving(seen.votes, seen.terms, seen.action, authorised)) < max(1, seen.terms.quorum):
            raise record.NoQuorum(record.NoQuorum.__doc__)

    async def _covered(self, seen: Record) -> list[str]:
        """Open approvals for the same target that this action makes needless."""
        found: list[str] = []
        for target in targets_of(seen.action):
            for other in sorted(_texts(await cast(Any, self._redis.smembers(f"{self._prefix}open:{target}")))):
                if other == seen.approval or not seen.terms.covers:
                    continue
                row = await self.record(other)
                if row.state in (State.PENDING, State.APPROVED) and row.action.remedy in seen.terms.covers:
                    found.append(other)
        return found

    async def _trip(self, seen: Record, worker: str) -> None:
        line = self._line("breaker_trips", seen.action, worker, self._clock.now(), group=seen.terms.group)
        await self._call(
            "switch", seen.approval, line, f"breaker:{seen.terms.group}", f"{seen.approval} at {self._clock.now().isoformat()}"
        )
        raise record.BreakerOpen(record.BreakerOpen.__doc__)

    async def beat(self, held: Claim) -> None:
        """Say that the holder lives. LostClaim when it is no longer the holder."""
        word = await self._once("beat", held.action.approval, "", held.token, self._brakes.beat_seconds * 1000)
        if word != "ok":
            raise _refusal(word)

    async def adopt(self, approval: str, worker: str) -> Claim | None:
        """Take over from a worker that stopped beating, to find out what happened; None while it still beats."""
        seen = await self.record(approval)
        word = await self._call(
            "adopt", approval, self._line("adopt", seen.action, worker, self._clock.now()), worker, self._brakes.beat_seconds * 1000
        )
        if word == "alive":
            return None
        if not word.startswith("ok "):
            raise _refusal(word)
        return issue(seen.action, int(word.split()[1]), worker, may_start=False)

    async def finish(self, held: Claim, state: Finished, *, exit_status: int | None = None, output: str = "", says: str = "") -> Record:
        """Write down how it ended. `unknown` keeps the target locked until a human looked. LostClaim when somebody else holds it."""
        approval = held.action.approval
        status = "" if exit_status is None else str(exit_status)
        line = self._line(f"finish_{state}", held.action, held.worker, self._clock.now(), exit_status=status, output=output)
        word = await self._call("finish", approval, line, held.token, state, status, output, says)
        if word != "ok":
            raise _refusal(word)
        return await self.record(approval)

    async def reconcile(self, approval: str, human: str, ran: bool, note: str) -> Record:
        """A human looked at the host and says what happened to an `unknown` action. Audited; releases the target."""
        seen = await self.record(approval)
        becomes = after(State.UNKNOWN, Event.RECONCILE_RAN if ran else Event.RECONCILE_NOT)
        assert becomes is not None
        line = self._line("reconcile", seen.action, human, self._clock.now(), ran=ran, note=note)
        word = await self._call("reconcile", approval, line, human, becomes.value, note)
        if word != "ok":
            raise _refusal(word)
        return await self.record(approval)

    async def end(self, approval: str, event: Event, by: str, says: str) -> Record:
        """Expire, supersede or revoke what has not begun. NotOpen when it has begun or ended."""
        seen = await self.record(approval)
        becomes = after(seen.state, event)
        if becomes is None:
            raise record.NotOpen(f"{record.NotOpen.__doc__} It is {seen.state}.")
        line = self._line(event.value, seen.action, by, self._clock.now(), says=says)
        word = await self._call("end", approval, line, becomes.value, by, says, "1" if event is Event.EXPIRE else "0")
        if word not in ("ok", "early"):
            raise _refusal(word)
        return await self.record(approval)

    async def judge(self, approval: str, outcome: record.Outcome, by: str = "rackmedic") -> Record:
        """Keep what the proof (or the later re-proof) found."""
        seen = await self.record(approval)
        word = await self._call("outcome", approval, self._line("outcome", seen.action, by, self._clock.now(), outcome=outcome), outcome)
        if word != "ok":
            raise _refusal(word)
        return await self.record(approval)

    # -- brakes -----------------------------------------------------------------------------------------------------

    async def stop(self, who: str, why: str) -> None:
        """The kill switch: from now on no claim is given. What runs goes on and is reported."""
        await self._switch("stop", who, "stop", f"{who}: {why or 'no reason given'}")

    async def resume(self, who: str) -> None:
        """Take the kill switch off."""
        await self._switch("resume", who, "stop", "")

    async def reset_breaker(self, group: str, who: str) -> None:
        """A human looked at the group and lets changes go on. The window is counted anew."""
        await self._switch("breaker_reset", who, f"breaker:{group}", "")
        await self._redis.delete(f"{self._prefix}window:{group}")

    async def _switch(self, event: str, who: str, key: str, value: str) -> None:
        line = audit.entry(event, "", who, self._clock.now().isoformat(), key=key, value=value)
        await self._call("switch", "-", line, key, value)

    async def status(self) -> Status:
        """Kill switch, breakers, and what runs or is in doubt."""
        stopped = _text(await self._redis.get(f"{self._prefix}stop"))
        breakers = [_text(key).rpartition(":")[2] async for key in self._redis.scan_iter(f"{self._prefix}breaker:*")]
        held: dict[State, list[str]] = {State.EXECUTING: [], State.UNKNOWN: []}
        async for key in self._redis.scan_iter(f"{self._prefix}target:*"):
            approval = _text(await self._redis.get(key))
            state = State(_text(await cast(Any, self._redis.hget(f"{self._prefix}apr:{approval}", "state"))) or State.UNKNOWN)
            held.setdefault(state, []).append(approval)
        return Status(stopped, tuple(sorted(breakers)), tuple(sorted(set(held[State.EXECUTING]))), tuple(sorted(set(held[State.UNKNOWN]))))

    # -- looking ----------------------------------------------------------------------------------------------------

    async def record(self, approval: str) -> Record:
        """One action, every signature checked. NotFound; Tampered when the store was written by somebody else."""
        pipe = self._redis.pipeline(transaction=True)
        pipe.hgetall(f"{self._prefix}apr:{approval}")
        pipe.hgetall(f"{self._prefix}votes:{approval}")
        found, votes = await pipe.execute()
        row, rows = _row(found), _row(votes)
        if not row:
            raise record.NotFound(f"{record.NotFound.__doc__} ({approval})")
        self._seal.check(row["mac"], "request", row["action"], row["request"], row["decide_by"])
        action = Action.from_canonical(row["action"])
        if action.digest != row["digest"] or action.approval != approval:
            raise record.Tampered(record.Tampered.__doc__)
        return _record(row, rows, action, read_votes(rows, self._seal))

    async def of_incident(self, incident: str) -> list[Record]:
        """Every action of an incident, oldest first."""
        ids = _texts(await cast(Any, self._redis.smembers(f"{self._prefix}of:{incident}")))
        return sorted([await self.record(approval) for approval in ids], key=lambda row: (row.proposed_at, row.approval))

    async def due(self, limit: int = 100) -> list[str]:
        """Approvals whose time to decide, to start or to beat has come."""
        return _texts(await self._redis.zrangebyscore(f"{self._prefix}due", "-inf", _ms(self._clock.now()), start=0, num=limit))

    async def verify(self, posted: Collection[str] = ()) -> audit.AuditReport:
        """Walk the audit chain."""
        return await audit.verify(self._redis, self._prefix, self._seal, posted)

    def export(self) -> AsyncIterator[str]:
        """Audit lines, oldest first."""
        return audit.entries(self._redis, self._prefix)

    # -- inside -----------------------------------------------------------------------------------------------------

    def _line(self, event: str, action: Action, by: str, at: datetime, **more: Any) -> str:
        return audit.entry(event, action.approval, by, at.isoformat(), incident=action.incident, **more)

    async def _call(self, script: str, approval: str, line: str, *rest: Any) -> str:
        """Run a script until the audit head it was given is still the head."""
        for _ in range(ATTEMPTS):
            word = await self._once(script, approval, line, *rest)
            if word != "retry":
                return word
            await _pause()
        raise Refused("the ledger is too busy; try again")

    async def _once(self, script: str, approval: str, line: str, *rest: Any) -> str:
        prev = _text(await self._redis.get(f"{self._prefix}head"))
        head = audit.next_head(self._seal, prev, line) if line else ""
        args = [self._prefix, prev, line, head, _ms(self._clock.now()), approval, *rest]
        word = _text(await self._scripts[script](keys=[], args=args))
        if line and word.startswith("ok"):
            self._anchor(await cast(Any, self._redis.llen(f"{self._prefix}audit")), head)
        return word


def targets_of(action: Action) -> tuple[str, ...]:
    """The hosts an action holds while it runs: its target, or every host of a set (`a,b,c`)."""
    return tuple(action.target.split(","))


def _becomes(seen: Record, vote: Vote) -> State:
    """The state after this vote, by the table. Distinct voters count, so the same person twice is one."""
    if vote.verdict == "deny":
        return State.DENIED
    voters = approving([*seen.votes, vote], seen.terms, seen.action)
    return State.APPROVED if seen.terms.quorum >= 1 and len(voters) >= seen.terms.quorum else State.PENDING


def _refusal(word: str) -> Refused:
    name, _, more = word.partition(" ")
    kind = REFUSALS.get(name, Refused)
    return kind(f"{kind.__doc__}{' Held by ' + more + '.' if more else ''}" if name in REFUSALS else f"the ledger answered {word!r}")


def _record(row: Mapping[str, str], rows: Mapping[str, str], action: Action, votes: tuple[Vote, ...]) -> Record:
    proposed, decide_by = moment(row["proposed_at"]), moment(row["decide_by"])
    assert proposed is not None
    assert decide_by is not None
    return Record(
        action=action,
        terms=Terms.from_canonical(row["request"]),
        state=State(row["state"]),
        votes=votes,
        proposed_at=proposed,
        decide_by=decide_by,
        start_by=moment(row.get("start_by")),
        worker=row.get("worker", ""),
        token=int(row.get("token") or 0),
        beat_until=moment(row.get("beat_until")),
        exit_status=int(row["exit_status"]) if row.get("exit_status") else None,
        output=row.get("output", ""),
        says=row.get("says", ""),
        outcome=cast(record.Outcome, row.get("outcome", "")),
        ended_by=row.get("ended_by", ""),
        raw=row,
        raw_votes=votes_bytes(rows),
    )


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value or "")


def _texts(values: Any) -> list[str]:
    return [_text(value) for value in values]


def _row(found: Mapping[Any, Any]) -> dict[str, str]:
    return {_text(name): _text(value) for name, value in found.items()}


async def _pause() -> None:
    """Let whoever moved the head go on; jitter keeps replicas from meeting again."""
    await asyncio.sleep(random.uniform(0, 0.01))  # noqa: S311  # jitter, not a secret
