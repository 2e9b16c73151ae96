"""Block Kit in the few shapes we use. The only place that knows Slack's limits: a block made here is never refused for its size.

Texts are cut and say so; ids and values are never cut, because a cut id means something else: `TooLong` is a bug of the caller.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bot.cards.text import TAIL, Line, Part, bold, clip, exact_pre, pre, show, size, stack

Block = dict[str, Any]

MOST_BLOCKS, MOST_MODAL_BLOCKS = 50, 100
MOST_TEXT = 12_000
"""All texts of one message together; Slack refuses somewhat above 13,000."""
SECTION, FIELD, FIELDS, CONTEXT, HEADER = 3000, 2000, 10, 10, 150
BUTTONS, BUTTON, VALUE, ACTION_ID = 25, 75, 2000, 255
OPTION, OPTION_VALUE, OPTIONS, OVERFLOW = 75, 150, 100, 5
TITLE, METADATA, INPUT = 24, 3000, 3000
TASK, TASKS = 300, 10
FALLBACK = 1000
"""Slack refuses an update whose text is above 4,000 bytes."""


Status = Literal["pending", "in_progress", "complete", "error"]
TICKS: Mapping[Status, str] = {"pending": "○", "in_progress": "◐", "complete": "●", "error": "✕"}
"""How far a step is, as Slack calls it, and as a line shows it."""


class TooLong(ValueError):
    """An id or value beyond what Slack takes. Names it and its length."""


@dataclass(frozen=True, slots=True)
class Card:
    """A message: its blocks, and the words for notifications and screen readers."""

    blocks: tuple[Block, ...]
    text: str


def card(text: str, blocks: Iterable[Block]) -> Card:
    """A message within every limit."""
    return Card(tuple(fit(list(blocks))), clip(text, FALLBACK) or "RackMedic")


def _whole(name: str, value: str, limit: int) -> str:
    if size(value) > limit:
        raise TooLong(f"{name} is {size(value)} long, Slack takes {limit}")
    return value


def _plain(text: str, limit: int) -> Block:
    return {"type": "plain_text", "text": clip(text, limit) or "–", "emoji": False}


def _mrkdwn(text: str) -> Block:
    """`verbatim`: Slack adds no links, channels or names of its own."""
    return {"type": "mrkdwn", "text": text or "–", "verbatim": True}


def header(text: str) -> Block:
    """The line that is read first."""
    return {"type": "header", "text": _plain(text, HEADER)}


def section(*lines: Line, accessory: Block | None = None) -> Block:
    """Lines below each other."""
    block = {"type": "section", "text": _mrkdwn(stack(lines, SECTION))}
    return {**block, "accessory": accessory} if accessory else block


def short(*lines: Line, room: int) -> Block:
    """Lines below each other, cut to `room`."""
    return {"type": "section", "text": _mrkdwn(stack(lines, min(room, SECTION)))}


def say(*parts: Part) -> Block:
    """A section of one line."""
    return section(parts)


def whole(*lines: Line) -> Block:
    """Lines below each other, not one character cut; TooLong where Slack would not take them."""
    words = "\n".join(show(parts, sys.maxsize) for parts in lines)
    return {"type": "section", "text": _mrkdwn(_whole("text", words, SECTION))}


def verbatim(text: str) -> Block:
    """One monospace text as it is, not one character cut; TooLong where Slack would not take it."""
    return {"type": "section", "text": _mrkdwn(_whole("text", exact_pre(text), SECTION))}


def lined(above: Line, below: Sequence[Line], room: int) -> Block:
    """A line that is never cut (TooLong where Slack would not take it), and more lines cut to `room` below it."""
    words = _whole("text", show(above, sys.maxsize), SECTION)
    room = min(room, SECTION - size(words) - 1)
    tail = stack(below, room) if below and room > 2 * TAIL else ""
    return {"type": "section", "text": _mrkdwn(f"{words}\n{tail}" if tail else words)}


def framed(above: Sequence[Line], monospace: str, below: Sequence[Line], room: int) -> Block:
    """Lines, a monospace text and more lines in one section. What stands above and the monospace text are never cut (TooLong where Slack
    would not take them); what stands below is cut to `room`."""
    words = "\n".join(show(parts, sys.maxsize) for parts in above)
    words = _whole("text", f"{words}\n{exact_pre(monospace)}", SECTION)
    room = min(room, SECTION - size(words) - 1)
    tail = stack(below, room) if below and room > 2 * TAIL else ""
    return {"type": "section", "text": _mrkdwn(f"{words}\n{tail}" if tail else words)}


def quote(rows: Iterable[str], width: int = 300, limit: int = SECTION) -> Block:
    """Monospace lines as a host printed them."""
    return {"type": "section", "text": _mrkdwn(pre(rows, limit, width))}


def fields(pairs: Iterable[tuple[str, Line]]) -> Block:
    """Short facts side by side; past ten they are counted in the last."""
    rows = list(pairs)
    shown = rows if len(rows) <= FIELDS else [*rows[: FIELDS - 1], ("more", (f"{len(rows) - FIELDS + 1} not shown",))]
    return {
        "type": "section",
        "fields": [_mrkdwn(f"{show((bold(name),), 200)}\n{show(value, FIELD - 210) or '–'}") for name, value in shown],
    }


def context(*lines: Line) -> Block:
    """Small print."""
    shown = lines if len(lines) <= CONTEXT else (*lines[: CONTEXT - 1], (f"… {len(lines) - CONTEXT + 1} more",))
    return {"type": "context", "elements": [_mrkdwn(show(parts, FIELD)) for parts in shown]}


def plan(title: str, tasks: Iterable[tuple[str, Status]]) -> Block:
    """Steps as Slack draws them, each with how far it is. `plainly` says the same where Slack does not know them."""
    cards = [
        {"type": "task_card", "task_id": f"step-{n}", "title": clip(words, TASK), "status": is_} for n, (words, is_) in enumerate(tasks)
    ]
    return {"type": "plan", "title": clip(title, TASK), "tasks": cards[:TASKS]}


def plainly(card: Card) -> Card:
    """The card without plans: their steps as lines."""
    return Card(tuple(_lines_of(block) if block["type"] == "plan" else block for block in card.blocks), card.text)


def _lines_of(block: Block) -> Block:
    return section((bold(block["title"]),), *((f"{TICKS[task['status']]} {task['title']}",) for task in block["tasks"]))


def whole_context(*lines: Line) -> Block:
    """Small print, not one character cut; TooLong where Slack would not take it."""
    return {"type": "context", "elements": [_mrkdwn(_whole("text", show(parts, sys.maxsize), FIELD)) for parts in lines]}


def divider() -> Block:
    """A rule."""
    return {"type": "divider"}


def actions(*buttons: Block) -> Block:
    """A row of buttons."""
    if not 1 <= len(buttons) <= BUTTONS:
        raise TooLong(f"{len(buttons)} buttons in one row, Slack takes 1 to {BUTTONS}")
    return {"type": "actions", "elements": list(buttons)}


def confirm(title: str, text: str, yes: str, no: str = "Back") -> Block:
    """Slack's own dialog before a click counts."""
    return {"title": _plain(title, 100), "text": _plain(text, 300), "confirm": _plain(yes, 30), "deny": _plain(no, 30)}


