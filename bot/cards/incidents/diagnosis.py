"""The report of a turn in five lines: what, where, how sure, do this, buttons. What else is known stands behind Details."""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.buttons import Press, carry, read_press
from bot.cards.incidents import feedback, held, kept, more, question, rows
from bot.cards.incidents.rows import NO_TITLES, Titles
from bot.cards.lessons import guided, ideas, noted, recalled
from bot.cards.text import Line, Part, answer_line, bold, code, italic
from graph.reading import counts
from graph.reading.unknown import said_in
from graph.report import Found, Report
from graph.state import Hypothesis, Outcome, Stats
from kb.scan import lines_in
from tools.inventory.ranges import fold

HAND_OFF, RECHECK, DETAILS = "diagnosis.hand_off", "diagnosis.recheck", "diagnosis.details"
BUTTONS = {HAND_OFF: "hand_off", RECHECK: "recheck", DETAILS: "details"}

NO_LINKS: Mapping[str, Part] = {}
HEADLINES: Mapping[Outcome, tuple[str, str]] = {
    "diagnosed": ("🔴", "Root cause found"),
    "no_fault": ("✅", "No fault found"),
    "abstained": ("❓", "No root cause found yet"),
    "handed_off": ("🎫", "Handed to a human"),
}
"""Signs that differ in shape, not in colour alone, and what is said where there is no better headline."""

OF_ASKED: Mapping[Found, str] = {"fault": "🔴", "nothing": "✅", "odd": "⚠", "blind": "❓"}
"""What stands before the answer to a question about hosts."""

OUTSIDE = "A model that read your report wrote this. Nothing on the machines shows it."
NOT_KEPT = "The outputs behind this are not kept: the evidence store takes nothing now"
FILES = 1500
"""How long what is said of files may be."""

SLURM_NAME, MAX_EXCLUDED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"), 32
OF_THE_JOB = ("USER.", "FRAMEWORK.")
KUBERNETES = (("cordon_node",), ("uncordon_node",), ("evict_pods",))
LINES, LINES_EACH, CAUSES, NAMED, BLIND, LOG_LINES, IDEAS, BY_HAND = 2, 1, 2, 3, 3, 6, 2, 2
"""Lines of evidence of one cause, and of each of several; how many causes are shown so and how many more by name; failed looks, lines of
logs, ideas and tasks for people."""


def render(
    incident: str,
    report: Report,
    stats: Stats | None = None,
    links: Mapping[str, Part] = NO_LINKS,
    titles: Titles = NO_TITLES,
    mark: str = "",
    mended: bool = False,
) -> Card:
    """The whole report; a turn that answered a question shows the answer alone, for the rest was said before. `links`: to the threads of
    other incidents, where the reader may follow them; `titles`: what causes are called; `mark`: what the headline begins with instead;
    `mended`: the fix held, so no host is to be avoided."""
    if report.reply:
        return blocks.card(
            report.reply,
            [
                *_answer(report.reply),
                *kept.threads(report, links),
                *_files(report),
                *held.rows(incident, report.held),
                *_meant(incident, report),
                _small_print(incident, report, None),
            ],
        )
    icon, words = HEADLINES[report.outcome]
    icon = mark or (OF_ASKED[report.about.found] if report.about else icon)
    own = [row for row in report.root_causes if row.label not in report.also_seen]
    return blocks.card(
        f"{icon} {report.headline or words}",
        [
            blocks.header(f"{icon} {_headline(report, own, titles) or words}"),
            *([blocks.say(report.changed)] if report.changed else []),
            *[blocks.say(f"❓ {line}") for line in said_in(report) if line not in report.headline],
            *_meant(incident, report),
            *_causes(own, titles, named=len(own) > 1),
            *_also_seen(report, titles),
            *kept.render(report, links),
            *recalled.render(report, titles),
            *noted.render(report),
            *_files(report),
            *_logs(report, own),
            *_likely(report, titles),
            *_differs(report),
            *_old(report),
            *([blocks.section((bold("Perhaps:"), f" {report.outside}"), (italic(OUTSIDE),))] if report.outside else []),
            *ideas.render(report.ideas),
            *question.parts(report.questions, report.suggestions[:IDEAS]),
            *guided.render(report),
            *_do_this(report, own, titles, stats, mended=mended),
            *([blocks.say(f"🔁 {report.look_again}")] if report.look_again else []),
            _small_print(incident, report, stats),
            *([_buttons(incident, report)] if report.outcome != "handed_off" else []),
            *([feedback.row(incident, report.item)] if report.outcome in ("diagnosed", "no_fault") else []),
        ],
    )


