"""A report for the terminal: headline first, evidence as it was printed, next step last. Host text is shown literally, never as markup."""

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from bot.terminal.paper import indented, line
from graph.guided import every_line
from graph.reading import counts, files
from graph.reading.logs import in_words
from graph.reading.unknown import said_in
from graph.report import Found, PlannedAction, Report, UnprovenCause
from graph.rows import IncidentRows
from graph.state import Conjecture, Hypothesis, Incident, Stats
from kb.redact import visible
from tools.inventory.ranges import fold

if TYPE_CHECKING:
    from bot.terminal.conversation import ToldReply

COLOURS = {"diagnosed": "bold red", "no_fault": "bold green", "abstained": "bold yellow", "handed_off": "bold magenta"}

OF_ASKED: Mapping[Found, str] = {"fault": "bold red", "nothing": "bold green", "odd": "bold yellow", "blind": "bold yellow"}


NOWHERE = "would be put up for approval, in this order (a terminal approves nothing)"


def report_text(state: Incident, report: Report, *, decided: str = "") -> RenderableType:
    """The whole report as one renderable. `decided`: how its actions go on, where they can be decided."""
    rows = IncidentRows(state)
    parts: list[RenderableType] = [line(rows.id), Text(visible(report.headline or report.outcome), style=_colour(report))]
    parts += [Text(visible(report.changed))] if report.changed else []
    parts += [Text(visible(said), style="yellow") for said in said_in(report) if said not in report.headline + report.reply]
    if report.reply:
        parts.append(Text(visible(report.reply)))
    parts += [part for cause in report.root_causes if cause.label not in report.also_seen for part in _cause(cause)]
    if report.also_seen:
        parts.append(Text("\nalso seen", style="bold"))
        parts += [part for cause in report.root_causes if cause.label in report.also_seen for part in _cause(cause)]
    parts += _list(decided or NOWHERE, [_action(row) for row in report.actions])
    parts += _list("for people to do", report.by_hand)
    parts += _list("ruled out", [f"{row.label}: {row.because}" for row in report.ruled_out[:8]])
    parts += _list("could not look", [f"{row.check} on {row.host}: {row.why}" for row in report.could_not_look[:12]])
    parts += _list("files", [f"{row.name} {files.in_words(row)}" for row in report.files])
    parts += _list("in the logs", [said for log in report.logs for said in in_words(log)])
    parts += _list(f"guide {report.guide.id}: {report.guide.title}", every_line(report.guide)) if report.guide else []
    parts += _list("questions", report.questions)
    parts += _list("likely and unproven", [_likely(report.likely)] if report.likely else [])
    parts += _list("perhaps (a model wrote this; nothing on the machines shows it)", [report.outside] if report.outside else [])
    parts += [part for idea in report.ideas for part in _idea(idea)]
    parts += _list("a second reading doubts it", report.doubts)
    parts += _list("differs from its peers, or from what it was", report.differs)
    parts += _list("old, and not since: decides nothing", report.old)
    parts += _list("suggestions (never run by RackMedic)", report.suggestions)
    if report.next_step:
        parts.append(Text.assemble(("next  ", "bold"), visible(report.next_step)))
    if report.look_again:
        parts.append(Text(visible(report.look_again)))
    parts.append(Text(_cost(rows.stats, report), style="dim"))
    return Group(*parts)


def told_text(told: "ToldReply", *, quoted: bool = True) -> RenderableType:
    """A reply and what became of it, as a thread reads; without the reply itself where it stands there already."""
    looked = f"{len(told.ran)} checks on {fold({host for host, _ in told.ran})}" if told.ran else "no check"
    cards = "".join(f" · put up: {card['remedy']} on {card['target']}" for card in told.cards)
    said = [line(style="dim"), Text.assemble((f"{visible(told.reply.by)}  ", "bold cyan"), visible(told.reply.text))]
    return Group(
        *(said if quoted else []),
        indented(Text(visible(told.answer) or "(says nothing)")),
        indented(Text(f"{told.intent.value} · {looked}{cards}", style="dim")),
    )


def _colour(report: Report) -> str:
    """That of the answer to what was asked."""
    return OF_ASKED[report.about.found] if report.about else COLOURS[report.outcome]


def _cause(cause: Hypothesis) -> list[RenderableType]:
    where = ", ".join(cause.devices) or fold(cause.hosts) or "no machine"
    rows: list[RenderableType] = [
        Text.assemble("\n", (cause.label, "bold"), "  on ", (where, "bold"), f"  ({counts.sure(cause.confidence)} sure)")
    ]
    for row in cause.evidence[:8]:
        when = f"{row.time:%H:%M:%S} " if row.time else ""
        rows.append(Text.assemble(("  │ ", "dim"), (f"{row.host or 'ticket'} {row.check} {when}", "cyan"), visible(row.line)[:400]))
    if cause.because:
        rows.append(Text(f"  {visible(cause.because)}"))
    return rows


def _likely(row: UnprovenCause) -> str:
    said = f"a model's reading gives it {counts.sure(row.p)}" if row.by == "reading" else f"the facts make it {counts.sure(row.p)} likely"
    return f"{row.label}: {said}; {row.because or 'no fact proves it'}"


def _idea(idea: Conjecture) -> list[RenderableType]:
    """A cause beyond the taxonomy, as a model thought of it."""
    said = {"rests on": "; ".join(idea.rests), "would prove it": idea.confirms, "would refute it": idea.refutes}
    said |= {"looked at for it": "; ".join(idea.looks), "against it": idea.doubt, "worth a try": "; ".join(idea.suggestions)}
    head = Text.assemble(
        "\n", (f"it may be: {visible(idea.title)}", "bold"), f"  ({idea.standing}; a model wrote this, nothing of it was run)"
    )
    return [head, Text(f"  {visible(idea.cause)}"), *(Text(f"  {name}: {visible(words)}") for name, words in said.items() if words)]


def _action(row: PlannedAction) -> str:
    via = f" via {row.via}" if row.via != row.target else ""
    return f"{row.remedy} on {row.target}{via} ({row.risk}): {shlex.join(row.command)}"


def _list(title: str, rows: tuple[str, ...] | list[str]) -> list[RenderableType]:
    return [Text(f"\n{title}", style="bold"), *(Text(f"  · {visible(row)}") for row in rows)] if rows else []


def _cost(stats: Stats, report: Report) -> str:
    clock = " on the case's clock" if stats.clock == "virtual" else ""
    cost = f"\n{counts.cost(stats) or 'nothing was asked'}{clock} · {stats.model_calls} model calls · ${stats.usd:.3f}"
    return cost + (f" · without a model: {report.without_model}" if report.without_model else "")
