"""Lessons: what closed incidents taught, as people accepted it. Rows to store, to export and to read back, and how far each is trusted. Pure."""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from math import sqrt
from typing import Annotated, Any, Final, Literal

from pydantic import Field, StringConstraints, ValidationError

from kb.history.incidents import PastIncident
from kb.history.search_terms import extract_terms, join_texts
from kb.redact import redact_once
from kb.schema import StrictModel, iter_complaints

LessonState = Literal["draft", "accepted", "refused", "retired", "folded"]
AT_TERMINAL: Final = "a terminal"
"""Who settled a lesson without Slack."""
MAX_TITLE_CHARS, MAX_TEXT_CHARS, MAX_NAME_CHARS, MAX_SYMPTOMS, MAX_COUNTED_INCIDENTS = 120, 600, 160, 12, 50
"""How long a title, a text and a name may be; how many symptoms, and how many incidents that it was counted by."""
HALF_LIFE_DAYS: Final = 730
"""After how long a lesson that nothing bore out is trusted half as much."""
MIN_TRUST: Final = 0.25
"""Less trusted than this, a lesson is used no more."""
DUPLICATE_SIMILARITY: Final = 0.75
"""How much of their words two lessons of one cause and one owner share that tell the same, 0 to 1. Not weighed by rarity: there are few lessons."""

LessonTitle = Annotated[str, StringConstraints(max_length=MAX_TITLE_CHARS)]
LessonText = Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARS)]
LessonName = Annotated[str, StringConstraints(max_length=MAX_NAME_CHARS)]
LessonNames = Annotated[tuple[LessonName, ...], Field(max_length=MAX_SYMPTOMS)]
CountedIncidents = Annotated[tuple[LessonName, ...], Field(max_length=MAX_COUNTED_INCIDENTS)]


class Lesson(StrictModel):
    """What was seen, what it was, the look that decided it, the fix that held, and what misled. Until somebody accepted it, it is used for nothing."""

    id: LessonName
    state: LessonState = "draft"
    title: LessonTitle
    description: LessonText = ""
    symptoms: LessonNames = ()
    signatures: LessonNames = ()
    label: LessonName = ""
    """Empty as long as nobody said which cause of the taxonomy it was."""
    new_cause: LessonName = ""
    """Where no label names it: the label that is proposed for it, beside others of its branch."""
    new_title: LessonTitle = ""
    """What the proposed label would be called."""
    root_cause: LessonText = ""
    deciding_check: LessonName = ""
    resolution: LessonText = ""
    misled: LessonNames = ()
    """Causes that were believed and that it was not."""
    tenant: LessonName = ""
    """Whose incident it was; only they and our own people are served by it. Empty: anybody."""
    inside: bool = False
    """It concerns hosts of several customers, so that it serves our own people alone."""
    incident: LessonName = ""
    on: date
    by: LessonName = ""
    """Who settled it, as `TEAM:USER`, or `AT_TERMINAL`."""
    settled: date | None = None
    edited: bool = False
    """Somebody changed the draft."""
    seen: Annotated[int, Field(ge=1)] = 1
    """Incidents that taught the same."""
    into: LessonName = ""
    """Of a folded one: the lesson that tells the same, and counts it."""
    right: CountedIncidents = ()
    wrong: CountedIncidents = ()
    """Incidents in which it was recalled, by what those turned out to be; the last fifty of each."""
    borne_out: date | None = None
    """When it last turned out right."""

    @property
    def digest(self) -> str:
        """Of what people read when they decide about it."""
        shown = self.model_dump(
            mode="json", exclude={"state", "by", "settled", "seen", "into", "right", "wrong", "borne_out"}, exclude_defaults=True
        )
        return hashlib.sha256(repr(sorted(shown.items())).encode()).hexdigest()[:16]

    @property
    def text(self) -> str:
        """What it is compared by."""
        return join_texts((self.title, self.description, *self.symptoms, *self.signatures))

    def can_serve_tenant(self, tenant: str | None) -> bool:
        """Whether it may be used for an incident of this customer; of nobody's (None), of our own."""
        return tenant is None or (not self.inside and self.tenant in ("", tenant))

    def to_past_incident(self, today: date) -> PastIncident:
        """As it is searched for and recalled."""
        described = join_texts((self.description, " ".join((*self.symptoms, *self.signatures))))
        return PastIncident(
            id=self.id,
            title=self.title,
            description=described,
            label=self.label,
            root_cause=self.root_cause,
            resolution=self.resolution,
            deciding_check=self.deciding_check,
            tenant=self.tenant,
            inside=self.inside,
            learnt=self.incident or self.id,
            on=self.on.isoformat(),
            trust=compute_trust(self, today),
        )


