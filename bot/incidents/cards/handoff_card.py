"""The hand-off ticket in five lines."""

from collections.abc import Mapping, Sequence
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.buttons import ButtonClick, encode_button_value, parse_button_click
from bot.cards.text import Line, bold, italic
from bot.incidents.cards import diagnosis, report_rows, return_buttons
from bot.incidents.cards.handoff_content import Handoff, format_done_action
from bot.incidents.cards.report_rows import NO_CAUSE_TITLES, CauseTitles
from graph.report import ReturnableNode
from graph.state import HandoffTicket, Hypothesis, Verdict
from tools.inventory.host_ranges import fold_host_names

TAKE_ACTION_ID = "ticket.take"
WAIT_ACTION_ID = "ticket.wait"
CLOSE_ACTION_ID = "ticket.close"
REPORT_ACTION_ID = "ticket.report"
BUTTONS = {TAKE_ACTION_ID: "take", WAIT_ACTION_ID: "wait", CLOSE_ACTION_ID: "close_form", REPORT_ACTION_ID: "report"}
# Rows shown of each.
MAX_CAUSES = 3
MAX_UNDECIDED = 2
MAX_RULED_OUT = 2
MAX_LOG_LINES = 4
MAX_DRAINED_NODES = 6
MOST_DONE = 3
MAX_HEADLINE_CHARS = 300
MAX_REPORTED_CHARS = 240
MAX_CAUSE_CHARS = 300


def render_ticket(handoff: Handoff, titles: CauseTitles = NO_CAUSE_TITLES, elsewhere: Sequence[Block] = ()) -> Card:
    """Render the ticket; `taken_by` and `closed_by` hold names. `elsewhere`: buttons that open a tracker ticket."""
    headline = f"🎫 {_format_ticket_state(handoff.ticket)}"
    return blocks.build_card(
        f"{headline}: {handoff.headline}",
        [
            blocks.header(headline),
            *_render_root_cause(handoff, titles),
            *_render_causes(handoff, titles),
            *_render_drained_nodes(handoff),
            blocks.section(*_render_summary_lines(handoff, titles)),
            *_render_logs(handoff),
            blocks.context((italic(f"incident {handoff.incident}"),)),
            *_render_buttons(handoff),
            *(elsewhere if handoff.ticket.state != "resolved" else ()),
        ],
    )


def parse_ticket_click(payload: Mapping[str, Any]) -> ButtonClick:
    return parse_button_click(payload, BUTTONS)


def _format_ticket_state(ticket: HandoffTicket) -> str:
    match ticket.state:
        case "open":
            return "Ticket: not taken yet"
        case "taken":
            return f"Ticket: taken by {ticket.taken_by or 'a person'}"
        case "waiting":
            return f"Ticket: taken by {ticket.taken_by or 'a person'}, waiting for others"
        case "resolved":
            return f"Ticket: closed by {ticket.closed_by or 'a person'}"


def _list_by_verdict(handoff: Handoff, *verdicts: Verdict) -> list[Hypothesis]:
    return [h for h in handoff.hypotheses if h.verdict in verdicts]


def _render_causes(handoff: Handoff, titles: CauseTitles) -> list[Block]:
    causes = _list_by_verdict(handoff, "confirmed")
    if not causes:
        return [blocks.clipped_section((bold(handoff.headline),), room=MAX_HEADLINE_CHARS)]
    sections = [
        blocks.clipped_section(
            (bold(report_rows.get_cause_title(h.label, titles)), " · ", *report_rows.render_cause_place(h)),
            *report_rows.render_evidence_summary(h, 1, sources=False),
            room=MAX_CAUSE_CHARS,
        )
        for h in causes[:MAX_CAUSES]
    ]
    rest = len(causes) - MAX_CAUSES
    return [*sections, blocks.line_section(f"… and {rest} more causes in the details")] if rest > 0 else sections


def _render_drained_nodes(handoff: Handoff) -> list[Block]:
    if not handoff.drained_nodes:
        return []
    lines: list[Line] = [(bold(row.host), f" {row.render_status()}") for row in handoff.drained_nodes[:MAX_DRAINED_NODES]]
    rest = len(handoff.drained_nodes) - MAX_DRAINED_NODES
    if rest > 0:
        lines.append((f"… and {rest} more",))
    returnable = [ReturnableNode(ladder=row.ladder, host=row.host) for row in handoff.drained_nodes if not row.no_return]
    return [blocks.section((bold("Held"),), *lines), *return_buttons.render_return_buttons(handoff.incident, returnable)]


