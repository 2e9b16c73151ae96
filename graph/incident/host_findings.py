"""Findings on the hosts asked about, before findings elsewhere. Pure."""

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
UNREACHED_KEYS = ("host.reachable", "host.access")  # keys of facts that no session reached a host
MOST_FOREIGN = 4
MAX_DIFFERENCES = 5
MAX_DIFFERENCE_CHARS = 240


def list_primary_hosts(context: IncidentContext) -> tuple[str, ...]:
    """Return the hosts asked about, else the hosts of the report if there are several.

    A single host in a job's report is where trouble was noticed; another host may be guilty.
    """
    return tuple(expand_host_range(context.turn.about)) or (context.brief.hosts if len(context.brief.hosts) > 1 else ())


def describe_unknown_writers(context: IncidentContext) -> str:
    """Return a sentence about unknown hosts whose lines the item quotes."""
    return format_unknown_hosts(context.find_unknown_names(find_unknown_writers(context)))


def find_unknown_writers(context: IncidentContext) -> tuple[str, ...]:
    """Return unknown hosts whose lines the item quotes."""
    names = dict.fromkeys(filter(None, map(get_line_writer, split_lines(context.item.text[:MAX_TEXT_CHARS]))))
    return tuple(name for name in names if not find_hosts(name, context.names).hosts and any(map(str.isdigit, name)))[:MOST_FOREIGN]


def partition_causes(context: IncidentContext, assessment: Assessment) -> tuple[list[Hypothesis], list[Hypothesis]]:
    """Return causes on the hosts asked about, cluster-wide ones first, and causes elsewhere."""
    primary_hosts = list_primary_hosts(context)
    scope_hosts = primary_hosts or context.asked_hosts
    own_causes, elsewhere = partition_causes_by_hosts(
        assessment.list_root_causes(), scope_hosts, assessment.hosts_by_cause, assessment.list_common_causes(scope_hosts)
    )
    if not primary_hosts and not own_causes:
        return elsewhere, []
    return sorted(own_causes, key=lambda row: not assessment.is_cluster_cause(row.label)), elsewhere


def partition_causes_by_hosts(
    roots: Sequence[Hypothesis],
    hosts: Iterable[str],
    shown: Mapping[str, Collection[str]] = MappingProxyType({}),
    shared: Collection[str] = (),
) -> tuple[list[Hypothesis], list[Hypothesis]]:
    """Split causes into those on `hosts` and the rest, keeping order. Without `hosts`, all belong to the first.

    `shown`: label → hosts that show it; `shared`: labels that these hosts have in common with others.
    """
    scope_hosts = set(hosts)
    own_causes = [
        row for row in roots if not scope_hosts or row.label in shared or _concerns_hosts(row, scope_hosts, shown.get(row.label, ()))
    ]
    return own_causes, [row for row in roots if row not in own_causes]


def _concerns_hosts(row: Hypothesis, asked: set[str], shown: Collection[str]) -> bool:
    """Match a cause without a guilty host by the hosts that show it; uploads concern the hosts asked about."""
    cause_hosts = set(row.hosts) or {evidence.host for evidence in row.evidence} | set(shown)
    return not cause_hosts or bool(cause_hosts & (asked if row.hosts else asked | {""}))


def summarize_hosts(context: IncidentContext, assessment: Assessment) -> HostsSummary | None:
    """Summarize the hosts asked about; None without any, or if the diagnosis covers them."""
    hosts = list_primary_hosts(context)
    own_causes, elsewhere = partition_causes(context, assessment)
    if not hosts or not (elsewhere or context.turn.question):
        return None
    unreached = find_unreached_hosts(assessment, hosts)
    names = frozenset(hosts) - unreached.keys()
    coverage = replace(assessment.coverage, hosts=[host for host in hosts if host in names])
    observed_checks = {
        check
        for host, check in coverage.asked
        if host in names and check in assessment.reference.checks and coverage.has_observed(host, check)
    }
    unobserved = {check for host, check, _ in coverage.list_unobserved_checks() if host in names}
    unobserved |= {row.check_names for row in assessment.open_hidden_causes if names & set(row.hosts)}
    odd = _find_abnormal_line(context, assessment, names)
    finding: HostFinding = (
        "fault" if own_causes else "odd" if odd or unreached else "blind" if unobserved or coverage.has_unasked_check() else "nothing"
    )
    return HostsSummary(
        hosts=hosts,
        found=finding,
        checks=len(observed_checks),
        read=_get_oldest_read_time(context, names),
        blind=tuple(sorted(unobserved)),
        line=odd,
        differs="".join(render_differences(context, assessment, names)[:1]) if names else "",
        kept_out=tuple(unreached),
        why_kept_out="".join(fact.line or fact.format_sentence() for fact in [*unreached.values()][:1])[:MAX_LINE_CHARS],
    )


