"""The operator page: a one-sheet summary, then the appendix."""

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

# rows shown on the first page
FIRST_PAGE_CAUSES = 2
FIRST_PAGE_LINES = 3
FIRST_PAGE_DOUBTS = 3
FIRST_PAGE_ACTIONS = 5
FIRST_PAGE_DRAINED = 4
FIRST_PAGE_TASKS = 4
# rows shown in the appendix; the rest is counted
MAX_CAUSES = 8
MAX_ACTIONS = 40
MAX_DRAINED = 60
FIRST_PAGE_CELL_CHARS = 160  # limits on the first page: a cell
FIRST_PAGE_REPORT_CHARS = 240  # the reported text
TAKE_TICKET_STEP = "Take the ticket."
PENDING_TEXT = "Waits for a decision"  # replaces the question that a card asks
OUTCOME_TEXTS = {
    "diagnosed": "a fault was found",
    "no_fault": "nothing wrong was found",
    "abstained": "no cause was proven",
    "handed_off": "no cause was proven; left to people",
}


def render_operator_page(data: IncidentReportData) -> Page:
    """Return the page, unsanitized: pass it to `sanitize_page`."""
    report = data.incident.report
    causes, line = report.root_causes if report else (), build_page_timeline(data)
    attempts, still = _build_tried_parts(data), _build_drained_parts(data)
    first = (
        PageSection("At a glance", [PageTable((), list(_list_glance_rows(data)))]),
        PageSection("Root cause", _build_causes_section(data, report)),
        PageSection("What was tried", _limit_rows(attempts, FIRST_PAGE_ACTIONS)),
        PageSection("Still held", _limit_rows(still, FIRST_PAGE_DRAINED)),
        PageSection("Left to people", [BulletList(_list_open_tasks(data)[:FIRST_PAGE_TASKS])] if _list_open_tasks(data) else []),
        PageSection("Timeline in short" if line.whole else "Timeline", line.short),
    )
    text = data.incident.brief.text.strip()
    commands = list(list_commands(data.records or ()))
    tasks = _list_open_tasks(data)
    beyond = (
        ("What was reported", [QuotedLines(text.split("\n"))] if len(text) > FIRST_PAGE_REPORT_CHARS or "\n" in text else []),
        ("All causes", _build_further_causes(data, causes)),
        ("All evidence", list(build_evidence_parts(data, causes[:MAX_CAUSES])) if _has_more_evidence(causes) else []),
        ("Timeline", line.whole),
        ("All that was tried", attempts if len(_list_table_rows(attempts)) > FIRST_PAGE_ACTIONS else []),
        ("Who decided what", build_decision_parts(data)),
        ("Commands that ran", [QuotedLines(commands)] if commands else []),
        ("Fixes", build_remediation_parts(data.incident.remediations, data)),
        ("All that is held", still if len(_list_table_rows(still)) > FIRST_PAGE_DRAINED else []),
        ("All that is left to people", [BulletList(tasks)] if len(tasks) > FIRST_PAGE_TASKS else []),
        ("Pictures", data.figures),
        ("Ruled out", build_ruled_out_parts(data, report)),
        ("Not decided", build_undecided_parts(data)),
        ("Could not look", build_unobserved_parts(report)),
    )
    headline = (report.headline if report else "").partition(";")[0].strip(" .") or "Not diagnosed yet"
    sections = (*first, *(PageSection(title, parts, appendix=True) for title, parts in beyond))
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
    short: list[PagePart] = []
    for part in parts:
        if isinstance(part, PageTable):
            short.append(PageTable(part.head, [[_clip_text(cell) for cell in row] for row in part.rows[:max_rows]]))
            hidden_count = len(part.rows) - max_rows
            short += [Paragraph(f"… and {hidden_count} more, in the appendix.")] if hidden_count > 0 else []
        else:
            short.append(part)
    return short


def _clip_text(text: str, max_chars: int = FIRST_PAGE_CELL_CHARS) -> str:
    return text if len(text) <= max_chars else f"{text[:max_chars]}…"


def _has_more_evidence(causes: Sequence[Hypothesis]) -> bool:
    return any(list(render_evidence(cause)) != list(render_evidence(cause, FIRST_PAGE_LINES)) for cause in causes)


