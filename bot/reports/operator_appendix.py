"""The appendix of the operator page: evidence, causes, commands and decisions, not summarised."""

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime

from bot.incidents.cards import report_rows
from bot.incidents.cards.handoff_content import VERDICT_ORDER
from bot.remediation.cards import action_text
from bot.reports.page import BulletList, PagePart, PageTable, Paragraph, QuotedLines
from bot.reports.page_timeline import format_actions
from bot.reports.report_data import IncidentReportData, is_ended_by_person
from graph.report import Report
from graph.state import Evidence, Hypothesis, Remediation
from kb.needle_search import zero_digits
from tools.inventory.host_ranges import fold_host_names
from tools.ledger.record import ActionRecord, list_requesters

# How many are listed of each; the rest is counted.
MAX_LINES = 12
MAX_RULED_OUT = 15
MAX_UNOBSERVED = 12
MAX_REMEDIATIONS = 40
MAX_VOTES = 60
MAX_HOSTS_CHARS = 600  # length of a list of hosts


def build_more_lines(omitted: int) -> list[str]:
    return [f"… and {omitted} more"] if omitted > 0 else []


def format_hosts(names: Sequence[str]) -> str:
    """Return the hosts as folded ranges, cut at MAX_HOSTS_CHARS."""
    folded = fold_host_names(names)
    if len(folded) > MAX_HOSTS_CHARS:
        return f"{folded[:MAX_HOSTS_CHARS]}… ({len(set(names))} hosts)"
    return folded or "none named"


def render_evidence(cause: Hypothesis, max_lines: int = MAX_LINES) -> Iterator[str]:
    """Yield the evidence of a cause, the deciding line first. Lines that differ only in numbers are merged."""
    groups: dict[tuple[str, str], list[Evidence]] = {}
    for evidence in sorted(cause.evidence, key=lambda evidence: evidence.says != cause.because):
        groups.setdefault((evidence.check, zero_digits(evidence.line.strip())), []).append(evidence)
    for (check, _), similar in list(groups.items())[:max_lines]:
        hosts = fold_host_names({evidence.host for evidence in similar if evidence.host}) or "ticket"
        times = [evidence.time for evidence in similar if evidence.time]
        first_time = f" · {min(times):%Y-%m-%d %H:%M:%S}" if times else ""
        count = f"   (and {len(similar) - 1} alike)" if len(similar) > 1 else ""
        yield f"{hosts} · {check}{first_time}"
        yield f"  {similar[0].line.strip()}{count}"
    yield from build_more_lines(len(groups) - max_lines)


def build_evidence_parts(data: IncidentReportData, causes: Sequence[Hypothesis]) -> Iterator[PagePart]:
    for cause in causes:
        if lines := list(render_evidence(cause)):
            yield Paragraph(report_rows.get_cause_title(cause.label, data.titles), strong=True)
            yield QuotedLines(lines)


def build_undecided_parts(data: IncidentReportData, max_causes: int = MAX_RULED_OUT) -> list[PagePart]:
    undecided = [hypothesis for hypothesis in data.incident.hypotheses if hypothesis.verdict in ("open", "inconclusive")]
    if not undecided:
        return []
    undecided.sort(key=lambda cause: (VERDICT_ORDER.index(cause.verdict), -cause.confidence, cause.label))
    texts = [
        f"{report_rows.get_cause_title(cause.label, data.titles)}: {cause.because or 'nothing decides it'}"
        for cause in undecided[:max_causes]
    ]
    return [BulletList([*texts, *build_more_lines(len(undecided) - max_causes)])]


def build_ruled_out_parts(data: IncidentReportData, report: Report | None) -> list[PagePart]:
    ruled_out = report.ruled_out if report else ()
    if not ruled_out:
        return []
    texts = [
        f"{report_rows.get_cause_title(cause.label, data.titles)}: {cause.because or 'nothing shows it'}"
        for cause in ruled_out[:MAX_RULED_OUT]
    ]
    return [BulletList([*texts, *build_more_lines(len(ruled_out) - MAX_RULED_OUT)])]


