"""Block Kit builders, the only module that knows Slack's limits: its blocks are never refused for size.

Texts are clipped with a note. Ids and values are never clipped, as that would change their meaning: they raise
`TooLong`.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bot.cards.text import (
    HIDDEN_LINES_NOTE_CHARS,
    Line,
    Part,
    bold,
    clip_text,
    code_block,
    count_utf16_units,
    exact_code_block,
    render_line,
    render_lines,
)

Block = dict[str, Any]

MAX_BLOCKS = 50
MAX_MODAL_BLOCKS = 100
MAX_MESSAGE_CHARS = 12_000  # all texts of a message; Slack refuses a little above 13,000
MAX_SECTION_CHARS = 3000
MAX_FIELD_CHARS = 2000
MAX_FIELDS = 10
MAX_CONTEXT_ELEMENTS = 10
MAX_HEADER_CHARS = 150
MAX_BUTTONS_PER_ROW = 25
MAX_BUTTON_CHARS = 75
MAX_VALUE_CHARS = 2000
MAX_ACTION_ID_CHARS = 255
MAX_OPTION_CHARS = 75
MAX_OPTION_VALUE_CHARS = 150
MAX_OPTIONS = 100
MAX_OVERFLOW_OPTIONS = 5
MAX_TITLE_CHARS = 24
MAX_METADATA_CHARS = 3000
MAX_INPUT_CHARS = 3000
MAX_TASK_CHARS = 300
MAX_TASKS = 10
MAX_FALLBACK_CHARS = 1000  # Slack refuses an update whose text exceeds 4,000 bytes


TaskStatus = Literal["pending", "in_progress", "complete", "error"]
# Slack's task states, and their marks in a line
TASK_STATUS_MARKS: Mapping[TaskStatus, str] = {"pending": "○", "in_progress": "◐", "complete": "●", "error": "✕"}


class TooLong(ValueError):
    """An id or value beyond what Slack takes. Names it and its length."""


@dataclass(frozen=True, slots=True)
class Card:
    """Blocks and the fallback text for notifications and screen readers."""

    blocks: tuple[Block, ...]
    text: str


def build_card(text: str, blocks: Iterable[Block]) -> Card:
    """Build a message within every limit."""
    return Card(tuple(fit_blocks(list(blocks))), clip_text(text, MAX_FALLBACK_CHARS) or "RackMedic")


def _require_size(name: str, value: str, limit: int) -> str:
    if count_utf16_units(value) > limit:
        raise TooLong(f"{name} is {count_utf16_units(value)} long, Slack takes {limit}")
    return value


def _plain_text(text: str, limit: int) -> Block:
    return {"type": "plain_text", "text": clip_text(text, limit) or "–", "emoji": False}


def _mrkdwn(text: str) -> Block:
    """Return mrkdwn; `verbatim` keeps Slack from adding links."""
    return {"type": "mrkdwn", "text": text or "–", "verbatim": True}


def header(text: str) -> Block:
    return {"type": "header", "text": _plain_text(text, MAX_HEADER_CHARS)}


def section(*lines: Line, accessory: Block | None = None) -> Block:
    block = {"type": "section", "text": _mrkdwn(render_lines(lines, MAX_SECTION_CHARS))}
    return {**block, "accessory": accessory} if accessory else block


def clipped_section(*lines: Line, room: int) -> Block:
    return {"type": "section", "text": _mrkdwn(render_lines(lines, min(room, MAX_SECTION_CHARS)))}


def line_section(*parts: Part) -> Block:
    return section(parts)


def exact_section(*lines: Line) -> Block:
    """Return unclipped lines. Raises TooLong."""
    words = "\n".join(render_line(parts, sys.maxsize) for parts in lines)
    return {"type": "section", "text": _mrkdwn(_require_size("text", words, MAX_SECTION_CHARS))}


def exact_code_section(text: str) -> Block:
    """Return unclipped monospace text. Raises TooLong."""
    return {"type": "section", "text": _mrkdwn(_require_size("text", exact_code_block(text), MAX_SECTION_CHARS))}


def exact_line_section(above: Line, below: Sequence[Line], room: int) -> Block:
    """Return an unclipped line (raises TooLong) and lines clipped to `room`."""
    words = _require_size("text", render_line(above, sys.maxsize), MAX_SECTION_CHARS)
    room = min(room, MAX_SECTION_CHARS - count_utf16_units(words) - 1)
    tail = render_lines(below, room) if below and room > 2 * HIDDEN_LINES_NOTE_CHARS else ""
    return {"type": "section", "text": _mrkdwn(f"{words}\n{tail}" if tail else words)}


def exact_command_section(above: Sequence[Line], monospace: str, below: Sequence[Line], room: int) -> Block:
    """Return unclipped lines and monospace text (raises TooLong) and lines clipped to `room`."""
    words = "\n".join(render_line(parts, sys.maxsize) for parts in above)
    words = _require_size("text", f"{words}\n{exact_code_block(monospace)}", MAX_SECTION_CHARS)
    room = min(room, MAX_SECTION_CHARS - count_utf16_units(words) - 1)
    tail = render_lines(below, room) if below and room > 2 * HIDDEN_LINES_NOTE_CHARS else ""
    return {"type": "section", "text": _mrkdwn(f"{words}\n{tail}" if tail else words)}


def code_section(rows: Iterable[str], width: int = 300, limit: int = MAX_SECTION_CHARS) -> Block:
    return {"type": "section", "text": _mrkdwn(code_block(rows, limit, width))}


def fields(pairs: Iterable[tuple[str, Line]]) -> Block:
    """Return facts side by side; above ten the last counts the rest."""
    rows = list(pairs)
    shown_rows = rows if len(rows) <= MAX_FIELDS else [*rows[: MAX_FIELDS - 1], ("more", (f"{len(rows) - MAX_FIELDS + 1} not shown",))]
    return {
        "type": "section",
        "fields": [
            _mrkdwn(f"{render_line((bold(name),), 200)}\n{render_line(value, MAX_FIELD_CHARS - 210) or '–'}") for name, value in shown_rows
        ],
    }


def context(*lines: Line) -> Block:
    shown_lines = (
        lines
        if len(lines) <= MAX_CONTEXT_ELEMENTS
        else (*lines[: MAX_CONTEXT_ELEMENTS - 1], (f"… {len(lines) - MAX_CONTEXT_ELEMENTS + 1} more",))
    )
    return {"type": "context", "elements": [_mrkdwn(render_line(parts, MAX_FIELD_CHARS)) for parts in shown_lines]}


def plan(title: str, tasks: Iterable[tuple[str, TaskStatus]]) -> Block:
    """Return Slack's plan block; `replace_plan_blocks` is the fallback."""
    cards = [
        {"type": "task_card", "task_id": f"step-{n}", "title": clip_text(words, MAX_TASK_CHARS), "status": is_}
        for n, (words, is_) in enumerate(tasks)
    ]
    return {"type": "plan", "title": clip_text(title, MAX_TASK_CHARS), "tasks": cards[:MAX_TASKS]}


