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
                blocks.text_input(initial=form.title, max_chars=form.title_most),
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
