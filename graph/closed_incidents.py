"""Searchable rows of closed incidents, and how much of a row another place may see."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from graph.state import Origin, StoredModel

# `cured`: proved twice; `passed`: proved once; `in_part`: proved, but not for every cause on every host; `in_vain`: a
# remedy ran without proof that it helped; `person`: closed by a person, and no remedy had run; `well`: nothing was
# broken; `quiet`: closed after silence.
ClosureOutcome = Literal["cured", "passed", "in_part", "in_vain", "person", "well", "quiet"]

# What a place may see of another place's incident: all, only what concerns its own hosts, or nothing.
DisclosureLevel = Literal["whole", "own_hosts", "nothing"]


class ClosedIncidentCause(StoredModel):
    """What it was, and where."""

    label: str
    hosts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    inside: bool = False  # The evidence that the tenant may see does not show this cause.


class ClosedIncident(StoredModel):
    """One closed incident. Causes are those of a person's word where there is one; `hosts` are those that were reported."""

    incident: str
    origin: Origin
    opened: datetime
    closed: datetime
    ended: ClosureOutcome
    causes: tuple[ClosedIncidentCause, ...] = ()
    hosts: tuple[str, ...] = ()
    did: tuple[str, ...] = ()  # Remedies after which the proof passed.

    @property
    def all_hosts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*(host for cause in self.causes for host in cause.hosts), *self.hosts)))

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cause.label for cause in self.causes))

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for cause in self.causes for name in cause.devices))


@dataclass(frozen=True, slots=True)
class ClosedIncidentQuery:
    """A search by hosts, devices or causes, and the place that reads the answer."""

    incident: str  # The asking incident, which is excluded from its own past.
    reader: Origin
    visible: tuple[str, ...]  # Hosts that the reading place may see.
    hosts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClosedIncidentMatches:
    """Closed incidents found, newest first."""

    found: tuple[ClosedIncident, ...] = ()
    since: datetime | None = None  # Start of the retained history; None where none is kept.
    could_not: str = ""  # Why no search was possible; empty after a search.
    cut: bool = False  # More rows match than were read.


def limit_closed_incident(incident: ClosedIncident, disclosure: DisclosureLevel, visible: Collection[str]) -> ClosedIncident | None:
    """Return the row as far as a place may see it, or None."""
    if disclosure != "own_hosts":
        return incident if disclosure == "whole" else None
    own_causes = [_limit_cause_to_hosts(cause, visible) for cause in incident.causes if set(cause.hosts) & set(visible)]
    hosts = tuple(host for host in incident.hosts if host in visible)
    return (
        incident.model_copy(update={"causes": tuple(own_causes), "hosts": hosts}) if own_causes or (hosts and not incident.causes) else None
    )


def _limit_cause_to_hosts(cause: ClosedIncidentCause, visible: Collection[str]) -> ClosedIncidentCause:
    hosts = tuple(host for host in cause.hosts if host in visible)
    return cause.model_copy(update={"hosts": hosts, "devices": tuple(name for name in cause.devices if name.partition("/")[0] in hosts)})
