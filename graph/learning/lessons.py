"""Lessons from closed incidents: draft them, and recall those that resemble an incident. They prove nothing. Pure."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from graph.context import SimilarIncident
from graph.incident_view import IncidentView
from graph.ownership import FILE_READING_CHECKS
from graph.report import MatchedLesson, Report
from graph.state import ABSTAIN, NO_FAULT, TENANT_SIDE, Conjecture, Evidence, Hypothesis, IncidentState
from kb.history.lessons import MAX_NAME_CHARS, MAX_SYMPTOMS, MAX_TEXT_CHARS, MAX_TITLE_CHARS, Lesson, shorten_text
from kb.history.text_search import extract_terms
from tools.inventory.host_ranges import BadRange, expand_host_range

# Draft a lesson from a closed incident: symptoms, cause, deciding check, resolution, misleading causes.

HostTenantsLookup = Callable[[Iterable[str]], frozenset[str]]  # Hosts → tenants that own any of them; empty for none.
# Scheduler node name → its tenant, "" without one; None for an unknown node.
NodeTenantLookup = Callable[[str], str | None]
_HOST_NAME_PATTERN = re.compile(r"[\w.\-]+(?:\[[\d,\-]{1,200}\])?")
_HOST_PLACEHOLDER = "a host"
_WORD_PATTERN = re.compile(r"[A-Za-z0-9]+")
MIN_SUPPORT_SHARE = 0.5  # Share of a person's words that an idea must contain to match
MAX_LABEL_WORDS = 5  # words of a new label


def draft_lesson(
    state: IncidentState,
    now: datetime,
    leaves: Collection[str],
    tenants_of: HostTenantsLookup,
    tenant_of_node: NodeTenantLookup | None = None,
) -> Lesson | None:
    """Return the lesson; None while open, without a fault, or where neither a person nor a cure names the cause.

    `tenant_of_node` is given where the site has tenants: a lesson from a file of unknown owner is then for operators
    only.
    """
    incident = IncidentView(state)
    if incident.lifecycle != "closed" or incident.origin is None:
        return None
    label, stated_cause = _find_leaf_below(incident, get_established_cause(incident)), _get_stated_cause(incident)
    if label == NO_FAULT or not (label in leaves or stated_cause):
        return None
    causes = [row for row in (incident.report.root_causes if incident.report else ()) if row.label == label]
    hosts = {*incident.brief.hosts, *(host for row in causes for host in row.hosts)}
    owner_tenants = {*tenants_of(hosts), *filter(None, (incident.origin.tenant,))}
    masked_text = _mask_hosts(incident.brief.text, hosts)
    proposed_label, proposed_title = ("", "") if label in leaves else find_new_cause(incident.exploration.ideas, stated_cause, leaves)
    return Lesson(
        id=f"les-{incident.id.removeprefix('inc-')}",
        title=shorten_text(masked_text.partition("\n")[0] or stated_cause or label, MAX_TITLE_CHARS),
        description=shorten_text(masked_text, MAX_TEXT_CHARS),
        symptoms=_cut_names(incident.brief.symptoms),
        signatures=_cut_names(_mask_hosts(one, hosts) for one in incident.brief.signatures),
        label=label if label in leaves else "",
        new_cause=proposed_label,
        new_title=shorten_text(_mask_hosts(proposed_title, hosts), MAX_TITLE_CHARS),
        root_cause=shorten_text(_mask_hosts(stated_cause or (causes[0].because if causes else ""), hosts), MAX_TEXT_CHARS),
        deciding_check=_find_deciding_check(causes),
        resolution=shorten_text(_format_resolution(incident), MAX_TEXT_CHARS),
        misled=_cut_names(_list_misleading_causes(incident, label)),
        tenant=next(iter(owner_tenants)) if len(owner_tenants) == 1 else "",
        inside=len(owner_tenants) > 1
        or (tenant_of_node is not None and _is_operator_only(incident, causes, next(iter(owner_tenants), ""), tenant_of_node)),
        incident=incident.id,
        on=now.date(),
    )


def _is_operator_only(incident_view: IncidentView, found: Iterable[Hypothesis], whose: str, tenant_of_node: NodeTenantLookup) -> bool:
    if incident_view.report is not None and incident_view.report.crossing is not None:
        return True
    return any(_is_foreign_evidence(row, whose, tenant_of_node) for cause in found for row in cause.evidence)


def _is_foreign_evidence(row: Evidence, whose: str, tenant_of_node: NodeTenantLookup) -> bool:
    source = row.source
    if row.host and row.check not in FILE_READING_CHECKS:
        return False
    if source is None or source.by == TENANT_SIDE:
        return source is None
    try:
        nodes = expand_host_range(source.nodes) if source.uid and source.job else []
    except BadRange:
        return True
    return {tenant_of_node(node) for node in nodes} != {whose}


def find_new_cause(ideas: Sequence[Conjecture], words: str, leaves: Collection[str]) -> tuple[str, str]:
    """Return label and title of the model's idea that a person's words confirm; empty if none matches or the label
    exists.
    """
    word_terms = frozenset(extract_terms(words))
    likeness_by_idea = {
        idea: len(word_terms & frozenset(extract_terms(f"{idea.title} {idea.cause}"))) / max(len(word_terms), 1)
        for idea in ideas
        if idea.branch
    }
    best = max(likeness_by_idea, key=lambda idea: likeness_by_idea[idea], default=None)
    if best is None or likeness_by_idea[best] < MIN_SUPPORT_SHARE:
        return "", ""
    name = "_".join(word[:1].upper() + word[1:] for word in _WORD_PATTERN.findall(best.title)[:MAX_LABEL_WORDS])
    label = f"{best.branch}.{name}"
    return (shorten_text(label, MAX_NAME_CHARS), best.title) if name and label not in leaves else ("", "")


def get_established_cause(incident_view: IncidentView) -> str:
    """Return the cause that a person named, else one whose cure was proved twice, else ""."""
    word = (incident_view.ticket.true_label if incident_view.ticket else "") or (
        incident_view.correction.label if incident_view.correction else ""
    )
    cured = [row.label for row in incident_view.remediations if row.outcome == "cured"]
    return word or (cured[0] if cured else "")


def _find_leaf_below(incident_view: IncidentView, word: str) -> str:
    """Return the only found cause below a named branch, else the name."""
    below = {
        row.label for row in (incident_view.report.root_causes if incident_view.report else ()) if word and row.label.startswith(f"{word}.")
    }
    return below.pop() if len(below) == 1 else word


def _get_stated_cause(incident_view: IncidentView) -> str:
    return (incident_view.ticket.true_cause if incident_view.ticket else "") or (
        incident_view.correction.words if incident_view.correction else ""
    )


def _find_deciding_check(found: Iterable[Hypothesis]) -> str:
    checks = (check for row in found for check in (*(line.check for line in row.evidence), *row.checks))
    return next((check[:MAX_NAME_CHARS] for check in checks if check), "")


def _format_resolution(incident_view: IncidentView) -> str:
    remedies = (
        step.remedy
        for row in incident_view.remediations
        if row.proven and row.outcome != "recurred"
        for step in row.rungs[: row.rung + 1]
        if step.part == "fix" and step.plan == row.tried
    )
    return ", ".join(dict.fromkeys(remedies))


def _list_misleading_causes(incident_view: IncidentView, label: str) -> list[str]:
    reported_labels = [row.label for row in incident_view.report.root_causes] if incident_view.report else []
    denied = incident_view.correction.denied if incident_view.correction else ()
    return [
        one for one in (*reported_labels, *denied) if label and one not in (label, NO_FAULT, ABSTAIN) and not one.startswith(f"{label}.")
    ]


def _cut_names(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(shorten_text(one, MAX_NAME_CHARS) for one in texts if one))[:MAX_SYMPTOMS]


def _mask_hosts(text: str, hosts: Collection[str]) -> str:
    """Replace the hosts' names: a lesson must fit other hosts and disclose none."""
    lower = tuple(host.lower() for host in hosts)

    def named(found: re.Match[str]) -> str:
        name = found[0].lower().rstrip(".")
        head, bracket, _ = name.partition("[")
        return _HOST_PLACEHOLDER if name in lower or (bracket and any(host.startswith(head) for host in lower)) else found[0]

    return _HOST_NAME_PATTERN.sub(named, text) if lower else text


