"""Everything that an incident's page is made of, read by somebody else. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from bot.desk.course import Course
from bot.postmortem.page import Figure
from graph.rows import IncidentRows
from tools.ledger.history import ActionHistory
from tools.ledger.record import Record, requesters_of

OURS = "rackmedic"


@dataclass(frozen=True, slots=True)
class IncidentMaterial:
    """`records` is None where the ledger could not be read. `names`: a user's id → what people call them. `unread`: what could not be read and
    why, in sentences."""

    rows: IncidentRows
    made: datetime
    records: tuple[Record, ...] | None = ()
    history: ActionHistory = field(default_factory=ActionHistory)
    course: Course | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    """What labels are called."""
    figures: tuple[Figure, ...] = ()
    unread: tuple[str, ...] = ()

    def name(self, who: str) -> str:
        """What people call a user (`U…`, `TEAM:U…`); RackMedic by its own."""
        if who.lower() in ("", OURS):
            return "RackMedic"
        user = who.rpartition(":")[2]
        return self.names.get(user) or user


def own_words(row: Record) -> bool:
    """Whether a person ended it, and `says` is theirs."""
    return bool(row.ended_by) and ":" in row.ended_by


def people_of(rows: IncidentRows, records: tuple[Record, ...]) -> set[str]:
    """The user ids of those who had a hand in it."""
    return {user.rpartition(":")[2] for user in _users(rows, records) if user and user != OURS}


def _users(rows: IncidentRows, records: tuple[Record, ...]) -> Iterator[str]:
    ticket, word, origin = rows.ticket, rows.correction, rows.origin
    yield from (rows.owner, origin.user if origin else "", word.by if word else "")
    yield from (ticket.taken_by, ticket.closed_by) if ticket else ()
    yield from (str(said.get("user") or "") for said in rows.said)
    for row in records:
        yield from (vote.voter for vote in row.votes)
        yield from requesters_of(row.action)
        yield row.ended_by if ":" in row.ended_by else ""