def _headline(report: Report, own: Sequence[Hypothesis], titles: Titles) -> str:
    """What it is. Where stands below it, whole; the headline of the report has both."""
    if not own or report.about or (len(own) == 1 and own[0].label not in titles):
        return report.headline
    return titles[own[0].label] if len(own) == 1 else f"{len(own)} causes found"


def read(payload: Mapping[str, Any]) -> Press:
    """A click on one of the card's buttons."""
    return read_press(payload, BUTTONS)


def _meant(incident: str, report: Report) -> list[Block]:
    return question.meant(incident, report.item, report.unknown_hosts)


def _answer(reply: str) -> list[Block]:
    """Sentences as they are, indented lines as a host printed them."""
    parts: list[Block] = []
    for indented, lines in groupby(lines_in(reply), key=lambda row: row.startswith("  ")):
        rows = list(lines)
        parts.append(blocks.quote(row[2:] for row in rows) if indented else blocks.section(*(answer_line(row) for row in rows)))
    return parts


def _also_seen(report: Report, titles: Titles) -> list[Block]:
    """What is wrong elsewhere than on the hosts that somebody asked about."""
    causes = [row for row in report.root_causes if row.label in report.also_seen]
    rest = _by_name(causes, titles)
    more_of_them = [blocks.section(*rest)] if rest else []
    return [blocks.say(bold("Also seen")), *_causes(causes, titles, named=True), *more_of_them, *_not_put_up(report)] if causes else []


def _not_put_up(report: Report) -> list[Block]:
    """How to be shown the fixes that nobody asked for."""
    up = {row.label for row in report.actions}
    theirs = {(row.label, host) for row in report.shared for host in row.hosts or [""]}
    causes = [row for row in report.root_causes if row.label in report.also_seen and row.label not in up and (row.label, "") not in theirs]
    hosts = fold(host for row in causes for host in row.hosts if (row.label, host) not in theirs)
    return [blocks.say("No fix of it is put up for decision. Say ", code(f"recheck {hosts}"), " to be shown one.")] if hosts else []


def _causes(causes: Sequence[Hypothesis], titles: Titles, *, named: bool) -> list[Block]:
    """Each cause's place and certainty and what shows it. `named`: the headline does not say what it is."""
    if not named:
        return [blocks.section(rows.place(h), *rows.telling(h, LINES)) for h in causes]
    return [
        blocks.section((bold(rows.title(h.label, titles)), " · ", *rows.place(h)), *rows.telling(h, LINES_EACH, sources=False))
        for h in causes[:CAUSES]
    ]


def _by_name(causes: Sequence[Hypothesis], titles: Titles) -> list[Line]:
    """Causes beyond those few: what and where."""
    rest = causes[CAUSES:]
    more: list[Line] = [
        (bold("And:"), f" {rows.title(h.label, titles)} (", bold(rows.where(h) or "no machine at fault"), ")") for h in rest[:NAMED]
    ]
    return [*more, (f"… and {len(rest) - NAMED} more causes in the details",)] if len(rest) > NAMED else more


def _not_looked(report: Report) -> list[Line]:
    """Where nobody could look: what was found is not the whole truth. The reasons matter where nothing was found."""
    if report.outcome == "diagnosed":
        seen = rows.blind_spots(report.could_not_look)
        return [(bold("Could not look:"), " ", *seen)] if seen else []
    lines = rows.could_not_look(report.could_not_look, most=BLIND)
    return [(bold("Could not look"),), *lines] if lines else []


def _files(report: Report) -> list[Block]:
    """The files that came with a message, one a line: size and what was found, or why it was not read and what to send instead."""
    return [blocks.short(*rows.files(report.files), room=FILES)] if report.files else []


