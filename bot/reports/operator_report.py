"""The operator page: a one-sheet summary, then the appendix. Pure."""

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime

from bot.incidents.cards import report_rows
from bot.incidents.cards.handoff_content import VERDICT_ORDER
from bot.incidents.cards.home import LIFECYCLE_WORDS
from bot.remediation.cards import action_text
from bot.reports.page import BulletList, Page, PagePart, PageSection, PageTable, Paragraph, QuotedLines
from bot.reports.report_data import IncidentReportData, build_page_timeline, format_actions, is_ended_by_person
from graph.extraction import report_texts
from graph.remediation.drained_nodes import list_drained_nodes
from graph.report import Report
from graph.state import Evidence, Hypothesis, Remediation, UnobservedCheck
from kb.needle_search import zero_digits
from tools.inventory.host_ranges import fold_host_names
from tools.ledger.record import ActionRecord, list_requesters, list_targets
from tools.ledger.states import State

# Appendix of the operator page.

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
    return (
        "none named"
        if not folded
        else folded
        if len(folded) <= MAX_HOSTS_CHARS
        else f"{folded[:MAX_HOSTS_CHARS]}… ({len(set(names))} hosts)"
    )


def render_evidence(cause: Hypothesis, most: int = MAX_LINES) -> Iterator[str]:
    """Yield evidence, the deciding line first; lines that differ only in numbers are merged."""
    evidence_by_text: dict[tuple[str, str], list[Evidence]] = {}
    for row in sorted(cause.evidence, key=lambda one: one.says != cause.because):
        evidence_by_text.setdefault((row.check, zero_digits(row.line.strip())), []).append(row)
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
    doubts = [row for row in data.rows.hypotheses if row.verdict in ("open", "inconclusive")]
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
    for row in records:
        if row.start_by is not None:
            hosts_by_command.setdefault(shlex.join(row.action.command), set()).add(row.action.via)
    for command, hosts in list(hosts_by_command.items())[:MAX_LINES]:
        yield f"{fold_host_names(hosts)}: {command}"
    yield from build_more_lines(len(hosts_by_command) - MAX_LINES)


def build_remediation_parts(remediations: Sequence[Remediation], data: IncidentReportData) -> list[PagePart]:
    """Return remediations, those in the same state merged."""
    hosts_by_remediation: dict[tuple[str, str], set[str]] = {}
    for row in remediations:
        outcome_text = row.says.replace(row.target, "the host") if row.says else row.outcome or "goes on"
        hosts_by_remediation.setdefault((report_rows.get_cause_title(row.label, data.titles), outcome_text), set()).update(
            row.target.split(",")
        )
    rows = [
        (f"{title} on {fold_host_names(hosts)}", outcome)
        for (title, outcome), hosts in list(hosts_by_remediation.items())[:MAX_REMEDIATIONS]
    ]
    return [PageTable(("Fix", "Status"), rows)] if rows else []


def build_decision_parts(data: IncidentReportData) -> list[PagePart]:
    """Return decisions with reasons; one decision on several actions is one row."""
    records_by_decision: dict[tuple[datetime, str, str, str, str], list[ActionRecord]] = {}
    for row in data.records or ():
        for at, person, decision, reason in _list_decisions(data, row):
            records_by_decision.setdefault((at, person, decision, reason, row.action.remedy), []).append(row)
    ordered = sorted(records_by_decision.items(), key=lambda one: one[0])
    rows = [
        (f"{at:%Y-%m-%d %H:%M:%S}", voter, f"{choice}: {format_actions(many)}", vote_reason)
        for (at, voter, choice, vote_reason, _), many in ordered[:MAX_VOTES]
    ]
    hidden_note = [Paragraph(f"… and {len(ordered) - MAX_VOTES} more decisions.")] if len(ordered) > MAX_VOTES else []
    return [PageTable(("Time (UTC)", "Who", "Decision", "Why"), rows), *hidden_note] if rows else []


def _list_decisions(data: IncidentReportData, row: ActionRecord) -> Iterator[tuple[datetime, str, str, str]]:
    for requester in sorted(list_requesters(row.action)):
        yield row.proposed_at.replace(microsecond=0), data.get_person_name(requester), "asked for it", ""
    for vote in row.votes:
        at = datetime.fromisoformat(vote.at).replace(microsecond=0)
        yield at, data.get_person_name(vote.voter), "approved" if vote.verdict == "approve" else "rejected", vote.reason
    if is_ended_by_person(row) and not any(vote.verdict == "deny" for vote in row.votes):
        ended = next((one.at for one in reversed(data.history.events) if one.approval == row.approval), row.decide_by)
        yield ended.replace(microsecond=0), data.get_person_name(row.ended_by), action_text.STATE_WORDS[row.state], row.says