def button(text: str, action_id: str, value: str, *, style: str = "", ask: Block | None = None) -> Block:
    """A click that carries `value`, whole."""
    block = {
        "type": "button",
        "text": _plain(text, BUTTON),
        "action_id": _whole("action_id", action_id, ACTION_ID),
        "value": _whole("value", value, VALUE),
    }
    return block | ({"style": style} if style else {}) | ({"confirm": ask} if ask else {})


def feedback(action_id: str, yes: tuple[str, str], no: tuple[str, str]) -> Block:
    """Slack's own two buttons for it; each is (words, value), the value whole."""

    def one(words: str, value: str) -> Block:
        return {"text": _plain(words, BUTTON), "value": _whole("value", value, VALUE), "accessibility_label": words}

    buttons = {"type": "feedback_buttons", "action_id": _whole("action_id", action_id, ACTION_ID)}
    return {"type": "context_actions", "elements": [buttons | {"positive_button": one(*yes), "negative_button": one(*no)}]}


def field_input(block_id: str, label: str, element: Block, *, hint: str = "", optional: bool = False) -> Block:
    """A labelled input of a modal; its value is found under (block_id, block_id)."""
    element = {**element, "action_id": _whole("block_id", block_id, ACTION_ID)}
    block: Block = {"type": "input", "block_id": block_id, "label": _plain(label, 200), "element": element, "optional": optional}
    return block | ({"hint": _plain(hint, 500)} if hint else {})


def text_input(*, initial: str = "", multiline: bool = False, most: int = INPUT) -> Block:
    """Free text."""
    element: Block = {"type": "plain_text_input", "multiline": multiline, "max_length": min(most, INPUT)}
    return element | ({"initial_value": _whole("initial value", initial, min(most, INPUT))} if initial else {})