def _logs(report: Report, own: Sequence[Hypothesis]) -> list[Block]:
    """What stands out in the logs, as long as no cause does; then it is in the details."""
    lines = [] if own else rows.logs(report.logs)
    rest = [f"… {len(lines) - LOG_LINES} more lines in the details"] if len(lines) > LOG_LINES else []
    return [blocks.section((bold("In the logs"),)), blocks.quote([*lines[:LOG_LINES], *rest])] if lines else []


def _differs(report: Report) -> list[Block]:
    """What the hosts asked about have otherwise than their peers, or than they had."""
    return [blocks.section((bold("Differs from its peers"),)), blocks.quote(report.differs)] if report.differs else []


def _old(report: Report) -> list[Block]:
    """Events of long ago that decided nothing."""
    return [blocks.section((bold("Old, and not since"),)), blocks.quote(report.old)] if report.old else []


def _likely(report: Report, titles: Titles) -> list[Block]:
    """What the cause may well be and nothing proves: whose word that is, and why it is no more. Not where the headline says it already."""
    row = report.likely
    if row is None or rows.title(row.label, titles) in report.headline:
        return []
    who = (
        f"a model that read all of this gives it {rows.percent(row.p)}"
        if row.by == "reading"
        else f"the facts make it {rows.percent(row.p)}"
    )
    why: list[Line] = [(italic("not proven:"), f" {row.because}")] if row.because else []
    return [blocks.section((bold("Likely, not proven:"), f" {rows.title(row.label, titles)} · {who}"), *why)]


def _do_this(report: Report, own: Sequence[Hypothesis], titles: Titles, stats: Stats | None, *, mended: bool) -> list[Block]:
    """What else it is, what it is not, and what to do. What is left to people for one cause is its next step; for several it is said of each."""
    tasks = [] if len(own) == 1 and report.next_step else report.by_hand
    rest = len(tasks) - BY_HAND
    lines: list[Line] = [
        *(_by_name(own, titles) if len(own) > 1 else []),
        *_not_looked(report),
        *(rows.rivals(report.ruled_out, titles) if len(own) == 1 else []),
        *((bold("A second reading doubts it:"), f" {doubt}") for doubt in report.doubts),
        *([(f"{NOT_KEPT} ({report.unkept}).",)] if report.unkept else []),
        *([(bold("Next:"), f" {report.next_step}")] if report.next_step else []),
        *([] if mended else _restart_without(report, own, stats)),
        *((bold("By hand:"), f" {row}") for row in tasks[:BY_HAND]),
        *([(f"… and {rest} more in the details",)] if rest > 0 else []),
    ]
    return [blocks.section(*lines)] if lines else []


def _restart_without(report: Report, own: Sequence[Hypothesis], stats: Stats | None) -> list[Line]:
    """The option with which Slurm starts a job on other hosts than the accused ones. Not where Kubernetes schedules them, for a mistake of the
    job itself, or where no looked-at host would be left."""
    hosts = sorted({host for row in own if not row.label.startswith(OF_THE_JOB) for host in row.hosts if SLURM_NAME.fullmatch(host)})
    if stats is not None and 1 < len(hosts) >= stats.hosts:
        return []
    kubernetes = any(row.argv[:1] in KUBERNETES for row in report.actions)
    if report.outcome != "diagnosed" or not hosts or kubernetes or len(hosts) > MAX_EXCLUDED:
        return []
    words = f"Restart the job without {'it' if len(hosts) == 1 else 'them'} (Slurm):"
    return [(bold(words), " ", code(f"--exclude={','.join(hosts)}"))]


def _small_print(incident: str, report: Report, stats: Stats | None) -> Block:
    """By which it is found again, and how much was looked at. Why there is no model is in the details."""
    looked = counts.took(stats) if stats else ""
    alone = "without a model" if report.without_model and not report.reply else ""
    return blocks.context((italic(" · ".join(part for part in (incident, looked, alone) if part)),))


def _buttons(incident: str, report: Report) -> Block:
    value = carry(incident, report.item)
    sure = blocks.confirm("Hand off?", "This thread becomes a ticket with everything found so far. I stop looking by myself.", "Hand off")
    return blocks.actions(
        blocks.button("Details", DETAILS, value),
        blocks.button("Hand off", HAND_OFF, value, ask=sure),
        more.menu(incident),
    )
