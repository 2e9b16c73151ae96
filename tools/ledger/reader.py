"""The ledger's verified reads."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, cast

from redis.asyncio import Redis

from tools.clock import Clock
from tools.ledger import audit, refusals
from tools.ledger.action_history import ActionHistory, read_action_history
from tools.ledger.brakes import BREAKER_PREFIX, STOP_BRAKE, Brakes, BrakeStatus, BrakeUsage
from tools.ledger.journal import (
    ClockChoice,
    Journal,
    format_refusal,
)
from tools.ledger.logged_states import LoggedStates
from tools.ledger.record import ActionRecord, list_targets
from tools.ledger.redis_replies import decode_hash, decode_text, decode_texts, translate_redis_errors
from tools.ledger.seal import Seal, parse_record, to_milliseconds
from tools.ledger.states import OPEN_STATES, TERMINAL_STATES

MAX_SCORE = 10**13


def ignore_head(length: int, head: str) -> None:
    """Ignore new heads of the audit chain."""


@dataclass(frozen=True, slots=True)
class LedgerKeyStatus:
    """Which keys are in use. `newest` signed the newest audit entry: None for an empty log, "" if the key is not ours."""

    current: str
    older: tuple[str, ...]
    newest: str | None
    waiting: tuple[str, ...]  # open approvals signed with an earlier key; they cannot be decided
    running: tuple[str, ...]  # running or unknown actions under an earlier key; they end under it

    @property
    def changing(self) -> bool:
        return self.newest in self.older or bool(self.waiting)


class LedgerReader:
    """Read records, due index, audit log and brakes; change nothing.

    `distrust`: why no remedy may run on this store, or ""; a function is called at every claim. `anchor` receives each
    new length and head of the audit chain; `seen` is the last pair kept outside Redis: a chain without it is an older
    copy, and everything stops until a human has looked.
    `older_keys`: keys of earlier records.
    """

    def __init__(
        self,
        redis: Redis,
        key: bytes,
        clock: Clock,
        *,
        brakes: Brakes | None = None,
        distrust: str | Callable[[], Awaitable[str]] = "",
        anchor: Callable[[int, str], None] = ignore_head,
        seen: tuple[int, str] = (0, ""),
        older_keys: Sequence[bytes] = (),
        prefix: str = "rm:ledger:",
    ) -> None:
        self._redis = redis
        self._seal = Seal(key, older_keys)
        self._clock = clock
        self._brakes = brakes or Brakes()
        self._distrust = distrust
        self._prefix = prefix
        self._journal = Journal(redis, self._seal, clock, anchor, prefix, seen)
        self._logged = LoggedStates(redis, self._seal, prefix)

    @property
    def brakes(self) -> Brakes:
        return self._brakes

    async def get_record(self, approval: str) -> ActionRecord:
        """Return one action, every signature checked. Raises NotFound, or TamperedRecord if a signature is not ours."""
        async with translate_redis_errors():
            pipe = self._redis.pipeline(transaction=True)
            pipe.hgetall(f"{self._prefix}apr:{approval}")
            pipe.hgetall(f"{self._prefix}votes:{approval}")
            fields, votes = await pipe.execute()
        if not fields:
            raise refusals.NotFound(f"{refusals.NotFound.message} ({approval[:80]})")
        return parse_record(approval, decode_hash(fields), decode_hash(votes), self._seal)

    async def list_incident_records(self, incident: str) -> list[ActionRecord]:
        """Return an incident's actions, oldest first."""
        async with translate_redis_errors():
            ids = decode_texts(await cast(Any, self._redis.smembers(f"{self._prefix}of:{incident}")))
        return sorted([await self.get_record(approval) for approval in ids], key=lambda record: (record.proposed_at, record.approval))

    async def list_due(self, limit: int = 100) -> list[str]:
        """Return approvals whose deadline to decide, to start or to send a heartbeat is over."""
        async with translate_redis_errors():
            now = to_milliseconds(self._clock.now())
            return decode_texts(await self._redis.zrangebyscore(f"{self._prefix}due", "-inf", now, start=0, num=limit))

    async def verify_audit(self, posted: Iterable[str] = ()) -> audit.AuditReport:
        """Verify the chain; `posted` are heads kept elsewhere."""
        return await audit.verify_chain(self._redis, self._prefix, self._seal, posted)

    async def is_own_chain(self) -> bool:
        """Return whether our keys signed the first entry; True for an empty chain."""
        return await audit.is_begun_with(self._redis, self._prefix, self._seal)

    async def get_key_state(self) -> Literal["ours", "earlier", "strange"]:
        """Return which key signed the newest entry; `ours` for an empty log."""
        newest = await audit.find_newest_signer(self._redis, self._prefix, self._seal)
        if newest == "":
            return "strange"
        return "ours" if newest in (None, self._seal.current) else "earlier"

    async def get_key_status(self) -> LedgerKeyStatus:
        """Return the keys and the unfinished actions under earlier ones."""
        newest = await audit.find_newest_signer(self._redis, self._prefix, self._seal)
        async with translate_redis_errors():
            approvals = decode_texts(await self._redis.zrange(f"{self._prefix}due", 0, -1))
            approvals += decode_texts(await cast(Any, self._redis.smembers(f"{self._prefix}held")))
        waiting, running = list[str](), list[str]()
        for approval in sorted(set(approvals)):
            with suppress(refusals.NotFound, refusals.TamperedRecord):  # nothing runs on a tampered record
                record = await self.get_record(approval)
                if record.old_key and record.state not in TERMINAL_STATES:
                    (waiting if record.state in OPEN_STATES else running).append(approval)
        return LedgerKeyStatus(self._seal.current, self._seal.ids[1:], newest, tuple(waiting), tuple(running))

    def export_audit(self) -> AsyncIterator[str]:
        return audit.export_entries(self._redis, self._prefix)

    async def get_history(self, incident: str, since: datetime) -> ActionHistory:
        return await read_action_history(self._redis, self._prefix, incident, since)

    async def has_altered_brakes(self) -> bool:
        """Return whether another writer changed the brakes and no human has resumed since."""
        return (await self._journal.read_head(ClockChoice.ANY)).altered

    async def get_brake_status(self) -> BrakeStatus:
        """Return kill switch, breakers, and running or unknown actions."""
        async with translate_redis_errors():
            brakes = decode_hash(await cast(Any, self._redis.hgetall(f"{self._prefix}brakes")))
            held_approvals = sorted(decode_texts(await cast(Any, self._redis.smembers(f"{self._prefix}held"))))
            states = [decode_text(await cast(Any, self._redis.hget(f"{self._prefix}apr:{name}", "state"))) for name in held_approvals]
        state_by_approval = dict(zip(held_approvals, states, strict=True))
        executing, unknown = (
            tuple(approval for approval, state in state_by_approval.items() if state == wanted) for wanted in ("executing", "unknown")
        )
        breakers = sorted(name.removeprefix(BREAKER_PREFIX) for name in brakes if name.startswith(BREAKER_PREFIX))
        stopped_by, stop_reason = "", ""
        if STOP_BRAKE in brakes:
            stopped_by, stop_reason = brakes.get("stopped_by", "unknown"), brakes.get("stopped_why", "")
        return BrakeStatus(stopped_by, stop_reason, tuple(breakers), executing, unknown)

    async def explain_held_back(self, record: ActionRecord) -> str:
        """Return the refusal of the brake that would block this claim now, or "".

        Advisory: the claim decides, and it alone trips the breaker. A waiting action is thus spared the readings that
        precede a claim.
        """
        status = await self.get_brake_status()
        terms, hosts = record.terms, set(list_targets(record.action))
        if status.stopped_by:
            return format_refusal("stopped", status.stopped)
        if terms.group in status.breakers:
            return format_refusal("breaker")
        async with translate_redis_errors():
            holders = [decode_text(await self._redis.get(f"{self._prefix}target:{host}")) for host in sorted(hosts)]
        if holder := next(filter(None, holders), ""):
            return format_refusal("busy", holder)
        usage, brakes = await self.get_brake_usage(record.action.incident, terms.group), self._brakes
        if not terms.changes:
            return ""
        if len(hosts | set(usage.blast)) > brakes.blast_hosts:
            return format_refusal("blast")
        return format_refusal("fleet") if len(hosts | usage.busy) > brakes.get_max_at_once(terms.group_size) else ""

    async def get_brake_usage(self, incident: str, group: str) -> BrakeUsage:
        """Return the hosts that count against each brake, counted as the claim script does."""
        async with translate_redis_errors():
            pipe = self._redis.pipeline(transaction=True)
            for name in (f"blast:{incident}", f"window:{group}", f"busy:{group}"):
                pipe.zrange(f"{self._prefix}{name}", 0, -1, withscores=True)
            blast, window, busy = await pipe.execute()
        now, brakes = self._clock.now(), self._brakes
        return BrakeUsage(
            _filter_counting_hosts(blast, timedelta(seconds=brakes.blast_seconds), now),
            _filter_counting_hosts(window, timedelta(seconds=brakes.window_seconds), now),
            frozenset(decode_text(host) for host, _ in busy),
        )


def _filter_counting_hosts(scores: Iterable[tuple[Any, float]], window: timedelta, now: datetime) -> dict[str, datetime]:
    """Return the hosts that still count, and until when."""
    end_by_host = {decode_text(host): _parse_score_time(score) + window for host, score in scores}
    return {host: end for host, end in end_by_host.items() if end > now}


def _parse_score_time(score: float) -> datetime:
    """Parse a stored time. Raises TamperedRecord if it is out of range."""
    if not 0 <= score < MAX_SCORE:
        raise refusals.TamperedRecord(f"{refusals.TamperedRecord.message} ({score!r} is no moment)")
    return datetime.fromtimestamp(score / 1000, UTC)
