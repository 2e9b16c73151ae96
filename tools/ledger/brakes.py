"""Limits on changes until a human has looked. The Lua scripts enforce them at the claim."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

STOP_BRAKE = "stop"
BREAKER_PREFIX = "breaker:"


@dataclass(frozen=True, slots=True)
class Brakes:
    """Limits. Shares are of a group's size, rounded down, with a floor.

    blast_hosts, blast_seconds: distinct hosts that one incident may change in that time, so a wrong diagnosis stops.
    at_once: share of a group under change at the same time, at least one host. `unknown` actions count.
    window, window_seconds: share of a group changed in that time by all incidents, at least three hosts.
    beat_seconds: silence of a holder until others adopt its action.

    One host beyond the window trips the group's breaker until a human resets it: that many changes have a common cause.
    With clocks further apart than `beat_seconds` a living holder looks dead; its action may then end as never begun,
    but cannot run twice.
    """

    blast_hosts: int = 4
    blast_seconds: int = 3600
    at_once: float = 0.05
    window: float = 0.10
    window_seconds: int = 600
    beat_seconds: int = 30

    def get_max_at_once(self, group_size: int) -> int:
        return max(1, int(self.at_once * group_size))

    def get_max_in_window(self, group_size: int) -> int:
        """Return the distinct hosts that may change before the breaker trips."""
        return max(3, int(self.window * group_size))


@dataclass(frozen=True, slots=True)
class BrakeStatus:
    """The brakes now. `stopped_by` is empty while the kill switch is off; `breakers`: groups with an open one."""

    stopped_by: str
    why: str
    breakers: tuple[str, ...]
    executing: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def stopped(self) -> str:
        return f"{self.stopped_by}: {self.why}" if self.stopped_by else ""


@dataclass(frozen=True, slots=True)
class BrakesInForce:
    """The kill switch and open breakers (`pulled`) and the approvals whose claims lock hosts, as stored in Redis.

    Each audit entry signs their digest; a mismatch with the newest entry means a foreign change.
    """

    pulled: frozenset[str] = frozenset()
    claims: frozenset[str] = frozenset()

    @classmethod
    def from_stored(cls, brakes: Iterable[str], claims: Iterable[str]) -> "BrakesInForce":
        pulled = frozenset(name for name in brakes if name == STOP_BRAKE or name.startswith(BREAKER_PREFIX))
        return cls(pulled, frozenset(claims))

    @property
    def digest(self) -> str:
        """The first 128 bits of a SHA-256 over the length-prefixed names."""
        names = [*sorted(self.pulled), "", *sorted(self.claims)]
        return hashlib.sha256("".join(f"{len(name)}:{name}" for name in names).encode()).hexdigest()[:32]

    def with_switch(self, brake: str, *, pulled: bool) -> "BrakesInForce":
        return replace(self, pulled=self.pulled | {brake} if pulled else self.pulled - {brake})

    def with_claim(self, approval: str) -> "BrakesInForce":
        return replace(self, claims=self.claims | {approval})

    def without_claim(self, approval: str) -> "BrakesInForce":
        return replace(self, claims=self.claims - {approval})


@dataclass(frozen=True, slots=True)
class BrakeUsage:
    """Hosts that count against each brake, and until when."""

    blast: Mapping[str, datetime]  # changed by the incident
    window: Mapping[str, datetime]  # changed in the group by any incident
    busy: frozenset[str]  # under change in the group now, until the action ends