def select(groups: Mapping[str, Sequence[tuple[str, str]]], initial: str = "") -> Block:
    """A choice of (value, words) under headings; a heading with more than a hundred choices is continued under another."""
    made = [_group(heading, rows) for name, whole in groups.items() if whole for heading, rows in _hundreds(name, whole)]
    options = [option for group in made for option in group["options"]]
    chosen = next((option for option in options if option["value"] == initial), None)
    element: Block = {"type": "static_select", "option_groups": made[:OPTIONS]}
    return element | ({"initial_option": chosen} if chosen else {})


def select_person(initial: str = "") -> Block:
    """A choice among the people of the workspace."""
    element: Block = {"type": "users_select"}
    return element | ({"initial_user": initial} if initial else {})


def overflow(action_id: str, rows: Sequence[tuple[str, str]]) -> Block:
    """A small menu of (value, words); values whole."""
    if not 1 <= len(rows) <= OVERFLOW:
        raise TooLong(f"{len(rows)} choices in a small menu, Slack takes 1 to {OVERFLOW}")
    options = [{"text": _plain(words, OPTION), "value": _whole("option", value, OPTION_VALUE)} for value, words in rows]
    return {"type": "overflow", "action_id": _whole("action_id", action_id, ACTION_ID), "options": options}


def choice(action_id: str, carried: str, placeholder: str, groups: Mapping[str, Sequence[tuple[str, str]]]) -> Block:
    """A select in a message. A choice has no value beside its own, so the block's id is what `carried` comes back as, whole."""
    element = select(groups) | {"action_id": _whole("action_id", action_id, ACTION_ID), "placeholder": _plain(placeholder, OPTION)}
    return {"type": "actions", "block_id": _whole("block_id", carried, ACTION_ID), "elements": [element]}


def _hundreds(name: str, rows: Sequence[tuple[str, str]]) -> list[tuple[str, Sequence[tuple[str, str]]]]:
    parts = [rows[i : i + OPTIONS] for i in range(0, len(rows), OPTIONS)]
    return [(name if n == 0 else f"{name} ({n + 1})", part) for n, part in enumerate(parts)]


def _group(heading: str, rows: Sequence[tuple[str, str]]) -> Block:
    options = [{"text": _plain(words, OPTION), "value": _whole("option", value, OPTION_VALUE)} for value, words in rows]
    return {"label": _plain(heading, OPTION), "options": options}


def modal(callback_id: str, title: str, blocks: Sequence[Block], *, submit: str, metadata: str) -> Block:
    """A dialog. `metadata` comes back with the submission, whole."""
    return {
        "type": "modal",
        "callback_id": _whole("callback_id", callback_id, ACTION_ID),
        "title": _plain(title, TITLE),
        "submit": _plain(submit, TITLE),
        "close": _plain("Back", TITLE),
        "private_metadata": _whole("private_metadata", metadata, METADATA),
        "blocks": fit(list(blocks), MOST_MODAL_BLOCKS),
    }


def page(title: str, blocks: Sequence[Block]) -> Block:
    """A dialog to read and to close."""
    shown = fit(list(blocks), MOST_MODAL_BLOCKS)
    return {"type": "modal", "title": _plain(title, TITLE), "close": _plain("Close", TITLE), "blocks": shown}


def home(blocks: Sequence[Block]) -> Block:
    """The App Home tab."""
    return {"type": "home", "blocks": fit(list(blocks), MOST_MODAL_BLOCKS)}


def fit(blocks: Sequence[Block], most: int = MOST_BLOCKS) -> list[Block]:
    """At most `most` blocks and MOST_TEXT of text. Buttons and inputs stay; what goes is counted where it stood last."""
    if len(blocks) <= most and sum(map(weight, blocks)) <= MOST_TEXT:
        return list(blocks)
    anchors = {i for i, block in enumerate(blocks) if block["type"] in ("actions", "context_actions", "input", "header")}
    anchors = set(sorted(anchors)[: most - 1])
    places, room = most - 1 - len(anchors), MOST_TEXT - 100 - sum(weight(blocks[i]) for i in anchors)
    kept = set(anchors)
    for i, block in enumerate(blocks):
        if i in anchors:
            continue
        places, room = places - 1, room - weight(block)
        if places < 0 or room < 0:
            break
        kept.add(i)
    gap = next(i for i in range(len(blocks)) if i not in kept)
    note = context((f"… {len(blocks) - len(kept)} more parts of this card are not shown",))
    return [*blocks[:gap], note, *(blocks[i] for i in range(gap, len(blocks)) if i in kept)]


def weight(block: Any) -> int:
    """The length of all texts in a block."""
    if isinstance(block, dict):
        return sum(size(v) if k == "text" and isinstance(v, str) else weight(v) for k, v in block.items())
    return sum(map(weight, block)) if isinstance(block, list) else 0
