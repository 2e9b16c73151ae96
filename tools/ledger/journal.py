"""Run the Lua scripts on the current audit head and clock, and translate their answers.

Time never runs backwards: readers take the later of their clock and the shared high-water mark. The journal remembers
the chain's length, so a Redis restored from an older copy is detected. Each entry signs the brakes in force, so a
foreign release shows.
"""

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, cast

from redis.asyncio import Redis

from tools.action import Action
from tools.clock import Clock
from tools.ledger import audit, record
from tools.ledger.brakes import STOP_BRAKE, BrakesInForce
from tools.ledger.record import Refused, list_targets
from tools.ledger.redis_replies import decode_text, decode_texts, translate_redis_errors
from tools.ledger.scripts import SCRIPTS
from tools.ledger.seal import Seal, parse_time, to_milliseconds
from tools.ledger.states import State

MAX_ATTEMPTS = 200
MAX_CLOCK_SKEW = timedelta(minutes=10)
ClockChoice = Literal["the later", "whatever", "ours"]

REFUSAL_TYPES: Mapping[str, type[Refused]] = {
    "not_open": record.NotOpen,
    "tampered": record.TamperedRecord,
    "late": record.TooLate,
    "already": record.AlreadyVoted,
    "replayed": record.ReplayedClick,
    "stopped": record.KillSwitchOn,
    "breaker": record.BreakerOpen,
    "busy": record.TargetBusy,
    "blast": record.BlastRadius,
    "fleet": record.FleetLimit,
    "lost": record.LostClaim,
}
REFUSAL_DETAILS: Mapping[str, str] = {"not_open": "It is {}.", "busy": "Held by {}.", "stopped": "Stopped by {}"}


EPOCH = datetime.fromtimestamp(0, UTC)
UNSIGNED_ENTRY_TEXT = (
    "The newest entry of the audit log is not signed with our key: it was altered, or the key was rotated and this process still has the old one"
    " (restart it with the new one)."
)


class ChainRewound(Exception):
    """The chain does not contain what this process saw in it before. For the ledger, which stops everything."""


@dataclass(frozen=True, slots=True)
class JournalHead:
    """Head to build on and current time. `altered`: the stored brakes are not those that the newest entry signs."""

    head: str
    now: datetime
    brakes: BrakesInForce
    altered: bool

    @property
    def at(self) -> str:
        return self.now.isoformat()


@dataclass(frozen=True, slots=True)
class KeyParts:
    """Ids and names, from verified records, for a script's keys."""

    approval: str
    targets: str = ""
    group: str = ""
    incident: str = ""


def build_key_parts(action: Action, group: str) -> KeyParts:
    """Return the parts for an action's keys."""
    return KeyParts(action.approval, " ".join(list_targets(action)), group, action.incident)


