"""Outbox to another system (provider, tracker): a message is stored with the click and kept until it arrives.

Invariants: only the draft that the click names is sent, once; one sender at a time holds a row. A row is `INCIDENT` or
`INCIDENT PLACE`.
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

# KEYS: row, due list, and the set of keys that are deleted with the incident. ARGV: draft, its digest.
DRAFT_SCRIPT = """
redis.call('HSET', KEYS[1], 'draft', ARGV[1], 'draft_digest', ARGV[2])
if KEYS[3] then redis.call('SADD', KEYS[3], KEYS[1]) end
"""
# KEYS: row, due list. ARGV: digest of the draft shown, who clicked, now, row name, document to send ('' = the draft),
# its digest, and 1 where it is sent only once.
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
# KEYS: due list. ARGV: now, when a row is due again if its sender dies, how many rows.
CLAIM_DUE_SCRIPT = """
local rows = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[3])
for _, row in ipairs(rows) do redis.call('ZADD', KEYS[1], 'XX', ARGV[2], row) end
return rows
"""
# KEYS: row. ARGV: now, until when the sender holds the row.
BEGIN_SCRIPT = """
if redis.call('EXISTS', KEYS[1]) == 0 then return 1 end
if tonumber(redis.call('HGET', KEYS[1], 'held') or '0') > tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'held', ARGV[2])
return 1
"""
# KEYS: row, due list. ARGV: digest of the document concerned, next due time ('' = never, '-' = unchanged), row name,
# then pairs of field and value. Does nothing if a newer document was queued meanwhile.
NOTE_SCRIPT = """
if redis.call('HGET', KEYS[1], 'digest') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], unpack(ARGV, 4))
local due = ARGV[2]
if due == '-' then return 1 end
redis.call('HDEL', KEYS[1], 'held')
if due == '' then redis.call('ZREM', KEYS[2], ARGV[3]) else redis.call('ZADD', KEYS[2], due, ARGV[3]) end
return 1
"""
# After this time another process takes over the row of a sender that died. Default of the setting
# `outbox_lease_seconds`.
DEFAULT_LEASE = timedelta(seconds=90)
# Part of the lease for which a sender holds a row: the hold ends before the row is due again.
HOLD_LEASE_FRACTION = 8 / 9
MIN_RETRY_DELAY = timedelta(seconds=5)  # between tries
MAX_RETRY_DELAY = timedelta(hours=1)  # doubled each time


def compute_retry_delay(tries: int) -> timedelta:
    return min(MIN_RETRY_DELAY * (1 << min(tries, 16)), MAX_RETRY_DELAY)


class ClickResult(IntEnum):
    """The result of a click on Send."""

    OLD = -1  # the draft shown is not the present one
    BEFORE = 0
    SENT = 1


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """What is sent, and how far it is."""

    name: str
    digest: str = ""
    document: bytes = b""
    draft: str = ""  # digest of the draft that was shown last and waits for a click
    by: str = ""
    at: datetime | None = None
    tries: int = 0
    pending: bool = False
    ticket: str = ""  # its id in the other system
    state: str = ""
    trouble: str = ""  # why it is not sent yet
    refused: str = ""  # why it will never be sent
    notes: Mapping[str, str] = field(default_factory=dict)  # all other fields, written by the sender

    @property
    def incident(self) -> str:
        return self.name.partition(" ")[0]

    @property
    def place(self) -> str:
        return self.name.partition(" ")[2]

    @property
    def id(self) -> str:
        """The message id, equal for every try."""
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
    """Due list, a row's key by name, and the set of keys deleted with the row's incident."""

    due: str
    row: Callable[[str], str]
    beside: Callable[[str], str] | None = None


def build_provider_outbox_keys(keys: RedisKeys | None = None) -> OutboxKeys:
    keys = keys or RedisKeys()
    return OutboxKeys(keys.provider_due, lambda incident: keys.incident_key(incident, "provider"))


def build_tracker_outbox_keys(keys: RedisKeys | None = None) -> OutboxKeys:
    keys = keys or RedisKeys()

    def row(name: str) -> str:
        incident, _, tracker = name.partition(" ")
        return keys.incident_key(incident, f"tracker:{tracker}")

    return OutboxKeys(keys.trackers_due, row, lambda name: keys.incident_key(name.partition(" ")[0], "threads"))


class Outbox:
    """Rows to send, and when each is due."""

    def __init__(self, redis: Redis, clock: Clock, box: OutboxKeys, lease: timedelta = DEFAULT_LEASE) -> None:
        self._redis = redis
        self._clock = clock
        self._box = box
        self.lease = lease
        scripts = (DRAFT_SCRIPT, PUT_SCRIPT, CLAIM_DUE_SCRIPT, NOTE_SCRIPT, BEGIN_SCRIPT)
        registered_scripts = [self._redis.register_script(script) for script in scripts]
        self._draft, self._put, self._take, self._note, self._begin = registered_scripts

    async def save_draft(self, name: str, raw: bytes) -> str:
        """Save the draft and return its digest."""
        digest = hashlib.sha256(raw).hexdigest()
        extra_keys = [self._box.beside(name)] if self._box.beside else []
        await self._draft(keys=[self._box.row(name), self._box.due, *extra_keys], args=[raw, digest])
        return digest

    async def load_draft(self, name: str, digest: str) -> bytes | None:
        raw, known_digest = await to_coroutine(self._redis.hmget(self._box.row(name), "draft", "draft_digest"))
        return raw if known_digest == digest.encode() else None

    async def drop_draft(self, name: str) -> None:
        await to_coroutine(self._redis.hdel(self._box.row(name), "draft", "draft_digest"))

    async def queue_draft(self, name: str, digest: str, by: str, *, instead: bytes = b"", once: bool = False) -> ClickResult:
        """Queue the draft after a click.

        `instead`: the document as edited in the form. `once`: do nothing where an earlier document was queued and not
        refused.
        """
        sent_digest = hashlib.sha256(instead).hexdigest() if instead else digest
        args: list[str | bytes | int] = [digest, by, self._format_score(self._clock.now()), name, instead, sent_digest, int(once)]
        return ClickResult(int(await self._put(keys=[self._box.row(name), self._box.due], args=args)))

    async def load_row(self, name: str) -> OutboxRow:
        fields = {key.decode(): value for key, value in (await to_coroutine(self._redis.hgetall(self._box.row(name)))).items()}
        text = {key: value.decode() for key, value in fields.items() if key not in ("document", "draft")}
        return OutboxRow(
            name,
            text.pop("digest", ""),
            fields.get("document", b""),
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

    async def claim_due(self, max_rows: int = 50) -> list[str]:
        """Return due rows and postpone them by the lease, so that another sender takes over if this one dies."""
        now = self._clock.now()
        args: list[str | int] = [self._format_score(now), self._format_score(now + self.lease), max_rows]
        return [row.decode() for row in await self._take(keys=[self._box.due], args=args)]

    async def begin_sending(self, name: str) -> OutboxRow | None:
        """Hold a claimed row; return None while another sender holds it. Every update but `record_notes` releases it."""
        now = self._clock.now()
        has_begun = await self._begin(
            keys=[self._box.row(name)], args=[self._format_score(now), self._format_score(now + self.lease * HOLD_LEASE_FRACTION)]
        )
        return await self.load_row(name) if int(has_begun) else None

    async def mark_arrived(self, outbox_row: OutboxRow, ticket: str, state: str, again: timedelta | None, **notes: str) -> None:
        """Record arrival. `again`: when to ask for its state."""
        await self._update_row(outbox_row, again, {"ticket": ticket, "state": state, "pending": "0", "trouble": "", **notes})

    async def record_state(self, outbox_row: OutboxRow, state: str, again: timedelta | None, **notes: str) -> None:
        """Record the ticket's state. `again` is None where it is final."""
        await self._update_row(outbox_row, again, {"state": state, "trouble": "", **notes})

    async def mark_refused(self, outbox_row: OutboxRow, reason: str, **notes: str) -> None:
        await self._update_row(outbox_row, None, {"refused": reason, "pending": "0", "trouble": "", **notes})

    async def record_notes(self, outbox_row: OutboxRow, **notes: str) -> None:
        """Add notes; leave the due time unchanged."""
        await self._write_fields(outbox_row, "-", notes)

    async def postpone_row(self, outbox_row: OutboxRow, reason: str, again: timedelta) -> None:
        await self._write_fields(
            outbox_row, self._format_score(self._clock.now() + again), {"tries": str(outbox_row.tries + 1), "trouble": reason}
        )

    async def remove_due(self, name: str) -> None:
        await self._redis.zrem(self._box.due, name)

    async def _update_row(self, outbox_row: OutboxRow, again: timedelta | None, fields: Mapping[str, str]) -> None:
        due_score = "" if again is None else self._format_score(self._clock.now() + again)
        await self._write_fields(outbox_row, due_score, {"tries": "0", **fields})

    async def _write_fields(self, outbox_row: OutboxRow, due: str, fields: Mapping[str, str]) -> None:
        args = [outbox_row.digest, due, outbox_row.name, *(word for pair in fields.items() for word in pair)]
        await self._note(keys=[self._box.row(outbox_row.name), self._box.due], args=args)

    @staticmethod
    def _format_score(at: datetime) -> str:
        return f"{at.timestamp():.3f}"
