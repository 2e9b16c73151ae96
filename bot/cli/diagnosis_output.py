"""A diagnosis for the terminal and as JSON for scripts. A changed shape raises SCHEMA_VERSION. Host text is never markup."""

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from bot.cli.safe_console import indent_renderable, render_rule
from graph.extraction import report_texts, uploaded_files
from graph.extraction.log_digests import format_log_digest
from graph.extraction.report_texts import format_report_unknowns
from graph.extraction.uploaded_files import format_file_read
from graph.guide_rendering import render_guide_steps
from graph.incident_view import IncidentView
from graph.report import HostFinding, PlannedAction, Report, UnprovenCause
from graph.state import Conjecture, Hypothesis, IncidentCosts, IncidentState
from kb.redact import show_invisible
from tools.inventory.host_ranges import fold_host_names

if TYPE_CHECKING:
    from bot.cli.local_thread import ReplyOutcome


# The diagnosis as JSON for scripts. Pure; a changed shape raises SCHEMA_VERSION.

SCHEMA_VERSION = 1
ACTION_FIELDS = {"label", "rung", "remedy", "target", "via", "args", "argv", "command", "risk", "digest"}


def build_diagnosis_document(state: IncidentState, report: Report) -> dict[str, Any]:
    """Return what `rackmedic diagnose --json` prints."""
    rows = IncidentView(state)
    ticket = rows.ticket
    return {
        "schema": SCHEMA_VERSION,
        "incident": rows.id,
        "outcome": report.outcome,
        "headline": report.headline,
        "root_causes": [_build_cause_row(cause) for cause in report.root_causes],
        "about": report.about.model_dump(mode="json") if report.about else None,
        "also_seen": list(report.also_seen),
        "ruled_out": [{"label": row.label, "because": row.because} for row in report.ruled_out],
        "could_not_look": [row.model_dump() for row in report.could_not_look],
        "unknown_hosts": [{"name": row.name, "nearest": list(row.nearest)} for row in report.unknown_hosts],
        "read_as": dict(report.read_as),
        "files": [row.model_dump(mode="json", exclude={"line"}) | {"says": format_file_read(row)} for row in report.files],
        "questions": list(report.questions),
        "likely": report.likely.model_dump(mode="json") if report.likely else None,
        "outside": report.outside,
        "ideas": [row.model_dump(mode="json") for row in report.ideas],
        "doubts": list(report.doubts),
        "guide": report.guide.model_dump(mode="json") if report.guide else None,
        "actions": [row.model_dump(include=ACTION_FIELDS) for row in report.actions],
        "ticket": {"summary": ticket.summary, "owner": ticket.owner} if ticket else None,
        "without_model": report.without_model,
        "stats": rows.stats.model_dump(),
    }


def _build_cause_row(cause: Hypothesis) -> dict[str, Any]:
    return {
        "label": cause.label,
        "hosts": list(cause.hosts),
        "devices": list(cause.devices),
        "confidence": round(cause.confidence, 4),
        "evidence": [
            {
                "host": row.host,
                "check": row.check,
                "line": row.line,
                "time": row.time.isoformat() if row.time else None,
                "sha256": row.sha256,
            }
            for row in cause.evidence
        ],
    }


# A report for the terminal. Host text is never interpreted as markup.

OUTCOME_STYLES = {"diagnosed": "bold red", "no_fault": "bold green", "abstained": "bold yellow", "handed_off": "bold magenta"}
ANSWER_STYLES: Mapping[HostFinding, str] = {"fault": "bold red", "nothing": "bold green", "odd": "bold yellow", "blind": "bold yellow"}
NOT_APPROVABLE_TEXT = "would be proposed for approval, in this order (approve in Slack; a terminal cannot)"


