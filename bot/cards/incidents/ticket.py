"""The ticket that a hand-off leaves in the thread: what is known, what was tried, who has it."""

from collections.abc import Mapping
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.buttons import Press, carry, read_press
from bot.cards.incidents import held, rows
from bot.cards.incidents.handoff import Handoff
from bot.cards.text import Line, bold, code, italic
from graph.report import HeldNode
from graph.state import Ticket

TAKE, CLOSE = "ticket.take", "ticket.close"
BUTTONS = {TAKE: "take", CLOSE: "close_form"}
MARKS = {"confirmed": "✓", "inconclusive": "?", "open": "?", "rejected": "✗"}
MOST_HYPOTHESES, MOST_MOMENTS, MOST_HELD = 10, 8, 6


def render(whole: Handoff) -> Card:
    """The ticket in its present state; `taken_by` and `closed_by` hold names by now."""
    headline = f"🎫 {_state(whole.ticket)}"
    return blocks.card(
        f"{headline}: {whole.headline}",
        [
            blocks.header(headline),
            blocks.section((bold(whole.headline),), *([(whole.reported[:600],)] if whole.reported else [])),
            blocks.fields(
                [("Hosts", (bold(rows.hosts(whole.hosts) or "none named"),)), ("Should act", (bold(whole.ticket.owner or "not known"),))]
            ),
            *_held(whole),
            *_tried(whole),
            *_timeline(whole),
            *_blind(whole),
            *_logs(whole),
            *_truth(whole.ticket),
            blocks.context((italic(f"incident {whole.incident}"),)),
            *_buttons(whole),
        ],
    )


def read(payload: Mapping[str, Any]) -> Press:
    """A click on Take or Close…"""
    return read_press(payload, BUTTONS)


def _state(ticket: Ticket) -> str:
    match ticket.state:
        case "open":
            return "Ticket: waiting for somebody to take it"
        case "taken":
            return f"Ticket: {ticket.taken_by or 'somebody'} has it"
        case "waiting":
            return "Ticket: waiting"
        case "resolved":
            return f"Ticket: closed by {ticket.closed_by or 'somebody'}"


def _held(whole: Handoff) -> list[Block]:
    """Nodes out of service on our account: whoever takes over has to bring them back."""
    lines: list[Line] = [(bold(row.host), f" {row.said()}") for row in whole.held[:MOST_HELD]]
    rest = len(whole.held) - MOST_HELD
    asks = [HeldNode(ladder=row.ladder, host=row.host) for row in whole.held if not row.no_return]
    said = [blocks.section((bold("Held"),), *lines, *([(f"… and {rest} more",)] if rest > 0 else []))] if lines else []
    return [*said, *held.rows(whole.incident, asks)]


def _tried(whole: Handoff) -> list[Block]:
    if not whole.hypotheses:
        return [blocks.say(bold("Tried:"), " no hypothesis survived long enough to be checked.")]
    lines: list[Line] = []
    for h in whole.hypotheses[:MOST_HYPOTHESES]:
        place = (bold(rows.where(h)), " ") if rows.where(h) else ()
        lines.append((f"{MARKS[h.verdict]} ", *place, code(h.label), f" {h.verdict}{': ' + h.because if h.because else ''}"))
    rest = len(whole.hypotheses) - MOST_HYPOTHESES
    return [blocks.section((bold("Tried"),), *lines, *([(f"… and {rest} more, in the file",)] if rest > 0 else []))]


def _timeline(whole: Handoff) -> list[Block]:
    shown = whole.timeline[-MOST_MOMENTS:]
    earlier = [f"… {len(whole.timeline) - MOST_MOMENTS} earlier"] if len(whole.timeline) > MOST_MOMENTS else []
    return [blocks.quote([*earlier, *(f"{moment.at:%m-%d %H:%M:%SZ}  {moment.what}" for moment in shown)], width=160)] if shown else []


def _blind(whole: Handoff) -> list[Block]:
    lines = rows.could_not_look(whole.could_not_look)
    return [blocks.section((bold("Could not look"),), *lines)] if lines else []


def _logs(whole: Handoff) -> list[Block]:
    lines = rows.logs(whole.logs)
    return [blocks.section((bold("In the logs"),)), blocks.quote(lines)] if lines else []


def _truth(ticket: Ticket) -> list[Block]:
    if ticket.state != "resolved":
        return []
    return [blocks.section((bold("Root cause"), " ", code(ticket.true_label or "unknown")), (ticket.true_cause,))]


def _buttons(whole: Handoff) -> list[Block]:
    if whole.ticket.state == "resolved":
        return []
    value = carry(whole.incident)
    take = blocks.button(
        "Take" if whole.ticket.state == "open" else "Take over", TAKE, value, style="primary" if whole.ticket.state == "open" else ""
    )
    return [blocks.actions(take, blocks.button("Close…", CLOSE, value))]
