"""Render closed incidents with the same cause, device or host; "none found" differs from "could not look"."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

from graph.closed_incidents import ClosedIncident, ClosedIncidentMatches, ClosedIncidentQuery
from graph.incident.answers.answer_context import (
    AnswerContext,
    resolve_target_hosts,
)
from graph.report import ClosedIncidentLink
from graph.state import Origin
from tools.inventory.host_ranges import fold_host_names

MAX_SHOWN_INCIDENTS = 5
# bounds of one query
MAX_QUERY_HOSTS = 32
MAX_QUERY_DEVICES = 32
MAX_QUERY_LABELS = 8
# how it ended
CLOSURE_TEXTS: Final = {
    "cured": "proved twice",
    "passed": "passed its proof once",
    "in_part": "proved for part of it alone",
    "in_vain": "what ran is not proved to have helped",
    "person": "closed by a person, nothing of mine ran",
    "well": "nothing was broken",
    "quiet": "no further message, and none of my fixes ran",
}


class IncidentProximity(StrEnum):
    """How close a closed incident is to this one."""

    DEVICE = "same device"
    HOST = "same host"
    CAUSE = "elsewhere"
    OTHER = "another cause"


def build_query(context: AnswerContext) -> ClosedIncidentQuery:
    """Build the query from what the message names, else from the findings."""
    query_hosts = resolve_target_hosts(context)
    hosts = query_hosts.hosts if query_hosts.named or context.faulty_hosts else context.incident.brief.hosts
    roots = context.root_causes
    devices = [name for cause in roots for name in cause.devices if name.partition("/")[0] in hosts]
    labels = context.message.labels or tuple(cause.label for cause in roots)
    reader = context.incident.origin or Origin()
    visible = context.incident.visible
    return ClosedIncidentQuery(
        context.incident.id, reader, visible, hosts[:MAX_QUERY_HOSTS], tuple(devices[:MAX_QUERY_DEVICES]), labels[:MAX_QUERY_LABELS]
    )


def classify_proximity(incident: ClosedIncident, query: ClosedIncidentQuery) -> IncidentProximity:
    """Return the closest proximity."""
    same_causes = [cause for cause in incident.causes if cause.label in query.labels]
    if any(set(cause.devices) & set(query.devices) for cause in same_causes):
        return IncidentProximity.DEVICE
    if any(set(cause.hosts) & set(query.hosts) for cause in same_causes):
        return IncidentProximity.HOST
    return IncidentProximity.CAUSE if same_causes else IncidentProximity.OTHER


def render_matches(
    context: AnswerContext, query: ClosedIncidentQuery, matches: ClosedIncidentMatches
) -> tuple[list[str], tuple[ClosedIncidentLink, ...]]:
    """Return the answer's lines, and the incidents they mention."""
    if matches.could_not:
        return [f"I could not look for earlier incidents: {matches.could_not}."], ()
    if not (query.hosts or query.labels):
        return ["Name a host, and I look for its earlier incidents; nothing is found here yet."], ()
    matched_incidents = [(classify_proximity(incident, query), incident) for incident in matches.found]
    shown_incidents = sorted(matched_incidents, key=lambda pair: pair[0] is IncidentProximity.OTHER)[:MAX_SHOWN_INCIDENTS]
    lines = [
        *_render_headings(context, query, matched_incidents, cut=matches.cut),
        *(f"• {_render_incident(context, proximity, incident, query)}" for proximity, incident in shown_incidents),
    ]
    if len(matched_incidents) > MAX_SHOWN_INCIDENTS:
        lines.append(f"… and {len(matched_incidents) - MAX_SHOWN_INCIDENTS} more.")
    return [*lines, _render_retention(matches.since)], tuple(
        ClosedIncidentLink(incident=incident.incident, opened=incident.opened) for _, incident in shown_incidents
    )


def _render_headings(
    context: AnswerContext, query: ClosedIncidentQuery, matched_incidents: Sequence[tuple[IncidentProximity, ClosedIncident]], *, cut: bool
) -> list[str]:
    same_incidents = [incident for proximity, incident in matched_incidents if proximity is not IncidentProximity.OTHER]
    other_incidents = [incident for proximity, incident in matched_incidents if proximity is IncidentProximity.OTHER]
    cause_titles = " or ".join(context.get_title(label) for label in query.labels[:2])
    heads = []
    if same_incidents:
        counts_by_proximity = [
            (proximity, sum(row_proximity is proximity for row_proximity, _ in matched_incidents))
            for proximity in (IncidentProximity.DEVICE, IncidentProximity.HOST, IncidentProximity.CAUSE)
        ]
        parts = ", ".join(
            f"{count} {'on the ' if proximity is not IncidentProximity.CAUSE else ''}{proximity}"
            for proximity, count in counts_by_proximity
            if count
        )
        least = "at least " if cut else ""
        has_close_match = not context.message.hosts or any(
            proximity in (IncidentProximity.DEVICE, IncidentProximity.HOST) for proximity, _ in matched_incidents
        )
        yes = "Yes: " if context.message.predicate == "happened" and has_close_match else ""
        heads.append(
            f"{yes}{cause_titles} {least}{format_times(len(same_incidents))} since {min(incident.opened for incident in same_incidents):%Y-%m-%d} ({parts})."
        )
    elif query.labels:
        heads.append(f"None of the closed incidents that I keep was {cause_titles}.")
    host_names = fold_host_names(query.hosts)
    if other_incidents:
        least = "at least " if cut else ""
        heads.append(
            f"{host_names} had {'something else' if query.labels else 'an incident'} {least}{format_times(len(other_incidents))} before."
        )
    elif query.hosts and not query.labels:
        heads.append(f"None of the closed incidents that I keep was about {host_names}.")
    return heads


def _render_incident(context: AnswerContext, proximity: IncidentProximity, incident: ClosedIncident, query: ClosedIncidentQuery) -> str:
    """Return `2026-11-02 gpu-003 (same device): GPU fell off the bus; gpu reset, proved twice`."""
    causes = [cause for cause in incident.causes if cause.label in query.labels] or list(incident.causes)
    hosts = [host for cause in causes for host in cause.hosts] or list(incident.hosts)
    cause_titles = " and ".join(dict.fromkeys(context.get_title(cause.label) for cause in causes[:2])) or "no cause found"
    host_suffix = f" {fold_host_names(dict.fromkeys(hosts))}" if hosts else ""
    did = f"{' and '.join(incident.did[:2]).replace('_', ' ')}, " if incident.did else ""
    return f"{incident.opened:%Y-%m-%d}{host_suffix} ({proximity}): {cause_titles}; {did}{CLOSURE_TEXTS[incident.ended]}"


def _render_retention(since: datetime | None) -> str:
    if since is None:
        return "Closed incidents that may be told here: none is kept yet."
    return f"What is kept reaches back to {since:%Y-%m-%d}."


def format_times(count: int) -> str:
    """Return `once` or `3 times`."""
    return "once" if count == 1 else f"{count} times"
