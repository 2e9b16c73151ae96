"""What is to be sent to somebody else's system, kept until it has arrived: it is stored in the step that counts the click.

Rules it keeps: only what was shown is sent (the draft that the click names); a click twice sends once; whatever was clicked survives every
crash; and one sender at a time has a row. A row is named `INCIDENT`, or `INCIDENT PLACE` where it may go to several places.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Literal

from redis.asyncio import Redis

from bot.store.keys import RedisKeys
from bot.tasks import to_coroutine
from tools.clock import Clock

SendStage = Literal["offered", "shown", "waiting", "sent", "refused"]

DRAFT_SCRIPT = """
redis.call('HSET', KEYS[1], 'draft', ARGV[1], 'draft_digest', ARGV[2])
if KEYS[3] then redis.call('SADD', KEYS[3], KEYS[1]) end
"""
"""KEYS the row, due, and the set of what goes with its incident. ARGV what is shown, its digest."""
PUT_SCRIPT = """
if redis.call('HGET', KEYS[1], 'draft_digest') ~= ARGV[1] then return -1 end
local refused = redis.call('HEXISTS', KEYS[1], 'refused') == 1
if redis.call('HGET', KEYS[1], 'digest') == ARGV[6] and not refused then return 0 end
if ARGV[7] == '1' and redis.call('HEXISTS', KEYS[1], 'digest') == 1 and not refused then return 0 end
local document = ARGV[5]
if document == '' then document = redis.call('HGET', KEYS[1], 'draft') end
redis.call('HSET', KEYS[1], 'digest', ARGV[6], 'document', document, 'by', ARGV[2], 'at', ARGV[3], 'tries', 0, 'pending', 1)
redis.call('HDEL', KEYS[1], 'refused', 'trouble', 'draft', 'draft_digest')
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[4])
return 1
"""
"""KEYS the row, due. ARGV digest of what was shown, who clicked, now, its name, what is sent ('' = what was shown), the digest of that, and
whether it is sent but once."""
CLAIM_DUE_SCRIPT = """
local rows = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[3])
for _, row in ipairs(rows) do redis.call('ZADD', KEYS[1], 'XX', ARGV[2], row) end
return rows
"""
"""KEYS due. ARGV now, when whoever takes them has died over it, how many."""
BEGIN_SCRIPT = """
if redis.call('EXISTS', KEYS[1]) == 0 then return 1 end
if tonumber(redis.call('HGET', KEYS[1], 'held') or '0') > tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'held', ARGV[2])
return 1
"""
"""KEYS the row. ARGV now, until when whoever begins holds it."""
NOTE_SCRIPT = """
if redis.call('HGET', KEYS[1], 'digest') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], unpack(ARGV, 4))
local due = ARGV[2]
if due == '-' then return 1 end
redis.call('HDEL', KEYS[1], 'held')
if due == '' then redis.call('ZREM', KEYS[2], ARGV[3]) else redis.call('ZADD', KEYS[2], due, ARGV[3]) end
return 1
"""
"""KEYS the row, due. ARGV the digest that this is about, when to look again ('' = never, '-' = as it is), its name, then field and value. What
was clicked meanwhile stays to be sent."""
DEFAULT_LEASE = timedelta(seconds=90)
"""After this time another process takes over a row whose sender died. The default of the setting `outbox_lease_seconds`."""
HOLD_LEASE_FRACTION = 8 / 9
"""Share of the lease for which a sender holds a row that it began: the hold ends before the row is due again."""
MIN_RETRY_DELAY, MAX_RETRY_DELAY = timedelta(seconds=5), timedelta(hours=1)
"""Before it is tried again, twice as long each time."""


def compute_retry_delay(tries: int) -> timedelta:
    """How long to wait after so many tries."""
    return min(MIN_RETRY_DELAY * (1 << min(tries, 16)), MAX_RETRY_DELAY)


class ClickResult(IntEnum):
    """What a click to send came to."""

    OLD = -1
    """What was shown is not what would be sent now."""
    BEFORE = 0
    SENT = 1


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """How it stands with an incident and whom it is sent to."""

    name: str
    digest: str = ""
    document: bytes = b""
    draft: str = ""
    """Digest of what was shown last and waits for a click."""
    by: str = ""
    at: datetime | None = None
    tries: int = 0
    pending: bool = False
    ticket: str = ""
    """Theirs."""
    state: str = ""
    trouble: str = ""
    """Why it is not sent yet."""
    refused: str = ""
    """Why it never will be."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """What else its sender keeps of it."""

    @property
    def incident(self) -> str:
        return self.name.partition(" ")[0]

    @property
    def place(self) -> str:
        """Where it goes, of several places."""
        return self.name.partition(" ")[2]

    @property
    def id(self) -> str:
        """What makes it one message however often it is sent."""
        return f"msg_{self.digest[:40]}"

    @property
    def stage(self) -> SendStage:
        if self.draft:
            return "shown"
        if self.refused:
            return "refused"
        if self.pending:
            return "waiting"
        return "sent" if self.ticket else "offered"


@dataclass(frozen=True, slots=True)
class OutboxKeys:
    """Where the rows of one outbox are: its due list, a row's key by its name, and the set of keys that go with the incident of a row."""

    due: str
    row: Callable[[str], str]
    beside: Callable[[str], str] | None = None


def build_provider_outbox_keys(names: RedisKeys | None = None) -> OutboxKeys:
    """Of what goes to the provider; rows are incidents."""
    names = names or RedisKeys()
    return OutboxKeys(names.provider_due, lambda incident: names.incident_key(incident, "provider"))


