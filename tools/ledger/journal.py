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
from enum import StrEnum
from typing import Any, cast

from redis.asyncio import Redis

from tools.action import Action
from tools.clock import Clock
from tools.ledger import audit, refusals
from tools.ledger.brakes import STOP_BRAKE, BrakesInForce
from tools.ledger.record import list_targets
from tools.ledger.redis_replies import decode_text, decode_texts, translate_redis_errors
from tools.ledger.refusals import Refused
from tools.ledger.scripts import SCRIPTS
from tools.ledger.seal import Seal, parse_time, to_milliseconds
from tools.ledger.states import State

MAX_ATTEMPTS = 200
MAX_CLOCK_SKEW = timedelta(minutes=10)

REFUSAL_TYPES: Mapping[str, type[Refused]] = {
    "not_open": refusals.NotOpen,
    "tampered": refusals.TamperedRecord,
    "late": refusals.TooLate,
    "already": refusals.AlreadyVoted,
    "replayed": refusals.ReplayedClick,
    "stopped": refusals.KillSwitchOn,
    "breaker": refusals.BreakerOpen,
    "busy": refusals.TargetBusy,
    "blast": refusals.BlastRadiusExceeded,
    "fleet": refusals.FleetLimitExceeded,
    "lost": refusals.LostClaim,
}
REFUSAL_DETAILS: Mapping[str, str] = {"not_open": "It is {}.", "busy": "Held by {}.", "stopped": "Stopped by {}"}


EPOCH = datetime.fromtimestamp(0, UTC)
UNSIGNED_ENTRY_TEXT = (
    "The newest entry of the audit log is not signed with our key: it was altered, or the key was rotated and this process still has the old one"
    " (restart it with the new one)."
)


class ClockChoice(StrEnum):
    """Which clock a head is read with. ANY never fails on time: a brake must work on a machine with a wrong clock."""

    LATER = "later"  # of our clock and the ledger's
    ANY = "any"
    OURS = "ours"


class ChainRewound(Exception):
    """The chain lacks an entry that this process saw before. The ledger then stops everything."""