def find_unreached_hosts(assessment: Assessment, hosts: Iterable[str]) -> dict[str, Fact]:
    """Return the hosts that no session reached in their latest observation, with the fact that says why."""
    unreached = {fact.host: fact for fact in assessment.abnormal_facts if fact.key in UNREACHED_KEYS}
    return {host: unreached[host] for host in hosts if host in unreached}


def _find_abnormal_line(context: IncidentContext, assessment: Assessment, hosts: Collection[str]) -> str:
    """Return the first unexplained finding there; fleet-wide ones come last.

    A job's output says nothing of its host, but a stopped or blocked process does.
    """
    abnormal_facts = [
        fact
        for fact in assessment.abnormal_facts
        if fact.host in hosts and (not is_tenant_writable(fact.key) or fact.key in STOPPED_PROCESS_KEYS)
    ]
    lines = [fact.format_sentence() for fact in abnormal_facts if fact.key not in assessment.fleetwide_keys]
    against = [row for row in list_unproven(context, assessment) if any(map(row.concerns, hosts))]
    lines += [format_unproven(against)] if against else []
    lines += [
        f"as on all {len(assessment.hosts)} hosts that were looked at: {fact.format_sentence()}"
        for fact in abnormal_facts
        if fact.key in assessment.fleetwide_keys
    ]
    return lines[0][:MAX_LINE_CHARS] if lines else ""


def _get_oldest_read_time(context: IncidentContext, hosts: Collection[str]) -> datetime | None:
    """Return the last read time of the least recently read host; log lines bear other times."""
    latest: dict[str, datetime] = {}
    for fact in context.facts:
        if fact.host in hosts and fact.time and not is_tenant_writable(fact.key):
            latest[fact.host] = max(fact.time, latest.get(fact.host, fact.time))
    return min(latest.values(), default=None)


def render_differences(context: IncidentContext, assessment: Assessment, hosts: Collection[str] = ()) -> tuple[str, ...]:
    """Return peer and past differences of the hosts in a few lines."""
    scope_hosts = set(hosts or expand_host_range(context.turn.about) or context.hosts)
    rows = sort_rarest_first((fact for fact in assessment.differing if fact.host in scope_hosts), (context.brief.text,))
    return tuple(f"{fact.host}: {fact.format_sentence()}"[:MAX_DIFFERENCE_CHARS] for fact in rows[:MAX_DIFFERENCES])


def render_old_events(context: IncidentContext, assessment: Assessment) -> tuple[str, ...]:
    rows = (
        f"{fact.host or 'in what was handed in'}: {format_old_event(fact, context.item.at)}" for fact in assessment.old[:MAX_DIFFERENCES]
    )
    return tuple(row[:MAX_DIFFERENCE_CHARS] for row in rows)


def render_hosts_summary(about: HostsSummary, today: datetime) -> str:
    """Return `gpu-002: 22 checks, read 08:17, nothing abnormal.`, inaccessible hosts first."""
    unreached = f"{fold_host_names(about.kept_out)}: could not be looked at ({about.why_kept_out})." if about.kept_out else ""
    rest = tuple(host for host in about.hosts if host not in about.kept_out)
    return " ".join(filter(None, (unreached, _format_hosts_checked(about, rest, today) if rest else "")))


def _format_hosts_checked(about: HostsSummary, hosts: Sequence[str], today: datetime) -> str:
    if not about.checks:
        return f"{fold_host_names(hosts)}: could not be looked at."
    when = f", read {about.read:{'%H:%M' if about.read.date() == today.date() else '%m-%d %H:%M'}}" if about.read else ""
    finding_text = (
        f"abnormal: {about.line}"
        if about.line and about.found == "odd"
        else f"nothing abnormal{f', but {about.differs}' if about.differs else ''}"
    )
    unobserved_text = (
        f"; could not look with {', '.join(about.blind[:6])}"
        if about.blind
        else "; not all was looked at"
        if about.found == "blind"
        else ""
    )
    return f"{fold_host_names(hosts)}: {about.checks} check{'s' * (about.checks != 1)}{when}, {finding_text}{unobserved_text}."
