"""Index a closed incident after its last turn; remove a reopened one."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from bot.store.closed_incidents import ClosedIncidentIndex
from graph.closed_incidents import ClosedIncident, ClosedIncidentCause, ClosureOutcome
from graph.incident.lifecycle import is_all_cured
from graph.incident_view import IncidentView
from graph.report import Report
from graph.state import ABSTAIN, NO_FAULT, IncidentState, Remediation
from tools.clock import Clock

MAX_HOSTS = 64  # of one incident; also bounds its devices


def build_closed_incident(state: IncidentState, now: datetime) -> ClosedIncident | None:
    """Return the row of a closed incident; None while it is open or without an origin."""
    rows = IncidentView(state)
    if rows.lifecycle != "closed" or rows.origin is None:
        return None
    fixes = [row for row in rows.remediations if not any(step.remedy == "run_check" for step in row.rungs)]
    return ClosedIncident(
        incident=rows.id,
        origin=rows.origin,
        opened=rows.opened_at or now,
        closed=now,
        ended=_classify_ending(rows, fixes),
        causes=_list_causes(rows),
        hosts=rows.brief.hosts[:MAX_HOSTS],
        did=tuple(dict.fromkeys(remedy for row in fixes for remedy in _list_proven_remedies(row))),
    )


def _list_causes(incident_view: IncidentView) -> tuple[ClosedIncidentCause, ...]:
    """Return the causes. A person's label overrides the report's; its hosts come from the matching cause, else from the
    brief.
    """
    word = (incident_view.ticket.true_label if incident_view.ticket else "") or (
        incident_view.correction.label if incident_view.correction else ""
    )
    denied = incident_view.correction.denied if incident_view.correction else ()
    told = {row.label for row in incident_view.report.tenant_root_causes} if incident_view.report else set()
    found = [
        ClosedIncidentCause(label=row.label, hosts=row.hosts[:MAX_HOSTS], devices=row.devices[:MAX_HOSTS], inside=row.label not in told)
        for row in (incident_view.report.root_causes if incident_view.report else ())
        if row.label not in denied
    ]
    if word in (NO_FAULT, ABSTAIN) or not word:
        return () if word == NO_FAULT else tuple(found)
    same = tuple(row for row in found if row.label == word or row.label.startswith(f"{word}."))
    return same or (ClosedIncidentCause(label=word, hosts=incident_view.brief.hosts[:MAX_HOSTS]),)


def _classify_ending(incident_view: IncidentView, fixes: Sequence[Remediation]) -> ClosureOutcome:
    if proven := {(row.label, row.target) for row in fixes if row.proven}:
        if any(place not in proven for place in _iterate_cause_hosts(incident_view)):
            return "in_part"
        return "cured" if is_all_cured(fixes) else "passed"
    if any(row.since for row in fixes):
        return "in_vain"
    word = incident_view.ticket.true_label if incident_view.ticket else ""
    if word == NO_FAULT or (not word and incident_view.report is not None and incident_view.report.outcome == "no_fault"):
        return "well"
    in_words = incident_view.item.kind in ("close", "ask")  # `ask`: any message in the thread
    return "person" if in_words or (incident_view.ticket is not None and incident_view.ticket.closed_by) else "quiet"


def _iterate_cause_hosts(incident_view: IncidentView) -> Iterator[tuple[str, str]]:
    for cause in _list_causes(incident_view):
        yield from ((cause.label, host) for host in cause.hosts or ("",))


def _list_proven_remedies(remediation: Remediation) -> list[str]:
    if not remediation.proven:
        return []
    return [step.remedy for step in remediation.rungs[: remediation.rung + 1] if step.part == "fix" and step.plan == remediation.tried]


async def update_closed_incident(index: ClosedIncidentIndex, clock: Clock, incident: str, state: IncidentState, report: Report) -> None:
    """Index the incident once it is closed, and remove it while it is not: a row has one writer, the lease's holder."""
    if (row := build_closed_incident(state, clock.now())) is not None:
        await index.save_incident(row)
    else:
        await index.remove_incident(incident)
