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

from bot.desk import lua as scripts
from bot.desk.concern import Concern
from bot.desk.lua import LET_GO
from bot.store.keys import Names
from bot.tasks import awaited
from graph.memory.fence import LostLease
from graph.state import Item, ItemKind, Lifecycle, Origin
from kb.redact import cleaned_start, without_secrets
from tools.clock import Clock

SEEN_FOR = timedelta(days=8)
"""Slack may deliver again for hours; we remember for more than a week."""
Begun = Literal["begun", "cut"]
WORK = "work"
LONGEST_LETTER = 4000
NOTHING = Concern()


@dataclass(frozen=True, slots=True)
class Received:
    """Where an item went. `duplicate`: it had been stored before; `opened`: it was the first of a new incident; `joined`: the incident is
    of another thread and concerns the same; `beside`: those that concern the same and that it might not join."""

    incident: str
    duplicate: bool = False
    opened: bool = False
    joined: bool = False
    beside: tuple[str, ...] = ()


async def stands_alone(incident: str) -> bool:
    """Join nothing."""
    return False


@dataclass(frozen=True, slots=True)
class Tries:
    """How often a turn for one item was begun, raised, how often its report could not be posted, and how often posting it was begun again because
    whoever was at it is gone."""

    begun: int = 0
    raised: int = 0
    unposted: int = 0
    cut: int = 0

    @classmethod
    def of(cls, item: str, row: Mapping[bytes, bytes]) -> "Tries":
        return cls(**{name: int(row.get(f"{item} {name}".encode(), 0)) for name in ("begun", "raised", "unposted", "cut")})


@dataclass(frozen=True, slots=True)
class Due:
    """An entry of the due-index that has come: work waiting, or a timer (`why`) with its exact score."""

    incident: str
    why: str
    score: str


def new_incident_id() -> str:
    return f"inc-{secrets.token_hex(3)}"


