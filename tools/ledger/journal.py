"""Running the scripts: which audit head and which moment they build on, and what their answers mean.

Time never runs backwards here: every reader takes the later of its own clock and the high-water mark of all. And a journal remembers
how far the audit chain had come: a Redis that suddenly holds less went back in time. Each entry signs which brakes are in force after it, so
that a brake released in Redis by anybody else shows.
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
from tools.ledger.brakes import STOP, BrakesInForce
from tools.ledger.reach import text_of, texts_of, within_reach
from tools.ledger.record import Refused, targets_of
from tools.ledger.scripts import SCRIPTS
from tools.ledger.seal import Seal, milliseconds, moment
from tools.ledger.states import State

ATTEMPTS = 200
MOST_SKEW = timedelta(minutes=10)
Whose = Literal["the later", "whatever", "ours"]

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
DETAILS: Mapping[str, str] = {"not_open": "It is {}.", "busy": "Held by {}.", "stopped": "Stopped by {}"}


LONG_AGO = datetime.fromtimestamp(0, UTC)
UNSIGNED = (
    "The newest entry of the audit log is not signed with our key: it was altered, or the key was rotated and this process still has the old one"
    " (restart it with the new one)."
)


class Rewound(Exception):
    """The chain does not contain what this process saw in it before. For the ledger, which stops everything."""


@dataclass(frozen=True, slots=True)
class JournalHead:
    """Where the journal stands: the head to build on and the moment that counts. `altered`: the stored brakes are not those that the newest
    entry signs."""

    head: str
    now: datetime
    brakes: BrakesInForce
    altered: bool

    @property
    def at(self) -> str:
        """The moment, as audit lines write it."""
        return self.now.isoformat()


@dataclass(frozen=True, slots=True)
class KeyParts:
    """What a script works on, from verified records: the ids and names in its keys."""

    approval: str
    targets: str = ""
    group: str = ""
    incident: str = ""


def key_parts(action: Action, group: str) -> KeyParts:
    """What the keys of an action's record are made of."""
    return KeyParts(action.approval, " ".join(targets_of(action)), group, action.incident)


class Journal:
    """`anchor` gets every new audit head and the chain's length with it; `seen` is the last that was kept so, from before this process."""

    def __init__(
        self, redis: Redis, seal: Seal, clock: Clock, anchor: Callable[[int, str], None], prefix: str, seen: tuple[int, str] = (0, "")
    ) -> None:
        self._redis, self._seal, self._clock, self._anchor, self._prefix = redis, seal, clock, anchor, prefix
        self._scripts = {name: redis.register_script(text) for name, text in SCRIPTS.items()}
        self._seen = seen

    async def look(self, clock: Whose = "the later", *, after_older: bool = False) -> JournalHead:
        """Where things stand now, by the later of our clock and the high-water mark. Rewound, once, when the chain lost its end;
        ClockSkew when our clock cannot be trusted (`whatever`: never; a brake must work on any machine). `ours`: our clock alone.
        `after_older`: also where the newest entry is signed with an earlier key, for whoever changes it."""
        length, seen_head = self._seen
        async with within_reach():
            pipe = self._redis.pipeline(transaction=True)
            pipe.get(f"{self._prefix}head")
            pipe.get(f"{self._prefix}clock")
            pipe.llen(f"{self._prefix}audit")
            pipe.lindex(f"{self._prefix}audit", length - 1)
            pipe.lrange(f"{self._prefix}audit", -2, -1)
            pipe.hkeys(f"{self._prefix}brakes")
            pipe.smembers(f"{self._prefix}held")
            *said, pulled, held = await pipe.execute(raise_on_error=False)
            for trouble in said:
                if isinstance(trouble, Exception):
                    raise trouble
            head, high, now_length, row, newest = said
        if length and text_of(row).partition(" ")[0] != seen_head:
            self._seen = (0, "")
            raise Rewound(f"Redis went back in time: entry {length} of the audit log is gone or another one")
        self._saw(int(now_length), text_of(head))
        own = self._clock.now()
        unread = isinstance(pulled, Exception) or isinstance(held, Exception)
        brakes = BrakesInForce() if unread else BrakesInForce.of(texts_of(pulled), texts_of(held))
        signed = audit.brakes_of(text_of(newest[-1]).partition(" ")[2]) if newest else ""
        altered = unread or signed not in ("", brakes.digest)
        if clock == "ours":
            return JournalHead(text_of(head), own, brakes, altered)
        try:
            mark = max(clock_of(text_of(high)), self._written(text_of(head), texts_of(newest), after_older))
        except (record.Tampered, record.KeyChanging):
            if clock != "whatever":
                raise
            mark = own
        if mark - own > MOST_SKEW and clock != "whatever":
            raise record.ClockSkew(f"{record.ClockSkew.__doc__} (here {own:%F %T}, there {mark:%F %T} UTC)")
        return JournalHead(text_of(head), max(own, mark), brakes, altered)

    def _written(self, head: str, newest: Sequence[str], after_older: bool) -> datetime:
        """The moment of the newest entry, which signs it: whoever sets the stored clock back cannot set this one back with it.
        Tampered where the entry is not signed with a key of ours, KeyChanging where it is with an earlier one."""
        if not newest and not head:
            return LONG_AGO
        before = newest[0].partition(" ")[0] if len(newest) > 1 else ""
        said, _, line = newest[-1].partition(" ") if newest else ("", "", "")
        key = audit.signer(self._seal, before, line, said)
        if said != head or not key:
            raise record.Tampered(f"{record.Tampered.__doc__} {UNSIGNED}")
        if key != self._seal.current and not after_older:
            raise record.KeyChanging(record.KeyChanging.__doc__)
        at = audit.moment_of(line)
        if at is None:
            raise record.Tampered(f"{record.Tampered.__doc__} (the newest entry of the audit log says no time)")
        return at

    def _saw(self, length: int, head: str) -> None:
        if length > self._seen[0]:
            self._seen = (length, head)

    async def run(self, script: str, look: JournalHead, parts: KeyParts, line: str, *rest: Any) -> str:
        """One attempt. `line` is the audit line, empty for what is not audited."""
        line = line and audit.with_brakes(line, _signed_brakes(script, look, parts.approval, rest))
        head = audit.next_head(self._seal, look.head, line) if line else ""
        fixed = (self._prefix, look.head, f"{head} {line}", head, milliseconds(look.now), parts.approval, secrets.token_hex(12))
        async with within_reach():
            args = [*fixed, parts.targets, parts.group, parts.incident, *rest]
            word = text_of(await cast(Any, self._scripts[script](keys=[], args=args)))
        if line and word.startswith("ok "):
            length = int(word.split()[1])
            self._saw(length, head)
            self._anchor(length, head)
        return word


