"""Index an incident when it is closed, and remove it from the index when it is opened again."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from bot.store.closed_incident_index import ClosedIncidentIndex
from graph.closed_incidents import ClosedIncident, ClosedIncidentCause, ClosureOutcome
from graph.incident.lifecycle import is_all_cured
from graph.incident_view import IncidentView
from graph.report import Report
from graph.state import ABSTAIN, NO_FAULT, IncidentState, Remediation
from tools.clock import Clock

MAX_HOSTS = 64  # of one incident; also bounds its devices


def build_closed_incident(state: IncidentState, now: datetime) -> ClosedIncident | None:
    """Return the entry of a closed incident. Return None if the incident is open or has no origin."""
    view = IncidentView(state)
    if view.lifecycle != "closed" or view.origin is None:
        return None
    fixes = [remediation for remediation in view.remediations if not any(step.remedy == "run_check" for step in remediation.rungs)]
    return ClosedIncident(
        incident=view.id,
        origin=view.origin,
        opened=view.opened_at or now,
        closed=now,
        ended=_classify_ending(view, fixes),
        causes=_list_causes(view),
        hosts=view.brief.hosts[:MAX_HOSTS],
        did=tuple(dict.fromkeys(remedy for fix in fixes for remedy in _list_proven_remedies(fix))),
    )


def _list_causes(incident_view: IncidentView) -> tuple[ClosedIncidentCause, ...]:
    """Return the causes. A cause that a person named replaces those of the report.

    Its hosts are those of the matching cause of the report, or else the hosts that were reported.
    """
    ticket, correction, report = incident_view.ticket, incident_view.correction, incident_view.report
    label = (ticket.true_label if ticket else "") or (correction.label if correction else "")
    denied_labels = correction.denied if correction else ()
    causes = [cause for cause in _list_report_causes(report) if cause.label not in denied_labels]
    if label == NO_FAULT:
        return ()
    if label in ("", ABSTAIN):
        return tuple(causes)
    matching = tuple(cause for cause in causes if cause.label == label or cause.label.startswith(f"{label}."))
    return matching or (ClosedIncidentCause(label=label, hosts=incident_view.brief.hosts[:MAX_HOSTS]),)


def _list_report_causes(report: Report | None) -> list[ClosedIncidentCause]:
    if report is None:
        return []
    tenant_labels = {cause.label for cause in report.tenant_root_causes}
    return [
        ClosedIncidentCause(
            label=cause.label,
            hosts=cause.hosts[:MAX_HOSTS],
            devices=cause.devices[:MAX_HOSTS],
            inside=cause.label not in tenant_labels,
        )
        for cause in report.root_causes
    ]


def _classify_ending(incident_view: IncidentView, fixes: Sequence[Remediation]) -> ClosureOutcome:
    if proven := {(fix.label, fix.target) for fix in fixes if fix.proven}:
        if not proven.issuperset(_iterate_cause_hosts(incident_view)):
            return "in_part"
        return "cured" if is_all_cured(fixes) else "passed"
    if any(fix.since for fix in fixes):
        return "in_vain"
    ticket, report = incident_view.ticket, incident_view.report
    label = ticket.true_label if ticket else ""
    if label == NO_FAULT or (not label and report is not None and report.outcome == "no_fault"):
        return "well"
    was_requested = incident_view.item.kind in ("close", "ask")  # `ask`: any message in the thread
    return "person" if was_requested or (ticket is not None and ticket.closed_by) else "quiet"


def _iterate_cause_hosts(incident_view: IncidentView) -> Iterator[tuple[str, str]]:
    """Yield each cause with each of its hosts. The host of a cause without hosts is empty."""
    for cause in _list_causes(incident_view):
        yield from ((cause.label, host) for host in cause.hosts or ("",))


def _list_proven_remedies(remediation: Remediation) -> list[str]:
    if not remediation.proven:
        return []
    return [step.remedy for step in remediation.rungs[: remediation.rung + 1] if step.part == "fix" and step.plan == remediation.tried]


async def update_closed_incident(index: ClosedIncidentIndex, clock: Clock, incident: str, state: IncidentState, report: Report) -> None:
    """Index the incident if it is closed, else remove it. Only the holder of the incident's lease calls this."""
    if (closed_incident := build_closed_incident(state, clock.now())) is not None:
        await index.save_incident(closed_incident)
    else:
        await index.remove_incident(incident)
