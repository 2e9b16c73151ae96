"""Buttons that open a tracker ticket, and the form that shows all that would be sent."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.buttons import (
    MALFORMED_PAYLOAD_ERRORS,
    BadForm,
    ButtonClick,
    OldButton,
    encode_button_value,
    parse_button_click,
    parse_select_choice,
)
from bot.cards.text import Line, bold
from kb.needle_search import split_lines

OPEN_ACTION_ID = "tracker.open"
CHOOSE_ACTION_ID = "tracker.choose"
CALLBACK_ID = "tracker.send"
TITLE_BLOCK_ID = "tracker.title"
BUTTONS = {OPEN_ACTION_ID: "open", CHOOSE_ACTION_ID: "open"}
MAX_PAGE_CHARS = 2000  # escaped, per block
TrackerChoices = Sequence[tuple[str, str]]  # (name, display name) of the site's trackers


@dataclass(frozen=True, slots=True)
class TrackerForm:
    """Everything that would be sent to a tracker."""

    incident: str
    tracker: str  # its name in the settings
    tracker_title: str  # its name for people
    digest: str
    title: str
    text: str
    fields: Mapping[str, str]
    max_title_chars: int = 255


@dataclass(frozen=True, slots=True)
class SubmittedTrackerForm:
    """The form as a person submitted it: the digest of the text that they saw, and the title that they chose."""

    incident: str
    tracker: str
    digest: str
    title: str


def render_open_buttons(incident: str, trackers: TrackerChoices) -> list[Block]:
    """Render a button if there is one tracker, and a select if there are several."""
    if not trackers:
        return []
    if len(trackers) == 1:
        [(name, title)] = trackers
        return [blocks.actions(blocks.button(f"Open in {title}…", OPEN_ACTION_ID, encode_button_value(incident, name)))]
    return [blocks.select_row(CHOOSE_ACTION_ID, encode_button_value(incident), "Open in…", {"Trackers": trackers})]


def parse_open_click(payload: Mapping[str, Any]) -> ButtonClick:
    """Parse a click. Its `item` is the name of the tracker."""
    try:
        is_select = payload["actions"][0]["action_id"] == CHOOSE_ACTION_ID
    except MALFORMED_PAYLOAD_ERRORS:
        raise OldButton from None
    if is_select:
        choice = parse_select_choice(payload, BUTTONS)
        return ButtonClick(choice.does, choice.incident, choice.chosen)
    return parse_button_click(payload, BUTTONS)


def render_tracker_form(form: TrackerForm) -> Block:
    """Render the form with the whole text. Drafts are limited so that it fits."""
    field_lines: list[Line] = [(bold(name), f" {value}") for name, value in form.fields.items()]
    return blocks.modal(
        CALLBACK_ID,
        f"Open in {form.tracker_title}",
        [
            blocks.input_block(
                TITLE_BLOCK_ID,
                "Title",
                blocks.text_input(initial=form.title, max_chars=form.max_title_chars),
                hint="You can edit it. Secrets are removed again before it is sent.",
            ),
            blocks.line_section(bold(f"Only this will be sent to {form.tracker_title}. Nothing was sent yet.")),
            blocks.section(*field_lines),
            *(blocks.code_section(page) for page in _split_pages(form.text)),
        ],
        submit="Send it",
        metadata=json.dumps({"incident": form.incident, "tracker": form.tracker, "digest": form.digest}),
    )


def parse_tracker_form(payload: Mapping[str, Any]) -> SubmittedTrackerForm:
    """Parse a submitted form. Raises BadForm if it has no title."""
    try:
        view = payload["view"]
        metadata = json.loads(view["private_metadata"])
        title = " ".join(str(view["state"]["values"][TITLE_BLOCK_ID][TITLE_BLOCK_ID].get("value") or "").split())
        form = SubmittedTrackerForm(str(metadata["incident"]), str(metadata["tracker"]), str(metadata["digest"]), title)
    except MALFORMED_PAYLOAD_ERRORS as error:
        raise OldButton from error
    if not title:
        raise BadForm({TITLE_BLOCK_ID: "Give it a title."})
    return form


def _split_pages(text: str) -> Iterator[list[str]]:
    page: list[str] = []
    page_chars = 0
    for line in split_lines(text):
        size = len(line) + 4 * sum(line.count(char) for char in "&<>") + 1
        if page and page_chars + size > MAX_PAGE_CHARS:
            yield page
            page, page_chars = [], 0
        page.append(line)
        page_chars += size
    if page:
        yield page
