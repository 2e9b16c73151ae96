"""What a closed incident taught, for the knowledge editors: accept it, change it, refuse it. Until it is accepted it is used for nothing."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.buttons import MALFORMED, BadForm, OldButton, Press, carry, read_press
from bot.cards.text import Line, Part, bold, code, italic
from graph.state import ABSTAIN, NO_FAULT
from kb.history.lessons import TITLE, WORDS, Lesson, LessonState

ACCEPT, EDIT, REFUSE, RESTORE = "lesson.accept", "lesson.edit", "lesson.refuse", "lesson.restore"
BUTTONS = {ACCEPT: "accept", EDIT: "edit", REFUSE: "refuse", RESTORE: "restore"}
CALLBACK = "lesson.submit"
NAME, SEEN, LABEL, CAUSE, FIX = "lesson.title", "lesson.seen", "lesson.label", "lesson.cause", "lesson.fix"
MOST_SHOWN = 300
HEADS: Final[Mapping[LessonState, str]] = {
    "draft": "📝 A lesson to decide about",
    "accepted": "🎓 Lesson accepted",
    "refused": "🚫 Lesson refused",
    "retired": "📦 Lesson retired",
    "folded": "📚 Lesson folded into an earlier one",
}

LabelChoices = Mapping[str, Sequence[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class LessonEdit:
    """The form, sent: what somebody makes of the draft with this digest."""

    lesson: str
    digest: str
    title: str
    description: str
    label: str
    root_cause: str
    resolution: str


def render(lesson: Lesson, titles: Mapping[str, str], by: str = "") -> Card:
    """`by`: the name of whoever settled it. Once it is settled the buttons are gone."""
    head = HEADS[lesson.state]
    return blocks.card(
        f"{head}: {lesson.title}",
        [
            blocks.header(head),
            *[blocks.short(line, room=MOST_SHOWN + 100) for line in _lines(lesson, titles)],
            blocks.context(_foot(lesson, by)),
            *([_buttons(lesson)] if lesson.state in ("draft", "retired") else []),
        ],
    )


def read(payload: Mapping[str, Any]) -> Press:
    """A click; `incident` is the lesson's id and `item` the digest of what was shown."""
    return read_press(payload, BUTTONS)


def form(lesson: Lesson, offered: LabelChoices) -> Block:
    """The draft to change; a cause is chosen from the taxonomy and never written."""
    labels = {head: [row for row in rows if row[0] not in (NO_FAULT, ABSTAIN)] for head, rows in offered.items()}
    return blocks.modal(
        CALLBACK,
        "Change the lesson",
        [
            _field(NAME, "How it showed, in one line", lesson.title, TITLE),
            _field(SEEN, "What was seen", lesson.description, WORDS, multiline=True, optional=True),
            blocks.field_input(LABEL, "What it was", blocks.select({head: rows for head, rows in labels.items() if rows}, lesson.label)),
            _field(CAUSE, "Root cause, in your words", lesson.root_cause, WORDS, multiline=True),
            _field(FIX, "What mended it", lesson.resolution, WORDS, multiline=True, optional=True),
        ],
        submit="Save",
        metadata=carry(lesson.id, lesson.digest),
    )


def submitted(payload: Mapping[str, Any]) -> LessonEdit:
    """The form. Raises BadForm for what can be mended in it, OldButton for one that is not ours."""
    try:
        view = payload["view"]
        about = json.loads(view["private_metadata"])
        values = view["state"]["values"]
        title, seen, cause, fix = (" ".join(str(values[block][block].get("value") or "").split()) for block in (NAME, SEEN, CAUSE, FIX))
        label = str((values[LABEL][LABEL].get("selected_option") or {}).get("value", ""))
        edit = LessonEdit(str(about["incident"]), str(about["item"]), title, seen, label, cause, fix)
    except MALFORMED as wrong:
        raise OldButton from wrong
    problems = {block: "Write something." for block, text in ((NAME, title), (CAUSE, cause)) if not text}
    longest = {NAME: (title, TITLE), SEEN: (seen, WORDS), CAUSE: (cause, WORDS), FIX: (fix, WORDS)}
    problems |= {block: f"At most {most} characters." for block, (text, most) in longest.items() if len(text) > most}
    if not label:
        problems[LABEL] = "Choose what it was."
    if problems:
        raise BadForm(problems)
    return edit


def _field(name: str, words: str, initial: str, most: int, *, multiline: bool = False, optional: bool = False) -> Block:
    return blocks.field_input(name, words, blocks.text_input(initial=initial, multiline=multiline, most=most), optional=optional)


def _lines(lesson: Lesson, titles: Mapping[str, str]) -> list[Line]:
    named = titles.get(lesson.label, lesson.label)
    rows: list[tuple[str, Sequence[Part]]] = [
        ("Seen:", (lesson.title,)),
        ("It was:", (named, " ", code(lesson.label)) if lesson.label else (italic("nobody said which cause of the taxonomy; choose one"),)),
        ("A new cause?", (lesson.new_title, " ", code(lesson.new_cause), f" · rackmedic kb cause {lesson.id}") if lesson.new_cause else ()),
        ("Because:", (lesson.root_cause,)),
        ("Decided by:", (code(lesson.deciding_check),) if lesson.deciding_check else ()),
        ("Mended by:", (lesson.resolution,)),
        ("What misled:", (", ".join(titles.get(one, one) for one in lesson.misled),)),
        ("Used for:", (_whom(lesson),)),
    ]
    return [(bold(head), " ", *parts) for head, parts in rows if any(parts)]


def _whom(lesson: Lesson) -> str:
    if lesson.inside:
        return "our own people only, for hosts of several customers are in it"
    return f"incidents of {lesson.tenant} and our own" if lesson.tenant else "everybody"


def _foot(lesson: Lesson, by: str) -> Line:
    seen = f" · seen {lesson.seen} times" if lesson.seen > 1 else ""
    match lesson.state:
        case "draft":
            says = "Knowledge editors and approvers decide. Until then it is used for nothing; accepted, it only says where to look first."
        case "retired":
            counts = f"right {_times(lesson.right)}, wrong {_times(lesson.wrong)}"
            says = f"Retired {f'by {by}, ' if by else ''}{lesson.settled or ''}: {counts}{'' if by else ', or too long ago'}. It is used no more."
        case "folded":
            says = f"Accepted by {by or 'somebody'}, {lesson.settled or ''}, as one more of {lesson.into}, which tells the same."
        case _:
            says = f"{lesson.state.capitalize()} by {by or 'somebody'}, {lesson.settled or ''}."
    return (italic(f"{says} From {lesson.incident or 'another site'}, {lesson.on}{seen}"),)


def _times(incidents: Sequence[str]) -> str:
    return f"{len(incidents)} time{'s' * (len(incidents) != 1)}"


def _buttons(lesson: Lesson) -> Block:
    value = carry(lesson.id, lesson.digest)
    if lesson.state == "retired":
        return blocks.actions(blocks.button("Bring back", RESTORE, value))
    accept = [blocks.button("Accept", ACCEPT, value, style="primary")] if lesson.label else []
    return blocks.actions(*accept, blocks.button("Edit", EDIT, value), blocks.button("Refuse", REFUSE, value))
