"""The buttons that open a ticket in a tracker, and the form that shows what would leave before anybody confirms it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.buttons import MALFORMED, BadForm, OldButton, Press, carry, read_choice, read_press
from bot.cards.text import Line, bold
from kb.scan import lines_in

OPEN, CHOOSE, CALLBACK, TITLE = "tracker.open", "tracker.choose", "tracker.send", "tracker.title"
BUTTONS = {OPEN: "open", CHOOSE: "open"}
PAGE = 2000
"""Escaped characters of the text in one block."""

Offered = Sequence[tuple[str, str]]
"""(name, words) of the trackers of this site."""


@dataclass(frozen=True, slots=True)
class TrackerForm:
    """What would leave: the title as it is proposed, the text whole, and every other field."""

    incident: str
    tracker: str
    words: str
    digest: str
    title: str
    text: str
    fields: Mapping[str, str]
    title_most: int = 255


@dataclass(frozen=True, slots=True)
class FilledForm:
    """A form that somebody sent: what was shown, by its digest, and the title that they gave it."""

    incident: str
    tracker: str
    digest: str
    title: str


def offers(incident: str, trackers: Offered) -> list[Block]:
    """What stands on a ticket's card: a button for one tracker, a choice for several."""
    if not trackers:
        return []
    if len(trackers) == 1:
        [(name, words)] = trackers
        return [blocks.actions(blocks.button(f"Open in {words}…", OPEN, carry(incident, name)))]
    return [blocks.choice(CHOOSE, carry(incident), "Open in…", {"Trackers": trackers})]


def read(payload: Mapping[str, Any]) -> Press:
    """A click on one of them; `item` is the tracker."""
    try:
        chooses = payload["actions"][0]["action_id"] == CHOOSE
    except MALFORMED:
        raise OldButton from None
    if chooses:
        chosen = read_choice(payload, BUTTONS)
        return Press(chosen.does, chosen.incident, chosen.chosen)
    return read_press(payload, BUTTONS)


def render(form: TrackerForm) -> Block:
    """The form. All of the text is in it, whatever its size: a draft is bounded so that it fits."""
    rows: list[Line] = [(bold(name), f" {value}") for name, value in form.fields.items()]
    return blocks.modal(
        CALLBACK,
        f"Open in {form.words}",
        [
            blocks.field_input(
                TITLE,
                "Title",
                blocks.text_input(initial=form.title, most=form.title_most),
                hint="Yours to change. Secrets are taken out of it once more.",
            ),
            blocks.say(bold(f"This, and nothing else, would leave for {form.words}. Nothing was sent yet.")),
            blocks.section(*rows),
            *(blocks.quote(page) for page in _pages(form.text)),
        ],
        submit="Send it",
        metadata=json.dumps({"incident": form.incident, "tracker": form.tracker, "digest": form.digest}),
    )


def filled(payload: Mapping[str, Any]) -> FilledForm:
    """A submission. Raises BadForm for what the person can mend, OldButton for a form that is not ours."""
    try:
        view = payload["view"]
        carried = json.loads(view["private_metadata"])
        title = " ".join(str(view["state"]["values"][TITLE][TITLE].get("value") or "").split())
        form = FilledForm(str(carried["incident"]), str(carried["tracker"]), str(carried["digest"]), title)
    except MALFORMED as wrong:
        raise OldButton from wrong
    if not title:
        raise BadForm({TITLE: "Give it a title."})
    return form


def _pages(text: str) -> Iterator[list[str]]:
    """Its lines, a block's worth at a time."""
    page: list[str] = []
    used = 0
    for line in lines_in(text):
        size = len(line) + 4 * sum(line.count(char) for char in "&<>") + 1
        if page and used + size > PAGE:
            yield page
            page, used = [], 0
        page.append(line)
        used += size
    if page:
        yield page
