"""The ticket that a hand-off leaves in the thread, in five lines: who has it, what is wrong where, what is held, for whom it is. All that was
tried and when things happened stands behind Details and in the file beside it."""

from collections.abc import Mapping, Sequence
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.buttons import Press, carry, read_press
from bot.cards.incidents import diagnosis, held, rows
from bot.cards.incidents.handoff import Handoff, done_in_words
from bot.cards.incidents.rows import NO_TITLES, Titles
from bot.cards.text import Line, bold, italic
from graph.report import HeldNode
from graph.state import Hypothesis, Ticket, Verdict
from tools.inventory.ranges import fold

TAKE, WAIT, CLOSE, REPORT = "ticket.take", "ticket.wait", "ticket.close", "ticket.report"
BUTTONS = {TAKE: "take", WAIT: "wait", CLOSE: "close_form", REPORT: "report"}
CAUSES, DOUBTS, RIVALS, LOG_LINES, MOST_HELD, MOST_DONE = 3, 2, 2, 4, 6, 3
"""How many causes are shown with what shows them, how many that nobody could decide, how many of those that it is not, and so on."""
HEADLINE, REPORTED, CAUSE = 300, 240, 300
"""How long each of these may be."""


def render(whole: Handoff, titles: Titles = NO_TITLES, elsewhere: Sequence[Block] = ()) -> Card:
    """The ticket in its present state; `taken_by` and `closed_by` hold names by now. `titles`: what causes are called; `elsewhere`: what opens
    a ticket in a tracker, as long as this one is open."""
    headline = f"🎫 {_state(whole.ticket)}"
    return blocks.card(
        f"{headline}: {whole.headline}",
        [
            blocks.header(headline),
            *_truth(whole, titles),
            *_causes(whole, titles),
            *_held(whole),
            blocks.section(*_rest(whole, titles)),
            *_logs(whole),
            blocks.context((italic(f"incident {whole.incident}"),)),
            *_buttons(whole),
            *(elsewhere if whole.ticket.state != "resolved" else ()),
        ],
    )


def read(payload: Mapping[str, Any]) -> Press:
    """A click on Take, Waits, Close… or Post-incident report."""
    return read_press(payload, BUTTONS)


def _state(ticket: Ticket) -> str:
    match ticket.state:
        case "open":
            return "Ticket: waiting for somebody to take it"
        case "taken":
            return f"Ticket: {ticket.taken_by or 'somebody'} has it"
        case "waiting":
            return f"Ticket: {ticket.taken_by or 'somebody'} has it, and it waits for others"
        case "resolved":
            return f"Ticket: closed by {ticket.closed_by or 'somebody'}"


def _of(whole: Handoff, *verdicts: Verdict) -> list[Hypothesis]:
    return [h for h in whole.hypotheses if h.verdict in verdicts]


def _causes(whole: Handoff, titles: Titles) -> list[Block]:
    """What was found; where nothing was, the headline says so."""
    found = _of(whole, "confirmed")
    if not found:
        return [blocks.short((bold(whole.headline),), room=HEADLINE)]
    shown = [
        blocks.short((bold(rows.title(h.label, titles)), " · ", *rows.place(h)), *rows.telling(h, 1, sources=False), room=CAUSE)
        for h in found[:CAUSES]
    ]
    rest = len(found) - CAUSES
    return [*shown, blocks.say(f"… and {rest} more causes in the details")] if rest > 0 else shown


def _held(whole: Handoff) -> list[Block]:
    """Nodes out of service on our account: whoever takes over has to bring them back."""
    lines: list[Line] = [(bold(row.host), f" {row.said()}") for row in whole.held[:MOST_HELD]]
    rest = len(whole.held) - MOST_HELD
    asks = [HeldNode(ladder=row.ladder, host=row.host) for row in whole.held if not row.no_return]
    said = [blocks.section((bold("Held"),), *lines, *([(f"… and {rest} more",)] if rest > 0 else []))] if lines else []
    return [*said, *held.rows(whole.incident, asks)]


def _rest(whole: Handoff, titles: Titles) -> list[Line]:
    """For whom it is and on which hosts, what was asked, what is not decided, what it is not, where nobody could look: a line each."""
    unseen = rows.blind_spots(whole.could_not_look)
    return [
        (bold("For:"), " ", bold(whole.ticket.owner or "nobody known"), " · ", bold(rows.hosts(whole.hosts) or "no hosts named")),
        *([(bold("Asked:"), " ", _short(whole.reported))] if whole.reported else []),
        *((bold("Done:"), f" {done_in_words(row, rows.title(row.label, titles))}") for row in whole.done[:MOST_DONE]),
        *_undecided(whole, titles),
        *_ruled_out(whole, titles),
        *([(bold("Could not look:"), " ", *unseen)] if unseen else []),
    ]


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= REPORTED else f"{words[:REPORTED]}…"


def _undecided(whole: Handoff, titles: Titles) -> list[Line]:
    doubts = _of(whole, "inconclusive", "open")
    if not whole.hypotheses:
        return [(bold("Tried:"), " no hypothesis survived long enough to be checked.")]
    return [(bold("Not decided:"), " ", _named(doubts, DOUBTS, titles))] if doubts else []


def _ruled_out(whole: Handoff, titles: Titles) -> list[Line]:
    rejected = _of(whole, "rejected")
    return [(bold("Not:"), " ", _named(rejected, RIVALS, titles))] if rejected else []


def _named(hypotheses: list[Hypothesis], most: int, titles: Titles) -> str:
    """Their titles, and how many more there are."""
    rest = len(hypotheses) - most
    return "; ".join(rows.title(h.label, titles) for h in hypotheses[:most]) + (f" and {rest} more" if rest > 0 else "")


def _logs(whole: Handoff) -> list[Block]:
    """What stands out in the logs, as long as no cause does."""
    lines = [] if _of(whole, "confirmed") else rows.logs(whole.logs)
    rest = [f"… {len(lines) - LOG_LINES} more lines in the file"] if len(lines) > LOG_LINES else []
    return [blocks.section((bold("In the logs"),)), blocks.quote([*lines[:LOG_LINES], *rest])] if lines else []


def _truth(whole: Handoff, titles: Titles) -> list[Block]:
    """What it was, by whoever closed it; where nobody named a cause, what was mended."""
    ticket = whole.ticket
    if ticket.state != "resolved":
        return []
    said: list[Line] = [(ticket.true_cause,)] if ticket.true_cause else []
    mended = dict.fromkeys(f"{rows.title(row.label, titles)} ({fold(row.target.split(','))}), mended" for row in whole.done if row.proven)
    if not ticket.true_label and mended and not said:
        return [blocks.section((bold("Root cause:"), f" {'; '.join(mended)}"))]
    return [blocks.section((bold("Root cause:"), " ", rows.title(ticket.true_label, titles)), *said)]


def _buttons(whole: Handoff) -> list[Block]:
    value = carry(whole.incident)
    written = blocks.button("Post-incident report", REPORT, value)
    if whole.ticket.state == "resolved":
        return [blocks.actions(written)]
    is_open, waits = whole.ticket.state == "open", whole.ticket.state == "waiting"
    take = blocks.button("Take" if is_open else "Go on" if waits else "Take over", TAKE, value, style="primary" if is_open else "")
    wait = [] if waits else [blocks.button("Waits for others", WAIT, value)]
    behind = [blocks.button("Details", diagnosis.DETAILS, carry(whole.incident, whole.item))] if whole.item else []
    return [blocks.actions(take, *wait, blocks.button("Close…", CLOSE, value), written, *behind)]