def replace_plan_blocks(card: Card) -> Card:
    """Return the card with plans rendered as lines."""
    return Card(tuple(_render_plan_as_section(block) if block["type"] == "plan" else block for block in card.blocks), card.text)


def _render_plan_as_section(block: Block) -> Block:
    return section((bold(block["title"]),), *((f"{TASK_STATUS_MARKS[task['status']]} {task['title']}",) for task in block["tasks"]))


def exact_context(*lines: Line) -> Block:
    """Return unclipped small print. Raises TooLong."""
    return {
        "type": "context",
        "elements": [_mrkdwn(_require_size("text", render_line(parts, sys.maxsize), MAX_FIELD_CHARS)) for parts in lines],
    }


def divider() -> Block:
    return {"type": "divider"}


def actions(*buttons: Block) -> Block:
    if not 1 <= len(buttons) <= MAX_BUTTONS_PER_ROW:
        raise TooLong(f"{len(buttons)} buttons in one row, Slack takes 1 to {MAX_BUTTONS_PER_ROW}")
    return {"type": "actions", "elements": list(buttons)}


def confirm(title: str, text: str, yes: str, no: str = "Back") -> Block:
    return {"title": _plain_text(title, 100), "text": _plain_text(text, 300), "confirm": _plain_text(yes, 30), "deny": _plain_text(no, 30)}


