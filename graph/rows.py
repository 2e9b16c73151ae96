"""An incident's stored rows, each read here and nowhere else: plain JSON in, typed rows out, and back. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from graph.state import Brief, Hypothesis, Incident, Item, Ladder, Lifecycle, LogDigest, Origin, Report, Stats, Ticket, Tier


@dataclass(frozen=True)
class IncidentRows:
    """The rows of a stored incident. Each is read when it is first wanted, so that a row of long ago that nobody needs any more stops
    nothing; what is not stored reads as None or as its row's defaults.
    """

    stored: Incident

    @property
    def id(self) -> str:
        return self.stored.get("id", "")

    @cached_property
    def item(self) -> Item:
        """The inbox item that its latest turn answers. KeyError before the first turn."""
        return Item.model_validate(self.stored["item"])

    @cached_property
    def origin(self) -> Origin | None:
        row = self.stored.get("origin")
        return Origin.model_validate(row) if row else None

    @cached_property
    def brief(self) -> Brief:
        return Brief.model_validate(self.stored.get("brief") or {})

    @cached_property
    def logs(self) -> tuple[LogDigest, ...]:
        """Long logs that were handed in."""
        return tuple(LogDigest.model_validate(row) for row in self.stored.get("logs", []))

    @cached_property
    def opened_at(self) -> datetime | None:
        text = self.stored.get("opened_at")
        return datetime.fromisoformat(text) if text else None

    @property
    def lifecycle(self) -> Lifecycle:
        return self.stored.get("lifecycle", "open")

    @property
    def tier(self) -> Tier:
        return self.stored.get("tier", "taxonomy")

    @property
    def rounds(self) -> int:
        """Waves that `plan` chose in the latest turn."""
        return self.stored.get("rounds", 0)

    @property
    def done_items(self) -> Sequence[str]:
        return self.stored.get("done_items", [])

    @property
    def said(self) -> Sequence[Mapping[str, Any]]:
        """What people said: {user, text, at, attachments}."""
        return self.stored.get("said", [])

    @cached_property
    def hypotheses(self) -> tuple[Hypothesis, ...]:
        """As they were judged last."""
        return tuple(Hypothesis.model_validate(row) for row in self.stored.get("hypotheses", []))

    @cached_property
    def report(self) -> Report | None:
        """What was reported last."""
        row = self.stored.get("report")
        return Report.model_validate(row) if row else None

    @cached_property
    def ladders(self) -> list[Ladder]:
        return read_ladders(self.stored.get("ladders", []))

    @cached_property
    def ticket(self) -> Ticket | None:
        row = self.stored.get("ticket")
        return Ticket.model_validate(row) if row else None

    @cached_property
    def stats(self) -> Stats:
        """What the incident has cost so far."""
        return Stats.model_validate(self.stored.get("stats") or {})


def read_ladders(rows: Sequence[Mapping[str, object]]) -> list[Ladder]:
    """As stored → as rows."""
    return [Ladder.model_validate(row) for row in rows]


def write_ladders(ladders: Iterable[Ladder]) -> list[dict[str, object]]:
    """Plain JSON, defaults left out."""
    return [ladder.model_dump(mode="json", exclude_defaults=True) for ladder in ladders]


def write_hypotheses(rows: Iterable[Hypothesis]) -> list[dict[str, Any]]:
    """As the state holds them: the evidence is in the report."""
    return [row.model_dump(mode="json", exclude={"evidence", "checks"}, exclude_defaults=True) for row in rows]
