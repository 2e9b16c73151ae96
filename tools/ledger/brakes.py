"""How much may be changed before somebody has to look. The numbers are the site's; the scripts enforce them at the claim."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

STOP_BRAKE, BREAKER_PREFIX = "stop", "breaker:"


@dataclass(frozen=True, slots=True)
class Brakes:
    """Shares are of a group's size, rounded down, and never less than the floor named beside them.

    blast_hosts, blast_seconds: distinct hosts that one incident may change within that time. A wrong diagnosis stops at four hosts.
    at_once: share of a group under change at the same moment, at least one host. `unknown` counts: nobody knows that it is over.
    window, window_seconds: share of a group changed within that time, by all incidents together, at least three hosts.
      One more trips the group's breaker, which stays open until a human resets it: so many at once is a cause, not bad luck.
    beat_seconds: how long a holder may be silent before others find out what became of its action. Clocks of replicas that differ by
      more make a living holder look dead: its action may then end as never begun, but it cannot run twice.
    """

    blast_hosts: int = 4
    blast_seconds: int = 3600
    at_once: float = 0.05
    window: float = 0.10
    window_seconds: int = 600
    beat_seconds: int = 30

    def get_max_at_once(self, group_size: int) -> int:
        """Hosts of a group that may be under change at the same time."""
        return max(1, int(self.at_once * group_size))

    def get_max_in_window(self, group_size: int) -> int:
        """Distinct hosts of a group that may be changed within the window before the breaker trips."""
        return max(3, int(self.window * group_size))


@dataclass(frozen=True, slots=True)
class BrakeStatus:
    """The brakes as they stand. `stopped_by` is empty while the kill switch is off; `breakers` are the groups whose breaker is open."""

    stopped_by: str
    why: str
    breakers: tuple[str, ...]
    executing: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def stopped(self) -> str:
        """Who stopped and why, in one line; empty while nothing is stopped."""
        return f"{self.stopped_by}: {self.why}" if self.stopped_by else ""


@dataclass(frozen=True, slots=True)
class BrakesInForce:
    """What keeps claims back, as Redis has it: the kill switch and the open breakers, and the approvals that hold their hosts.

    Each entry of the audit log signs the digest of what is in force after it. What does not agree with the newest entry was not changed by us."""

    pulled: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()

    @classmethod
    def from_stored(cls, brakes: Iterable[str], held: Iterable[str]) -> "BrakesInForce":
        """From the fields of the stored brakes and the stored set of holders."""
        return cls(frozenset(name for name in brakes if name == STOP_BRAKE or name.startswith(BREAKER_PREFIX)), frozenset(held))

    @property
    def digest(self) -> str:
        """128 bits over all of it, names by their lengths."""
        names = [*sorted(self.pulled), "", *sorted(self.held)]
        return hashlib.sha256("".join(f"{len(name)}:{name}" for name in names).encode()).hexdigest()[:32]

    def with_switch(self, brake: str, *, pulled: bool) -> "BrakesInForce":
        """With one brake pulled or released."""
        return replace(self, pulled=self.pulled | {brake} if pulled else self.pulled - {brake})

    def with_claim(self, approval: str) -> "BrakesInForce":
        """With one more action that holds its hosts."""
        return replace(self, held=self.held | {approval})

    def without_claim(self, approval: str) -> "BrakesInForce":
        """Once an action has let its hosts go."""
        return replace(self, held=self.held - {approval})


@dataclass(frozen=True, slots=True)
class BrakeUsage:
    """What of the brakes is used up: the hosts that count against each, and until when (`busy`: until their action is over)."""

    blast: Mapping[str, datetime]
    """Changed by the incident."""
    window: Mapping[str, datetime]
    """Changed in the group, by whichever incident."""
    busy: frozenset[str]
    """Under change in the group now."""