class Inbox:
    """Everything that waits for a turn, and which incident a thread belongs to."""

    def __init__(self, redis: Redis, clock: Clock, *, names: Names | None = None, new_id: Callable[[], str] = new_incident_id) -> None:
        self._redis = redis
        self._clock = clock
        self._names = names or Names()
        self._new_id = new_id
        self._open = redis.register_script(scripts.OPEN)
        self._enqueue = redis.register_script(scripts.ENQUEUE)
        self._finish = redis.register_script(scripts.FINISH)
        self._post = redis.register_script(scripts.POST)
        self._set_aside = redis.register_script(scripts.SET_ASIDE)
        self._come_due = redis.register_script(scripts.COME_DUE)
        self._fire = redis.register_script(scripts.FIRE)
        self._bind = redis.register_script(scripts.BIND)

    # Coming in

    async def open(
        self,
        origin: Origin,
        dedupe_key: str,
        make: Callable[[str], Item],
        *,
        about: Concern = NOTHING,
        joins: Callable[[str], Awaitable[bool]] = stands_alone,
        repeats: bool = True,
    ) -> Received:
        """Store an item of a thread, opening an incident with it where the thread has none. `make` gets the incident's id. Of open
        incidents that concern the same (`about`) the oldest that it may join (`joins`, by id) gets the item as a reply instead; an alert
        that it heard before only where that is no repetition (`repeats`) but news."""
        thread = self._names.thread(*origin.door)
        incident = await self._bound(thread) or self._new_id()
        beside: list[str] = []
        while True:
            concerns = [self._names.of(incident, "concerns"), *self._concerned(about)]
            keys = [self._names.seen(dedupe_key), thread, *self._receiving(incident), *concerns]
            args = [incident, _element(make(incident)), self._now(), _seconds(SEEN_FOR), origin.model_dump_json(), thread]
            raw, outcome = await self._open(keys=keys, args=[*args, len(about.hosts), *beside])
            found = raw.decode()
            match outcome:
                case scripts.CONCERNED:
                    same = found.split()
                    if (known := await _first(same, joins)) is not None:
                        reply = make(known).model_copy(update={"kind": "reply"})
                        return await self._join(known, origin, reply, dedupe_key, about.alert, repeats)
                    beside += same
                case scripts.DUPLICATE:
                    return Received(found, duplicate=True)
                case scripts.TAKEN:  # the id is in use by another thread, which six hex digits allow
                    incident = self._new_id()
                case scripts.OTHER:  # another process opened the thread meanwhile
                    incident = found
                case _:
                    return Received(found, opened=outcome == scripts.OPENED, beside=tuple(beside) if outcome == scripts.OPENED else ())

    async def _join(self, incident: str, origin: Origin, reply: Item, dedupe_key: str, alert: str, repeats: bool) -> Received:
        """The reply stored, unless it repeats an alert that this incident has heard before: of a storm each is heard once."""
        concerns, key = self._names.of(incident, "concerns"), self._names.concern("alert", alert)
        if repeats and alert and await awaited(self._redis.sismember(concerns, key)):
            return Received(incident, duplicate=True, joined=True)
        new = await self.enqueue(reply, dedupe_key)
        if not alert:
            await self._redis.set(self._names.joined(*origin.door), incident, ex=SEEN_FOR)
        if alert and new:
            await self._redis.zadd(key, {incident: self._clock.now().timestamp()})
            await awaited(self._redis.sadd(concerns, key))
        return Received(incident, duplicate=not new, joined=True)

    async def enqueue(self, item: Item, dedupe_key: str) -> bool:
        """Store an item of a known incident; False when it had been stored before."""
        keys = [self._names.seen(dedupe_key), *self._receiving(item.incident)]
        args = [item.incident, _element(item), self._now(), _seconds(SEEN_FOR)]
        return bool(await self._enqueue(keys=keys, args=args))

    async def bind(self, incident: str, team: str, channel: str, thread_ts: str) -> bool:
        """Make a second thread (the customer's) part of the incident; False when it belongs to another one."""
        thread = self._names.thread(team, channel, thread_ts)
        return bool(await self._bind(keys=[thread, self._names.of(incident, "threads")], args=[incident]))

    async def settle(self, incident: str, origin: Origin) -> None:
        """Where the incident lives from now on, for one whose thread had still to be begun; what is said in that thread is its own too."""
        await awaited(self._redis.hset(self._names.of(incident), "origin", origin.model_dump_json()))
        await self.bind(incident, origin.team, origin.channel, origin.thread_ts)

    # Looking

    async def find(self, team: str, channel: str, thread_ts: str) -> str | None:
        return await self._bound(self._names.thread(team, channel, thread_ts))

    async def joined_from(self, team: str, channel: str, thread_ts: str) -> str | None:
        """Return the other thread's incident that the report of this thread joined, for as long as messages are remembered."""
        return await self._bound(self._names.joined(team, channel, thread_ts))

    async def heard(self, dedupe_key: str) -> bool:
        """Whether something was stored under this key."""
        return bool(await self._redis.exists(self._names.seen(dedupe_key)))

    async def origin(self, incident: str) -> Origin | None:
        raw = await awaited(self._redis.hget(self._names.of(incident), "origin"))
        return Origin.model_validate_json(raw) if raw else None

    async def lifecycle(self, incident: str) -> Lifecycle | None:
        raw = await awaited(self._redis.hget(self._names.of(incident), "lifecycle"))
        return cast(Lifecycle, raw.decode()) if raw else None

    async def peek(self, incident: str, count: int | None = None) -> list[Item]:
        """What waits, oldest first; the first is the one whose turn runs. A damaged row is passed over."""
        rows = await awaited(self._redis.lrange(self._names.of(incident, "inbox"), 0, -1 if count is None else count - 1))
        return [item for row in rows if (item := _item(row)) is not None]

    async def open_incidents(self) -> list[str]:
        """Incidents that are not closed, oldest first."""
        return [row.decode() for row in await awaited(self._redis.zrange(self._names.open, 0, -1))]

    async def held_incidents(self) -> list[str]:
        """Incidents whose nodes we hold, closed ones too, oldest first."""
        return [row.decode() for row in await awaited(self._redis.zrange(self._names.held, 0, -1))]

    async def set_aside(self) -> list[bytes]:
        """The dead letters: JSON of items that no turn could answer, oldest first."""
        return cast(list[bytes], await awaited(self._redis.lrange(self._names.dead, 0, -1)))

    # A turn, under the lease

    async def begin(self, incident: str, item: str, *, owed: int = 0) -> tuple[Begun, Tries]:
        """Count the beginning of a turn, or of posting again what a complete one says; tell which, and how earlier ones ended. `owed` beginnings were
        not the item's fault."""
        what: Begun = "cut" if await awaited(self._redis.hexists(self._names.of(incident, "posted"), item)) else "begun"
        await self.count(incident, item, what, 1 - owed)
        return what, Tries.of(item, await awaited(self._redis.hgetall(self._names.of(incident, "tries"))))

    async def count(self, incident: str, item: str, what: Literal["begun", "raised", "unposted", "cut"], by: int) -> int:
        return int(await awaited(self._redis.hincrby(self._names.of(incident, "tries"), f"{item} {what}", by)))

    async def posting(self, incident: str, token: str, item: str) -> bool:
        """Say that the report of this item is about to be posted; False when it has been."""
        return await self._mark(incident, token, item, "posting") != b"posted"

    async def posted(self, incident: str, token: str, item: str) -> None:
        await self._mark(incident, token, item, "posted")

    async def finish(
        self,
        incident: str,
        token: str,
        item: str,
        lifecycle: Lifecycle,
        timers: Mapping[str, datetime],
        *,
        keep: timedelta | None,
        about: Concern = NOTHING,
    ) -> None:
        """The turn is over: in one step the item leaves, the timers and what the incident concerns are replaced, and a closed incident's
        lifetime (`keep`) starts. None where we hold nodes of it: then it stays."""
        due = [word for why, at in timers.items() for word in (why, _score(at))]
        await self._leave(incident, token, item, "", [lifecycle, "held" if keep is None else _seconds(keep), self._now(), *due], about)

    async def give_up(self, incident: str, token: str, item: str, letter: str) -> None:
        """Set the item aside as a dead letter; timers stay as they were."""
        await self._leave(incident, token, item, letter, [], NOTHING)

    async def drop_damaged(self, incident: str, token: str) -> bool:
        """Set the oldest row aside where it cannot be read, so that it keeps no other item waiting; whether it was so."""
        row = cast(bytes | None, await awaited(self._redis.lindex(self._names.of(incident, "inbox"), 0)))
        if row is None or _item(row) is not None:
            return False
        text = cleaned_start(row.decode("utf-8", "replace"), LONGEST_LETTER)
        letter = json.dumps({"incident": incident, "why": "it cannot be read", "at": self._clock.now().isoformat(), "row": text})
        keys = [self._names.lease(incident), self._names.of(incident, "inbox"), self._names.due, self._names.dead]
        return bool(await self._set_aside(keys=keys, args=[token, row, letter, incident]) != scripts.LOST)

    async def concerns(self, incident: str, about: Concern) -> None:
        """Under the lease: a second report of this joins from now on; `finish` takes away what it concerns no more."""
        if keys := self._concerned(about):
            score = self._clock.now().timestamp()
            async with self._redis.pipeline(transaction=True) as pipe:
                for key in keys:
                    pipe.zadd(key, {incident: score}, nx=True)
                pipe.sadd(self._names.of(incident, "concerns"), *keys)
                await pipe.execute()

    async def let_go_of_causes(self, incident: str) -> None:
        """Let a later report keep what this incident found. Its own next diagnosis asks for the causes again."""
        known = self._names.of(incident, "causes")
        keys = await awaited(self._redis.smembers(known))
        async with self._redis.pipeline(transaction=True) as pipe:
            for key in keys:
                pipe.lrem(key, 0, incident)
            pipe.delete(known)
            await pipe.execute()

    # Timers

    async def come_due(self, patience: timedelta, limit: int = 200) -> list[Due]:
        """What has come due. Work is put off by `patience`, so that several sweepers do not all wake the same incident."""
        now = self._clock.now()
        rows = await self._come_due(keys=[self._names.due], args=[_score(now), _score(now + patience), limit, WORK])
        return [_due(member, score) for member, score in zip(rows[::2], rows[1::2], strict=True)]

    async def fire(self, due: Due) -> bool:
        """Turn a timer into an inbox item, once, whoever asks."""
        now = self._clock.now()
        id_ = f"timer:{due.incident}:{due.why}:{due.score}"
        kind: ItemKind = "recheck" if due.why == LET_GO else "timer"
        item = Item(id=id_, kind=kind, incident=due.incident, at=now, data={"why": due.why})
        keys = [self._names.of(due.incident, "timers"), *self._receiving(due.incident)]
        return bool(await self._fire(keys=keys, args=[due.incident, due.why, due.score, _element(item), _score(now)]))

    async def _leave(self, incident: str, token: str, item: str, letter: str, rest: Sequence[str], about: Concern) -> None:
        parts = ("inbox", "timers", "tries", "threads", "posted")
        keys = [self._names.lease(incident), self._names.of(incident), *(self._names.of(incident, part) for part in parts)]
        keys += [self._names.due, self._names.open, self._names.dead]
        keys += [self._names.of(incident, "causes"), self._names.of(incident, "concerns"), self._names.held, *self._concerned(about)]
        if await self._finish(keys=keys, args=[token, incident, item, letter, *rest]) == scripts.LOST:
            raise LostLease(f"{incident}: another worker has it; {item} stays for them")

    async def _mark(self, incident: str, token: str, item: str, mark: str) -> bytes:
        before = await self._post(keys=[self._names.lease(incident), self._names.of(incident, "posted")], args=[token, item, mark])
        if before == scripts.LOST:
            raise LostLease(f"{incident}: another worker has it and posts the report of {item}")
        return cast(bytes, before)

    async def _bound(self, thread: str) -> str | None:
        raw = await self._redis.get(thread)
        return raw.decode() if isinstance(raw, bytes) else raw

    def _receiving(self, incident: str) -> list[str]:
        of = self._names.of
        return [of(incident), of(incident, "inbox"), of(incident, "threads"), of(incident, "posted"), self._names.due, self._names.open]

    def _concerned(self, about: Concern) -> list[str]:
        """Of hosts first, then of job and alert."""
        others = [self._names.concern(kind, name) for kind, name in (("job", about.job), ("alert", about.alert)) if name]
        return [self._names.concern("host", host) for host in about.hosts] + others

    def _now(self) -> str:
        return _score(self._clock.now())


async def _first(incidents: Sequence[str], wanted: Callable[[str], Awaitable[bool]]) -> str | None:
    for incident in incidents:
        if await wanted(incident):
            return incident
    return None


def _element(item: Item) -> str:
    """An item as the list holds it: its id on a line of its own, so that scripts compare ids and never parse JSON; no secret gets into Redis."""
    if "\n" in item.id:
        raise ValueError(f"item id {item.id!r}: must be one line")
    return f"{item.id}\n{json.dumps({**without_secrets(item.model_dump(mode='json')), 'id': item.id}, ensure_ascii=False)}"


def _item(row: bytes) -> Item | None:
    try:
        return Item.model_validate_json(row.partition(b"\n")[2])
    except ValidationError:
        return None


def _due(member: bytes, score: bytes) -> Due:
    incident, why = member.decode().split(" ", 1)
    return Due(incident, why, score.decode())


def _score(at: datetime) -> str:
    return f"{at.timestamp():.3f}"


def _seconds(span: timedelta) -> str:
    return str(int(span.total_seconds()))
