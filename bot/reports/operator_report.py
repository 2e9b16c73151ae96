"""The operator page: a summary on one sheet, then the appendix."""

from collections.abc import Iterator, Sequence

from bot.incidents.cards import report_rows
from bot.incidents.cards.home import LIFECYCLE_WORDS
from bot.remediation.cards import action_text
from bot.reports.operator_appendix import (
    build_decision_parts,
    build_evidence_parts,
    build_remediation_parts,
    build_ruled_out_parts,
    build_undecided_parts,
    build_unobserved_parts,
    format_hosts,
    list_commands,
    render_evidence,
)
from bot.reports.page import BulletList, Page, PagePart, PageSection, PageTable, Paragraph, QuotedLines
from bot.reports.page_timeline import build_page_timeline
from bot.reports.report_data import IncidentReportData, is_ended_by_person
from graph.extraction import report_texts
from graph.remediation.drained_nodes import list_drained_nodes
from graph.report import Report
from graph.state import Hypothesis
from tools.inventory.host_ranges import fold_host_names
from tools.ledger.record import ActionRecord, list_targets
from tools.ledger.states import State

# How many are listed on the first page.
FIRST_PAGE_CAUSES = 2
FIRST_PAGE_LINES = 3
FIRST_PAGE_DOUBTS = 3
FIRST_PAGE_ACTIONS = 5
FIRST_PAGE_DRAINED = 4
FIRST_PAGE_TASKS = 4
# How many are listed in the appendix; the rest is counted.
MAX_CAUSES = 8
MAX_ACTIONS = 40
MAX_DRAINED = 60
MAX_CAUSE_DEVICES = 8  # a cause on more devices shows its hosts
FIRST_PAGE_CELL_CHARS = 160
FIRST_PAGE_REPORT_CHARS = 240  # length of the reported text
TAKE_TICKET_STEP = "Take the ticket."
PENDING_TEXT = "Waits for a decision"  # a card asks a question here
OUTCOME_TEXTS = {
    "diagnosed": "a fault was found",
    "no_fault": "nothing wrong was found",
    "abstained": "no cause was proven",
    "handed_off": "no cause was proven; left to people",
}


def render_operator_page(data: IncidentReportData) -> Page:
    """Return the page. Its text is not sanitized: pass it to `sanitize_page`."""
    report = data.incident.report
    causes = report.root_causes if report else ()
    timeline = build_page_timeline(data)
    actions, drained_nodes = _build_action_parts(data), _build_drained_parts(data)
    tasks = _list_open_tasks(data)
    first_page = (
        PageSection("At a glance", [PageTable((), list(_list_glance_rows(data)))]),
        PageSection("Root cause", _build_causes_section(data, report)),
        PageSection("What was tried", _limit_rows(actions, FIRST_PAGE_ACTIONS)),
        PageSection("Still held", _limit_rows(drained_nodes, FIRST_PAGE_DRAINED)),
        PageSection("Left to people", [BulletList(tasks[:FIRST_PAGE_TASKS])] if tasks else []),
        PageSection("Timeline in short" if timeline.whole else "Timeline", timeline.short),
    )
    text = data.incident.brief.text.strip()
    commands = list(list_commands(data.records or ()))
    appendix = (
        ("What was reported", [QuotedLines(text.split("\n"))] if len(text) > FIRST_PAGE_REPORT_CHARS or "\n" in text else []),
        ("All causes", _build_further_causes(data, causes)),
        ("All evidence", list(build_evidence_parts(data, causes[:MAX_CAUSES])) if _has_more_evidence(causes) else []),
        ("Timeline", timeline.whole),
        ("All that was tried", actions if len(_list_table_rows(actions)) > FIRST_PAGE_ACTIONS else []),
        ("Who decided what", build_decision_parts(data)),
        ("Commands that ran", [QuotedLines(commands)] if commands else []),
        ("Fixes", build_remediation_parts(data.incident.remediations, data)),
        ("All that is held", drained_nodes if len(_list_table_rows(drained_nodes)) > FIRST_PAGE_DRAINED else []),
        ("All that is left to people", [BulletList(tasks)] if len(tasks) > FIRST_PAGE_TASKS else []),
        ("Pictures", data.figures),
        ("Ruled out", build_ruled_out_parts(data, report)),
        ("Not decided", build_undecided_parts(data)),
        ("Could not look", build_unobserved_parts(report)),
    )
    headline = (report.headline if report else "").partition(";")[0].strip(" .") or "Not diagnosed yet"
    sections = (*first_page, *(PageSection(title, parts, appendix=True) for title, parts in appendix))
    return Page(
        data.incident.id,
        "operators",
        f"Incident {data.incident.id}: {headline}",
        _format_lead(data),
        data.made,
        sections,
        _list_notes(data),
    )