def button(text: str, action_id: str, value: str, *, style: str = "", ask: Block | None = None) -> Block:
    block = {
        "type": "button",
        "text": _plain_text(text, MAX_BUTTON_CHARS),
        "action_id": _require_size("action_id", action_id, MAX_ACTION_ID_CHARS),
        "value": _require_size("value", value, MAX_VALUE_CHARS),
    }
    return block | ({"style": style} if style else {}) | ({"confirm": ask} if ask else {})


def feedback_buttons(action_id: str, yes: tuple[str, str], no: tuple[str, str]) -> Block:
    """Return Slack's feedback buttons, each (label, value)."""

    def one(words: str, value: str) -> Block:
        return {
            "text": _plain_text(words, MAX_BUTTON_CHARS),
            "value": _require_size("value", value, MAX_VALUE_CHARS),
            "accessibility_label": words,
        }

    buttons = {"type": "feedback_buttons", "action_id": _require_size("action_id", action_id, MAX_ACTION_ID_CHARS)}
    return {"type": "context_actions", "elements": [buttons | {"positive_button": one(*yes), "negative_button": one(*no)}]}


def input_block(block_id: str, label: str, element: Block, *, hint: str = "", optional: bool = False) -> Block:
    """Return an input; its value is at (block_id, block_id)."""
    element = {**element, "action_id": _require_size("block_id", block_id, MAX_ACTION_ID_CHARS)}
    block: Block = {"type": "input", "block_id": block_id, "label": _plain_text(label, 200), "element": element, "optional": optional}
    return block | ({"hint": _plain_text(hint, 500)} if hint else {})


def text_input(*, initial: str = "", multiline: bool = False, max_chars: int = MAX_INPUT_CHARS) -> Block:
    element: Block = {"type": "plain_text_input", "multiline": multiline, "max_length": min(max_chars, MAX_INPUT_CHARS)}
    return element | ({"initial_value": _require_size("initial value", initial, min(max_chars, MAX_INPUT_CHARS))} if initial else {})


def select(groups: Mapping[str, Sequence[tuple[str, str]]], initial: str = "") -> Block:
    """Return a select of (value, label), splitting groups above 100."""
    option_groups = [
        _option_group(heading, rows)
        for name, group_rows in groups.items()
        if group_rows
        for heading, rows in _split_option_groups(name, group_rows)
    ]
    options = [option for group in option_groups for option in group["options"]]
    chosen = next((option for option in options if option["value"] == initial), None)
    element: Block = {"type": "static_select", "option_groups": option_groups[:MAX_OPTIONS]}
    return element | ({"initial_option": chosen} if chosen else {})


def select_person(initial: str = "") -> Block:
    element: Block = {"type": "users_select"}
    return element | ({"initial_user": initial} if initial else {})


def overflow(action_id: str, rows: Sequence[tuple[str, str]]) -> Block:
    """Return a menu of (value, label)."""
    if not 1 <= len(rows) <= MAX_OVERFLOW_OPTIONS:
        raise TooLong(f"{len(rows)} choices in a small menu, Slack takes 1 to {MAX_OVERFLOW_OPTIONS}")
    options = [
        {"text": _plain_text(words, MAX_OPTION_CHARS), "value": _require_size("option", value, MAX_OPTION_VALUE_CHARS)}
        for value, words in rows
    ]
    return {"type": "overflow", "action_id": _require_size("action_id", action_id, MAX_ACTION_ID_CHARS), "options": options}


