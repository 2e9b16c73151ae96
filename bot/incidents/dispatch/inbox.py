"""The inbox in Redis: what happened to each incident, in order, each thing once.

Rules it keeps: de-duplicating and storing is one atomic step, so what is acknowledged is never lost and never twice; an item
leaves only after its turn, in the step that also sets the incident's timers; only the holder of the lease takes items away;
and nothing of an open incident ever expires.
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

DEDUPE_RETENTION = timedelta(days=8)
"""Slack may deliver again for hours; we remember for more than a week."""
AttemptKind = Literal["begun", "cut"]
DUE_WORK = "work"
MAX_DEAD_LETTER_CHARS = 4000
EMPTY_FINGERPRINT = IncidentFingerprint()


@dataclass(frozen=True, slots=True)
class EnqueueResult:
    """Where an item went. `duplicate`: it had been stored before; `opened`: it was the first of a new incident; `joined`: the incident is
    of another thread and concerns the same; `beside`: those that concern the same and that it might not join."""

    incident: str
    duplicate: bool = False
    opened: bool = False
    joined: bool = False
    beside: tuple[str, ...] = ()


async def never_joins(incident: str) -> bool:
    """Join nothing."""
    return False


@dataclass(frozen=True, slots=True)
class AttemptCounts:
    """How often a turn for one item was begun, raised, how often its report could not be posted, and how often posting it was begun again because
    whoever was at it is gone."""

    begun: int = 0
    raised: int = 0
    unposted: int = 0
    cut: int = 0

    @classmethod
    def from_hash(cls, item: str, row: Mapping[bytes, bytes]) -> "AttemptCounts":
        return cls(**{name: int(row.get(f"{item} {name}".encode(), 0)) for name in ("begun", "raised", "unposted", "cut")})


@dataclass(frozen=True, slots=True)
class DueEntry:
    """An entry of the due-index that has come: work waiting, or a timer (`why`) with its exact score."""

    incident: str
    why: str
    score: str


def new_incident_id() -> str:
    return f"inc-{secrets.token_hex(3)}"


class Inbox:
    """Everything that waits for a turn, and which incident a thread belongs to."""

    def __init__(self, redis: Redis, clock: Clock, *, names: RedisKeys | None = None, new_id: Callable[[], str] = new_incident_id) -> None:
        self._redis = redis
        self._clock = clock
        self._names = names or RedisKeys()
        self._new_id = new_id
        self._open = redis.register_script(scripts.OPEN_INCIDENT_SCRIPT)
        self._enqueue = redis.register_script(scripts.ENQUEUE_ITEM_SCRIPT)
        self._finish = redis.register_script(scripts.FINISH_ITEM_SCRIPT)
        self._post = redis.register_script(scripts.MARK_REPORT_SCRIPT)
        self._set_aside = redis.register_script(scripts.DEAD_LETTER_SCRIPT)
        self._come_due = redis.register_script(scripts.COLLECT_DUE_SCRIPT)
        self._fire = redis.register_script(scripts.FIRE_TIMER_SCRIPT)
        self._bind = redis.register_script(scripts.BIND_THREAD_SCRIPT)

    # Coming in

    async def open_or_join(
        self,
        origin: Origin,
        dedupe_key: str,
        make: Callable[[str], InboxItem],
        *,
        about: IncidentFingerprint = EMPTY_FINGERPRINT,
        joins: Callable[[str], Awaitable[bool]] = never_joins,
        repeats: bool = True,
    ) -> EnqueueResult:
        """Store an item of a thread, opening an incident with it where the thread has none. `make` gets the incident's id. Of open
        incidents that concern the same (`about`) the oldest that it may join (`joins`, by id) gets the item as a reply instead; an alert
        that it heard before only where that is no repetition (`repeats`) but news."""
        thread = self._names.thread_key(*origin.source_key)
        incident = await self._get_bound_incident(thread) or self._new_id()
        beside: list[str] = []
        while True:
            concerns = [self._names.incident_key(incident, "concerns"), *self._get_fingerprint_keys(about)]
            keys = [self._names.seen_item_key(dedupe_key), thread, *self._get_receive_keys(incident), *concerns]
            args = [
                incident,
                _serialize_item(make(incident)),
                self._get_now_score(),
                _format_seconds(DEDUPE_RETENTION),
                origin.model_dump_json(),
                thread,
            ]
            raw, outcome = await self._open(keys=keys, args=[*args, len(about.hosts), *beside])
            found = raw.decode()
            match outcome:
                case scripts.MATCHES_OPEN_INCIDENTS:
                    same = found.split()
                    if (known := await _find_first_match(same, joins)) is not None:
                        reply = make(known).model_copy(update={"kind": "reply"})
                        return await self._join_incident(known, origin, reply, dedupe_key, about.alert, repeats)
                    beside += same
                case scripts.DUPLICATE:
                    return EnqueueResult(found, duplicate=True)
                case scripts.INCIDENT_ID_IN_USE:  # the id is in use by another thread, which six hex digits allow
                    incident = self._new_id()
                case scripts.THREAD_BOUND_ELSEWHERE:  # another process opened the thread meanwhile
                    incident = found
                case _:
                    return EnqueueResult(found, opened=outcome == scripts.OPENED, beside=tuple(beside) if outcome == scripts.OPENED else ())

    async def _join_incident(
        self, incident: str, origin: Origin, reply: InboxItem, dedupe_key: str, alert: str, repeats: bool
    ) -> EnqueueResult:
        """The reply stored, unless it repeats an alert that this incident has heard before: of a storm each is heard once."""
        concerns, key = self._names.incident_key(incident, "concerns"), self._names.fingerprint_key("alert", alert)
        if repeats and alert and await to_coroutine(self._redis.sismember(concerns, key)):
            return EnqueueResult(incident, duplicate=True, joined=True)
        new = await self.enqueue(reply, dedupe_key)
        if not alert:
            await self._redis.set(self._names.joined(*origin.source_key), incident, ex=DEDUPE_RETENTION)
        if alert and new:
            await self._redis.zadd(key, {incident: self._clock.now().timestamp()})
            await to_coroutine(self._redis.sadd(concerns, key))
        return EnqueueResult(incident, duplicate=not new, joined=True)

    async def enqueue(self, item: InboxItem, dedupe_key: str) -> bool:
        """Store an item of a known incident; False when it had been stored before."""
        keys = [self._names.seen_item_key(dedupe_key), *self._get_receive_keys(item.incident)]
        args = [item.incident, _serialize_item(item), self._get_now_score(), _format_seconds(DEDUPE_RETENTION)]
        return bool(await self._enqueue(keys=keys, args=args))

    async def bind_thread(self, incident: str, team: str, channel: str, thread_ts: str) -> bool:
        """Make a second thread (the customer's) part of the incident; False when it belongs to another one."""
        thread = self._names.thread_key(team, channel, thread_ts)
        return bool(await self._bind(keys=[thread, self._names.incident_key(incident, "threads")], args=[incident]))

    async def set_origin(self, incident: str, origin: Origin) -> None:
        """Where the incident lives from now on, for one whose thread had still to be begun; what is said in that thread is its own too."""
        await to_coroutine(self._redis.hset(self._names.incident_key(incident), "origin", origin.model_dump_json()))
        await self.bind_thread(incident, origin.team, origin.channel, origin.thread_ts)

    # Looking

    async def find_incident(self, team: str, channel: str, thread_ts: str) -> str | None:
        return await self._get_bound_incident(self._names.thread_key(team, channel, thread_ts))

    async def joined_from(self, team: str, channel: str, thread_ts: str) -> str | None:
        """Return the other thread's incident that the report of this thread joined, for as long as messages are remembered."""
        return await self._get_bound_incident(self._names.joined(team, channel, thread_ts))

    async def is_already_stored(self, dedupe_key: str) -> bool:
        """Whether something was stored under this key."""
        return bool(await self._redis.exists(self._names.seen_item_key(dedupe_key)))

    async def get_origin(self, incident: str) -> Origin | None:
        raw = await to_coroutine(self._redis.hget(self._names.incident_key(incident), "origin"))
        return Origin.model_validate_json(raw) if raw else None

    async def get_lifecycle(self, incident: str) -> Lifecycle | None:
        raw = await to_coroutine(self._redis.hget(self._names.incident_key(incident), "lifecycle"))
        return cast(Lifecycle, raw.decode()) if raw else None

    async def list_waiting(self, incident: str, count: int | None = None) -> list[InboxItem]:
        """What waits, oldest first; the first is the one whose turn runs. A damaged row is passed over."""
        rows = await to_coroutine(self._redis.lrange(self._names.incident_key(incident, "inbox"), 0, -1 if count is None else count - 1))
        return [item for row in rows if (item := _parse_item(row)) is not None]

    async def list_open_incidents(self) -> list[str]:
        """Incidents that are not closed, oldest first."""
        return [row.decode() for row in await to_coroutine(self._redis.zrange(self._names.open, 0, -1))]

    async def list_drained_incidents(self) -> list[str]:
        """Incidents whose nodes we hold, closed ones too, oldest first."""
        return [row.decode() for row in await to_coroutine(self._redis.zrange(self._names.held, 0, -1))]

    async def list_dead_letters(self) -> list[bytes]:
        """The dead letters: JSON of items that no turn could answer, oldest first."""
        return cast(list[bytes], await to_coroutine(self._redis.lrange(self._names.dead, 0, -1)))

    # A turn, under the lease

    async def begin_attempt(self, incident: str, item: str, *, owed: int = 0) -> tuple[AttemptKind, AttemptCounts]:
        """Count the beginning of a turn, or of posting again what a complete one says; tell which, and how earlier ones ended. `owed` beginnings were
        not the item's fault."""
        what: AttemptKind = (
            "cut" if await to_coroutine(self._redis.hexists(self._names.incident_key(incident, "posted"), item)) else "begun"
        )
        await self.add_attempts(incident, item, what, 1 - owed)
        return what, AttemptCounts.from_hash(item, await to_coroutine(self._redis.hgetall(self._names.incident_key(incident, "tries"))))

    async def add_attempts(self, incident: str, item: str, what: Literal["begun", "raised", "unposted", "cut"], by: int) -> int:
        return int(await to_coroutine(self._redis.hincrby(self._names.incident_key(incident, "tries"), f"{item} {what}", by)))

    async def mark_posting(self, incident: str, token: str, item: str) -> bool:
        """Say that the report of this item is about to be posted; False when it has been."""
        return await self._mark_report(incident, token, item, "posting") != b"posted"

    async def mark_posted(self, incident: str, token: str, item: str) -> None:
        await self._mark_report(incident, token, item, "posted")

    async def finish_item(
        self,
        incident: str,
        token: str,
        item: str,
        lifecycle: Lifecycle,
        timers: Mapping[str, datetime],
        *,
        keep: timedelta | None,
        about: IncidentFingerprint = EMPTY_FINGERPRINT,
    ) -> None:
        """The turn is over: in one step the item leaves, the timers and what the incident concerns are replaced, and a closed incident's
        lifetime (`keep`) starts. None where we hold nodes of it: then it stays."""
        due = [word for why, at in timers.items() for word in (why, _format_score(at))]
        await self._remove_item(
            incident, token, item, "", [lifecycle, "held" if keep is None else _format_seconds(keep), self._get_now_score(), *due], about
        )

    async def dead_letter_item(self, incident: str, token: str, item: str, letter: str) -> None:
        """Set the item aside as a dead letter; timers stay as they were."""
        await self._remove_item(incident, token, item, letter, [], EMPTY_FINGERPRINT)

    async def drop_damaged_item(self, incident: str, token: str) -> bool:
        """Set the oldest row aside where it cannot be read, so that it keeps no other item waiting; whether it was so."""
        row = cast(bytes | None, await to_coroutine(self._redis.lindex(self._names.incident_key(incident, "inbox"), 0)))
        if row is None or _parse_item(row) is not None:
            return False
        text = redact_start(row.decode("utf-8", "replace"), MAX_DEAD_LETTER_CHARS)
        letter = json.dumps({"incident": incident, "why": "it cannot be read", "at": self._clock.now().isoformat(), "row": text})
        keys = [self._names.lease_key(incident), self._names.incident_key(incident, "inbox"), self._names.due, self._names.dead]
        return bool(await self._set_aside(keys=keys, args=[token, row, letter, incident]) != scripts.LEASE_LOST)

    async def add_fingerprint(self, incident: str, about: IncidentFingerprint) -> None:
        """Under the lease: a second report of this joins from now on; `finish` takes away what it concerns no more."""
        if keys := self._get_fingerprint_keys(about):
            score = self._clock.now().timestamp()
            async with self._redis.pipeline(transaction=True) as pipe:
                for key in keys:
                    pipe.zadd(key, {incident: score}, nx=True)
                pipe.sadd(self._names.incident_key(incident, "concerns"), *keys)
                await pipe.execute()

    async def release_causes(self, incident: str) -> None:
        """Let a later report keep what this incident found. Its own next diagnosis asks for the causes again."""
        known = self._names.incident_key(incident, "causes")
        keys = await to_coroutine(self._redis.smembers(known))
        async with self._redis.pipeline(transaction=True) as pipe:
            for key in keys:
                pipe.lrem(key, 0, incident)
            pipe.delete(known)
            await pipe.execute()

    # Timers

    async def collect_due(self, patience: timedelta, limit: int = 200) -> list[DueEntry]:
        """What has come due. Work is put off by `patience`, so that several sweepers do not all wake the same incident."""
        now = self._clock.now()
        rows = await self._come_due(keys=[self._names.due], args=[_format_score(now), _format_score(now + patience), limit, DUE_WORK])
        return [_parse_due_entry(member, score) for member, score in zip(rows[::2], rows[1::2], strict=True)]

    async def fire_timer(self, due: DueEntry) -> bool:
        """Turn a timer into an inbox item, once, whoever asks."""
        now = self._clock.now()
        id_ = f"timer:{due.incident}:{due.why}:{due.score}"
        kind: InboxItemKind = "recheck" if due.why == CAUSE_RELEASED else "timer"
        item = InboxItem(id=id_, kind=kind, incident=due.incident, at=now, data={"why": due.why})
        keys = [self._names.incident_key(due.incident, "timers"), *self._get_receive_keys(due.incident)]
        return bool(await self._fire(keys=keys, args=[due.incident, due.why, due.score, _serialize_item(item), _format_score(now)]))

    async def _remove_item(
        self, incident: str, token: str, item: str, letter: str, rest: Sequence[str], about: IncidentFingerprint
    ) -> None:
        parts = ("inbox", "timers", "tries", "threads", "posted")
        keys = [
            self._names.lease_key(incident),
            self._names.incident_key(incident),
            *(self._names.incident_key(incident, part) for part in parts),
        ]
        keys += [self._names.due, self._names.open, self._names.dead]
        keys += [
            self._names.incident_key(incident, "causes"),
            self._names.incident_key(incident, "concerns"),
            self._names.held,
            *self._get_fingerprint_keys(about),
        ]
        if await self._finish(keys=keys, args=[token, incident, item, letter, *rest]) == scripts.LEASE_LOST:
            raise LostLease(f"{incident}: another worker has it; {item} stays for them")

    async def _mark_report(self, incident: str, token: str, item: str, mark: str) -> bytes:
        before = await self._post(
            keys=[self._names.lease_key(incident), self._names.incident_key(incident, "posted")], args=[token, item, mark]
        )
        if before == scripts.LEASE_LOST:
            raise LostLease(f"{incident}: another worker has it and posts the report of {item}")
        return cast(bytes, before)

    async def _get_bound_incident(self, thread: str) -> str | None:
        raw = await self._redis.get(thread)
        return raw.decode() if isinstance(raw, bytes) else raw

    def _get_receive_keys(self, incident: str) -> list[str]:
        of = self._names.incident_key
        return [of(incident), of(incident, "inbox"), of(incident, "threads"), of(incident, "posted"), self._names.due, self._names.open]

    def _get_fingerprint_keys(self, about: IncidentFingerprint) -> list[str]:
        """Of hosts first, then of job and alert."""
        others = [self._names.fingerprint_key(kind, name) for kind, name in (("job", about.job), ("alert", about.alert)) if name]
        return [self._names.fingerprint_key("host", host) for host in about.hosts] + others

    def _get_now_score(self) -> str:
        return _format_score(self._clock.now())


async def _find_first_match(incidents: Sequence[str], wanted: Callable[[str], Awaitable[bool]]) -> str | None:
    for incident in incidents:
        if await wanted(incident):
            return incident
    return None


def _serialize_item(item: InboxItem) -> str:
    """An item as the list holds it: its id on a line of its own, so that scripts compare ids and never parse JSON; no secret gets into Redis."""
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