# Lessons of this site that resemble an incident, kept across turns. They order checks and prove nothing.

MIN_LIKENESS = 0.2  # Score from which a lesson is shown
MIN_SAME_CAUSE_LIKENESS = 0.05  # lower if it has the cause that was found
MAX_REMEMBERED = 6
MAX_SHOWN = 2


def merge_recalled_lessons(before: Sequence[Mapping[str, Any]], similar: Sequence[SimilarIncident]) -> tuple[Mapping[str, Any], ...]:
    """Merge earlier and newly similar lessons, each once; the newest are kept."""
    now = [
        MatchedLesson(
            lesson=one.lesson, label=one.label, incident=one.learnt, on=one.on, title=one.title[:120], score=round(one.score, 3)
        ).model_dump(mode="json")
        for one in similar
        if one.lesson and one.score >= MIN_SAME_CAUSE_LIKENESS
    ]
    rows = {str(row["lesson"]): row for row in (*before, *now)}
    return tuple(rows.values())[-MAX_REMEMBERED:]


def add_recalled_lessons(report: Report, rows: Sequence[Mapping[str, Any]]) -> Report:
    """Return the report with lessons of its causes, or, where it abstained, of similar incidents."""
    lessons = [MatchedLesson.model_validate(row) for row in rows]
    labels = {cause.label for cause in report.root_causes}
    similar_lessons = [row for row in lessons if row.score >= MIN_LIKENESS] if report.outcome == "abstained" else []
    shown_lessons = [row for row in lessons if row.label in labels] if labels else similar_lessons
    return report.model_copy(update={"recalled": tuple(shown_lessons[-MAX_SHOWN:])}) if shown_lessons else report
