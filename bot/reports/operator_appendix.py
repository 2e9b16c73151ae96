"""The appendix of the operator page: evidence, causes, commands and decisions, whole."""

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
from graph.state import Evidence, Hypothesis, Remediation, UnobservedCheck
from kb.needle_search import zero_digits
from tools.inventory.host_ranges import fold_host_names
from tools.ledger.record import ActionRecord, list_requesters

# rows shown of each; the rest is counted
MAX_LINES = 12
MAX_RULED_OUT = 15
MAX_UNOBSERVED = 12
MAX_REMEDIATIONS = 40
MAX_VOTES = 60
MAX_HOSTS_CHARS = 600  # length of a list of hosts


def build_more_lines(rest: int) -> list[str]:
    return [f"… and {rest} more"] if rest > 0 else []


def format_hosts(names: Sequence[str]) -> str:
    """Return folded host names, bounded."""
    folded = fold_host_names(names)
    if len(folded) > MAX_HOSTS_CHARS:
        return f"{folded[:MAX_HOSTS_CHARS]}… ({len(set(names))} hosts)"
    return folded or "none named"


def render_evidence(cause: Hypothesis, most: int = MAX_LINES) -> Iterator[str]:
    """Yield evidence, the deciding line first; lines that differ only in numbers are merged."""
    evidence_by_text: dict[tuple[str, str], list[Evidence]] = {}
    for evidence_row in sorted(cause.evidence, key=lambda one: one.says != cause.because):
        evidence_by_text.setdefault((evidence_row.check, zero_digits(evidence_row.line.strip())), []).append(evidence_row)
    for (check, _), many in list(evidence_by_text.items())[:most]:
        times = [row.time for row in many if row.time]
        yield f"{fold_host_names({row.host for row in many if row.host}) or 'ticket'} · {check}{f' · {min(times):%Y-%m-%d %H:%M:%S}' if times else ''}"
        yield f"  {many[0].line.strip()}{f'   (and {len(many) - 1} alike)' if len(many) > 1 else ''}"
    yield from build_more_lines(len(evidence_by_text) - most)


def build_evidence_parts(data: IncidentReportData, causes: Sequence[Hypothesis]) -> Iterator[PagePart]:
    for cause in causes:
        if lines := list(render_evidence(cause)):
            yield Paragraph(report_rows.get_cause_title(cause.label, data.titles), strong=True)
            yield QuotedLines(lines)


def build_undecided_parts(data: IncidentReportData, most: int = MAX_RULED_OUT) -> list[PagePart]:
    doubts = [hypothesis for hypothesis in data.incident.hypotheses if hypothesis.verdict in ("open", "inconclusive")]
    ordered = sorted(doubts, key=lambda row: (VERDICT_ORDER.index(row.verdict), -row.confidence, row.label))
    cause_texts = [
        f"{report_rows.get_cause_title(row.label, data.titles)}: {row.because or 'nothing decides it'}" for row in ordered[:most]
    ]
    return [BulletList([*cause_texts, *build_more_lines(len(ordered) - most)])] if cause_texts else []


def build_ruled_out_parts(data: IncidentReportData, report: Report | None) -> list[PagePart]:
    ruled_out = report.ruled_out if report else ()
    rows = [
        f"{report_rows.get_cause_title(row.label, data.titles)}: {row.because or 'nothing shows it'}" for row in ruled_out[:MAX_RULED_OUT]
    ]
    return [BulletList([*rows, *build_more_lines(len(ruled_out) - MAX_RULED_OUT)])] if rows else []


def build_unobserved_parts(report: Report | None) -> list[PagePart]:
    grouped: dict[tuple[str, str], list[UnobservedCheck]] = {}
    for row in report.could_not_look if report else ():
        grouped.setdefault((row.check, row.why), []).append(row)
    rows = [
        f"{format_hosts([one.host for one in many])} · {check}: {reason}"
        for (check, reason), many in list(grouped.items())[:MAX_UNOBSERVED]
    ]
    return [BulletList([*rows, *build_more_lines(len(grouped) - MAX_UNOBSERVED)])] if rows else []


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
    """Return remediations, those in the same state merged."""
    hosts_by_remediation: dict[tuple[str, str], set[str]] = {}
    for remediation in remediations:
        outcome_text = remediation.says.replace(remediation.target, "the host") if remediation.says else remediation.outcome or "goes on"
        hosts_by_remediation.setdefault((report_rows.get_cause_title(remediation.label, data.titles), outcome_text), set()).update(
            remediation.target.split(",")
        )
    rows = [
        (f"{title} on {fold_host_names(hosts)}", outcome)
        for (title, outcome), hosts in list(hosts_by_remediation.items())[:MAX_REMEDIATIONS]
    ]
    return [PageTable(("Fix", "Status"), rows)] if rows else []


def build_decision_parts(data: IncidentReportData) -> list[PagePart]:
    """Return decisions with reasons; one decision on several actions is one row."""
    records_by_decision: dict[tuple[datetime, str, str, str, str], list[ActionRecord]] = {}
    for record in data.records or ():
        for at, person, decision, reason in _list_decisions(data, record):
            records_by_decision.setdefault((at, person, decision, reason, record.action.remedy), []).append(record)
    ordered = sorted(records_by_decision.items(), key=lambda one: one[0])
    rows = [
        (f"{at:%Y-%m-%d %H:%M:%S}", voter, f"{choice}: {format_actions(many)}", vote_reason)
        for (at, voter, choice, vote_reason, _), many in ordered[:MAX_VOTES]
    ]
    hidden_note = [Paragraph(f"… and {len(ordered) - MAX_VOTES} more decisions.")] if len(ordered) > MAX_VOTES else []
    return [PageTable(("Time (UTC)", "Who", "Decision", "Why"), rows), *hidden_note] if rows else []


def _list_decisions(data: IncidentReportData, record: ActionRecord) -> Iterator[tuple[datetime, str, str, str]]:
    for requester in sorted(list_requesters(record.action)):
        yield record.proposed_at.replace(microsecond=0), data.get_person_name(requester), "asked for it", ""
    for vote in record.votes:
        at = datetime.fromisoformat(vote.at).replace(microsecond=0)
        yield at, data.get_person_name(vote.voter), "approved" if vote.verdict == "approve" else "rejected", vote.reason
    if is_ended_by_person(record) and not any(vote.verdict == "deny" for vote in record.votes):
        ended = next((event.at for event in reversed(data.history.events) if event.approval == record.approval), record.decide_by)
        yield ended.replace(microsecond=0), data.get_person_name(record.ended_by), action_text.STATE_WORDS[record.state], record.says
