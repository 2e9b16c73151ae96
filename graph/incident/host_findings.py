"""Separate what was found on the hosts asked about from what was found elsewhere, and summarize it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType

from graph.engine.assessment import Assessment
from graph.engine.fact_history import format_old_event
from graph.engine.peer_differences import sort_rarest_first
from graph.engine.reference_data import is_tenant_writable
from graph.extraction.hosts import find_hosts
from graph.extraction.pasted_text import MAX_TEXT_CHARS, get_line_writer
from graph.extraction.report_texts import format_unknown_hosts
from graph.incident.answers.unproven import format_unproven, list_unproven
from graph.incident.context import IncidentContext
from graph.report import HostFinding, HostsSummary
from graph.state import Hypothesis
from kb.needle_search import split_lines
from tools.fact import Fact
from tools.inventory.host_ranges import expand_host_range, fold_host_names

MAX_LINE_CHARS = 160
STOPPED_PROCESS_KEYS = ("proc.stopped", "proc.blocked")  # keys of processes that do not run, under any name
UNREACHED_KEYS = ("host.reachable", "host.access")  # keys of facts that say that no session reached a host
MAX_UNKNOWN_WRITERS = 4
MAX_DIFFERENCES = 5
MAX_DIFFERENCE_CHARS = 240
MAX_NAMED_CHECKS = 6


def list_primary_hosts(context: IncidentContext) -> tuple[str, ...]:
    """Return the hosts asked about, or else the hosts of the report if it names several.

    A single host in a job's report is where trouble was noticed; another host may be guilty.
    """
    asked_hosts = tuple(expand_host_range(context.turn.about))
    if asked_hosts:
        return asked_hosts
    return context.brief.hosts if len(context.brief.hosts) > 1 else ()


def describe_unknown_writers(context: IncidentContext) -> str:
    """Return a sentence about unknown hosts whose lines the item quotes."""
    return format_unknown_hosts(context.find_unknown_names(find_unknown_writers(context)))


def find_unknown_writers(context: IncidentContext) -> tuple[str, ...]:
    """Return unknown hosts whose lines the item quotes."""
    writers = [get_line_writer(line) for line in split_lines(context.item.text[:MAX_TEXT_CHARS])]
    names = [name for name in dict.fromkeys(writers) if name and any(char.isdigit() for char in name)]
    return tuple(name for name in names if not find_hosts(name, context.names).hosts)[:MAX_UNKNOWN_WRITERS]


def partition_causes(context: IncidentContext, assessment: Assessment) -> tuple[list[Hypothesis], list[Hypothesis]]:
    """Return causes on the hosts asked about, cluster-wide ones first, and causes elsewhere."""
    primary_hosts = list_primary_hosts(context)
    scope_hosts = primary_hosts or context.asked_hosts
    own_causes, elsewhere = partition_causes_by_hosts(
        assessment.list_root_causes(), scope_hosts, assessment.hosts_by_cause, assessment.list_common_causes(scope_hosts)
    )
    if not primary_hosts and not own_causes:
        return elsewhere, []
    return sorted(own_causes, key=lambda cause: not assessment.is_cluster_cause(cause.label)), elsewhere


def partition_causes_by_hosts(
    roots: Sequence[Hypothesis],
    hosts: Iterable[str],
    hosts_by_label: Mapping[str, Collection[str]] = MappingProxyType({}),
    common_labels: Collection[str] = (),
) -> tuple[list[Hypothesis], list[Hypothesis]]:
    """Split the causes into those on `hosts` and the others, in the same order. Without `hosts`, all are the former.

    Args:
        hosts_by_label: The hosts that show a cause.
        common_labels: Causes that these hosts have in common with others.
    """
    scope_hosts = set(hosts)
    own_causes = [
        cause
        for cause in roots
        if not scope_hosts or cause.label in common_labels or _concerns_hosts(cause, scope_hosts, hosts_by_label.get(cause.label, ()))
    ]
    return own_causes, [cause for cause in roots if cause not in own_causes]


def _concerns_hosts(cause: Hypothesis, asked_hosts: set[str], showing_hosts: Collection[str]) -> bool:
    """Return whether a cause accuses one of the hosts or, if it accuses no host, shows on one of them.

    Evidence without a host was uploaded, and counts for the hosts asked about.
    """
    if cause.hosts:
        return not asked_hosts.isdisjoint(cause.hosts)
    evidence_hosts = {evidence.host for evidence in cause.evidence} | set(showing_hosts)
    return not evidence_hosts or not evidence_hosts.isdisjoint(asked_hosts | {""})


def summarize_hosts(context: IncidentContext, assessment: Assessment) -> HostsSummary | None:
    """Summarize the hosts asked about. Return None if there are none or if the diagnosis covers them."""
    hosts = list_primary_hosts(context)
    own_causes, elsewhere = partition_causes(context, assessment)
    if not hosts or not (elsewhere or context.turn.question):
        return None
    unreached = find_unreached_hosts(assessment, hosts)
    reached_hosts = frozenset(hosts) - unreached.keys()
    coverage = replace(assessment.coverage, hosts=[host for host in hosts if host in reached_hosts])
    observed_checks = {
        check
        for host, check in coverage.asked
        if host in reached_hosts and check in assessment.reference.checks and coverage.has_observed(host, check)
    }
    unobserved = {check for host, check, _ in coverage.list_unobserved_checks() if host in reached_hosts}
    unobserved |= {hidden_cause.check_names for hidden_cause in assessment.open_hidden_causes if reached_hosts & set(hidden_cause.hosts)}
    abnormal_line = _find_abnormal_line(context, assessment, reached_hosts)
    differences = render_differences(context, assessment, reached_hosts) if reached_hosts else ()
    reasons = [fact.line or fact.format_sentence() for fact in unreached.values()]
    finding: HostFinding = "nothing"
    if own_causes:
        finding = "fault"
    elif abnormal_line or unreached:
        finding = "odd"
    elif unobserved or coverage.has_unasked_check():
        finding = "blind"
    return HostsSummary(
        hosts=hosts,
        found=finding,
        checks=len(observed_checks),
        read=_get_oldest_read_time(context, reached_hosts),
        blind=tuple(sorted(unobserved)),
        line=abnormal_line,
        differs=differences[0] if differences else "",
        kept_out=tuple(unreached),
        why_kept_out=reasons[0][:MAX_LINE_CHARS] if reasons else "",
    )


def find_unreached_hosts(assessment: Assessment, hosts: Iterable[str]) -> dict[str, Fact]:
    """Return the hosts that no session reached in their latest observation, with the fact that says why."""
    unreached = {fact.host: fact for fact in assessment.abnormal_facts if fact.key in UNREACHED_KEYS}
    return {host: unreached[host] for host in hosts if host in unreached}


def _find_abnormal_line(context: IncidentContext, assessment: Assessment, hosts: Collection[str]) -> str:
    """Return the first unexplained finding on the hosts, or an empty string. Fleet-wide findings come last.

    A job's output says nothing about its host, but a stopped or blocked process does.
    """
    abnormal_facts = [
        fact
        for fact in assessment.abnormal_facts
        if fact.host in hosts and (not is_tenant_writable(fact.key) or fact.key in STOPPED_PROCESS_KEYS)
    ]
    lines = [fact.format_sentence() for fact in abnormal_facts if fact.key not in assessment.fleetwide_keys]
    unproven = [finding for finding in list_unproven(context, assessment) if any(map(finding.concerns, hosts))]
    if unproven:
        lines.append(format_unproven(unproven))
    lines += [
        f"as on all {len(assessment.hosts)} hosts that were looked at: {fact.format_sentence()}"
        for fact in abnormal_facts
        if fact.key in assessment.fleetwide_keys
    ]
    return lines[0][:MAX_LINE_CHARS] if lines else ""


def _get_oldest_read_time(context: IncidentContext, hosts: Collection[str]) -> datetime | None:
    """Return when the least recently read host was last read. Log lines have other times, so they do not count."""
    latest_times: dict[str, datetime] = {}
    for fact in context.facts:
        if fact.host in hosts and fact.time and not is_tenant_writable(fact.key):
            latest_times[fact.host] = max(fact.time, latest_times.get(fact.host, fact.time))
    return min(latest_times.values(), default=None)


def render_differences(context: IncidentContext, assessment: Assessment, hosts: Collection[str] = ()) -> tuple[str, ...]:
    """Return how the hosts differ from their peers and from their own past, a line each."""
    scope_hosts = set(hosts or expand_host_range(context.turn.about) or context.hosts)
    facts = sort_rarest_first((fact for fact in assessment.differing if fact.host in scope_hosts), (context.brief.text,))
    return tuple(f"{fact.host}: {fact.format_sentence()}"[:MAX_DIFFERENCE_CHARS] for fact in facts[:MAX_DIFFERENCES])


def render_old_events(context: IncidentContext, assessment: Assessment) -> tuple[str, ...]:
    lines = (
        f"{fact.host or 'in what was handed in'}: {format_old_event(fact, context.item.at)}" for fact in assessment.old[:MAX_DIFFERENCES]
    )
    return tuple(line[:MAX_DIFFERENCE_CHARS] for line in lines)


def render_hosts_summary(hosts_summary: HostsSummary, today: datetime) -> str:
    """Return `gpu-002: 22 checks, read 08:17, nothing abnormal.` after the hosts that could not be reached."""
    sentences: list[str] = []
    if hosts_summary.kept_out:
        sentences.append(f"{fold_host_names(hosts_summary.kept_out)}: could not be looked at ({hosts_summary.why_kept_out}).")
    reached_hosts = tuple(host for host in hosts_summary.hosts if host not in hosts_summary.kept_out)
    if reached_hosts:
        sentences.append(_format_hosts_checked(hosts_summary, reached_hosts, today))
    return " ".join(sentences)


def _format_hosts_checked(hosts_summary: HostsSummary, hosts: Sequence[str], today: datetime) -> str:
    if not hosts_summary.checks:
        return f"{fold_host_names(hosts)}: could not be looked at."
    read_note = ""
    if hosts_summary.read:
        time_format = "%H:%M" if hosts_summary.read.date() == today.date() else "%m-%d %H:%M"
        read_note = f", read {hosts_summary.read:{time_format}}"
    checks = f"{hosts_summary.checks} check{'s' * (hosts_summary.checks != 1)}"
    return f"{fold_host_names(hosts)}: {checks}{read_note}, {_format_finding(hosts_summary)}{_format_unobserved(hosts_summary)}."


def _format_finding(hosts_summary: HostsSummary) -> str:
    if hosts_summary.line and hosts_summary.found == "odd":
        return f"abnormal: {hosts_summary.line}"
    return f"nothing abnormal, but {hosts_summary.differs}" if hosts_summary.differs else "nothing abnormal"


def _format_unobserved(hosts_summary: HostsSummary) -> str:
    if hosts_summary.blind:
        return f"; could not look with {', '.join(hosts_summary.blind[:MAX_NAMED_CHECKS])}"
    return "; not all was looked at" if hosts_summary.found == "blind" else ""