def _format_lead(data: IncidentReportData) -> str:
    opened = f"opened {data.incident.opened_at:%Y-%m-%d %H:%M} UTC, " if data.incident.opened_at else ""
    return f"{opened}{LIFECYCLE_WORDS[data.incident.lifecycle]}"


def _list_glance_rows(data: IncidentReportData) -> Iterator[tuple[str, str]]:
    rows, report, ticket = data.incident, data.incident.report, data.incident.ticket
    origin, causes = rows.origin, report.root_causes if report else ()
    yield "State", LIFECYCLE_WORDS[rows.lifecycle]
    yield (
        "Found",
        "; ".join(report_rows.get_cause_title(cause.label, data.titles) for cause in causes)
        or (OUTCOME_TEXTS[report.outcome] if report else "nothing yet"),
    )
    if ticket and ticket.true_label:
        yield (
            "It really was",
            " · ".join(
                filter(
                    None,
                    (
                        report_rows.get_cause_title(ticket.true_label, data.titles),
                        ticket.true_cause,
                        _format_person(data, ticket.closed_by),
                    ),
                )
            ),
        )
    if rows.correction:
        word = rows.correction
        yield (
            "It really was",
            " · ".join(filter(None, (report_rows.get_cause_title(word.label, data.titles), word.words, _format_person(data, word.by)))),
        )
    yield "Hosts", format_hosts(rows.brief.hosts or tuple(sorted({host for cause in causes for host in cause.hosts})))
    if rows.brief.job:
        yield "Job", rows.brief.job
    person_name = data.get_person_name(origin.user) if origin and origin.user else "not known"
    brief_text = " ".join(rows.brief.text.split())
    yield "Reported by", f"{person_name}: “{_clip_text(brief_text, FIRST_PAGE_REPORT_CHARS)}”" if brief_text else person_name
    if origin and origin.tenant:
        yield "Customer", origin.tenant
    assignee = rows.owner or (ticket.taken_by if ticket else "")
    yield "On it", data.get_person_name(assignee) if assignee else "nobody"
    yield "To the diagnosis", _format_elapsed(data, data.course.diagnosed if data.course else None)
    yield "To recovery", _format_elapsed(data, data.course.recovered if data.course else None)
    if rows.stats.checks:
        yield "Looked at", _format_cost(data)


def _format_person(data: IncidentReportData, user: str) -> str:
    return f"by {data.get_person_name(user)}" if user else ""


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
    rest = len(root_causes) - FIRST_PAGE_CAUSES
    return [*parts, *([Paragraph(f"… and {rest} more, in the appendix.")] if rest > 0 else [])]


def _build_further_causes(data: IncidentReportData, causes: Sequence[Hypothesis]) -> list[PagePart]:
    if len(causes) <= FIRST_PAGE_CAUSES:
        return []
    parts = [part for cause in causes[FIRST_PAGE_CAUSES:MAX_CAUSES] for part in _build_cause_parts(data, cause)]
    rest = len(causes) - MAX_CAUSES
    return [*parts, *([Paragraph(f"… and {rest} more.")] if rest > 0 else [])]


def _format_no_cause(report: Report | None) -> str:
    if report is None:
        return "Nothing was concluded yet."
    return "Nothing wrong was found." if report.outcome == "no_fault" else "No cause was proven."


def _build_cause_parts(data: IncidentReportData, cause: Hypothesis) -> Iterator[PagePart]:
    location = ", ".join(cause.devices) if 0 < len(cause.devices) <= 8 else fold_host_names(cause.hosts) or "not a host fault"
    yield Paragraph(
        f"{report_rows.get_cause_title(cause.label, data.titles)} · {location} · {report_texts.format_confidence_percent(cause.confidence)} sure",
        strong=True,
    )
    yield Paragraph(f"{cause.label}{f': {cause.because}' if cause.because else ''}")
    if lines := list(render_evidence(cause, FIRST_PAGE_LINES)):
        yield QuotedLines(lines)


