"""The report of a turn: root cause first, where, the lines that prove it, what else was thought of, the next step last."""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.buttons import Press, carry, read_press
from bot.cards.incidents import feedback, handed_in, held, kept, more, question, rows
from bot.cards.text import Line, Part, bold, code, italic
from graph.reading.unknown import said_in
from graph.state import Found, Hypothesis, Outcome, Report, Stats
from tools.inventory.ranges import fold

HAND_OFF, WHY, RECHECK = "diagnosis.hand_off", "diagnosis.why", "diagnosis.recheck"
BUTTONS = {HAND_OFF: "hand_off", WHY: "why", RECHECK: "recheck"}

NO_LINKS: Mapping[str, Part] = {}
HEADLINES: Mapping[Outcome, tuple[str, str]] = {
    "diagnosed": ("🔴", "Root cause found"),
    "no_fault": ("🟢", "No fault found"),
    "abstained": ("🟡", "No root cause found yet"),
    "handed_off": ("🎫", "Handed to a human"),
}

OF_ASKED: Mapping[Found, str] = {"fault": "🔴", "nothing": "🟢", "odd": "🟡", "blind": "🟡"}
"""What stands before the answer to a question about hosts."""


def render(incident: str, report: Report, stats: Stats | None = None, links: Mapping[str, Part] = NO_LINKS) -> Card:
    """The whole report; a turn that answered a question shows the answer alone, for the rest was said before. `links`: to the threads of
    other incidents, where the reader may follow them."""
    if report.reply:
        return blocks.card(
            report.reply,
            [
                *_answer(report.reply),
                *handed_in.render(report),
                *held.rows(incident, report.held),
                *_meant(incident, report),
                _small_print(incident, report, None),
            ],
        )
    icon, words = HEADLINES[report.outcome]
    icon = OF_ASKED[report.about.found] if report.about else icon
    headline = f"{icon} {report.headline or words}"
    return blocks.card(
        headline,
        [
            blocks.header(headline),
            *[blocks.say(f"❓ {line}") for line in said_in(report) if line not in report.headline],
            *_meant(incident, report),
            *_causes(row for row in report.root_causes if row.label not in report.also_seen),
            *_also_seen(report),
            *kept.render(report, links),
            *_titled("Ruled out", rows.ruled_out(report.ruled_out)),
            *_titled("Could not look", rows.could_not_look(report.could_not_look)),
            *handed_in.render(report),
            *_logs(report),
            *question.parts(report.questions, report.suggestions),
            *([blocks.say(bold("Next:"), " ", report.next_step)] if report.next_step else []),
            *_titled("For people", [(row,) for row in report.by_hand]),
            _small_print(incident, report, stats),
            *([_buttons(incident, report)] if report.outcome != "handed_off" else []),
            *([feedback.row(incident, report.item)] if report.outcome in ("diagnosed", "no_fault") else []),
        ],
    )


def read(payload: Mapping[str, Any]) -> Press:
    """A click on one of the card's buttons."""
    return read_press(payload, BUTTONS)


def _meant(incident: str, report: Report) -> list[Block]:
    return question.meant(incident, report.item, report.unknown_hosts)


def _answer(reply: str) -> list[Block]:
    """Sentences as they are, indented lines as a host printed them."""
    parts: list[Block] = []
    for indented, lines in groupby(reply.splitlines(), key=lambda row: row.startswith("  ")):
        rows = list(lines)
        parts.append(blocks.quote(row[2:] for row in rows) if indented else blocks.section(*((row,) for row in rows)))
    return parts


def _also_seen(report: Report) -> list[Block]:
    """What is wrong elsewhere than on the hosts that somebody asked about."""
    parts = _causes(row for row in report.root_causes if row.label in report.also_seen)
    return [blocks.say(bold("Also seen")), *parts, *_not_put_up(report)] if parts else []


def _not_put_up(report: Report) -> list[Block]:
    """How to be shown the fixes that nobody asked for."""
    shown = {*(row.label for row in report.actions), *(row.label for row in report.shared)}
    hosts = fold(host for row in report.root_causes if row.label in report.also_seen and row.label not in shown for host in row.hosts)
    return [blocks.say("No fix of it is put up for decision. Say ", code(f"recheck {hosts}"), " to be shown one.")] if hosts else []


def _causes(causes: Iterable[Hypothesis]) -> list[Block]:
    parts: list[Block] = []
    for h in causes:
        parts.append(blocks.section(*rows.cause(h)))
        parts += [blocks.quote(rows.evidence(h.evidence))] if h.evidence else []
    return parts


def _titled(title: str, lines: list[Line]) -> list[Block]:
    return [blocks.section((bold(title),), *lines)] if lines else []


def _logs(report: Report) -> list[Block]:
    lines = rows.logs(report.logs)
    return [blocks.section((bold("In the logs"),)), blocks.quote(lines)] if lines else []


def _small_print(incident: str, report: Report, stats: Stats | None) -> Block:
    cost = f"{stats.checks} checks on {stats.hosts} hosts in {stats.makespan_seconds:.0f} s" if stats and stats.checks else ""
    badge: list[Line] = [(bold("without a model"), f": {report.without_model}")] if report.without_model and not report.reply else []
    rest = " · ".join(part for part in (f"incident {incident}", cost) if part)
    return blocks.context(*badge, (italic(rest),))


def _buttons(incident: str, report: Report) -> Block:
    value = carry(incident, report.item)
    sure = blocks.confirm("Hand off?", "This thread becomes a ticket with everything found so far. I stop looking by myself.", "Hand off")
    return blocks.actions(
        blocks.button("Hand off", HAND_OFF, value, ask=sure),
        blocks.button("Why?", WHY, value),
        blocks.button("Recheck", RECHECK, value),
        more.menu(incident),
    )