def build_unobserved_parts(report: Report | None) -> list[PagePart]:
    """List the checks that could not look, with the hosts that share a reason."""
    if report is None or not report.could_not_look:
        return []
    hosts_by_reason: dict[tuple[str, str], list[str]] = {}
    for unobserved in report.could_not_look:
        hosts_by_reason.setdefault((unobserved.check, unobserved.why), []).append(unobserved.host)
    texts = [f"{format_hosts(hosts)} · {check}: {reason}" for (check, reason), hosts in list(hosts_by_reason.items())[:MAX_UNOBSERVED]]
    return [BulletList([*texts, *build_more_lines(len(hosts_by_reason) - MAX_UNOBSERVED)])]


def list_commands(records: Sequence[ActionRecord]) -> Iterator[str]:
    """Yield each command that ran, with its hosts."""
    hosts_by_command: dict[str, set[str]] = {}
    for record in records:
        if record.start_by is not None:
            hosts_by_command.setdefault(shlex.join(record.action.command), set()).add(record.action.via)
    for command, hosts in list(hosts_by_command.items())[:MAX_LINES]:
        yield f"{fold_host_names(hosts)}: {command}"
    yield from build_more_lines(len(hosts_by_command) - MAX_LINES)


def build_remediation_parts(remediations: Sequence[Remediation], data: IncidentReportData) -> list[PagePart]:
    """Return a table of the remediations. Those of one cause with the same status share a row."""
    hosts_by_status: dict[tuple[str, str], set[str]] = {}
    for remediation in remediations:
        title = report_rows.get_cause_title(remediation.label, data.titles)
        status = remediation.says.replace(remediation.target, "the host") or remediation.outcome or "goes on"
        hosts_by_status.setdefault((title, status), set()).update(remediation.target.split(","))
    rows = [(f"{title} on {fold_host_names(hosts)}", status) for (title, status), hosts in list(hosts_by_status.items())[:MAX_REMEDIATIONS]]
    return [PageTable(("Fix", "Status"), rows)] if rows else []


def build_decision_parts(data: IncidentReportData) -> list[PagePart]:
    """Return a table of the decisions with their reasons. One decision on several actions is one row."""
    records_by_decision: dict[tuple[datetime, str, str, str, str], list[ActionRecord]] = {}
    for record in data.records or ():
        for at, person, decision, reason in _list_decisions(data, record):
            records_by_decision.setdefault((at, person, decision, reason, record.action.remedy), []).append(record)
    if not records_by_decision:
        return []
    decisions = sorted(records_by_decision.items(), key=lambda decision_records: decision_records[0])
    rows = [
        (f"{at:%Y-%m-%d %H:%M:%S}", person, f"{decision}: {format_actions(records)}", reason)
        for (at, person, decision, reason, _), records in decisions[:MAX_VOTES]
    ]
    parts: list[PagePart] = [PageTable(("Time (UTC)", "Who", "Decision", "Why"), rows)]
    if len(decisions) > MAX_VOTES:
        parts.append(Paragraph(f"… and {len(decisions) - MAX_VOTES} more decisions."))
    return parts


def _list_decisions(data: IncidentReportData, record: ActionRecord) -> Iterator[tuple[datetime, str, str, str]]:
    """Yield the time, person, decision and reason of each decision on an action."""
    for requester in sorted(list_requesters(record.action)):
        yield record.proposed_at.replace(microsecond=0), data.get_person_name(requester), "asked for it", ""
    for vote in record.votes:
        at = datetime.fromisoformat(vote.at).replace(microsecond=0)
        yield at, data.get_person_name(vote.voter), "approved" if vote.verdict == "approve" else "rejected", vote.reason
    if is_ended_by_person(record) and not any(vote.verdict == "deny" for vote in record.votes):
        event_times = [event.at for event in data.history.events if event.approval == record.approval]
        ended_at = event_times[-1] if event_times else record.decide_by
        yield ended_at.replace(microsecond=0), data.get_person_name(record.ended_by), action_text.STATE_WORDS[record.state], record.says