# The operator page: a one-sheet summary, then the appendix (`appendix`).

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
    report = data.rows.report
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
    text = data.rows.brief.text.strip()
    beyond = (
        ("What was reported", [QuotedLines(text.split("\n"))] if len(text) > FIRST_PAGE_REPORT_CHARS or "\n" in text else []),
        ("All causes", _build_further_causes(data, causes)),
        ("All evidence", list(build_evidence_parts(data, causes[:MAX_CAUSES])) if _has_more_evidence(causes) else []),
        ("Timeline", line.whole),
        ("All that was tried", attempts if len(_list_table_rows(attempts)) > FIRST_PAGE_ACTIONS else []),
        ("Who decided what", build_decision_parts(data)),
        ("Commands that ran", [QuotedLines(commands)] if (commands := list(list_commands(data.records or ()))) else []),
        ("Fixes", build_remediation_parts(data.rows.remediations, data)),
        ("All that is held", still if len(_list_table_rows(still)) > FIRST_PAGE_DRAINED else []),
        ("All that is left to people", [BulletList(_list_open_tasks(data))] if len(_list_open_tasks(data)) > FIRST_PAGE_TASKS else []),
        ("Pictures", data.figures),
        ("Ruled out", build_ruled_out_parts(data, report)),
        ("Not decided", build_undecided_parts(data)),
        ("Could not look", build_unobserved_parts(report)),
    )
    headline = (report.headline if report else "").partition(";")[0].strip(" .") or "Not diagnosed yet"
    sections = (*first, *(PageSection(title, parts, appendix=True) for title, parts in beyond))
    return Page(
        data.rows.id, "operators", f"Incident {data.rows.id}: {headline}", _format_lead(data), data.made, sections, _list_notes(data)
    )


def _list_table_rows(parts: Sequence[PagePart]) -> list[Sequence[str]]:
    return [row for part in parts if isinstance(part, PageTable) for row in part.rows]


def _limit_rows(parts: Sequence[PagePart], most: int) -> list[PagePart]:
    short: list[PagePart] = []
    for part in parts:
        if isinstance(part, PageTable):
            short.append(PageTable(part.head, [[_clip_text(cell) for cell in row] for row in part.rows[:most]]))
            hidden_count = len(part.rows) - most
            short += [Paragraph(f"… and {hidden_count} more, in the appendix.")] if hidden_count > 0 else []
        else:
            short.append(part)
    return short


def _clip_text(text: str, most: int = FIRST_PAGE_CELL_CHARS) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _has_more_evidence(causes: Sequence[Hypothesis]) -> bool:
    return any(list(render_evidence(cause)) != list(render_evidence(cause, FIRST_PAGE_LINES)) for cause in causes)


def _format_lead(data: IncidentReportData) -> str:
    opened = f"opened {data.rows.opened_at:%Y-%m-%d %H:%M} UTC, " if data.rows.opened_at else ""
    return f"{opened}{LIFECYCLE_WORDS[data.rows.lifecycle]}"


