"""How much the brakes leave at this moment: of each group of hosts, and of each incident that has used up some of its hour."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tools.ledger.brakes import Brakes
from tools.ledger.reader import LedgerReader

MAX_INCIDENTS = 50


@dataclass(frozen=True, slots=True)
class GroupHeadroom:
    """Hosts of one group: under change now, and changed within the window, each with the most that may be."""

    group: str
    busy: int
    at_once: int
    changed: int
    window: int


@dataclass(frozen=True, slots=True)
class IncidentHeadroom:
    """Hosts that one incident has changed within its hour, and when the first of them counts no more."""

    incident: str
    changed: int
    again: datetime


@dataclass(frozen=True, slots=True)
class BrakeHeadroom:
    """What is left."""

    brakes: Brakes
    groups: tuple[GroupHeadroom, ...] = ()
    """Those with hosts, the busiest first."""
    incidents: tuple[IncidentHeadroom, ...] = ()
    """Those that have used some."""


async def compute_headroom(book: LedgerReader, groups: Mapping[str, Sequence[str]], incidents: Sequence[str]) -> BrakeHeadroom:
    """As the ledger would count it. Of a great many incidents, the oldest."""
    rows = [await _compute_group_headroom(book, group, len(hosts)) for group, hosts in groups.items() if hosts]
    used = [await _compute_incident_headroom(book, incident) for incident in incidents[:MAX_INCIDENTS]]
    return BrakeHeadroom(book.brakes, tuple(sorted(rows, key=lambda row: (-row.changed, -row.busy, row.group))), tuple(filter(None, used)))


async def _compute_group_headroom(book: LedgerReader, group: str, size: int) -> GroupHeadroom:
    used, brakes = await book.get_brake_usage("", group), book.brakes
    return GroupHeadroom(group, len(used.busy), brakes.get_max_at_once(size), len(used.window), brakes.get_max_in_window(size))


async def _compute_incident_headroom(book: LedgerReader, incident: str) -> IncidentHeadroom | None:
    blast = (await book.get_brake_usage(incident, "")).blast
    return IncidentHeadroom(incident, len(blast), min(blast.values())) if blast else None