def build_tracker_outbox_keys(names: RedisKeys | None = None) -> OutboxKeys:
    """Of what goes to trackers; rows are `INCIDENT TRACKER`."""
    names = names or RedisKeys()

    def row(name: str) -> str:
        incident, _, tracker = name.partition(" ")
        return names.incident_key(incident, f"tracker:{tracker}")

    return OutboxKeys(names.trackers_due, row, lambda name: names.incident_key(name.partition(" ")[0], "threads"))


class Outbox:
    """One row a name, and when somebody must look at it."""

    def __init__(self, redis: Redis, clock: Clock, box: OutboxKeys, lease: timedelta = DEFAULT_LEASE) -> None:
        self._redis, self._clock, self._box, self.lease = redis, clock, box, lease
        scripts = (DRAFT_SCRIPT, PUT_SCRIPT, CLAIM_DUE_SCRIPT, NOTE_SCRIPT, BEGIN_SCRIPT)
        made = [self._redis.register_script(script) for script in scripts]
        self._draft, self._put, self._take, self._note, self._begin = made

    async def save_draft(self, name: str, raw: bytes) -> str:
        """What is about to be shown; its digest."""
        digest = hashlib.sha256(raw).hexdigest()
        beside = [self._box.beside(name)] if self._box.beside else []
        await self._draft(keys=[self._box.row(name), self._box.due, *beside], args=[raw, digest])
        return digest

    async def load_draft(self, name: str, digest: str) -> bytes | None:
        """What was shown last, if it is this."""
        raw, known = await to_coroutine(self._redis.hmget(self._box.row(name), "draft", "draft_digest"))
        return raw if known == digest.encode() else None

    async def drop_draft(self, name: str) -> None:
        """Nobody wants to send it."""
        await to_coroutine(self._redis.hdel(self._box.row(name), "draft", "draft_digest"))

    async def queue_draft(self, name: str, digest: str, by: str, *, instead: bytes = b"", once: bool = False) -> ClickResult:
        """Somebody clicked: from here on it is sent. `instead` of what was shown, where a person changed it in the form; `once`: whatever was
        sent before is not followed by anything."""
        sent = hashlib.sha256(instead).hexdigest() if instead else digest
        args: list[str | bytes | int] = [digest, by, self._format_score(self._clock.now()), name, instead, sent, int(once)]
        return ClickResult(int(await self._put(keys=[self._box.row(name), self._box.due], args=args)))

    async def load_row(self, name: str) -> OutboxRow:
        found = {key.decode(): value for key, value in (await to_coroutine(self._redis.hgetall(self._box.row(name)))).items()}
        text = {key: value.decode() for key, value in found.items() if key not in ("document", "draft")}
        return OutboxRow(
            name,
            text.pop("digest", ""),
            found.get("document", b""),
            text.pop("draft_digest", ""),
            text.pop("by", ""),
            datetime.fromtimestamp(float(text.pop("at")), UTC) if "at" in text else None,
            int(text.pop("tries", 0)),
            text.pop("pending", "") == "1",
            text.pop("ticket", ""),
            text.pop("state", ""),
            text.pop("trouble", ""),
            text.pop("refused", ""),
            text,
        )

    async def claim_due(self, most: int = 50) -> list[str]:
        """Rows that are due; another sender gets them when this one has died over them."""
        now = self._clock.now()
        args: list[str | int] = [self._format_score(now), self._format_score(now + self.lease), most]
        return [row.decode() for row in await self._take(keys=[self._box.due], args=args)]

    async def begin_sending(self, name: str) -> OutboxRow | None:
        """A row that was taken, for whoever works on it from here on; None while another does. What settles it or puts it off lets it go."""
        now = self._clock.now()
        begun = await self._begin(
            keys=[self._box.row(name)], args=[self._format_score(now), self._format_score(now + self.lease * HOLD_LEASE_FRACTION)]
        )
        return await self.load_row(name) if int(begun) else None

    async def mark_arrived(self, row: OutboxRow, ticket: str, state: str, again: timedelta | None, **notes: str) -> None:
        """They have it; when to ask how far it is."""
        await self._update_row(row, again, {"ticket": ticket, "state": state, "pending": "0", "trouble": "", **notes})

    async def record_state(self, row: OutboxRow, state: str, again: timedelta | None, **notes: str) -> None:
        """How far it is; None where it goes no further."""
        await self._update_row(row, again, {"state": state, "trouble": "", **notes})

    async def mark_refused(self, row: OutboxRow, why: str, **notes: str) -> None:
        """It will never be sent."""
        await self._update_row(row, None, {"refused": why, "pending": "0", "trouble": "", **notes})

    async def record_notes(self, row: OutboxRow, **notes: str) -> None:
        """Keep this of it; when it is looked at stays as it is."""
        await self._write_fields(row, "-", notes)

    async def postpone_row(self, row: OutboxRow, why: str, again: timedelta) -> None:
        """They do not answer."""
        await self._write_fields(row, self._format_score(self._clock.now() + again), {"tries": str(row.tries + 1), "trouble": why})

    async def remove_due(self, name: str) -> None:
        """Nothing is kept of it any more."""
        await self._redis.zrem(self._box.due, name)

    async def _update_row(self, row: OutboxRow, again: timedelta | None, fields: Mapping[str, str]) -> None:
        due = "" if again is None else self._format_score(self._clock.now() + again)
        await self._write_fields(row, due, {"tries": "0", **fields})

    async def _write_fields(self, row: OutboxRow, due: str, fields: Mapping[str, str]) -> None:
        args = [row.digest, due, row.name, *(word for pair in fields.items() for word in pair)]
        await self._note(keys=[self._box.row(row.name), self._box.due], args=args)

    @staticmethod
    def _format_score(at: datetime) -> str:
        return f"{at.timestamp():.3f}"