class Journal:
    """The journal. `anchor` receives each new chain length and head; `seen` is the last pair of an earlier process."""

    def __init__(
        self, redis: Redis, seal: Seal, clock: Clock, anchor: Callable[[int, str], None], prefix: str, seen: tuple[int, str] = (0, "")
    ) -> None:
        self._redis, self._seal, self._clock, self._anchor, self._prefix = redis, seal, clock, anchor, prefix
        self._scripts = {name: redis.register_script(text) for name, text in SCRIPTS.items()}
        self._seen = seen

    async def read_head(self, clock: ClockChoice = "the later", *, after_older: bool = False) -> JournalHead:
        """Read the current head.

        Raises ChainRewound once when the chain lost its end, ClockSkew when our clock is too far behind. `whatever`
        never fails on time, because a brake must work on any machine; `ours` uses our clock alone. `after_older`
        accepts an entry signed with an earlier key, for rotation.
        """
        length, seen_head = self._seen
        async with translate_redis_errors():
            pipe = self._redis.pipeline(transaction=True)
            pipe.get(f"{self._prefix}head")
            pipe.get(f"{self._prefix}clock")
            pipe.llen(f"{self._prefix}audit")
            pipe.lindex(f"{self._prefix}audit", length - 1)
            pipe.lrange(f"{self._prefix}audit", -2, -1)
            pipe.hkeys(f"{self._prefix}brakes")
            pipe.smembers(f"{self._prefix}held")
            *head_values, pulled, held_back = await pipe.execute(raise_on_error=False)
            for value in head_values:
                if isinstance(value, Exception):
                    raise value
            head, high, now_length, row, newest = head_values
        if length and decode_text(row).partition(" ")[0] != seen_head:
            self._seen = (0, "")
            raise ChainRewound(f"Redis went back in time: entry {length} of the audit log is gone or another one")
        self._remember_head(int(now_length), decode_text(head))
        own = self._clock.now()
        unread = isinstance(pulled, Exception) or isinstance(held_back, Exception)
        brakes = BrakesInForce() if unread else BrakesInForce.from_stored(decode_texts(pulled), decode_texts(held_back))
        signed = audit.get_brakes_digest(decode_text(newest[-1]).partition(" ")[2]) if newest else ""
        altered = unread or signed not in ("", brakes.digest)
        if clock == "ours":
            return JournalHead(decode_text(head), own, brakes, altered)
        try:
            mark = max(
                parse_ledger_clock(decode_text(high)), self._get_newest_entry_time(decode_text(head), decode_texts(newest), after_older)
            )
        except (record.TamperedRecord, record.KeyChanging):
            if clock != "whatever":
                raise
            mark = own
        if mark - own > MAX_CLOCK_SKEW and clock != "whatever":
            raise record.ClockSkew(f"{record.ClockSkew.__doc__} (here {own:%F %T}, there {mark:%F %T} UTC)")
        return JournalHead(decode_text(head), max(own, mark), brakes, altered)

    def _get_newest_entry_time(self, head: str, newest: Sequence[str], after_older: bool) -> datetime:
        """Return the newest entry's signed time, so that resetting the stored clock does not help.

        Raises TamperedRecord for a foreign signature, KeyChanging for an earlier key.
        """
        if not newest and not head:
            return EPOCH
        before = newest[0].partition(" ")[0] if len(newest) > 1 else ""
        signature, _, line = newest[-1].partition(" ") if newest else ("", "", "")
        key = audit.find_signer(self._seal, before, line, signature)
        if signature != head or not key:
            raise record.TamperedRecord(f"{record.TamperedRecord.__doc__} {UNSIGNED_ENTRY_TEXT}")
        if key != self._seal.current and not after_older:
            raise record.KeyChanging(record.KeyChanging.__doc__)
        at = audit.get_entry_time(line)
        if at is None:
            raise record.TamperedRecord(f"{record.TamperedRecord.__doc__} (the newest entry of the audit log says no time)")
        return at

    def _remember_head(self, length: int, head: str) -> None:
        if length > self._seen[0]:
            self._seen = (length, head)

    async def run_script(self, script: str, look: JournalHead, parts: KeyParts, line: str, *rest: Any) -> str:
        """Run a script once. `line` is "" for unaudited scripts."""
        line = line and audit.add_brakes_digest(line, _compute_brakes_digest(script, look, parts.approval, rest))
        head = audit.compute_next_head(self._seal, look.head, line) if line else ""
        fixed = (self._prefix, look.head, f"{head} {line}", head, to_milliseconds(look.now), parts.approval, secrets.token_hex(12))
        async with translate_redis_errors():
            args = [*fixed, parts.targets, parts.group, parts.incident, *rest]
            word = decode_text(await cast(Any, self._scripts[script](keys=[], args=args)))
        if line and word.startswith("ok "):
            length = int(word.split()[1])
            self._remember_head(length, head)
            self._anchor(length, head)
        return word


def _compute_brakes_digest(script: str, look: JournalHead, approval: str, rest: Sequence[Any]) -> str:
    """After a foreign change the digest stays ALTERED_BRAKES until a human resumes."""
    resumes = script == "switch" and rest[0] == STOP_BRAKE and not rest[1]
    return audit.ALTERED_BRAKES if look.altered and not resumes else _compute_brakes_after(script, look.brakes, approval, rest).digest


def _compute_brakes_after(script: str, brakes: BrakesInForce, approval: str, rest: Sequence[Any]) -> BrakesInForce:
    """Return the brakes after success, which requires the head with which they were read."""
    match script, *rest:
        case "claim", *_:
            return brakes.with_claim(approval)
        case "finish", _, becomes, *_ if becomes != State.UNKNOWN.value:
            return brakes.without_claim(approval)
        case "reconcile", *_:
            return brakes.without_claim(approval)
        case "switch", brake, value, *_:
            return brakes.with_switch(brake, pulled=bool(value))
        case _:
            return brakes


def format_refusal(name: str, more: str = "") -> str:
    """Return the refusal's text."""
    detail = f" {REFUSAL_DETAILS[name].format(more)}" if more and name in REFUSAL_DETAILS else ""
    return f"{REFUSAL_TYPES[name].__doc__}{detail}"


def parse_ledger_clock(stored: str) -> datetime:
    """Parse the stored high-water mark. Raises TamperedRecord."""
    try:
        return parse_time(stored) or EPOCH
    except ValueError as error:
        raise record.TamperedRecord(f"{record.TamperedRecord.__doc__} (the ledger's clock: {error})") from error


async def retry_until_settled(attempt: Callable[[], Awaitable[str]]) -> str:
    """Repeat `attempt` while it answers `retry`. Raises the named refusal; returns other answers."""
    for tries in range(MAX_ATTEMPTS):
        word = await attempt()
        name, _, more = word.partition(" ")
        if name in REFUSAL_TYPES:
            raise REFUSAL_TYPES[name](format_refusal(name, more))
        if word != "retry":
            return word
        # Jitter keeps replicas from colliding again; it is no secret.
        await asyncio.sleep(random.uniform(0, 0.002 * min(tries + 1, 20)))  # noqa: S311
    raise record.Contention(record.Contention.__doc__)
