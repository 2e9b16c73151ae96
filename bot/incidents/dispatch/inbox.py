"""The inbox in Redis: the items of each incident, in order, each once.

Invariants: de-duplicating and storing is one atomic step, so an acknowledged item is neither lost nor doubled; an item
leaves only after its turn, in the step that sets the timers; only the lease holder removes items; nothing of an open
incident expires.
"""

import json
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, cast

from pydantic import ValidationError
from redis.asyncio import Redis

from bot.incidents.dispatch import lua_scripts as scripts
from bot.incidents.dispatch.fingerprint import IncidentFingerprint
from bot.incidents.dispatch.lua_scripts import CAUSE_RELEASED
from bot.store.keys import RedisKeys
from bot.tasks import to_coroutine
from graph.checkpoints.fence import LostLease
from graph.state import InboxItem, InboxItemKind, Lifecycle, Origin
from kb.redact import redact_start, redact_stored_data
from tools.clock import Clock

DEDUPE_RETENTION = timedelta(days=8)  # Slack may redeliver for hours
AttemptKind = Literal["begun", "cut"]
DUE_WORK = "work"
# Values of `incident:posted`, by item: the turn is stored, followed by the observers that completed; all completed.
BEGUN_MARK, OBSERVED_MARK = "posting", "posted"
MAX_DEAD_LETTER_CHARS = 4000
EMPTY_FINGERPRINT = IncidentFingerprint()


@dataclass(frozen=True, slots=True)
class EnqueueResult:
    """`joined`: stored in another thread's matching incident. `beside`: matching incidents that it may not join."""

    incident: str
    duplicate: bool = False
    opened: bool = False
    joined: bool = False
    beside: tuple[str, ...] = ()


