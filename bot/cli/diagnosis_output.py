"""A diagnosis for the terminal. Host text is never interpreted as markup."""

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from bot.cli.safe_console import indent_renderable, render_rule
from graph.extraction import report_texts, uploaded_files
from graph.extraction.log_digests import format_log_digest
from graph.extraction.report_texts import format_report_unknowns
from graph.guide_rendering import render_guide_steps
from graph.incident_view import IncidentView
from graph.report import HostFinding, PlannedAction, Report, UnprovenCause
from graph.state import Conjecture, Hypothesis, IncidentCosts, IncidentState
from kb.redact import show_invisible
from tools.inventory.host_ranges import fold_host_names

if TYPE_CHECKING:
    from bot.cli.local_thread import ReplyOutcome


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
    parts += _render_list(decided or NOT_APPROVABLE_TEXT, [_format_action(action) for action in report.actions])
    parts += _render_list("for people to do", report.by_hand)
    parts += _render_list("ruled out", [f"{row.label}: {row.because}" for row in report.ruled_out[:8]])
    parts += _render_list("could not look", [f"{row.check} on {row.host}: {row.why}" for row in report.could_not_look[:12]])
    parts += _render_list("files", [f"{file.name} {uploaded_files.format_file_read(file)}" for file in report.files])
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
    for evidence_row in cause.evidence[:8]:
        when = f"{evidence_row.time:%H:%M:%S} " if evidence_row.time else ""
        rows.append(
            Text.assemble(
                ("  │ ", "dim"),
                (f"{evidence_row.host or 'ticket'} {evidence_row.check} {when}", "cyan"),
                show_invisible(evidence_row.line)[:400],
            )
        )
    if cause.because:
        rows.append(Text(f"  {show_invisible(cause.because)}"))
    return rows


def _format_likely_cause(cause: UnprovenCause) -> str:
    model_note = (
        f"a model's reading gives it {report_texts.format_confidence_percent(cause.p)}"
        if cause.by == "reading"
        else f"the facts make it {report_texts.format_confidence_percent(cause.p)} likely"
    )
    return f"{cause.label}: {model_note}; {cause.because or 'no fact proves it'}"


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


def _format_action(action: PlannedAction) -> str:
    via = f" via {action.via}" if action.via != action.target else ""
    return f"{action.remedy} on {action.target}{via} ({action.risk}): {shlex.join(action.command)}"


def _render_list(title: str, rows: tuple[str, ...] | list[str]) -> list[RenderableType]:
    return [Text(f"\n{title}", style="bold"), *(Text(f"  · {show_invisible(row)}") for row in rows)] if rows else []


def _format_cost(stats: IncidentCosts, report: Report) -> str:
    clock = " on the case's clock" if stats.clock == "virtual" else ""
    cost = f"\n{report_texts.format_cost(stats) or 'nothing was asked'}{clock} · {stats.model_calls} model calls · ${stats.usd:.3f}"
    return cost + (f" · without a model: {report.without_model}" if report.without_model else "")