@dataclass(frozen=True, slots=True)
class JournalHead:
    """The newest signature, the current time and the brakes.

    `altered` is True if the stored brakes are not those that the newest entry signs.
    """

    signature: str
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
    """Append to the audit log through the scripts.

    `anchor` receives each new chain length and head; `seen` is the last pair that an earlier process received.
    """

    def __init__(
        self, redis: Redis, seal: Seal, clock: Clock, anchor: Callable[[int, str], None], prefix: str, seen: tuple[int, str] = (0, "")
    ) -> None:
        self._redis = redis
        self._seal = seal
        self._clock = clock
        self._anchor = anchor
        self._prefix = prefix
        self._scripts = {name: redis.register_script(text) for name, text in SCRIPTS.items()}
        self._seen = seen

    async def read_head(self, clock: ClockChoice = ClockChoice.LATER, *, after_older: bool = False) -> JournalHead:
        """Read the current head.

        Raises ChainRewound once when the chain lost its end, ClockBehind when our clock is too far behind.
        `after_older` accepts an entry signed with an earlier key, for rotation.
        """
        length, seen_signature = self._seen
        async with translate_redis_errors():
            pipe = self._redis.pipeline(transaction=True)
            pipe.get(f"{self._prefix}head")
            pipe.get(f"{self._prefix}clock")
            pipe.llen(f"{self._prefix}audit")
            pipe.lindex(f"{self._prefix}audit", length - 1)
            pipe.lrange(f"{self._prefix}audit", -2, -1)
            pipe.hkeys(f"{self._prefix}brakes")
            pipe.smembers(f"{self._prefix}held")
            *head_values, pulled_brakes, held_approvals = await pipe.execute(raise_on_error=False)
            for value in head_values:
                if isinstance(value, Exception):
                    raise value
            head, stored_clock, current_length, last_seen_entry, newest = head_values
        if length and decode_text(last_seen_entry).partition(" ")[0] != seen_signature:
            self._seen = (0, "")
            raise ChainRewound(f"Redis went back in time: entry {length} of the audit log is gone or another one")
        self._remember_head(int(current_length), decode_text(head))
        own_time = self._clock.now()
        unread = isinstance(pulled_brakes, Exception) or isinstance(held_approvals, Exception)
        brakes = BrakesInForce() if unread else BrakesInForce.from_stored(decode_texts(pulled_brakes), decode_texts(held_approvals))
        signed_digest = audit.get_brakes_digest(decode_text(newest[-1]).partition(" ")[2]) if newest else ""
        altered = unread or signed_digest not in ("", brakes.digest)
        if clock is ClockChoice.OURS:
            return JournalHead(decode_text(head), own_time, brakes, altered)
        try:
            ledger_time = max(
                parse_ledger_clock(decode_text(stored_clock)),
                self._get_newest_entry_time(decode_text(head), decode_texts(newest), after_older),
            )
        except (refusals.TamperedRecord, refusals.KeyChanging):
            if clock is not ClockChoice.ANY:
                raise
            ledger_time = own_time
        if ledger_time - own_time > MAX_CLOCK_SKEW and clock is not ClockChoice.ANY:
            raise refusals.ClockBehind(f"{refusals.ClockBehind.message} (here {own_time:%F %T}, there {ledger_time:%F %T} UTC)")
        return JournalHead(decode_text(head), max(own_time, ledger_time), brakes, altered)

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
            raise refusals.TamperedRecord(f"{refusals.TamperedRecord.message} {UNSIGNED_ENTRY_TEXT}")
        if key != self._seal.current and not after_older:
            raise refusals.KeyChanging
        at = audit.get_entry_time(line)
        if at is None:
            raise refusals.TamperedRecord(f"{refusals.TamperedRecord.message} (the newest entry of the audit log says no time)")
        return at

    def _remember_head(self, length: int, head: str) -> None:
        if length > self._seen[0]:
            self._seen = (length, head)

    async def run_script(self, script: str, head: JournalHead, parts: KeyParts, line: str, *arguments: Any) -> str:
        """Run a script once. `line` is "" for unaudited scripts."""
        line = line and audit.add_brakes_digest(line, _compute_brakes_digest(script, head, parts.approval, arguments))
        next_signature = audit.compute_next_head(self._seal, head.signature, line) if line else ""
        entry = f"{next_signature} {line}"
        fixed = (self._prefix, head.signature, entry, next_signature, to_milliseconds(head.now), parts.approval, secrets.token_hex(12))
        async with translate_redis_errors():
            argv = [*fixed, parts.targets, parts.group, parts.incident, *arguments]
            word = decode_text(await cast(Any, self._scripts[script](keys=[], args=argv)))
        if line and word.startswith("ok "):
            length = int(word.split()[1])
            self._remember_head(length, next_signature)
            self._anchor(length, next_signature)
        return word


def _compute_brakes_digest(script: str, head: JournalHead, approval: str, arguments: Sequence[Any]) -> str:
    """Return the digest of the brakes after this script.

    After a foreign change it stays ALTERED_BRAKES until a human resumes.
    """
    resumes = script == "switch" and arguments[0] == STOP_BRAKE and not arguments[1]
    return audit.ALTERED_BRAKES if head.altered and not resumes else _compute_brakes_after(script, head.brakes, approval, arguments).digest


def _compute_brakes_after(script: str, brakes: BrakesInForce, approval: str, arguments: Sequence[Any]) -> BrakesInForce:
    """Return the brakes after success, which requires the head with which they were read."""
    match script, *arguments:
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
    """Return the text of a refusal that a script named."""
    detail = f" {REFUSAL_DETAILS[name].format(more)}" if more and name in REFUSAL_DETAILS else ""
    return f"{REFUSAL_TYPES[name].message}{detail}"


def parse_ledger_clock(stored: str) -> datetime:
    """Parse the stored high-water mark. Raises TamperedRecord if it is not a time."""
    try:
        return parse_time(stored) or EPOCH
    except ValueError as error:
        raise refusals.TamperedRecord(f"{refusals.TamperedRecord.message} (the ledger's clock: {error})") from error


async def retry_until_settled(attempt: Callable[[], Awaitable[str]]) -> str:
    """Repeat `attempt` while it answers `retry`. Raises the named refusal; returns other answers."""
    for tries in range(MAX_ATTEMPTS):
        word = await attempt()
        name, _, more = word.partition(" ")
        if name in REFUSAL_TYPES:
            raise REFUSAL_TYPES[name](format_refusal(name, more))
        if word != "retry":
            return word
        # Jitter keeps replicas from colliding again; it need not be unpredictable.
        await asyncio.sleep(random.uniform(0, 0.002 * min(tries + 1, 20)))  # noqa: S311
    raise refusals.Contention