async def never_join(incident: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class AttemptCounts:
    """For one item: turns begun, turns that raised, failed runs of observers, runs repeated after their worker died."""

    begun: int = 0
    raised: int = 0
    unposted: int = 0
    cut: int = 0

    @classmethod
    def from_hash(cls, item: str, row: Mapping[bytes, bytes]) -> "AttemptCounts":
        return cls(**{name: int(row.get(f"{item} {name}".encode(), 0)) for name in ("begun", "raised", "unposted", "cut")})


@dataclass(frozen=True, slots=True)
class DueEntry:
    """Due work or a timer (`why`), with its exact score."""

    incident: str
    why: str
    score: str


def new_incident_id() -> str:
    return f"inc-{secrets.token_hex(3)}"


class Inbox:
    """Items that wait for a turn, and the incident of each thread."""

    def __init__(self, redis: Redis, clock: Clock, *, keys: RedisKeys | None = None, new_id: Callable[[], str] = new_incident_id) -> None:
        self._redis = redis
        self._clock = clock
        self._keys = keys or RedisKeys()
        self._new_id = new_id
        self._open = redis.register_script(scripts.OPEN_INCIDENT_SCRIPT)
        self._enqueue = redis.register_script(scripts.ENQUEUE_ITEM_SCRIPT)
        self._finish = redis.register_script(scripts.FINISH_ITEM_SCRIPT)
        self._mark_script = redis.register_script(scripts.MARK_TURN_SCRIPT)
        self._dead_letter = redis.register_script(scripts.DEAD_LETTER_SCRIPT)
        self._collect_due = redis.register_script(scripts.COLLECT_DUE_SCRIPT)
        self._fire = redis.register_script(scripts.FIRE_TIMER_SCRIPT)
        self._bind = redis.register_script(scripts.BIND_THREAD_SCRIPT)

    async def open_or_join(
        self,
        origin: Origin,
        dedupe_key: str,
        build_item: Callable[[str], InboxItem],
        *,
        fingerprint: IncidentFingerprint = EMPTY_FINGERPRINT,
        may_join: Callable[[str], Awaitable[bool]] = never_join,
        drop_repeats: bool = True,
    ) -> EnqueueResult:
        """Store an item. Open an incident if its thread has none.

        If an open incident matches the fingerprint, the item becomes a reply to the oldest one that it may join.

        Args:
            origin: the place where the item comes from.
            dedupe_key: the key by which a redelivered item is recognised.
            build_item: builds the item for the incident that gets it.
            fingerprint: what the item is about.
            may_join: whether the item may join a matching incident.
            drop_repeats: drop an alert that the matching incident has already.
        """
        thread = self._keys.thread_key(*origin.source_key)
        incident = await self._get_bound_incident(thread) or self._new_id()
        rejected: list[str] = []  # matching incidents that the item may not join
        while True:
            concerns = [self._keys.incident_key(incident, "concerns"), *self._get_fingerprint_keys(fingerprint)]
            keys = [self._keys.seen_item_key(dedupe_key), thread, *self._get_receive_keys(incident), *concerns]
            args = [
                incident,
                _serialize_item(build_item(incident)),
                self._get_now_score(),
                _format_seconds(DEDUPE_RETENTION),
                origin.model_dump_json(),
                thread,
            ]
            raw, outcome = await self._open(keys=keys, args=[*args, len(fingerprint.hosts), *rejected])
            answer = raw.decode()
            match outcome:
                case scripts.MATCHES_OPEN_INCIDENTS:
                    matching = answer.split()
                    if (joined := await _find_first_match(matching, may_join)) is not None:
                        reply = build_item(joined).model_copy(update={"kind": "reply"})
                        return await self._join_incident(joined, origin, reply, dedupe_key, fingerprint.alert, drop_repeats)
                    rejected += matching
                case scripts.DUPLICATE:
                    return EnqueueResult(answer, duplicate=True)
                case scripts.INCIDENT_ID_IN_USE:  # another thread has this id: six hex digits can collide
                    incident = self._new_id()
                case scripts.THREAD_BOUND_ELSEWHERE:  # another process opened the thread meanwhile
                    incident = answer
                case _:
                    is_opened = outcome == scripts.OPENED
                    return EnqueueResult(answer, opened=is_opened, beside=tuple(rejected) if is_opened else ())

    async def _join_incident(
        self, incident: str, origin: Origin, reply: InboxItem, dedupe_key: str, alert: str, drop_repeats: bool
    ) -> EnqueueResult:
        concerns, key = self._keys.incident_key(incident, "concerns"), self._keys.fingerprint_key("alert", alert)
        if drop_repeats and alert and await to_coroutine(self._redis.sismember(concerns, key)):
            return EnqueueResult(incident, duplicate=True, joined=True)
        is_new = await self.enqueue(reply, dedupe_key)
        if not alert:
            await self._redis.set(self._keys.joined_key(*origin.source_key), incident, ex=DEDUPE_RETENTION)
        if alert and is_new:
            await self._redis.zadd(key, {incident: self._clock.now().timestamp()})
            await to_coroutine(self._redis.sadd(concerns, key))
        return EnqueueResult(incident, duplicate=not is_new, joined=True)

    async def enqueue(self, item: InboxItem, dedupe_key: str) -> bool:
        """Store an item. Return False for a duplicate."""
        keys = [self._keys.seen_item_key(dedupe_key), *self._get_receive_keys(item.incident)]
        args = [item.incident, _serialize_item(item), self._get_now_score(), _format_seconds(DEDUPE_RETENTION)]
        return bool(await self._enqueue(keys=keys, args=args))

    async def bind_thread(self, incident: str, team: str, channel: str, thread_ts: str) -> bool:
        """Bind a second thread to the incident. Return False if the thread belongs to another incident."""
        thread = self._keys.thread_key(team, channel, thread_ts)
        return bool(await self._bind(keys=[thread, self._keys.incident_key(incident, "threads")], args=[incident]))

    async def set_origin(self, incident: str, origin: Origin) -> None:
        """Set the origin of an incident whose thread was started later."""
        await to_coroutine(self._redis.hset(self._keys.incident_key(incident), "origin", origin.model_dump_json()))
        await self.bind_thread(incident, origin.team, origin.channel, origin.thread_ts)

    async def find_incident(self, team: str, channel: str, thread_ts: str) -> str | None:
        return await self._get_bound_incident(self._keys.thread_key(team, channel, thread_ts))

    async def find_joined_incident(self, team: str, channel: str, thread_ts: str) -> str | None:
        """Return the incident that this thread's report joined, for DEDUPE_RETENTION."""
        return await self._get_bound_incident(self._keys.joined_key(team, channel, thread_ts))

    async def is_already_stored(self, dedupe_key: str) -> bool:
        return bool(await self._redis.exists(self._keys.seen_item_key(dedupe_key)))

    async def get_origin(self, incident: str) -> Origin | None:
        raw = await to_coroutine(self._redis.hget(self._keys.incident_key(incident), "origin"))
        return Origin.model_validate_json(raw) if raw else None

    async def get_lifecycle(self, incident: str) -> Lifecycle | None:
        raw = await to_coroutine(self._redis.hget(self._keys.incident_key(incident), "lifecycle"))
        return cast(Lifecycle, raw.decode()) if raw else None

    async def list_waiting(self, incident: str, count: int | None = None) -> list[InboxItem]:
        """Return the items, oldest first. The turn of the first one may be running. Damaged rows are skipped."""
        rows = await to_coroutine(self._redis.lrange(self._keys.incident_key(incident, "inbox"), 0, -1 if count is None else count - 1))
        return [item for row in rows if (item := _parse_item(row)) is not None]

    async def list_open_incidents(self) -> list[str]:
        return [row.decode() for row in await to_coroutine(self._redis.zrange(self._keys.open, 0, -1))]

    async def list_drained_incidents(self) -> list[str]:
        """Return the incidents that have drained nodes. Some of them are closed."""
        return [row.decode() for row in await to_coroutine(self._redis.zrange(self._keys.held, 0, -1))]

    async def list_dead_letters(self) -> list[bytes]:
        return cast(list[bytes], await to_coroutine(self._redis.lrange(self._keys.dead, 0, -1)))

    async def begin_attempt(self, incident: str, item: str, *, owed: int = 0) -> tuple[AttemptKind, AttemptCounts]:
        """Count an attempt of the turn (`begun`), or of its observers (`cut`) if the turn is stored.

        `owed` earlier attempts are subtracted, because they did not fail by the fault of the item.
        """
        is_turn_stored = await to_coroutine(self._redis.hexists(self._keys.incident_key(incident, "posted"), item))
        kind: AttemptKind = "cut" if is_turn_stored else "begun"
        await self.add_attempts(incident, item, kind, 1 - owed)
        counts = await to_coroutine(self._redis.hgetall(self._keys.incident_key(incident, "tries")))
        return kind, AttemptCounts.from_hash(item, counts)

    async def add_attempts(self, incident: str, item: str, kind: Literal["begun", "raised", "unposted", "cut"], count: int) -> int:
        return int(await to_coroutine(self._redis.hincrby(self._keys.incident_key(incident, "tries"), f"{item} {kind}", count)))

    async def begin_observing(self, incident: str, token: str, item: str) -> Sequence[str] | None:
        """Record that the turn is stored. Return the observers that completed, or None if all did."""
        before = (await self._mark_turn(incident, token, item, BEGUN_MARK)).decode().split()
        return None if before == [OBSERVED_MARK] else before[1:]

    async def mark_observed(self, incident: str, token: str, item: str, observers: Sequence[str]) -> None:
        """Record all observers that completed so far. Raises LostLease."""
        await self._mark_turn(incident, token, item, " ".join((BEGUN_MARK, *observers)))

    async def finish_observing(self, incident: str, token: str, item: str) -> None:
        """Record that all observers completed. Raises LostLease."""
        await self._mark_turn(incident, token, item, OBSERVED_MARK)

    async def finish_item(
        self,
        incident: str,
        token: str,
        item: str,
        lifecycle: Lifecycle,
        timers: Mapping[str, datetime],
        *,
        keep: timedelta | None,
        fingerprint: IncidentFingerprint = EMPTY_FINGERPRINT,
    ) -> None:
        """Remove the item, replace timers and fingerprint, and set a closed incident's TTL, all in one step.

        `keep` is None while nodes are drained: then the incident stays. Raises LostLease.
        """
        due = [word for why, at in timers.items() for word in (why, _format_score(at))]
        await self._remove_item(
            incident,
            token,
            item,
            "",
            [lifecycle, "held" if keep is None else _format_seconds(keep), self._get_now_score(), *due],
            fingerprint,
        )

    async def dead_letter_item(self, incident: str, token: str, item: str, letter: str) -> None:
        await self._remove_item(incident, token, item, letter, [], EMPTY_FINGERPRINT)

    async def drop_damaged_item(self, incident: str, token: str) -> bool:
        """Dead-letter an oldest row that cannot be parsed, so that it does not block the inbox."""
        row = cast(bytes | None, await to_coroutine(self._redis.lindex(self._keys.incident_key(incident, "inbox"), 0)))
        if row is None or _parse_item(row) is not None:
            return False
        text = redact_start(row.decode("utf-8", "replace"), MAX_DEAD_LETTER_CHARS)
        letter = json.dumps({"incident": incident, "why": "it cannot be read", "at": self._clock.now().isoformat(), "row": text})
        keys = [self._keys.lease_key(incident), self._keys.incident_key(incident, "inbox"), self._keys.due, self._keys.dead]
        return bool(await self._dead_letter(keys=keys, args=[token, row, letter, incident]) != scripts.LEASE_LOST)

    async def add_fingerprint(self, incident: str, fingerprint: IncidentFingerprint) -> None:
        """Let later reports match this fingerprint. `finish_item` removes what no longer applies."""
        if keys := self._get_fingerprint_keys(fingerprint):
            score = self._clock.now().timestamp()
            async with self._redis.pipeline(transaction=True) as pipe:
                for key in keys:
                    pipe.zadd(key, {incident: score}, nx=True)
                pipe.sadd(self._keys.incident_key(incident, "concerns"), *keys)
                await pipe.execute()

    async def release_causes(self, incident: str) -> None:
        """Release the causes of the incident. Its next diagnosis claims them again."""
        owned_key = self._keys.incident_key(incident, "causes")
        keys = await to_coroutine(self._redis.smembers(owned_key))
        async with self._redis.pipeline(transaction=True) as pipe:
            for key in keys:
                pipe.lrem(key, 0, incident)
            pipe.delete(owned_key)
            await pipe.execute()

    async def collect_due(self, patience: timedelta, limit: int = 200) -> list[DueEntry]:
        """Return the entries that are due. `patience` postpones them, so that no other sweeper wakes the same incident."""
        now = self._clock.now()
        rows = await self._collect_due(keys=[self._keys.due], args=[_format_score(now), _format_score(now + patience), limit, DUE_WORK])
        return [_parse_due_entry(member, score) for member, score in zip(rows[::2], rows[1::2], strict=True)]

    async def fire_timer(self, due: DueEntry) -> bool:
        """Turn a timer into an item. Of several callers only one does it."""
        now = self._clock.now()
        id_ = f"timer:{due.incident}:{due.why}:{due.score}"
        kind: InboxItemKind = "recheck" if due.why == CAUSE_RELEASED else "timer"
        item = InboxItem(id=id_, kind=kind, incident=due.incident, at=now, data={"why": due.why})
        keys = [self._keys.incident_key(due.incident, "timers"), *self._get_receive_keys(due.incident)]
        return bool(await self._fire(keys=keys, args=[due.incident, due.why, due.score, _serialize_item(item), _format_score(now)]))

    async def _remove_item(
        self, incident: str, token: str, item: str, letter: str, rest: Sequence[str], fingerprint: IncidentFingerprint
    ) -> None:
        parts = ("inbox", "timers", "tries", "threads", "posted")
        keys = [
            self._keys.lease_key(incident),
            self._keys.incident_key(incident),
            *(self._keys.incident_key(incident, part) for part in parts),
        ]
        keys += [self._keys.due, self._keys.open, self._keys.dead]
        keys += [
            self._keys.incident_key(incident, "causes"),
            self._keys.incident_key(incident, "concerns"),
            self._keys.held,
            *self._get_fingerprint_keys(fingerprint),
        ]
        if await self._finish(keys=keys, args=[token, incident, item, letter, *rest]) == scripts.LEASE_LOST:
            raise LostLease(f"{incident}: another worker has it; {item} stays for them")

    async def _mark_turn(self, incident: str, token: str, item: str, mark: str) -> bytes:
        """Set a mark of the turn and return the mark before. A turn that has a mark keeps it instead of `BEGUN_MARK`."""
        before = await self._mark_script(
            keys=[self._keys.lease_key(incident), self._keys.incident_key(incident, "posted")], args=[token, item, mark]
        )
        if before == scripts.LEASE_LOST:
            raise LostLease(f"{incident}: another worker has it and does what follows the turn of {item}")
        return cast(bytes, before)

    async def _get_bound_incident(self, thread: str) -> str | None:
        raw = await self._redis.get(thread)
        return raw.decode() if isinstance(raw, bytes) else raw

    def _get_receive_keys(self, incident: str) -> list[str]:
        of = self._keys.incident_key
        return [of(incident), of(incident, "inbox"), of(incident, "threads"), of(incident, "posted"), self._keys.due, self._keys.open]

    def _get_fingerprint_keys(self, fingerprint: IncidentFingerprint) -> list[str]:
        others = [self._keys.fingerprint_key(kind, name) for kind, name in (("job", fingerprint.job), ("alert", fingerprint.alert)) if name]
        return [self._keys.fingerprint_key("host", host) for host in fingerprint.hosts] + others

    def _get_now_score(self) -> str:
        return _format_score(self._clock.now())


async def _find_first_match(incidents: Sequence[str], accept: Callable[[str], Awaitable[bool]]) -> str | None:
    for incident in incidents:
        if await accept(incident):
            return incident
    return None


def _serialize_item(item: InboxItem) -> str:
    """Return the item as its id and a line of redacted JSON. Scripts read the id and need no JSON."""
    if "\n" in item.id:
        raise ValueError(f"item id {item.id!r}: must be one line")
    return f"{item.id}\n{json.dumps({**redact_stored_data(item.model_dump(mode='json')), 'id': item.id}, ensure_ascii=False)}"


def _parse_item(row: bytes) -> InboxItem | None:
    try:
        return InboxItem.model_validate_json(row.partition(b"\n")[2])
    except ValidationError:
        return None


def _parse_due_entry(member: bytes, score: bytes) -> DueEntry:
    incident, why = member.decode().split(" ", 1)
    return DueEntry(incident, why, score.decode())


def _format_score(at: datetime) -> str:
    return f"{at.timestamp():.3f}"


def _format_seconds(span: timedelta) -> str:
    return str(int(span.total_seconds()))