def _list_table_rows(parts: Sequence[PagePart]) -> list[Sequence[str]]:
    return [row for part in parts if isinstance(part, PageTable) for row in part.rows]


def _limit_rows(parts: Sequence[PagePart], max_rows: int) -> list[PagePart]:
    limited: list[PagePart] = []
    for part in parts:
        if not isinstance(part, PageTable):
            limited.append(part)
            continue
        limited.append(PageTable(part.head, [[_clip_text(cell) for cell in row] for row in part.rows[:max_rows]]))
        omitted = len(part.rows) - max_rows
        if omitted > 0:
            limited.append(Paragraph(f"… and {omitted} more, in the appendix."))
    return limited


def _clip_text(text: str, max_chars: int = FIRST_PAGE_CELL_CHARS) -> str:
    return text if len(text) <= max_chars else f"{text[:max_chars]}…"


def _has_more_evidence(causes: Sequence[Hypothesis]) -> bool:
    return any(list(render_evidence(cause)) != list(render_evidence(cause, FIRST_PAGE_LINES)) for cause in causes)


def _format_lead(data: IncidentReportData) -> str:
    opened = f"opened {data.incident.opened_at:%Y-%m-%d %H:%M} UTC, " if data.incident.opened_at else ""
    return f"{opened}{LIFECYCLE_WORDS[data.incident.lifecycle]}"


def _list_glance_rows(data: IncidentReportData) -> Iterator[tuple[str, str]]:
    incident, report, ticket = data.incident, data.incident.report, data.incident.ticket
    origin, causes = incident.origin, report.root_causes if report else ()
    titles = [report_rows.get_cause_title(cause.label, data.titles) for cause in causes]
    outcome = OUTCOME_TEXTS[report.outcome] if report else "nothing yet"
    yield "State", LIFECYCLE_WORDS[incident.lifecycle]
    yield "Found", "; ".join(titles) or outcome
    if ticket and ticket.true_label:
        yield "It really was", _format_true_cause(data, ticket.true_label, ticket.true_cause, ticket.closed_by)
    if correction := incident.correction:
        yield "It really was", _format_true_cause(data, correction.label, correction.words, correction.by)
    yield "Hosts", format_hosts(incident.brief.hosts or tuple(sorted({host for cause in causes for host in cause.hosts})))
    if incident.brief.job:
        yield "Job", incident.brief.job
    reporter = data.get_person_name(origin.user) if origin and origin.user else "not known"
    reported_text = " ".join(incident.brief.text.split())
    yield "Reported by", f"{reporter}: “{_clip_text(reported_text, FIRST_PAGE_REPORT_CHARS)}”" if reported_text else reporter
    if origin and origin.tenant:
        yield "Customer", origin.tenant
    assignee = incident.owner or (ticket.taken_by if ticket else "")
    yield "On it", data.get_person_name(assignee) if assignee else "nobody"
    yield "To the diagnosis", _format_elapsed(data, data.course.diagnosed if data.course else None)
    yield "To recovery", _format_elapsed(data, data.course.recovered if data.course else None)
    if incident.stats.checks:
        yield "Looked at", _format_cost(data)