def _render_summary_lines(handoff: Handoff, titles: CauseTitles) -> list[Line]:
    unseen = report_rows.render_unobserved_summary(handoff.could_not_look)
    return [
        (
            bold("For:"),
            " ",
            bold(handoff.ticket.owner or "unknown"),
            " · ",
            bold(report_rows.fold_hosts(handoff.hosts) or "no hosts named"),
        ),
        *([(bold("Asked:"), " ", _shorten_text(handoff.reported))] if handoff.reported else []),
        *(
            (bold("Done:"), f" {format_done_action(row, report_rows.get_cause_title(row.label, titles))}")
            for row in handoff.done[:MOST_DONE]
        ),
        *_render_undecided(handoff, titles),
        *_render_ruled_out(handoff, titles),
        *([(bold("Could not look:"), " ", *unseen)] if unseen else []),
    ]


def _shorten_text(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= MAX_REPORTED_CHARS else f"{words[:MAX_REPORTED_CHARS]}…"


def _render_undecided(handoff: Handoff, titles: CauseTitles) -> list[Line]:
    doubts = _list_by_verdict(handoff, "inconclusive", "open")
    if not handoff.hypotheses:
        return [(bold("Tried:"), " no hypothesis survived long enough to be checked.")]
    return [(bold("Not decided:"), " ", _format_titles(doubts, MAX_UNDECIDED, titles))] if doubts else []


def _render_ruled_out(handoff: Handoff, titles: CauseTitles) -> list[Line]:
    rejected = _list_by_verdict(handoff, "rejected")
    return [(bold("Not:"), " ", _format_titles(rejected, MAX_RULED_OUT, titles))] if rejected else []


def _format_titles(hypotheses: list[Hypothesis], max_titles: int, titles: CauseTitles) -> str:
    text = "; ".join(report_rows.get_cause_title(hypothesis.label, titles) for hypothesis in hypotheses[:max_titles])
    omitted = len(hypotheses) - max_titles
    return f"{text} and {omitted} more" if omitted > 0 else text


def _render_logs(handoff: Handoff) -> list[Block]:
    lines = [] if _list_by_verdict(handoff, "confirmed") else report_rows.format_logs(handoff.logs)
    rest = [f"… {len(lines) - MAX_LOG_LINES} more lines in the file"] if len(lines) > MAX_LOG_LINES else []
    return [blocks.section((bold("In the logs"),)), blocks.code_section([*lines[:MAX_LOG_LINES], *rest])] if lines else []


def _render_root_cause(handoff: Handoff, titles: CauseTitles) -> list[Block]:
    """Render the closer's cause; without one, what was mended."""
    ticket = handoff.ticket
    if ticket.state != "resolved":
        return []
    lines: list[Line] = [(ticket.true_cause,)] if ticket.true_cause else []
    mended = dict.fromkeys(
        f"{report_rows.get_cause_title(row.label, titles)} ({fold_host_names(row.target.split(','))}), fixed"
        for row in handoff.done
        if row.proven
    )
    if not ticket.true_label and mended and not lines:
        return [blocks.section((bold("Root cause:"), f" {'; '.join(mended)}"))]
    return [blocks.section((bold("Root cause:"), " ", report_rows.get_cause_title(ticket.true_label, titles)), *lines)]


def _render_buttons(handoff: Handoff) -> list[Block]:
    value = encode_button_value(handoff.incident)
    report_button = blocks.button("Post-incident report", REPORT_ACTION_ID, value)
    if handoff.ticket.state == "resolved":
        return [blocks.actions(report_button)]
    is_open, is_waiting = handoff.ticket.state == "open", handoff.ticket.state == "waiting"
    take_text = {"open": "Take", "waiting": "Resume"}.get(handoff.ticket.state, "Take over")
    take = blocks.button(take_text, TAKE_ACTION_ID, value, style="primary" if is_open else "")
    wait = [] if is_waiting else [blocks.button("Waits for others", WAIT_ACTION_ID, value)]
    behind = (
        [blocks.button("Details", diagnosis.DETAILS_ACTION_ID, encode_button_value(handoff.incident, handoff.item))] if handoff.item else []
    )
    return [blocks.actions(take, *wait, blocks.button("Close…", CLOSE_ACTION_ID, value), report_button, *behind)]
