"""Cards of tickets in external trackers. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.buttons import (
    MALFORMED_PAYLOAD_ERRORS,
    BadForm,
    ButtonClick,
    OldButton,
    encode_button_value,
    parse_button_click,
    parse_select_choice,
)
from bot.cards.text import Line, Part, bold, code, format_slack_date, web_link
from bot.incidents.cards.diagnosis import RECHECK_ACTION_ID
from kb.needle_search import split_lines

# Buttons that open a tracker ticket, and the form that shows all that would be sent.

OPEN_ACTION_ID = "tracker.open"
CHOOSE_ACTION_ID = "tracker.choose"
CALLBACK_ID = "tracker.send"
TITLE_BLOCK_ID = "tracker.title"
BUTTONS = {OPEN_ACTION_ID: "open", CHOOSE_ACTION_ID: "open"}
MAX_PAGE_CHARS = 2000  # escaped, per block
TrackerChoices = Sequence[tuple[str, str]]  # (name, display name) of the site's trackers


@dataclass(frozen=True, slots=True)
class TrackerForm:
    """All that would be sent."""

    incident: str
    tracker: str
    words: str
    digest: str
    title: str
    text: str
    fields: Mapping[str, str]
    title_most: int = 255


@dataclass(frozen=True, slots=True)
class SubmittedTrackerForm:
    """The digest of what was shown, and the chosen title."""

    incident: str
    tracker: str
    digest: str
    title: str


def render_open_buttons(incident: str, trackers: TrackerChoices) -> list[Block]:
    """Return a button for one tracker, a select for several."""
    if not trackers:
        return []
    if len(trackers) == 1:
        [(name, words)] = trackers
        return [blocks.actions(blocks.button(f"Open in {words}…", OPEN_ACTION_ID, encode_button_value(incident, name)))]
    return [blocks.select_row(CHOOSE_ACTION_ID, encode_button_value(incident), "Open in…", {"Trackers": trackers})]


def parse_open_click(payload: Mapping[str, Any]) -> ButtonClick:
    """Parse a click; `item` is the tracker."""
    try:
        chooses = payload["actions"][0]["action_id"] == CHOOSE_ACTION_ID
    except MALFORMED_PAYLOAD_ERRORS:
        raise OldButton from None
    if chooses:
        chosen = parse_select_choice(payload, BUTTONS)
        return ButtonClick(chosen.does, chosen.incident, chosen.chosen)
    return parse_button_click(payload, BUTTONS)


def render_tracker_form(form: TrackerForm) -> Block:
    """Return the form with the whole text, which drafts bound to fit."""
    rows: list[Line] = [(bold(name), f" {value}") for name, value in form.fields.items()]
    return blocks.modal(
        CALLBACK_ID,
        f"Open in {form.words}",
        [
            blocks.input_block(
                TITLE_BLOCK_ID,
                "Title",
                blocks.text_input(initial=form.title, most=form.title_most),
                hint="You can edit it. Secrets are removed again before it is sent.",
            ),
            blocks.line_section(bold(f"Only this will be sent to {form.words}. Nothing was sent yet.")),
            blocks.section(*rows),
            *(blocks.code_section(page) for page in _split_pages(form.text)),
        ],
        submit="Send it",
        metadata=json.dumps({"incident": form.incident, "tracker": form.tracker, "digest": form.digest}),
    )


def parse_tracker_form(payload: Mapping[str, Any]) -> SubmittedTrackerForm:
    """Parse a submission. Raises BadForm, OldButton."""
    try:
        view = payload["view"]
        carried = json.loads(view["private_metadata"])
        title = " ".join(str(view["state"]["values"][TITLE_BLOCK_ID][TITLE_BLOCK_ID].get("value") or "").split())
        form = SubmittedTrackerForm(str(carried["incident"]), str(carried["tracker"]), str(carried["digest"]), title)
    except MALFORMED_PAYLOAD_ERRORS as error:
        raise OldButton from error
    if not title:
        raise BadForm({TITLE_BLOCK_ID: "Give it a title."})
    return form


def _split_pages(text: str) -> Iterator[list[str]]:
    page: list[str] = []
    used = 0
    for line in split_lines(text):
        size = len(line) + 4 * sum(line.count(char) for char in "&<>") + 1
        if page and used + size > MAX_PAGE_CHARS:
            yield page
            page, used = [], 0
        page.append(line)
        used += size
    if page:
        yield page


# A tracker ticket in its incident's thread: one edited message, and one per state change.

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


def render_comment(view: FollowedTicket, said: TicketComment, beside: str = "") -> Card:
    """Return a quoted comment. Nothing is parsed from it; it mentions no one."""
    head: tuple[Part, ...] = (bold(f"💬 {view.words}"), " ", *_render_ticket_link(view), f" · {said.kind} by {said.by or 'a person'}")
    when: tuple[Part, ...] = (" · ", format_slack_date(said.at)) if said.at else ()
    link: tuple[Part, ...] = (" · ", web_link(said.url, "there")) if said.url else ()
    return blocks.build_card(
        f"💬 {view.words} {view.shown}: a {said.kind} by {said.by or 'a person'}",
        [
            blocks.section((*head, *when, *link)),
            blocks.code_section(said.lines),
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