def _format_true_cause(data: IncidentReportData, label: str, explanation: str, user: str) -> str:
    """Return the cause that a person named, in their words and with their name."""
    parts = (report_rows.get_cause_title(label, data.titles), explanation, f"by {data.get_person_name(user)}" if user else "")
    return " · ".join(part for part in parts if part)


def _format_elapsed(data: IncidentReportData, seconds: float | None) -> str:
    if data.course is None:
        return "not known"
    return "not yet" if seconds is None else f"{format_duration(seconds)} after it was opened"


def format_duration(seconds: float) -> str:
    """Return `42 s`, `12 min`, `3 h 5 min` or `2 d 4 h`."""
    whole_seconds = round(seconds)
    for unit, length, lower, part in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "", 1)):
        if whole_seconds >= 2 * length or (unit != "min" and whole_seconds >= length):
            rest = whole_seconds % length // part
            return f"{whole_seconds // length} {unit}" + (f" {rest} {lower}" if lower and rest else "")
    return f"{whole_seconds} s"


def _format_cost(data: IncidentReportData) -> str:
    stats = data.incident.stats
    model = f"; {stats.model_calls} questions to a model, ${stats.usd:.3f}" if stats.model_calls else "; without a model"
    return f"{report_texts.format_cost(stats)}{model}"


def _build_causes_section(data: IncidentReportData, report: Report | None) -> list[PagePart]:
    root_causes = report.root_causes if report else ()
    if report is None or not root_causes:
        paragraphs = [Paragraph(report.headline)] if report and report.headline else []
        return [Paragraph(_format_no_cause(report), strong=True), *paragraphs, *build_undecided_parts(data, FIRST_PAGE_DOUBTS)]
    parts = [part for cause in root_causes[:FIRST_PAGE_CAUSES] for part in _build_cause_parts(data, cause)]
    omitted = len(root_causes) - FIRST_PAGE_CAUSES
    if omitted > 0:
        parts.append(Paragraph(f"… and {omitted} more, in the appendix."))
    return parts


def _build_further_causes(data: IncidentReportData, causes: Sequence[Hypothesis]) -> list[PagePart]:
    if len(causes) <= FIRST_PAGE_CAUSES:
        return []
    parts = [part for cause in causes[FIRST_PAGE_CAUSES:MAX_CAUSES] for part in _build_cause_parts(data, cause)]
    omitted = len(causes) - MAX_CAUSES
    if omitted > 0:
        parts.append(Paragraph(f"… and {omitted} more."))
    return parts


def _format_no_cause(report: Report | None) -> str:
    if report is None:
        return "Nothing was concluded yet."
    return "Nothing wrong was found." if report.outcome == "no_fault" else "No cause was proven."


def _build_cause_parts(data: IncidentReportData, cause: Hypothesis) -> Iterator[PagePart]:
    location = fold_host_names(cause.hosts) or "not a host fault"
    if 0 < len(cause.devices) <= MAX_CAUSE_DEVICES:
        location = ", ".join(cause.devices)
    title = report_rows.get_cause_title(cause.label, data.titles)
    yield Paragraph(f"{title} · {location} · {report_texts.format_confidence_percent(cause.confidence)} sure", strong=True)
    yield Paragraph(f"{cause.label}{f': {cause.because}' if cause.because else ''}")
    if lines := list(render_evidence(cause, FIRST_PAGE_LINES)):
        yield QuotedLines(lines)


def _build_action_parts(data: IncidentReportData) -> list[PagePart]:
    """Return a table of the actions. Actions with the same remedy, outcome and deciders share a row."""
    if data.records is None:
        return [Paragraph("Not known: the ledger could not be read.")]
    records_by_action: dict[tuple[str, str, str, str], list[ActionRecord]] = {}
    for record in data.records:
        key = (record.action.remedy, action_text.get_state_word(record)[1], str(record.exit_status), _format_deciders(data, record))
        records_by_action.setdefault(key, []).append(record)
    rows = [_build_action_row(records, deciders) for (_, _, _, deciders), records in list(records_by_action.items())[:MAX_ACTIONS]]
    head = ("What", "Where", "Result", "Who approved it, and why")
    return [PageTable(head, rows)] if rows else [Paragraph("Nothing was proposed for approval.")]