def _signed_brakes(script: str, look: JournalHead, approval: str, rest: Sequence[Any]) -> str:
    """What an entry says of the brakes. Brakes that somebody else changed stay so until a human resumes: no other entry signs them as ours."""
    resumes = script == "switch" and rest[0] == STOP and not rest[1]
    return audit.ALTERED if look.altered and not resumes else _in_force_after(script, look.brakes, approval, rest).digest


def _in_force_after(script: str, brakes: BrakesInForce, approval: str, rest: Sequence[Any]) -> BrakesInForce:
    """The brakes as they are once a script has succeeded. The script succeeds only on the head that they were read with."""
    match script, *rest:
        case "claim", *_:
            return brakes.claimed(approval)
        case "finish", _, becomes, *_ if becomes != State.UNKNOWN.value:
            return brakes.released(approval)
        case "reconcile", *_:
            return brakes.released(approval)
        case "switch", brake, value, *_:
            return brakes.switched(brake, pulled=bool(value))
        case _:
            return brakes


def in_words(name: str, more: str = "") -> str:
    """What a refusal by this name says."""
    detail = f" {DETAILS[name].format(more)}" if more and name in DETAILS else ""
    return f"{REFUSALS[name].__doc__}{detail}"


def clock_of(stored: str) -> datetime:
    """The stored high-water mark. Tampered where it is no moment."""
    try:
        return moment(stored) or LONG_AGO
    except ValueError as why:
        raise record.Tampered(f"{record.Tampered.__doc__} (the ledger's clock: {why})") from why


async def insist(attempt: Callable[[], Awaitable[str]]) -> str:
    """Attempt until nothing moved in between. Raises the refusal that the answer names; any other answer is for the caller."""
    for tries in range(ATTEMPTS):
        word = await attempt()
        name, _, more = word.partition(" ")
        if name in REFUSALS:
            raise REFUSALS[name](in_words(name, more))
        if word != "retry":
            return word
        # Jitter keeps replicas from meeting again; it is no secret.
        await asyncio.sleep(random.uniform(0, 0.002 * min(tries + 1, 20)))  # noqa: S311
    raise record.Crowded(record.Crowded.__doc__)
