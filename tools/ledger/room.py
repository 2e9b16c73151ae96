"""How much the brakes leave at this moment: of each group of hosts, and of each incident that has used up some of its hour."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tools.ledger.book import Book
from tools.ledger.brakes import Brakes

MOST_INCIDENTS = 50


@dataclass(frozen=True, slots=True)
class GroupRoom:
    """Hosts of one group: under change now, and changed within the window, each with the most that may be."""

    group: str
    busy: int
    at_once: int
    changed: int
    window: int


@dataclass(frozen=True, slots=True)
class IncidentRoom:
    """Hosts that one incident has changed within its hour, and when the first of them counts no more."""

    incident: str
    changed: int
    again: datetime


@dataclass(frozen=True, slots=True)
class Room:
    """What is left."""

    brakes: Brakes
    groups: tuple[GroupRoom, ...] = ()
    """Those with hosts, the busiest first."""
    incidents: tuple[IncidentRoom, ...] = ()
    """Those that have used some."""


async def room_of(book: Book, groups: Mapping[str, Sequence[str]], incidents: Sequence[str]) -> Room:
    """As the ledger would count it. Of a great many incidents, the oldest."""
    rows = [await _of_group(book, group, len(hosts)) for group, hosts in groups.items() if hosts]
    used = [await _of_incident(book, incident) for incident in incidents[:MOST_INCIDENTS]]
    return Room(book.brakes, tuple(sorted(rows, key=lambda row: (-row.changed, -row.busy, row.group))), tuple(filter(None, used)))


async def _of_group(book: Book, group: str, size: int) -> GroupRoom:
    used, brakes = await book.used("", group), book.brakes
    return GroupRoom(group, len(used.busy), brakes.at_once_of(size), len(used.window), brakes.window_of(size))


async def _of_incident(book: Book, incident: str) -> IncidentRoom | None:
    blast = (await book.used(incident, "")).blast
    return IncidentRoom(incident, len(blast), min(blast.values())) if blast else None
