"""A diagnosis as JSON for scripts. A changed shape raises SCHEMA_VERSION."""

from typing import TYPE_CHECKING, Any

from graph.extraction.uploaded_files import format_file_read
from graph.incident_view import IncidentView
from graph.report import Report
from graph.state import Hypothesis, IncidentState

if TYPE_CHECKING:
    pass


SCHEMA_VERSION = 1
ACTION_FIELDS = {"label", "rung", "remedy", "target", "via", "args", "argv", "command", "risk", "digest"}


def build_diagnosis_document(state: IncidentState, report: Report) -> dict[str, Any]:
    """Return what `rackmedic diagnose --json` prints."""
    rows = IncidentView(state)
    ticket = rows.ticket
    return {
        "schema": SCHEMA_VERSION,
        "incident": rows.id,
        "outcome": report.outcome,
        "headline": report.headline,
        "root_causes": [_build_cause_row(cause) for cause in report.root_causes],
        "about": report.about.model_dump(mode="json") if report.about else None,
        "also_seen": list(report.also_seen),
        "ruled_out": [{"label": row.label, "because": row.because} for row in report.ruled_out],
        "could_not_look": [row.model_dump() for row in report.could_not_look],
        "unknown_hosts": [{"name": unknown_host.name, "nearest": list(unknown_host.nearest)} for unknown_host in report.unknown_hosts],
        "read_as": dict(report.read_as),
        "files": [file.model_dump(mode="json", exclude={"line"}) | {"says": format_file_read(file)} for file in report.files],
        "questions": list(report.questions),
        "likely": report.likely.model_dump(mode="json") if report.likely else None,
        "outside": report.outside,
        "ideas": [idea.model_dump(mode="json") for idea in report.ideas],
        "doubts": list(report.doubts),
        "guide": report.guide.model_dump(mode="json") if report.guide else None,
        "actions": [action.model_dump(include=ACTION_FIELDS) for action in report.actions],
        "ticket": {"summary": ticket.summary, "owner": ticket.owner} if ticket else None,
        "without_model": report.without_model,
        "stats": rows.stats.model_dump(),
    }


def _build_cause_row(cause: Hypothesis) -> dict[str, Any]:
    return {
        "label": cause.label,
        "hosts": list(cause.hosts),
        "devices": list(cause.devices),
        "confidence": round(cause.confidence, 4),
        "evidence": [
            {
                "host": evidence_row.host,
                "check": evidence_row.check,
                "line": evidence_row.line,
                "time": evidence_row.time.isoformat() if evidence_row.time else None,
                "sha256": evidence_row.sha256,
            }
            for evidence_row in cause.evidence
        ],
    }