def _build_action_row(records: Sequence[ActionRecord], deciders: str) -> tuple[str, str, str, str]:
    first = records[0]
    state = PENDING_TEXT if first.state is State.PENDING else action_text.get_state_headline(first)[1].removesuffix(":")
    result = ". ".join(filter(None, (state, _format_exit_status(first), action_text.describe_outcome(first))))
    hosts = {host for record in records for host in list_targets(record.action)}
    actions = action_text.describe_actions([record.action for record in records])
    return actions, action_text.fold_hosts_exactly(sorted(hosts)), result, deciders


def _format_exit_status(record: ActionRecord) -> str:
    return f"exit {record.exit_status}" if record.exit_status else ""


def _format_deciders(data: IncidentReportData, record: ActionRecord) -> str:
    approvals, rejections = list[str](), list[str]()
    for vote in record.votes:
        voter = f"{data.get_person_name(vote.voter)}{_format_reason(vote.reason)}"
        if vote.verdict == "approve":
            approvals.append(voter)
        elif vote.verdict == "deny":
            rejections.append(f"rejected by {voter}")
    decisions = [*approvals, *rejections]
    if is_ended_by_person(record) and not rejections:
        person = f"{data.get_person_name(record.ended_by)}{_format_reason(record.says)}"
        decisions.append(f"{action_text.STATE_WORDS[record.state]} by {person}")
    if not decisions:
        return "nobody yet" if record.state is State.PENDING else "nobody"
    return "; ".join(decisions)


def _format_reason(reason: str) -> str:
    return f": “{' '.join(reason.split())}”" if reason.strip() else ""


def _build_drained_parts(data: IncidentReportData) -> list[PagePart]:
    hosts_by_reason: dict[tuple[str, str, str], list[str]] = {}
    for node in list_drained_nodes(data.incident.remediations):
        since = f"{node.since:%Y-%m-%d %H:%M}" if node.since else "not known"
        status = (node.no_return or node.why).replace(node.host, "the host")
        hosts_by_reason.setdefault((since, node.by or "not noted", status), []).append(node.host)
    rows = [(fold_host_names(hosts), *reason) for reason, hosts in list(hosts_by_reason.items())[:MAX_DRAINED]]
    locked_hosts = [
        f"{remediation.target} is locked: unknown whether {remediation.approval} ran"
        for remediation in data.incident.remediations
        if remediation.outcome == "unknown"
    ]
    parts: list[PagePart] = [PageTable(("Out of service", "Since (UTC)", "Approved by", "Status"), rows)] if rows else []
    if len(hosts_by_reason) > MAX_DRAINED:
        parts.append(Paragraph(f"… and {len(hosts_by_reason) - MAX_DRAINED} more."))
    if locked_hosts:
        parts.append(BulletList(locked_hosts))
    return parts or [Paragraph("Nothing.")]


def _list_open_tasks(data: IncidentReportData) -> list[str]:
    """Return what is left to people. A ticket that was taken is no task."""
    report, ticket = data.incident.report, data.incident.ticket
    if not report:
        return []
    is_over = data.incident.lifecycle in ("watching", "closed")
    tasks = ["" if is_over else report.next_step, *report.by_hand, *report.questions]
    done_steps = {TAKE_TICKET_STEP} if ticket and ticket.taken_by else set[str]()
    return list(dict.fromkeys(task for task in tasks if task and task not in done_steps))


def _list_notes(data: IncidentReportData) -> list[str]:
    notes = [
        f"Made by RackMedic on {data.made:%Y-%m-%d %H:%M:%S} UTC; all times are UTC. Quoted lines are as machines and people wrote them."
    ]
    if data.incident.lifecycle != "closed":
        notes.append("The incident is not closed: this is how it stood then.")
    if not data.history.whole:
        notes.append("The audit log was not read back to where this incident began: moments of its actions may be missing.")
    return [*notes, *data.unread]
