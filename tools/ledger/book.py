"""The ledger as it is read, and its brakes as people pull them: records with every signature checked, the due index, the audit log,
kill switch and breakers. What changes the state of an action is in `tools.ledger.ledger`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, cast

from redis.asyncio import Redis

from kb.redact import redact
from tools.action import Action
from tools.clock import Clock
from tools.ledger import audit, record
from tools.ledger.brakes import BREAKER, STOP, Brakes, BrakeStatus, Used
from tools.ledger.confirmed import LoggedStates
from tools.ledger.history import ActionHistory, history
from tools.ledger.journal import Journal, JournalHead, KeyParts, Rewound, Whose, in_words, insist, key_parts
from tools.ledger.reach import hash_of, text_of, texts_of, within_reach
from tools.ledger.record import Record, targets_of
from tools.ledger.seal import Seal, milliseconds, read_record
from tools.ledger.states import OPEN, TERMINAL

MOST_WORDS = 500
MOST_SCORE = 10**13
CHANGED = "kill switch, breakers or held hosts were changed in Redis by somebody else. Compare them with the audit log before resuming"


def forget_head(length: int, head: str) -> None:
    """Where no log is kept of audit heads."""


@dataclass(frozen=True, slots=True)
class KeyUse:
    """The ledger's keys by their ids. `newest` signed the newest entry of the audit log: None where there is none, empty where no key of ours did."""

    current: str
    older: tuple[str, ...]
    newest: str | None
    waiting: tuple[str, ...]
    """Approvals signed with an earlier key that wait for a decision or a start: nobody can decide them."""
    running: tuple[str, ...]
    """Those that run or are in doubt: they end under the key that they began with."""

    @property
    def changing(self) -> bool:
        """Whether a change of the key was begun and is not through."""
        return self.newest in self.older or bool(self.waiting)