def render_report(state: IncidentState, report: Report, *, decided: str = "") -> RenderableType:
    """Return the report. `decided`: how actions proceed, if decided here."""
    rows = IncidentView(state)
    parts: list[RenderableType] = [
        render_rule(rows.id),
        Text(show_invisible(report.headline or report.outcome), style=_get_headline_style(report)),
    ]
    parts += [Text(show_invisible(report.changed))] if report.changed else []
    parts += [
        Text(show_invisible(sentence), style="yellow")
        for sentence in format_report_unknowns(report)
        if sentence not in report.headline + report.reply
    ]
    if report.reply:
        parts.append(Text(show_invisible(report.reply)))
    parts += [part for cause in report.root_causes if cause.label not in report.also_seen for part in _render_cause(cause)]
    if report.also_seen:
        parts.append(Text("\nalso seen", style="bold"))
        parts += [part for cause in report.root_causes if cause.label in report.also_seen for part in _render_cause(cause)]
    parts += _render_list(decided or NOT_APPROVABLE_TEXT, [_format_action(row) for row in report.actions])
    parts += _render_list("for people to do", report.by_hand)
    parts += _render_list("ruled out", [f"{row.label}: {row.because}" for row in report.ruled_out[:8]])
    parts += _render_list("could not look", [f"{row.check} on {row.host}: {row.why}" for row in report.could_not_look[:12]])
    parts += _render_list("files", [f"{row.name} {uploaded_files.format_file_read(row)}" for row in report.files])
    parts += _render_list("in the logs", [line for log in report.logs for line in format_log_digest(log)])
    parts += _render_list(f"guide {report.guide.id}: {report.guide.title}", render_guide_steps(report.guide)) if report.guide else []
    parts += _render_list("questions", report.questions)
    parts += _render_list("likely and unproven", [_format_likely_cause(report.likely)] if report.likely else [])
    parts += _render_list("perhaps (a model wrote this; nothing on the machines shows it)", [report.outside] if report.outside else [])
    parts += [part for idea in report.ideas for part in _render_idea(idea)]
    parts += _render_list("a second reading doubts it", report.doubts)
    parts += _render_list("differs from its peers, or from what it was", report.differs)
    parts += _render_list("old, and not since: decides nothing", report.old)
    parts += _render_list("suggestions (never run by RackMedic)", report.suggestions)
    if report.next_step:
        parts.append(Text.assemble(("next  ", "bold"), show_invisible(report.next_step)))
    if report.look_again:
        parts.append(Text(show_invisible(report.look_again)))
    parts.append(Text(_format_cost(rows.stats, report), style="dim"))
    return Group(*parts)


def render_reply_outcome(told: "ReplyOutcome", *, quoted: bool = True) -> RenderableType:
    """Return a reply's outcome, with the reply if `quoted`."""
    ran_checks = f"{len(told.ran)} checks on {fold_host_names({host for host, _ in told.ran})}" if told.ran else "no check"
    cards = "".join(f" · proposed: {card['remedy']} on {card['target']}" for card in told.cards)
    reply_parts = [
        render_rule(style="dim"),
        Text.assemble((f"{show_invisible(told.reply.by)}  ", "bold cyan"), show_invisible(told.reply.text)),
    ]
    return Group(
        *(reply_parts if quoted else []),
        indent_renderable(Text(show_invisible(told.answer) or "(says nothing)")),
        indent_renderable(Text(f"{told.intent.value} · {ran_checks}{cards}", style="dim")),
    )


def _get_headline_style(report: Report) -> str:
    return ANSWER_STYLES[report.about.found] if report.about else OUTCOME_STYLES[report.outcome]


def _render_cause(cause: Hypothesis) -> list[RenderableType]:
    location = ", ".join(cause.devices) or fold_host_names(cause.hosts) or "no machine"
    rows: list[RenderableType] = [
        Text.assemble(
            "\n", (cause.label, "bold"), "  on ", (location, "bold"), f"  ({report_texts.format_confidence_percent(cause.confidence)} sure)"
        )
    ]
    for row in cause.evidence[:8]:
        when = f"{row.time:%H:%M:%S} " if row.time else ""
        rows.append(Text.assemble(("  │ ", "dim"), (f"{row.host or 'ticket'} {row.check} {when}", "cyan"), show_invisible(row.line)[:400]))
    if cause.because:
        rows.append(Text(f"  {show_invisible(cause.because)}"))
    return rows


def _format_likely_cause(row: UnprovenCause) -> str:
    model_note = (
        f"a model's reading gives it {report_texts.format_confidence_percent(row.p)}"
        if row.by == "reading"
        else f"the facts make it {report_texts.format_confidence_percent(row.p)} likely"
    )
    return f"{row.label}: {model_note}; {row.because or 'no fact proves it'}"


def _render_idea(idea: Conjecture) -> list[RenderableType]:
    statements = {"rests on": "; ".join(idea.rests), "would prove it": idea.confirms, "would refute it": idea.refutes}
    statements |= {"looked at for it": "; ".join(idea.looks), "against it": idea.doubt, "worth a try": "; ".join(idea.suggestions)}
    head = Text.assemble(
        "\n", (f"it may be: {show_invisible(idea.title)}", "bold"), f"  ({idea.standing}; a model wrote this, nothing of it was run)"
    )
    return [
        head,
        Text(f"  {show_invisible(idea.cause)}"),
        *(Text(f"  {name}: {show_invisible(words)}") for name, words in statements.items() if words),
    ]


def _format_action(row: PlannedAction) -> str:
    via = f" via {row.via}" if row.via != row.target else ""
    return f"{row.remedy} on {row.target}{via} ({row.risk}): {shlex.join(row.command)}"


def _render_list(title: str, rows: tuple[str, ...] | list[str]) -> list[RenderableType]:
    return [Text(f"\n{title}", style="bold"), *(Text(f"  · {show_invisible(row)}") for row in rows)] if rows else []


def _format_cost(stats: IncidentCosts, report: Report) -> str:
    clock = " on the case's clock" if stats.clock == "virtual" else ""
    cost = f"\n{report_texts.format_cost(stats) or 'nothing was asked'}{clock} · {stats.model_calls} model calls · ${stats.usd:.3f}"
    return cost + (f" · without a model: {report.without_model}" if report.without_model else "")