def shorten_text(text: str, most: int) -> str:
    """One line without secrets, no longer than a field takes."""
    line = " ".join(str(redact_once(text)).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def compute_trust(lesson: Lesson, today: date) -> float:
    """From 0 to 1: an error weighs as much as two proofs, and what nothing bears out fades."""
    shown = (1 + len(lesson.right)) / (1 + len(lesson.right) + 2 * len(lesson.wrong))
    days = max(0, (today - (lesson.borne_out or lesson.settled or lesson.on)).days)
    faded_to: float = 0.5 ** (days / HALF_LIFE_DAYS)
    return round(shown * faded_to, 4)


def count_outcome(lesson: Lesson, incident: str, label: str, today: date) -> Lesson:
    """With what an incident in which it was recalled turned out to be. The same incident counts once, by its last word."""
    right = tuple(one for one in lesson.right if one != incident)
    wrong = tuple(one for one in lesson.wrong if one != incident)
    if label == lesson.label:
        borne_out = max(lesson.borne_out or today, today)
        return lesson.model_copy(update={"right": (*right, incident)[-MAX_COUNTED_INCIDENTS:], "wrong": wrong, "borne_out": borne_out})
    return lesson.model_copy(update={"right": right, "wrong": (*wrong, incident)[-MAX_COUNTED_INCIDENTS:]})


def apply_outcome(lesson: Lesson, incident: str, label: str, today: date, *, told: bool) -> Lesson:
    """What becomes of an accepted lesson by an incident in which it was recalled, once that turned out to be `label`; retired where it is trusted too
    little by then. One that was hardly alike (not `told`) can be borne out, and is not held to be wrong."""
    if lesson.state != "accepted" or not (told or label == lesson.label):
        return lesson
    return retire_if_faded(count_outcome(lesson, incident, label, today), today)


def accept_lesson(lesson: Lesson, by: str, today: date, twin: Lesson | None) -> Lesson:
    """In use, or folded into the one that tells the same."""
    into: dict[str, Any] = {"state": "folded", "into": twin.id} if twin else {"state": "accepted"}
    return lesson.model_copy(update={"by": by, "settled": today, **into})


def count_seen_again(lesson: Lesson, times: int) -> Lesson:
    """With one that tells the same folded into it."""
    return lesson.model_copy(update={"seen": lesson.seen + times})


def retire_lesson(lesson: Lesson, by: str, today: date) -> Lesson:
    """Used no more, because somebody says so."""
    return lesson.model_copy(update={"state": "retired", "by": by, "settled": today})


def restore_lesson(lesson: Lesson, by: str, today: date) -> Lesson:
    """A retired one, in use again because somebody says so: its errors are forgiven, and its age begins anew."""
    return lesson.model_copy(update={"state": "accepted", "by": by, "settled": today, "wrong": (), "borne_out": None})


def find_duplicate_lesson(lesson: Lesson, others: Iterable[Lesson]) -> Lesson | None:
    """The accepted lesson that tells the same of the same cause, for the same people; the oldest of several."""
    same = [one for one in others if _is_same_kind(one, lesson) and one.id != lesson.id]
    near = [one for one in same if _compute_word_overlap(one.text, lesson.text) >= DUPLICATE_SIMILARITY]
    return min(near, key=lambda one: (one.on, one.id), default=None)


def _is_same_kind(one: Lesson, other: Lesson) -> bool:
    return one.state == "accepted" and (one.label, one.tenant, one.inside) == (other.label, other.tenant, other.inside)


def _compute_word_overlap(one: str, other: str) -> float:
    mine, theirs = set(extract_terms(one)), set(extract_terms(other))
    return len(mine & theirs) / sqrt(len(mine) * len(theirs)) if mine and theirs else 0.0


def retire_if_faded(lesson: Lesson, today: date) -> Lesson:
    """The lesson, retired where it is trusted too little by now."""
    gone = lesson.state == "accepted" and compute_trust(lesson, today) < MIN_TRUST
    return lesson.model_copy(update={"state": "retired", "settled": today, "by": ""}) if gone else lesson


def build_lesson_rows(lessons: Iterable[Lesson]) -> list[dict[str, Any]]:
    """Accepted lessons as plain rows for a file, by their ids."""
    kept = sorted((one for one in lessons if one.state == "accepted"), key=lambda one: one.id)
    return [one.model_dump(mode="json", exclude_defaults=True, exclude={"by"}) for one in kept]


def parse_lessons(rows: Sequence[Mapping[str, Any]], labels: Collection[str]) -> tuple[list[Lesson], list[str]]:
    """Lessons of a file, each a draft again: whoever takes them in decides here. Beside them what is wrong with the rows that were passed over."""
    found: dict[str, Lesson] = {}
    problems: list[str] = []
    for number, row in enumerate(rows, 1):
        try:
            lesson = Lesson.model_validate_json(_dump_row(row))
        except (ValidationError, TypeError, ValueError, RecursionError) as why:
            problems.append(f"row {number}: {_format_error(why)}")
            continue
        if lesson.label not in labels:
            problems.append(f"row {number}: unknown label {lesson.label[:MAX_NAME_CHARS]!r}")
        elif lesson.id in found:
            problems.append(f"row {number}: {lesson.id} stands twice")
        else:
            found[lesson.id] = _reset_lesson(lesson)
    return list(found.values()), problems


def _reset_lesson(lesson: Lesson) -> Lesson:
    """What another place trusted is nothing that this one saw."""
    words = {name: shorten_text(getattr(lesson, name), MAX_TEXT_CHARS) for name in ("description", "root_cause", "resolution")}
    blank = {"state": "draft", "by": "", "settled": None, "seen": 1, "into": "", "right": (), "wrong": (), "borne_out": None}
    return lesson.model_copy(update={**blank, **words, "title": shorten_text(lesson.title, MAX_TITLE_CHARS)})


def _dump_row(row: Mapping[str, Any]) -> str:
    return json.dumps(row)


def _format_error(why: Exception) -> str:
    return "; ".join(said for _, said in iter_complaints(why, Lesson)) if isinstance(why, ValidationError) else "no row of a lesson"
