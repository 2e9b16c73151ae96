"""The only place that reads and writes an incident's stored rows: plain JSON in, typed rows out, and back."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from graph.report import Report
from graph.state import (
    Exploration,
    HandoffTicket,
    HumanCorrection,
    Hypothesis,
    InboxItem,
    IncidentBrief,
    IncidentCosts,
    IncidentState,
    Lifecycle,
    LogDigest,
    Milestone,
    Origin,
    Remediation,
    ScheduledRecheck,
    TenantSilence,
    Tier,
)
from tools.action import FaultCondition


@dataclass(frozen=True)
class IncidentView:
    """Typed view of a stored incident.

    Rows are parsed on first use, so an outdated row that is never read breaks nothing. Missing rows read as None or
    defaults.
    """

    stored: IncidentState

    @property
    def id(self) -> str:
        return self.stored.get("id", "")

    @cached_property
    def item(self) -> InboxItem:
        """The inbox item of the latest turn. Raises KeyError before the first turn."""
        return InboxItem.model_validate(self.stored["item"])

    @cached_property
    def origin(self) -> Origin | None:
        row = self.stored.get("origin")
        return Origin.model_validate(row) if row else None

    @cached_property
    def brief(self) -> IncidentBrief:
        return IncidentBrief.model_validate(self.stored.get("brief") or {})

    @cached_property
    def logs(self) -> tuple[LogDigest, ...]:
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
        """Waves of checks that `plan` chose in the latest turn."""
        return self.stored.get("rounds", 0)

    @property
    def done_items(self) -> Sequence[str]:
        return self.stored.get("done_items", [])

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        """{user, text, at, attachments}."""
        return self.stored.get("said", [])

    @cached_property
    def hypotheses(self) -> tuple[Hypothesis, ...]:
        return tuple(Hypothesis.model_validate(row) for row in self.stored.get("hypotheses", []))

    @cached_property
    def exploration(self) -> Exploration:
        """The model's ideas beyond the taxonomy."""
        return Exploration.model_validate(self.stored.get("explored") or {})

    @property
    def search_steps(self) -> list[tuple[str, str, str]]:
        """(path, what was done, why)."""
        return [(str(path), str(did), str(reason)) for path, did, reason in (self.stored.get("walk") or {}).get("log", ())]

    @cached_property
    def report(self) -> Report | None:
        row = self.stored.get("report")
        return Report.model_validate(row) if row else None

    @cached_property
    def remediations(self) -> list[Remediation]:
        return parse_remediations(self.stored.get("ladders", []))

    @cached_property
    def ticket(self) -> HandoffTicket | None:
        row = self.stored.get("ticket")
        return HandoffTicket.model_validate(row) if row else None

    @property
    def owner(self) -> str:
        """Who took the incident or was assigned; empty without one."""
        return self.stored.get("owner", "")

    @property
    def is_stopped(self) -> bool:
        """Stopped, and nothing checked since."""
        return self.stored.get("stopped", False)

    @property
    def quiet_until(self) -> datetime | None:
        """Until when only a mention is answered."""
        text = self.stored.get("quiet_until")
        return datetime.fromisoformat(text) if text else None

    @property
    def reminders_from(self) -> datetime | None:
        """Until when no reminder is sent, because of a pause or a snooze."""
        snoozed = self.stored.get("snoozed_until")
        ends = [end for end in (self.quiet_until, datetime.fromisoformat(snoozed) if snoozed else None) if end]
        return max(ends, default=None)

    @cached_property
    def tenant_silence(self) -> TenantSilence:
        return TenantSilence.model_validate(self.stored.get("silence") or {})

    @cached_property
    def scheduled_recheck(self) -> ScheduledRecheck:
        return ScheduledRecheck.model_validate(self.stored.get("second_look") or {})

    @property
    def is_timer_recheck(self) -> bool:
        return self.item.kind == "timer" and (self.stored.get("turn") or {}).get("kind") == "recheck"

    def is_muted(self, now: datetime) -> bool:
        """Return whether reminders and repeated proposals wait."""
        return self.reminders_from is not None and self.reminders_from > now

    @cached_property
    def correction(self) -> HumanCorrection | None:
        """The cause that people named instead of the diagnosis."""
        row = self.stored.get("correction")
        return HumanCorrection.model_validate(row) if row else None

    @cached_property
    def milestones(self) -> tuple[Milestone, ...]:
        return tuple(Milestone.from_row(row) for row in self.stored.get("milestones", []))

    @cached_property
    def stats(self) -> IncidentCosts:
        return IncidentCosts.model_validate(self.stored.get("stats") or {})


def parse_remediations(rows: Sequence[Mapping[str, Any]]) -> list[Remediation]:
    return [_parse_remediation(row) for row in rows]


def _parse_remediation(row: Mapping[str, Any]) -> Remediation:
    if not row.get("fault"):
        return Remediation.model_validate(row)
    defaults = {"label": row["label"], "host": row["target"], "devices": row.get("devices", [])}
    return Remediation.model_validate({**row, "fault": {**defaults, **row["fault"]}})


def serialize_remediations(remediations: Iterable[Remediation]) -> list[dict[str, object]]:
    """Omit defaults and what a fault repeats of its remediation, to keep the state small."""
    return [_serialize_remediation(remediation) for remediation in remediations]


def _serialize_remediation(remediation: Remediation) -> dict[str, Any]:
    row: dict[str, Any] = remediation.model_dump(mode="json", exclude_defaults=True)
    if remediation.fault is not None:
        usual = asdict(FaultCondition("", "", "")) | {
            "label": remediation.label,
            "host": remediation.target,
            "devices": remediation.devices,
        }
        fault_values = {name: value for name, value in asdict(remediation.fault).items() if value != usual[name]}
        row["fault"] = {name: list(value) if isinstance(value, tuple) else value for name, value in fault_values.items()}
    return row


def serialize_hypotheses(causes: Iterable[Hypothesis]) -> list[dict[str, Any]]:
    """Omit evidence, which the report has."""
    return [cause.model_dump(mode="json", exclude={"evidence", "checks"}, exclude_defaults=True) for cause in causes]
