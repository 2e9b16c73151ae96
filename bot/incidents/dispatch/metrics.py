"""Metrics of an incident that outlive it, computed from its turns."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from graph.incident_view import IncidentView
from graph.state import ABSTAIN, NO_FAULT, DiagnosisOutcome, HumanCorrection, IncidentState

MAX_LATEST_COMMENTS = 10
UNLISTED_CAUSE = "UNLISTED"  # a true cause that no label names


@dataclass(frozen=True, slots=True)
class IncidentMetrics:
    """Seconds since the opening; None for what has not happened."""

    opened: datetime
    outcome: DiagnosisOutcome | Literal[""] = ""
    labels: tuple[str, ...] = ()
    diagnosed: float | None = None  # first time that a cause, or the absence of a fault, was proven
    recovered: float | None = None  # when every remediation was proven, or a person closed it with a mended cause
    truth: str = ""  # label that a person closed or corrected it with
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Feedback:
    """A later one of the same person about the same incident replaces it."""

    incident: str
    user: str
    useful: bool
    at: datetime
    reason: str = ""  # of `bot.incidents.cards.feedback.REASONS`; empty where useful
    words: str = ""
    labels: tuple[str, ...] = ()  # the diagnosis


@dataclass(frozen=True, slots=True)
class MetricsSummary:
    """Durations are in seconds."""

    incidents: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, "LabelMetrics"] = field(default_factory=dict)
    to_diagnosis: Sequence[float] = ()
    to_recovery: Sequence[float] = ()
    checked: int = 0  # incidents with a true cause, or none, by a person's word
    right: int = 0  # of these, correctly diagnosed
    up: int = 0
    down: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    latest: tuple[Feedback, ...] = ()  # comments, newest first


@dataclass(frozen=True, slots=True)
class LabelMetrics:
    """How often a label was diagnosed, and how often people confirmed it."""

    diagnosed: int = 0
    checked: int = 0
    right: int = 0
    up: int = 0
    down: int = 0


def update_metrics(state: IncidentState, metrics: IncidentMetrics | None, now: datetime) -> IncidentMetrics:
    rows = IncidentView(state)
    was = metrics or IncidentMetrics(rows.opened_at or now)
    seconds = max(0.0, round((now - was.opened).total_seconds(), 3))
    report, ticket = rows.report, rows.ticket
    found_now = tuple(dict.fromkeys(cause.label for cause in report.root_causes)) if report else ()
    outcome = report.outcome if report and report.outcome != "handed_off" else was.outcome
    found = outcome in ("diagnosed", "no_fault")
    truth = (ticket.true_label if ticket else "") or _get_corrected_label(rows.correction)
    over = rows.lifecycle == "watching" or (rows.lifecycle == "closed" and truth not in ("", NO_FAULT, ABSTAIN))
    return replace(
        was,
        outcome=outcome,
        labels=found_now or (was.labels if outcome == "no_fault" else ()),
        diagnosed=was.diagnosed if was.diagnosed is not None or not found else seconds,
        recovered=was.recovered if was.recovered is not None or not over else seconds,
        truth=truth or was.truth,
        closed=rows.lifecycle == "closed",
    )


def _get_corrected_label(correction: HumanCorrection | None) -> str:
    """Return the label of a correction; `UNLISTED_CAUSE` where people denied the diagnosis and named a cause in their own words."""
    if correction is None or correction.label:
        return correction.label if correction else ""
    return UNLISTED_CAUSE if correction.words and correction.denied else ""


def summarize_metrics(courses: Iterable[IncidentMetrics], feedback: Iterable[Feedback]) -> MetricsSummary:
    rows, said = list(courses), _keep_latest_feedback(feedback)
    known = [row for row in rows if row.truth not in ("", ABSTAIN)]
    labels = sorted({label for row in rows for label in row.labels} | {label for one in said for label in one.labels})
    return MetricsSummary(
        incidents=len(rows),
        outcomes=_count_by_name(row.outcome for row in rows if row.outcome),
        labels={label: _summarize_label(label, rows, said) for label in labels},
        to_diagnosis=sorted(row.diagnosed for row in rows if row.diagnosed is not None),
        to_recovery=sorted(row.recovered for row in rows if row.recovered is not None),
        checked=len(known),
        right=sum(_is_correctly_diagnosed(row) for row in known),
        up=sum(one.useful for one in said),
        down=sum(not one.useful for one in said),
        reasons=_count_by_name(one.reason for one in said if one.reason),
        latest=tuple(sorted((one for one in said if one.words), key=lambda one: one.at, reverse=True)[:MAX_LATEST_COMMENTS]),
    )


def _keep_latest_feedback(feedback: Iterable[Feedback]) -> list[Feedback]:
    return list({(one.incident, one.user): one for one in sorted(feedback, key=lambda one: one.at)}.values())


def _is_correctly_diagnosed(metrics: IncidentMetrics) -> bool:
    return (
        metrics.outcome == "no_fault"
        if metrics.truth == NO_FAULT
        else any(_is_label_or_descendant(label, metrics.truth) for label in metrics.labels)
    )


def _is_label_or_descendant(label: str, truth: str) -> bool:
    """People may name a branch of the taxonomy."""
    return label == truth or label.startswith(f"{truth}.")


def _summarize_label(label: str, metrics_list: Sequence[IncidentMetrics], feedback: Sequence[Feedback]) -> LabelMetrics:
    mine = [row for row in metrics_list if label in row.labels]
    known = [row for row in mine if row.truth not in ("", ABSTAIN)]
    votes = [one.useful for one in feedback if label in one.labels]
    return LabelMetrics(
        len(mine), len(known), sum(_is_label_or_descendant(label, row.truth) for row in known), sum(votes), votes.count(False)
    )


def _count_by_name(names: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in names:
        found[name] = found.get(name, 0) + 1
    return dict(sorted(found.items(), key=lambda row: (-row[1], row[0])))


def percentile(sorted_values: Sequence[float], share: float) -> float | None:
    """Return the nearest-rank percentile; None without values."""
    if not sorted_values:
        return None
    return sorted_values[max(0, -(-int(share * 100) * len(sorted_values) // 100) - 1)]
