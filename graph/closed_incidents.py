"""Incidents that are closed, as rows to search: what it was, where, what was done, how it ended; and what may be told of them. Pure."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from graph.state import Origin, StoredModel

ClosureOutcome = Literal["cured", "passed", "in_part", "in_vain", "person", "well", "quiet"]
"""`cured`: proved twice; `passed`: proved once; `in_part`: proved, and not for every cause on every host; `in_vain`: a remedy ran and nothing
proves that it helped; `person`: closed by one, and nothing of ours had run; `well`: nothing was broken; `quiet`: nobody said anything more."""

DisclosureLevel = Literal["whole", "own_hosts", "nothing"]
"""What a place may hear of an incident of another one: all of it, only what concerns hosts that it may speak of itself, or nothing."""


class ClosedIncidentCause(StoredModel):
    """What it was, and where."""

    label: str
    hosts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    inside: bool = False
    """Nothing that its customer may be told showed it."""


class ClosedIncident(StoredModel):
    """One closed incident. Causes are those of a person's word where there is one; `hosts` are those that were reported."""

    incident: str
    origin: Origin
    opened: datetime
    closed: datetime
    ended: ClosureOutcome
    causes: tuple[ClosedIncidentCause, ...] = ()
    hosts: tuple[str, ...] = ()
    did: tuple[str, ...] = ()
    """Remedies after which the proof passed."""

    @property
    def all_hosts(self) -> tuple[str, ...]:
        """Every host that it was about."""
        return tuple(dict.fromkeys((*(host for cause in self.causes for host in cause.hosts), *self.hosts)))

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cause.label for cause in self.causes))

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for cause in self.causes for name in cause.devices))


@dataclass(frozen=True, slots=True)
class ClosedIncidentQuery:
    """What is looked for, and where it will be read: incidents on any of the hosts or devices, or with any of the causes."""

    incident: str
    """The one that asks, which is not its own past."""
    reader: Origin
    visible: tuple[str, ...]
    """Hosts that the place may speak of."""
    hosts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClosedIncidentMatches:
    """Newest first. `since`: what is kept reaches back to then; None where nothing is kept. `build_unobserved_answer`: why nobody could look."""

    found: tuple[ClosedIncident, ...] = ()
    since: datetime | None = None
    could_not: str = ""
    cut: bool = False
    """There are more than were read."""


def limit_closed_incident(row: ClosedIncident, heard: DisclosureLevel, visible: Collection[str]) -> ClosedIncident | None:
    """The row as a place may hear of it; None where that is nothing."""
    if heard != "own_hosts":
        return row if heard == "whole" else None
    own = [_limit_cause_to_hosts(cause, visible) for cause in row.causes if set(cause.hosts) & set(visible)]
    hosts = tuple(host for host in row.hosts if host in visible)
    return row.model_copy(update={"causes": tuple(own), "hosts": hosts}) if own or (hosts and not row.causes) else None


def _limit_cause_to_hosts(cause: ClosedIncidentCause, visible: Collection[str]) -> ClosedIncidentCause:
    hosts = tuple(host for host in cause.hosts if host in visible)
    return cause.model_copy(update={"hosts": hosts, "devices": tuple(name for name in cause.devices if name.partition("/")[0] in hosts)})
