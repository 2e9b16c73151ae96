"""What the last node changes in the incident: built by a diagnosis or an answer, then extended by remediations."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from graph.incident.context import TurnState
from graph.incident_view import serialize_hypotheses, serialize_remediations
from graph.report import Report
from graph.state import HandoffTicket, HumanCorrection, Hypothesis, Lifecycle, Remediation


@dataclass(frozen=True, slots=True)
class TurnResult:
    """The report and all other changes; None keeps the stored value."""

    report: Report
    lifecycle: Lifecycle | None = None
    turn: TurnState | None = None
    hypotheses: Sequence[Hypothesis] | None = None  # set by a diagnosis only
    ticket: HandoffTicket | None = None
    ladders: Sequence[Remediation] | None = None
    owner: str | None = None
    quiet_until: datetime | None = None
    snoozed_until: datetime | None = None
    stopped: bool | None = None
    correction: HumanCorrection | None = None

    def to_state_update(self) -> dict[str, Any]:
        """Return plain JSON without unchanged rows."""
        rows: dict[str, Any] = {
            "report": self.report.model_dump(mode="json", exclude_defaults=True),
            "lifecycle": self.lifecycle,
            "turn": None if self.turn is None else self.turn.to_json(),
            "hypotheses": None if self.hypotheses is None else serialize_hypotheses(self.hypotheses),
            "ticket": None if self.ticket is None else self.ticket.model_dump(mode="json"),
            "ladders": None if self.ladders is None else serialize_remediations(self.ladders),
            "owner": self.owner,
            "stopped": self.stopped,
            "quiet_until": None if self.quiet_until is None else self.quiet_until.isoformat(),
            "snoozed_until": None if self.snoozed_until is None else self.snoozed_until.isoformat(),
            "correction": None if self.correction is None else self.correction.model_dump(mode="json", exclude_defaults=True),
        }
        return {name: row for name, row in rows.items() if row is not None}