def select_row(action_id: str, carried: str, placeholder: str, groups: Mapping[str, Sequence[tuple[str, str]]]) -> Block:
    """Return a select; its block id is `carried`, as options hold no extra data."""
    element = select(groups) | {
        "action_id": _require_size("action_id", action_id, MAX_ACTION_ID_CHARS),
        "placeholder": _plain_text(placeholder, MAX_OPTION_CHARS),
    }
    return {"type": "actions", "block_id": _require_size("block_id", carried, MAX_ACTION_ID_CHARS), "elements": [element]}


def _split_option_groups(name: str, rows: Sequence[tuple[str, str]]) -> list[tuple[str, Sequence[tuple[str, str]]]]:
    parts = [rows[i : i + MAX_OPTIONS] for i in range(0, len(rows), MAX_OPTIONS)]
    return [(name if n == 0 else f"{name} ({n + 1})", part) for n, part in enumerate(parts)]


def _option_group(heading: str, rows: Sequence[tuple[str, str]]) -> Block:
    options = [
        {"text": _plain_text(words, MAX_OPTION_CHARS), "value": _require_size("option", value, MAX_OPTION_VALUE_CHARS)}
        for value, words in rows
    ]
    return {"label": _plain_text(heading, MAX_OPTION_CHARS), "options": options}


def modal(callback_id: str, title: str, blocks: Sequence[Block], *, submit: str, metadata: str) -> Block:
    """Return a modal; `metadata` comes back with the submission."""
    return {
        "type": "modal",
        "callback_id": _require_size("callback_id", callback_id, MAX_ACTION_ID_CHARS),
        "title": _plain_text(title, MAX_TITLE_CHARS),
        "submit": _plain_text(submit, MAX_TITLE_CHARS),
        "close": _plain_text("Back", MAX_TITLE_CHARS),
        "private_metadata": _require_size("private_metadata", metadata, MAX_METADATA_CHARS),
        "blocks": fit_blocks(list(blocks), MAX_MODAL_BLOCKS),
    }


def read_only_modal(title: str, blocks: Sequence[Block]) -> Block:
    shown_blocks = fit_blocks(list(blocks), MAX_MODAL_BLOCKS)
    return {
        "type": "modal",
        "title": _plain_text(title, MAX_TITLE_CHARS),
        "close": _plain_text("Close", MAX_TITLE_CHARS),
        "blocks": shown_blocks,
    }


def home_view(blocks: Sequence[Block]) -> Block:
    return {"type": "home", "blocks": fit_blocks(list(blocks), MAX_MODAL_BLOCKS)}


def fit_blocks(blocks: Sequence[Block], max_blocks: int = MAX_BLOCKS) -> list[Block]:
    """Bound blocks and text; buttons, inputs and headers stay, a note counts the rest."""
    if len(blocks) <= max_blocks and sum(map(count_text_chars, blocks)) <= MAX_MESSAGE_CHARS:
        return list(blocks)
    anchors = {i for i, block in enumerate(blocks) if block["type"] in ("actions", "context_actions", "input", "header")}
    anchors = set(sorted(anchors)[: max_blocks - 1])
    places, room = max_blocks - 1 - len(anchors), MAX_MESSAGE_CHARS - 100 - sum(count_text_chars(blocks[i]) for i in anchors)
    kept = set(anchors)
    for i, block in enumerate(blocks):
        if i in anchors:
            continue
        places, room = places - 1, room - count_text_chars(block)
        if places < 0 or room < 0:
            break
        kept.add(i)
    left_out = [i for i in range(len(blocks)) if i not in kept]
    if not left_out:  # a form whose menus alone are longer than that
        return list(blocks)
    note = context((f"… {len(left_out)} more parts of this card are not shown",))
    return [*blocks[: left_out[0]], note, *(blocks[i] for i in range(left_out[0], len(blocks)) if i in kept)]


def count_text_chars(block: Any) -> int:
    if isinstance(block, dict):
        return sum(count_utf16_units(v) if k == "text" and isinstance(v, str) else count_text_chars(v) for k, v in block.items())
    return sum(map(count_text_chars, block)) if isinstance(block, list) else 0
