"""The card of a lesson and the form that edits it. A lesson is unused until accepted."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.buttons import MALFORMED_PAYLOAD_ERRORS, BadForm, ButtonClick, OldButton, encode_button_value, parse_button_click
from bot.cards.text import Line, Part, bold, code, italic
from graph.state import ABSTAIN, NO_FAULT
from kb.history.lessons import MAX_TEXT_CHARS, MAX_TITLE_CHARS, Lesson, LessonState

ACCEPT_ACTION_ID = "lesson.accept"
EDIT_ACTION_ID = "lesson.edit"
REFUSE_ACTION_ID = "lesson.refuse"
RESTORE_ACTION_ID = "lesson.restore"
BUTTONS = {ACCEPT_ACTION_ID: "accept", EDIT_ACTION_ID: "edit", REFUSE_ACTION_ID: "refuse", RESTORE_ACTION_ID: "restore"}
CALLBACK_ID = "lesson.submit"
TITLE_BLOCK_ID = "lesson.title"
DESCRIPTION_BLOCK_ID = "lesson.seen"
LABEL_BLOCK_ID = "lesson.label"
CAUSE_BLOCK_ID = "lesson.cause"
RESOLUTION_BLOCK_ID = "lesson.fix"
MAX_LINE_CHARS = 300
STATE_HEADLINES: Final[Mapping[LessonState, str]] = {
    "draft": "📝 Lesson to review",
    "accepted": "🎓 Lesson accepted",
    "refused": "🚫 Lesson refused",
    "retired": "📦 Lesson retired",
    "folded": "📚 Lesson folded into an earlier one",
}
LabelChoices = Mapping[str, Sequence[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class LessonEdit:
    """A submitted edit of the draft with this digest."""

    lesson: str
    digest: str
    title: str
    description: str
    label: str
    root_cause: str
    resolution: str


def render_lesson(lesson: Lesson, titles: Mapping[str, str], by: str = "") -> Card:
    """Return the card, with buttons for drafts and retired lessons. `by`: name of the decider."""
    head = STATE_HEADLINES[lesson.state]
    return blocks.build_card(
        f"{head}: {lesson.title}",
        [
            blocks.header(head),
            *[blocks.clipped_section(line, room=MAX_LINE_CHARS + 100) for line in _render_lesson_lines(lesson, titles)],
            blocks.context(_render_footer(lesson, by)),
            *([_render_buttons(lesson)] if lesson.state in ("draft", "retired") else []),
        ],
    )


def parse_lesson_click(payload: Mapping[str, Any]) -> ButtonClick:
    """Parse a click; `incident` is the lesson, `item` the digest shown."""
    return parse_button_click(payload, BUTTONS)


def render_lesson_form(lesson: Lesson, offered: LabelChoices) -> Block:
    labels = {head: [row for row in rows if row[0] not in (NO_FAULT, ABSTAIN)] for head, rows in offered.items()}
    return blocks.modal(
        CALLBACK_ID,
        "Change the lesson",
        [
            _render_field(TITLE_BLOCK_ID, "How it showed, in one line", lesson.title, MAX_TITLE_CHARS),
            _render_field(DESCRIPTION_BLOCK_ID, "What was seen", lesson.description, MAX_TEXT_CHARS, multiline=True, optional=True),
            blocks.input_block(
                LABEL_BLOCK_ID, "What it was", blocks.select({head: rows for head, rows in labels.items() if rows}, lesson.label)
            ),
            _render_field(CAUSE_BLOCK_ID, "Root cause, in your words", lesson.root_cause, MAX_TEXT_CHARS, multiline=True),
            _render_field(RESOLUTION_BLOCK_ID, "What fixed it", lesson.resolution, MAX_TEXT_CHARS, multiline=True, optional=True),
        ],
        submit="Save",
        metadata=encode_button_value(lesson.id, lesson.digest),
    )


def parse_lesson_form(payload: Mapping[str, Any]) -> LessonEdit:
    """Parse the form. Raises BadForm, OldButton."""
    try:
        view = payload["view"]
        metadata = json.loads(view["private_metadata"])
        values = view["state"]["values"]
        title, description, cause, fix = (
            " ".join(str(values[block][block].get("value") or "").split())
            for block in (TITLE_BLOCK_ID, DESCRIPTION_BLOCK_ID, CAUSE_BLOCK_ID, RESOLUTION_BLOCK_ID)
        )
        label = str((values[LABEL_BLOCK_ID][LABEL_BLOCK_ID].get("selected_option") or {}).get("value", ""))
        edit = LessonEdit(str(metadata["incident"]), str(metadata["item"]), title, description, label, cause, fix)
    except MALFORMED_PAYLOAD_ERRORS as error:
        raise OldButton from error
    problems = {block: "Write something." for block, text in ((TITLE_BLOCK_ID, title), (CAUSE_BLOCK_ID, cause)) if not text}
    longest = {
        TITLE_BLOCK_ID: (title, MAX_TITLE_CHARS),
        DESCRIPTION_BLOCK_ID: (description, MAX_TEXT_CHARS),
        CAUSE_BLOCK_ID: (cause, MAX_TEXT_CHARS),
        RESOLUTION_BLOCK_ID: (fix, MAX_TEXT_CHARS),
    }
    for block, (text, max_chars) in longest.items():
        if len(text) > max_chars:
            problems[block] = f"At most {max_chars} characters."
    if not label:
        problems[LABEL_BLOCK_ID] = "Choose what it was."
    if problems:
        raise BadForm(problems)
    return edit


def _render_field(name: str, words: str, initial: str, max_chars: int, *, multiline: bool = False, optional: bool = False) -> Block:
    return blocks.input_block(name, words, blocks.text_input(initial=initial, multiline=multiline, max_chars=max_chars), optional=optional)


def _render_lesson_lines(lesson: Lesson, titles: Mapping[str, str]) -> list[Line]:
    title = titles.get(lesson.label, lesson.label)
    rows: list[tuple[str, Sequence[Part]]] = [
        ("Seen:", (lesson.title,)),
        ("It was:", (title, " ", code(lesson.label)) if lesson.label else (italic("no cause of the taxonomy is named; choose one"),)),
        ("A new cause?", (lesson.new_title, " ", code(lesson.new_cause), f" · rackmedic kb cause {lesson.id}") if lesson.new_cause else ()),
        ("Because:", (lesson.root_cause,)),
        ("Decided by:", (code(lesson.deciding_check),) if lesson.deciding_check else ()),
        ("Fixed by:", (lesson.resolution,)),
        ("What misled:", (", ".join(titles.get(one, one) for one in lesson.misled),)),
        ("Used for:", (_describe_audience(lesson),)),
    ]
    return [(bold(head), " ", *parts) for head, parts in rows if any(parts)]


def _describe_audience(lesson: Lesson) -> str:
    if lesson.inside:
        return "our own people only, for hosts of several customers are in it"
    return f"incidents of {lesson.tenant} and our own" if lesson.tenant else "everybody"


def _render_footer(lesson: Lesson, by: str) -> Line:
    seen_note = f" · seen {lesson.seen} times" if lesson.seen > 1 else ""
    match lesson.state:
        case "draft":
            footer = "A knowledge editor or approver decides. It is not used before that. Once accepted, it only says where to look first."
        case "retired":
            counts = f"right {_format_times(lesson.right)}, wrong {_format_times(lesson.wrong)}"
            footer = f"Retired {f'by {by}, ' if by else ''}{lesson.settled or ''}: {counts}{'' if by else ', or too long ago'}. It is no longer used."
        case "folded":
            footer = f"Accepted by {by or 'a person'}, {lesson.settled or ''}, counted with {lesson.into}, which says the same."
        case _:
            footer = f"{lesson.state.capitalize()} by {by or 'a person'}, {lesson.settled or ''}."
    return (italic(f"{footer} From {lesson.incident or 'another site'}, {lesson.on}{seen_note}"),)


def _format_times(incidents: Sequence[str]) -> str:
    return f"{len(incidents)} time{'s' * (len(incidents) != 1)}"


def _render_buttons(lesson: Lesson) -> Block:
    value = encode_button_value(lesson.id, lesson.digest)
    if lesson.state == "retired":
        return blocks.actions(blocks.button("Bring back", RESTORE_ACTION_ID, value))
    accept = [blocks.button("Accept", ACCEPT_ACTION_ID, value, style="primary")] if lesson.label else []
    return blocks.actions(*accept, blocks.button("Edit", EDIT_ACTION_ID, value), blocks.button("Refuse", REFUSE_ACTION_ID, value))
