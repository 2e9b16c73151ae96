"""A tracker ticket in its incident's thread: one edited message, and one per state change."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.buttons import (
    encode_button_value,
)
from bot.cards.text import Line, Part, bold, code, format_slack_date, web_link
from bot.incidents.cards.diagnosis import RECHECK_ACTION_ID
from bot.trackers.cards import OPEN_ACTION_ID

TicketStage = Literal["waiting", "doubt", "there", "refused"]


@dataclass(frozen=True, slots=True)
class FollowedTicket:
    """`words`: the tracker's display name; `shown`, `url`, `state`: from the tracker."""

    incident: str
    tracker: str
    words: str
    way: TicketStage
    by: str = ""
    shown: str = ""
    url: str = ""
    state: str = ""
    done: bool = False
    tells: bool = True
    trouble: str = ""
    tries: int = 0
    closed: bool = False  # this incident, not the ticket
    unread: str = ""  # why comments cannot be read


@dataclass(frozen=True, slots=True)
class TicketComment:
    """A comment; `lines` are safe to show."""

    kind: str
    by: str
    lines: tuple[str, ...]
    at: datetime | None = None
    url: str = ""


def render_followed_ticket(view: FollowedTicket) -> Card:
    head, lines = _format_status(view)
    return blocks.build_card(
        head, [blocks.line_section(bold(head)), *([blocks.section(*lines)] if lines else []), *_render_retry_button(view)]
    )


def render_state_change(view: FollowedTicket) -> Card:
    """Return a separate message, as an edit notifies no one.

    A ticket closed there proves nothing: a new check is offered.
    """
    head = f"{'✅' if view.done else '📨'} {view.words} {view.shown}: {view.state}"
    if not view.done or view.closed:
        return blocks.build_card(
            head, [blocks.section((f"{'✅' if view.done else '📨'} {view.words} ", *_render_ticket_link(view), f": {view.state}"))]
        )
    ask = "That is its status there; I verified nothing, and this incident is unchanged. Check again?"
    return blocks.build_card(
        head,
        [
            blocks.section((f"✅ {view.words} ", *_render_ticket_link(view), f": {view.state}"), (ask,)),
            blocks.actions(blocks.button("Look again", RECHECK_ACTION_ID, encode_button_value(view.incident))),
        ],
    )


def render_comment(view: FollowedTicket, comment: TicketComment, beside: str = "") -> Card:
    """Return a quoted comment. Nothing is parsed from it; it mentions no one."""
    head: tuple[Part, ...] = (bold(f"💬 {view.words}"), " ", *_render_ticket_link(view), f" · {comment.kind} by {comment.by or 'a person'}")
    when: tuple[Part, ...] = (" · ", format_slack_date(comment.at)) if comment.at else ()
    link: tuple[Part, ...] = (" · ", web_link(comment.url, "there")) if comment.url else ()
    return blocks.build_card(
        f"💬 {view.words} {view.shown}: a {comment.kind} by {comment.by or 'a person'}",
        [
            blocks.section((*head, *when, *link)),
            blocks.code_section(comment.lines),
            blocks.context(
                ("Comment from there, for you to read. I do not act on it: answer there, or tell me here.",),
                *([(beside,)] if beside else []),
            ),
        ],
    )


def _format_status(view: FollowedTicket) -> tuple[str, list[Line]]:
    requester_note = f"Requested by {view.by or 'a person'}."
    match view.way:
        case "waiting":
            trouble_lines: list[Line] = [(f"Tried {view.tries} times: {view.trouble}. Retrying automatically.",)] if view.trouble else []
            return f"On its way to {view.words}", [(requester_note,), *trouble_lines]
        case "doubt":
            lost = "Its answer was lost. Before I send it again, I search for the ticket there, so that there is only one."
            return f"I do not know whether {view.words} has it", [(f"{lost} {view.trouble}".strip(),), (requester_note,)]
        case "refused":
            return f"{view.words} did not take it", [(view.trouble,), (requester_note,)]
        case "there":
            return f"{view.words} has it: {view.shown}", _render_arrived_lines(view)


def _render_arrived_lines(view: FollowedTicket) -> list[Line]:
    unknown = "not asked yet" if view.tells else "it does not say how far it is"
    state: Part = bold(view.state) if view.state else unknown
    trouble_lines: list[Line] = [(f"I cannot ask now: {view.trouble}. This status may be outdated.",)] if view.trouble else []
    unread: list[Line] = [(f"What people write there I cannot show: {view.unread}",)] if view.unread else []
    return [(*_render_ticket_link(view), " · ", state, f" · sent by {view.by or 'a person'}"), *trouble_lines, *unread]


def _render_ticket_link(view: FollowedTicket) -> tuple[Part, ...]:
    return (web_link(view.url, view.shown),) if view.url else (code(view.shown),)


def _render_retry_button(view: FollowedTicket) -> list[Block]:
    if view.way != "refused" or view.closed:
        return []
    return [blocks.actions(blocks.button(f"Open in {view.words}…", OPEN_ACTION_ID, encode_button_value(view.incident, view.tracker)))]
