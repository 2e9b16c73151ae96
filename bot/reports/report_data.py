"""Data of an incident's page."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from bot.incidents.dispatch.metrics import IncidentMetrics
from bot.reports.page import Figure
from graph.incident_view import IncidentView
from tools.ledger.action_history import ActionHistory
from tools.ledger.record import ActionRecord, list_requesters

BOT_USER = "rackmedic"


@dataclass(frozen=True, slots=True)
class IncidentReportData:
    """`records` is None if the ledger was unreadable. `names`: user id → display name. `unread`: notes on missing data."""

    incident: IncidentView
    made: datetime
    records: tuple[ActionRecord, ...] | None = ()
    history: ActionHistory = field(default_factory=ActionHistory)
    course: IncidentMetrics | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)  # label → title
    figures: tuple[Figure, ...] = ()
    unread: tuple[str, ...] = ()

    def get_person_name(self, who: str) -> str:
        """Return the display name of `U…` or `TEAM:U…`."""
        if who.lower() in ("", BOT_USER):
            return "RackMedic"
        user = who.rpartition(":")[2]
        return self.names.get(user) or user


def is_ended_by_person(record: ActionRecord) -> bool:
    """Return True if a person ended it; `says` is then the reason."""
    return bool(record.ended_by) and ":" in record.ended_by


def list_people(incident_view: IncidentView, records: tuple[ActionRecord, ...]) -> set[str]:
    return {user.rpartition(":")[2] for user in _list_users(incident_view, records) if user and user != BOT_USER}


def _list_users(incident_view: IncidentView, records: tuple[ActionRecord, ...]) -> Iterator[str]:
    ticket, word, origin = incident_view.ticket, incident_view.correction, incident_view.origin
    yield from (incident_view.owner, origin.user if origin else "", word.by if word else "")
    yield from (ticket.taken_by, ticket.closed_by) if ticket else ()
    yield from (str(message.get("user") or "") for message in incident_view.messages)
    for record in records:
        yield from (vote.voter for vote in record.votes)
        yield from list_requesters(record.action)
        yield record.ended_by if ":" in record.ended_by else ""