def _list_glance_rows(data: IncidentReportData) -> Iterator[tuple[str, str]]:
    rows, report, ticket = data.rows, data.rows.report, data.rows.ticket
    origin, causes = rows.origin, report.root_causes if report else ()
    yield "State", LIFECYCLE_WORDS[rows.lifecycle]
    yield (
        "Found",
        "; ".join(report_rows.get_cause_title(one.label, data.titles) for one in causes)
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
    yield "Hosts", format_hosts(rows.brief.hosts or tuple(sorted({host for one in causes for host in one.hosts})))
    if rows.brief.job:
        yield "Job", rows.brief.job
    person_name = data.get_person_name(origin.user) if origin and origin.user else "not known"
    brief_text = " ".join(rows.brief.text.split())
    yield "Reported by", f"{person_name}: “{_clip_text(brief_text, FIRST_PAGE_REPORT_CHARS)}”" if brief_text else person_name
    if origin and origin.tenant:
        yield "Customer", origin.tenant
    yield (
        "On it",
        data.get_person_name(rows.owner or (ticket.taken_by if ticket else "")) if rows.owner or (ticket and ticket.taken_by) else "nobody",
    )
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
    stats = data.rows.stats
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
    for row in data.records:
        key = (row.action.remedy, action_text.get_state_word(row)[1], str(row.exit_status), _format_deciders(data, row))
        records_by_action.setdefault(key, []).append(row)
    rows = [_build_action_row(many, decided) for (_, _, _, decided), many in list(records_by_action.items())[:MAX_ACTIONS]]
    head = ("What", "Where", "Result", "Who approved it, and why")
    return [PageTable(head, rows)] if rows else [Paragraph("Nothing was proposed for approval.")]


def _build_action_row(alike: Sequence[ActionRecord], decided: str) -> tuple[str, str, str, str]:
    first = alike[0]
    state_text = PENDING_TEXT if first.state is State.PENDING else action_text.get_state_headline(first)[1].removesuffix(":")
    outcome_text = ". ".join(filter(None, (state_text, _format_exit_status(first), action_text.describe_outcome(first))))
    place = action_text.fold_hosts_exactly(sorted({host for row in alike for host in list_targets(row.action)}))
    return action_text.describe_actions([row.action for row in alike]), place, outcome_text, decided


def _format_exit_status(row: ActionRecord) -> str:
    return f"exit {row.exit_status}" if row.exit_status else ""


def _format_deciders(data: IncidentReportData, row: ActionRecord) -> str:
    approved = [f"{data.get_person_name(vote.voter)}{_format_reason(vote.reason)}" for vote in row.votes if vote.verdict == "approve"]
    against = [
        f"rejected by {data.get_person_name(vote.voter)}{_format_reason(vote.reason)}" for vote in row.votes if vote.verdict == "deny"
    ]
    ended = (
        [f"{action_text.STATE_WORDS[row.state]} by {data.get_person_name(row.ended_by)}{_format_reason(row.says)}"]
        if is_ended_by_person(row) and not against
        else []
    )
    return "; ".join((*approved, *against, *ended)) or ("nobody yet" if row.state is State.PENDING else "nobody")


def _format_reason(reason: str) -> str:
    return f": “{' '.join(reason.split())}”" if reason.strip() else ""


def _build_drained_parts(data: IncidentReportData) -> list[PagePart]:
    hosts_by_reason: dict[tuple[str, str, str], list[str]] = {}
    for node in list_drained_nodes(data.rows.remediations):
        since = f"{node.since:%Y-%m-%d %H:%M}" if node.since else "not known"
        hosts_by_reason.setdefault((since, node.by or "not noted", (node.no_return or node.why).replace(node.host, "the host")), []).append(
            node.host
        )
    rows = [(fold_host_names(hosts), *row) for row, hosts in list(hosts_by_reason.items())[:MAX_DRAINED]]
    locked = [f"{row.target} is locked: unknown whether {row.approval} ran" for row in data.rows.remediations if row.outcome == "unknown"]
    parts: list[PagePart] = [PageTable(("Out of service", "Since (UTC)", "Approved by", "Status"), rows)] if rows else []
    parts += [Paragraph(f"… and {len(hosts_by_reason) - MAX_DRAINED} more.")] if len(hosts_by_reason) > MAX_DRAINED else []
    return [*parts, *([BulletList(locked)] if locked else [])] or [Paragraph("Nothing.")]


def _list_open_tasks(data: IncidentReportData) -> list[str]:
    """Return open tasks, without taken tickets."""
    report, ticket = data.rows.report, data.rows.ticket
    over = data.rows.lifecycle in ("watching", "closed")
    rows = ["" if over else report.next_step, *report.by_hand, *report.questions] if report else []
    done_steps = {TAKE_TICKET_STEP} if ticket and ticket.taken_by else set[str]()
    return list(dict.fromkeys(row for row in rows if row and row not in done_steps))


def _list_notes(data: IncidentReportData) -> list[str]:
    made_note = (
        f"Made by RackMedic on {data.made:%Y-%m-%d %H:%M:%S} UTC; all times are UTC. Quoted lines are as machines and people wrote them."
    )
    past = (
        []
        if data.history.whole
        else ["The audit log was not read back to where this incident began: moments of its actions may be missing."]
    )
    open_now = [] if data.rows.lifecycle == "closed" else ["The incident is not closed: this is how it stood then."]
    return [made_note, *open_now, *past, *data.unread]