class Book:
    """`distrust` says why no remedy may run on this store (it forgets), empty when it may; a function is asked at every claim.
    `anchor` gets the length and the head of the audit chain whenever it grows; `seen` is what was kept of it outside Redis: a chain that does not
    hold that any more was restored from an older copy, and everything stops until a human looked. `older_keys`: with which earlier records are signed."""

    def __init__(
        self,
        redis: Redis,
        key: bytes,
        clock: Clock,
        *,
        brakes: Brakes | None = None,
        distrust: str | Callable[[], Awaitable[str]] = "",
        anchor: Callable[[int, str], None] = forget_head,
        seen: tuple[int, str] = (0, ""),
        older_keys: Sequence[bytes] = (),
        prefix: str = "rm:ledger:",
    ) -> None:
        self._redis, self._seal, self._clock = redis, Seal(key, older_keys), clock
        self._brakes, self._distrust, self._prefix = brakes or Brakes(), distrust, prefix
        self._journal = Journal(redis, self._seal, clock, anchor, prefix, seen)
        self._logged = LoggedStates(redis, self._seal, prefix)

    @property
    def brakes(self) -> Brakes:
        """How much may be changed before somebody has to look."""
        return self._brakes

    # -- looking ----------------------------------------------------------------------------------------------------

    async def record(self, approval: str) -> Record:
        """One action, every signature checked. NotFound; Tampered when the store was written by somebody else."""
        async with within_reach():
            pipe = self._redis.pipeline(transaction=True)
            pipe.hgetall(f"{self._prefix}apr:{approval}")
            pipe.hgetall(f"{self._prefix}votes:{approval}")
            found, votes = await pipe.execute()
        if not found:
            raise record.NotFound(f"{record.NotFound.__doc__} ({approval[:80]})")
        return read_record(approval, hash_of(found), hash_of(votes), self._seal)

    async def of_incident(self, incident: str) -> list[Record]:
        """Every action of an incident, oldest first."""
        async with within_reach():
            ids = texts_of(await cast(Any, self._redis.smembers(f"{self._prefix}of:{incident}")))
        return sorted([await self.record(approval) for approval in ids], key=lambda row: (row.proposed_at, row.approval))

    async def due(self, limit: int = 100) -> list[str]:
        """Approvals whose time to decide, to start or to beat has come."""
        async with within_reach():
            now = milliseconds(self._clock.now())
            return texts_of(await self._redis.zrangebyscore(f"{self._prefix}due", "-inf", now, start=0, num=limit))

    async def verify(self, posted: Iterable[str] = ()) -> audit.AuditReport:
        """Walk the audit chain; `posted` are heads that were kept elsewhere."""
        return await audit.verify(self._redis, self._prefix, self._seal, posted)

    async def ours(self) -> bool:
        """Whether the audit chain was begun with a key of ours, or is yet to begin."""
        return await audit.begun_with(self._redis, self._prefix, self._seal)

    async def key_state(self) -> Literal["ours", "earlier", "strange"]:
        """Which key signed the newest entry: ours, which also an empty log goes by; an earlier one, so that ours is yet to be brought in; or none
        that we have."""
        newest = await audit.newest_signer(self._redis, self._prefix, self._seal)
        if newest == "":
            return "strange"
        return "ours" if newest in (None, self._seal.current) else "earlier"

    async def keys(self) -> KeyUse:
        """Which keys sign here, and what is not over and signed with an earlier one."""
        newest = await audit.newest_signer(self._redis, self._prefix, self._seal)
        async with within_reach():
            names = texts_of(await self._redis.zrange(f"{self._prefix}due", 0, -1))
            names += texts_of(await cast(Any, self._redis.smembers(f"{self._prefix}held")))
        waiting, running = list[str](), list[str]()
        for approval in sorted(set(names)):
            with suppress(record.NotFound, record.Tampered):  # nothing will ever run on it
                seen = await self.record(approval)
                if seen.old_key and seen.state not in TERMINAL:
                    (waiting if seen.state in OPEN else running).append(approval)
        return KeyUse(self._seal.current, self._seal.ids[1:], newest, tuple(waiting), tuple(running))

    def export(self) -> AsyncIterator[str]:
        """Audit entries as JSON lines, oldest first."""
        return audit.export(self._redis, self._prefix)

    async def history(self, incident: str, since: datetime) -> ActionHistory:
        """When what happened to the actions of an incident that was opened at `since`."""
        return await history(self._redis, self._prefix, incident, since)

    # -- brakes -----------------------------------------------------------------------------------------------------

    async def stop(self, who: str, why: str) -> None:
        """The kill switch: from now on no claim is given. What runs goes on and is reported."""
        why = kept_words(why) or "no reason given"
        await self._switch("stop", who, "stop", f"{who}: {why}", why=why)

    async def altered(self) -> bool:
        """Whether somebody else changed the brakes in Redis, and no human resumed since."""
        return (await self._journal.look("whatever")).altered

    async def resume(self, who: str) -> None:
        """Take the kill switch off. The brakes count from now on as they are: whoever resumes has looked."""
        await self._switch("resume", who, "stop", "")

    async def reset_breaker(self, group: str, who: str) -> None:
        """A human looked at the group and lets changes go on. The window is counted anew."""
        await self._switch("breaker_reset", who, f"breaker:{group}", "", group)

    async def let_go(self, incident: str, label: str, hosts: Sequence[str], who: str) -> None:
        """Somebody looked at the hosts on which a fix did not pass, and wants it put up on more: written down, before it is."""

        async def attempt() -> str:
            look = await self._look()
            line = audit.entry("wave_let_go", "", who, look.at, incident=incident, label=label, after=sorted(hosts))
            return await self._journal.run("note", look, KeyParts("-", incident=incident), line)

        await insist(attempt)

    async def seen_in_service(self, incident: str, host: str, state: str) -> None:
        """A node that we held was returned by somebody else: written down, before it is listed as held no more."""

        async def attempt() -> str:
            look = await self._look()
            line = audit.entry("held_node_in_service", "", "rackmedic", look.at, incident=incident, target=host, state=state[:60])
            return await self._journal.run("note", look, KeyParts("-", incident=incident), line)

        await insist(attempt)

    async def _switch(self, event: str, who: str, brake: str, value: str, group: str = "", why: str = "") -> None:
        async def attempt() -> str:
            look = await self._look("whatever")
            line = audit.entry(event, "", who, look.at, brake=brake, value=value)
            return await self._journal.run("switch", look, KeyParts("-", group=group), line, brake, value, who, why)

        await insist(attempt)

    async def status(self) -> BrakeStatus:
        """Kill switch, breakers, and what runs or is in doubt."""
        async with within_reach():
            brakes = hash_of(await cast(Any, self._redis.hgetall(f"{self._prefix}brakes")))
            held = sorted(texts_of(await cast(Any, self._redis.smembers(f"{self._prefix}held"))))
            states = [text_of(await cast(Any, self._redis.hget(f"{self._prefix}apr:{name}", "state"))) for name in held]
        executing, unknown = (tuple(n for n, s in zip(held, states, strict=True) if s == state) for state in ("executing", "unknown"))
        breakers = sorted(name.removeprefix(BREAKER) for name in brakes if name.startswith(BREAKER))
        who, why = (brakes.get("stopped_by", "unknown"), brakes.get("stopped_why", "")) if STOP in brakes else ("", "")
        return BrakeStatus(who, why, tuple(breakers), executing, unknown)

    async def held_back(self, seen: Record) -> str:
        """Which brake would keep this action from its claim now, in the words of the refusal; empty where none would. The claim alone decides:
        this spares whoever waits for a brake the questions that are asked on the way to a claim. What trips the breaker is left to the claim."""
        now, terms, hosts = await self.status(), seen.terms, set(targets_of(seen.action))
        if now.stopped_by:
            return in_words("stopped", now.stopped)
        if terms.group in now.breakers:
            return in_words("breaker")
        async with within_reach():
            holders = [text_of(await self._redis.get(f"{self._prefix}target:{host}")) for host in sorted(hosts)]
        if holder := next(filter(None, holders), ""):
            return in_words("busy", holder)
        used, brakes = await self.used(seen.action.incident, terms.group), self._brakes
        if terms.changes and len(hosts | set(used.blast)) > brakes.blast_hosts:
            return in_words("blast")
        return in_words("fleet") if terms.changes and len(hosts | used.busy) > brakes.at_once_of(terms.group_size) else ""

    async def used(self, incident: str, group: str) -> Used:
        """What counts now against the brakes of an incident and of a group, as the claim script would count it."""
        async with within_reach():
            pipe = self._redis.pipeline(transaction=True)
            for name in (f"blast:{incident}", f"window:{group}", f"busy:{group}"):
                pipe.zrange(f"{self._prefix}{name}", 0, -1, withscores=True)
            blast, window, busy = await pipe.execute()
        now, brakes = self._clock.now(), self._brakes
        return Used(
            _still(blast, timedelta(seconds=brakes.blast_seconds), now),
            _still(window, timedelta(seconds=brakes.window_seconds), now),
            frozenset(text_of(host) for host, _ in busy),
        )

    # -- inside -----------------------------------------------------------------------------------------------------

    async def _look(self, clock: Whose = "the later") -> JournalHead:
        """Where the journal stands. When Redis lost what it had acknowledged, or somebody else changed the brakes in it, everything stops until a
        human looked."""
        try:
            look = await self._journal.look(clock)
        except Rewound as why:
            return await self._stop_for(f"{why}. Compare the hosts' own records with the ledger before resuming", clock)
        return await self._stop_for(CHANGED, clock) if look.altered and STOP not in look.brakes.pulled and clock != "whatever" else look

    async def _stop_for(self, why: str, clock: Whose) -> JournalHead:
        await self.stop("rackmedic", why)
        return await self._journal.look(clock)

    async def _confirm(self, seen: Record) -> bool:
        """Whether the audit log says of an action what its record says; False where it moved meanwhile. Tampered where an older record was put in
        the place of the newest: its signatures are as good as they ever were."""
        if await self._logged.confirm(seen):
            return True
        before = (await self._look()).head
        again = await self.record(seen.approval)
        if not await self._logged.confirm(again) and (await self._look()).head == before:
            raise record.Tampered(f"{record.Tampered.__doc__} ({seen.approval} is {again.state} there, and the audit log says otherwise)")
        return False

    async def _write(self, script: str, seen: Record, event: str, by: str, rest: tuple[Any, ...], **more: Any) -> str:
        look = await self._look()
        return await self._journal.run(script, look, parts(seen), line_of(event, seen.action, by, look, **more), *rest)


def _still(rows: Iterable[tuple[Any, float]], lasts: timedelta, now: datetime) -> dict[str, datetime]:
    """Hosts that still count, and until when."""
    moments = {text_of(host): _moment_of(score) for host, score in rows}
    return {host: at + lasts for host, at in moments.items() if at + lasts > now}


def _moment_of(score: float) -> datetime:
    """A moment in a sorted set. Tampered where it is none."""
    if not 0 <= score < MOST_SCORE:
        raise record.Tampered(f"{record.Tampered.__doc__} ({score!r} is no moment)")
    return datetime.fromtimestamp(score / 1000, UTC)


def parts(seen: Record) -> KeyParts:
    """What a verified record's keys are made of."""
    return key_parts(seen.action, seen.terms.group)


def line_of(event: str, action: Action, by: str, look: JournalHead, **more: Any) -> str:
    """An audit line about an action."""
    return audit.entry(event, action.approval, by, look.at, incident=action.incident, **more)


def kept_words(text: str) -> str:
    """What people or tools said, as it may be kept: without secrets, and not endless."""
    return redact(text)[:MOST_WORDS]