def _build_tried_parts(data: IncidentReportData) -> list[PagePart]:
    """Return actions; those with the same effect and outcome share a row."""
    if data.records is None:
        return [Paragraph("Not known: the ledger could not be read.")]
    records_by_action: dict[tuple[str, str, str, str], list[ActionRecord]] = {}
    for record in data.records:
        key = (record.action.remedy, action_text.get_state_word(record)[1], str(record.exit_status), _format_deciders(data, record))
        records_by_action.setdefault(key, []).append(record)
    rows = [_build_action_row(many, decided) for (_, _, _, decided), many in list(records_by_action.items())[:MAX_ACTIONS]]
    head = ("What", "Where", "Result", "Who approved it, and why")
    return [PageTable(head, rows)] if rows else [Paragraph("Nothing was proposed for approval.")]


def _build_action_row(alike: Sequence[ActionRecord], decided: str) -> tuple[str, str, str, str]:
    first = alike[0]
    state_text = PENDING_TEXT if first.state is State.PENDING else action_text.get_state_headline(first)[1].removesuffix(":")
    outcome_text = ". ".join(filter(None, (state_text, _format_exit_status(first), action_text.describe_outcome(first))))
    place = action_text.fold_hosts_exactly(sorted({host for row in alike for host in list_targets(row.action)}))
    return action_text.describe_actions([row.action for row in alike]), place, outcome_text, decided


def _format_exit_status(record: ActionRecord) -> str:
    return f"exit {record.exit_status}" if record.exit_status else ""


def _format_deciders(data: IncidentReportData, record: ActionRecord) -> str:
    approved = [f"{data.get_person_name(vote.voter)}{_format_reason(vote.reason)}" for vote in record.votes if vote.verdict == "approve"]
    against = [
        f"rejected by {data.get_person_name(vote.voter)}{_format_reason(vote.reason)}" for vote in record.votes if vote.verdict == "deny"
    ]
    ended = (
        [f"{action_text.STATE_WORDS[record.state]} by {data.get_person_name(record.ended_by)}{_format_reason(record.says)}"]
        if is_ended_by_person(record) and not against
        else []
    )
    return "; ".join((*approved, *against, *ended)) or ("nobody yet" if record.state is State.PENDING else "nobody")


def _format_reason(reason: str) -> str:
    return f": “{' '.join(reason.split())}”" if reason.strip() else ""


def _build_drained_parts(data: IncidentReportData) -> list[PagePart]:
    hosts_by_reason: dict[tuple[str, str, str], list[str]] = {}
    for node in list_drained_nodes(data.incident.remediations):
        since = f"{node.since:%Y-%m-%d %H:%M}" if node.since else "not known"
        hosts_by_reason.setdefault((since, node.by or "not noted", (node.no_return or node.why).replace(node.host, "the host")), []).append(
            node.host
        )
    rows = [(fold_host_names(hosts), *row) for row, hosts in list(hosts_by_reason.items())[:MAX_DRAINED]]
    locked = [
        f"{remediation.target} is locked: unknown whether {remediation.approval} ran"
        for remediation in data.incident.remediations
        if remediation.outcome == "unknown"
    ]
    parts: list[PagePart] = [PageTable(("Out of service", "Since (UTC)", "Approved by", "Status"), rows)] if rows else []
    parts += [Paragraph(f"… and {len(hosts_by_reason) - MAX_DRAINED} more.")] if len(hosts_by_reason) > MAX_DRAINED else []
    return [*parts, *([BulletList(locked)] if locked else [])] or [Paragraph("Nothing.")]


def _list_open_tasks(data: IncidentReportData) -> list[str]:
    """Return open tasks, without taken tickets."""
    report, ticket = data.incident.report, data.incident.ticket
    if not report:
        return []
    is_over = data.incident.lifecycle in ("watching", "closed")
    tasks = ["" if is_over else report.next_step, *report.by_hand, *report.questions]
    done_steps = {TAKE_TICKET_STEP} if ticket and ticket.taken_by else set[str]()
    return list(dict.fromkeys(task for task in tasks if task and task not in done_steps))


def _list_notes(data: IncidentReportData) -> list[str]:
    made_note = (
        f"Made by RackMedic on {data.made:%Y-%m-%d %H:%M:%S} UTC; all times are UTC. Quoted lines are as machines and people wrote them."
    )
    past = (
        []
        if data.history.whole
        else ["The audit log was not read back to where this incident began: moments of its actions may be missing."]
    )
    open_now = [] if data.incident.lifecycle == "closed" else ["The incident is not closed: this is how it stood then."]
    return [made_note, *open_now, *past, *data.unread]
