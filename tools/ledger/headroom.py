"""How many more hosts the brakes let change now, for each group and incident."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tools.ledger.brakes import Brakes
from tools.ledger.reader import LedgerReader

MAX_INCIDENTS = 50


@dataclass(frozen=True, slots=True)
class GroupHeadroom:
    """Hosts under change and changed within the window, each with its limit."""

    group: str
    busy: int
    at_once: int
    changed: int
    window: int


@dataclass(frozen=True, slots=True)
class IncidentHeadroom:
    """Hosts changed within the blast window; `again` is when the first stops counting."""

    incident: str
    changed: int
    again: datetime


@dataclass(frozen=True, slots=True)
class BrakeHeadroom:
    """Headroom of groups and incidents."""

    brakes: Brakes
    groups: tuple[GroupHeadroom, ...] = ()  # groups with hosts, busiest first
    incidents: tuple[IncidentHeadroom, ...] = ()  # incidents that have changed hosts


async def compute_headroom(ledger: LedgerReader, groups: Mapping[str, Sequence[str]], incidents: Sequence[str]) -> BrakeHeadroom:
    """Compute as the ledger counts, for at most MAX_INCIDENTS incidents."""
    group_headrooms = [await _compute_group_headroom(ledger, group, len(hosts)) for group, hosts in groups.items() if hosts]
    used = [await _compute_incident_headroom(ledger, incident) for incident in incidents[:MAX_INCIDENTS]]
    return BrakeHeadroom(
        ledger.brakes,
        tuple(sorted(group_headrooms, key=lambda headroom: (-headroom.changed, -headroom.busy, headroom.group))),
        tuple(filter(None, used)),
    )


async def _compute_group_headroom(ledger: LedgerReader, group: str, size: int) -> GroupHeadroom:
    used, brakes = await ledger.get_brake_usage("", group), ledger.brakes
    return GroupHeadroom(group, len(used.busy), brakes.get_max_at_once(size), len(used.window), brakes.get_max_in_window(size))


async def _compute_incident_headroom(ledger: LedgerReader, incident: str) -> IncidentHeadroom | None:
    blast = (await ledger.get_brake_usage(incident, "")).blast
    return IncidentHeadroom(incident, len(blast), min(blast.values())) if blast else None
