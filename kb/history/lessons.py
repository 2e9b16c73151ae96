"""Lessons from closed incidents, accepted by people, and the misdiagnoses that they repeat. Pure."""

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from math import sqrt
from typing import Annotated, Any, Final, Literal

from pydantic import Field, StringConstraints, ValidationError

from kb.history.incidents import PastIncident
from kb.history.text_search import extract_terms, join_texts
from kb.redact import redact_once
from kb.schema import StrictModel, iter_complaints

# Lessons from closed incidents, accepted by people: rows, export, import, trust.

LessonState = Literal["draft", "accepted", "refused", "retired", "folded"]
AT_TERMINAL: Final = "a terminal"  # decided without Slack
# characters of title, text and name; symptoms per lesson; counted incidents per lesson
MAX_TITLE_CHARS = 120
MAX_TEXT_CHARS = 600
MAX_NAME_CHARS = 160
MAX_SYMPTOMS = 12
MAX_COUNTED_INCIDENTS = 50
HALF_LIFE_DAYS: Final = 730  # an unconfirmed lesson loses half its trust in this time
MIN_TRUST: Final = 0.25  # below it a lesson is retired
# word overlap, 0 to 1, of duplicates. Not weighted by rarity: there are few lessons.
DUPLICATE_SIMILARITY: Final = 0.75
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
    label: LessonName = ""  # empty until a cause of the taxonomy is chosen
    new_cause: LessonName = ""  # proposed new label, if no label fits
    new_title: LessonTitle = ""  # title of the proposed label
    root_cause: LessonText = ""
    deciding_check: LessonName = ""
    resolution: LessonText = ""
    misled: LessonNames = ()  # causes that were wrongly believed
    tenant: LessonName = ""  # the incident's tenant; serves only it and operators; empty: all
    inside: bool = False  # concerns hosts of several tenants, so serves operators only
    incident: LessonName = ""
    on: date
    by: LessonName = ""  # who decided: `TEAM:USER` or `AT_TERMINAL`
    settled: date | None = None
    edited: bool = False  # a person changed the draft
    seen: Annotated[int, Field(ge=1)] = 1  # incidents that taught the same
    into: LessonName = ""  # for a folded lesson: the duplicate that counts it
    right: CountedIncidents = ()
    wrong: CountedIncidents = ()  # incidents that recalled it, by outcome; the last fifty of each
    borne_out: date | None = None  # last confirmation

    @property
    def digest(self) -> str:
        """Covers what people decide about."""
        shown_fields = self.model_dump(
            mode="json", exclude={"state", "by", "settled", "seen", "into", "right", "wrong", "borne_out"}, exclude_defaults=True
        )
        return hashlib.sha256(repr(sorted(shown_fields.items())).encode()).hexdigest()[:16]

    @property
    def text(self) -> str:
        return join_texts((self.title, self.description, *self.symptoms, *self.signatures))

    def can_serve_tenant(self, tenant: str | None) -> bool:
        """Return whether this tenant's incidents may use it (None: operators)."""
        return tenant is None or (not self.inside and self.tenant in ("", tenant))

    def to_past_incident(self, today: date) -> PastIncident:
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
    """Return one redacted line."""
    line = " ".join(str(redact_once(text)).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def compute_trust(lesson: Lesson, today: date) -> float:
    """Return trust, 0 to 1. An error weighs as much as two confirmations; unconfirmed lessons fade."""
    trust = (1 + len(lesson.right)) / (1 + len(lesson.right) + 2 * len(lesson.wrong))
    days = max(0, (today - (lesson.borne_out or lesson.settled or lesson.on)).days)
    faded_to: float = 0.5 ** (days / HALF_LIFE_DAYS)
    return round(trust * faded_to, 4)


def count_outcome(lesson: Lesson, incident: str, label: str, today: date) -> Lesson:
    """Count an incident once, by its last outcome."""
    right = tuple(one for one in lesson.right if one != incident)
    wrong_incidents = tuple(one for one in lesson.wrong if one != incident)
    if label == lesson.label:
        borne_out = max(lesson.borne_out or today, today)
        return lesson.model_copy(
            update={"right": (*right, incident)[-MAX_COUNTED_INCIDENTS:], "wrong": wrong_incidents, "borne_out": borne_out}
        )
    return lesson.model_copy(update={"right": right, "wrong": (*wrong_incidents, incident)[-MAX_COUNTED_INCIDENTS:]})


def apply_outcome(lesson: Lesson, incident: str, label: str, today: date, *, told: bool) -> Lesson:
    """Count and retire if needed. A barely similar lesson (not `told`) can be confirmed, not refuted."""
    if lesson.state != "accepted" or not (told or label == lesson.label):
        return lesson
    return retire_if_faded(count_outcome(lesson, incident, label, today), today)


def accept_lesson(lesson: Lesson, by: str, today: date, twin: Lesson | None) -> Lesson:
    """Accept, or fold into the duplicate `twin`."""
    into: dict[str, Any] = {"state": "folded", "into": twin.id} if twin else {"state": "accepted"}
    return lesson.model_copy(update={"by": by, "settled": today, **into})


def count_seen_again(lesson: Lesson, times: int) -> Lesson:
    """Count folded duplicates."""
    return lesson.model_copy(update={"seen": lesson.seen + times})


def retire_lesson(lesson: Lesson, by: str, today: date) -> Lesson:
    """Retire at a person's request."""
    return lesson.model_copy(update={"state": "retired", "by": by, "settled": today})


def restore_lesson(lesson: Lesson, by: str, today: date) -> Lesson:
    """Accept again; clear its errors and restart its age."""
    return lesson.model_copy(update={"state": "accepted", "by": by, "settled": today, "wrong": (), "borne_out": None})


def find_duplicate_lesson(lesson: Lesson, others: Iterable[Lesson]) -> Lesson | None:
    """Return the oldest accepted lesson with the same content, cause and audience."""
    same = [one for one in others if _is_same_kind(one, lesson) and one.id != lesson.id]
    similar_lessons = [one for one in same if _compute_word_overlap(one.text, lesson.text) >= DUPLICATE_SIMILARITY]
    return min(similar_lessons, key=lambda one: (one.on, one.id), default=None)


def _is_same_kind(one: Lesson, other: Lesson) -> bool:
    return one.state == "accepted" and (one.label, one.tenant, one.inside) == (other.label, other.tenant, other.inside)


def _compute_word_overlap(one: str, other: str) -> float:
    own_terms, other_terms = set(extract_terms(one)), set(extract_terms(other))
    return len(own_terms & other_terms) / sqrt(len(own_terms) * len(other_terms)) if own_terms and other_terms else 0.0


def retire_if_faded(lesson: Lesson, today: date) -> Lesson:
    """Retire below MIN_TRUST."""
    is_faded = lesson.state == "accepted" and compute_trust(lesson, today) < MIN_TRUST
    return lesson.model_copy(update={"state": "retired", "settled": today, "by": ""}) if is_faded else lesson


def build_lesson_rows(lessons: Iterable[Lesson]) -> list[dict[str, Any]]:
    """Return accepted lessons as rows, by id."""
    accepted_lessons = sorted((one for one in lessons if one.state == "accepted"), key=lambda one: one.id)
    return [one.model_dump(mode="json", exclude_defaults=True, exclude={"by"}) for one in accepted_lessons]


def parse_lessons(rows: Sequence[Mapping[str, Any]], labels: Collection[str]) -> tuple[list[Lesson], list[str]]:
    """Return drafts, so that people here decide, and problems of skipped rows."""
    lessons: dict[str, Lesson] = {}
    problems: list[str] = []
    for number, row in enumerate(rows, 1):
        try:
            lesson = Lesson.model_validate_json(_dump_row(row))
        except (ValidationError, TypeError, ValueError, RecursionError) as error:
            problems.append(f"row {number}: {_format_error(error)}")
            continue
        if lesson.label not in labels:
            problems.append(f"row {number}: unknown label {lesson.label[:MAX_NAME_CHARS]!r}")
        elif lesson.id in lessons:
            problems.append(f"row {number}: {lesson.id} stands twice")
        else:
            lessons[lesson.id] = _reset_lesson(lesson)
    return list(lessons.values()), problems


def _reset_lesson(lesson: Lesson) -> Lesson:
    """Drop the other site's decision and trust."""
    words = {name: shorten_text(getattr(lesson, name), MAX_TEXT_CHARS) for name in ("description", "root_cause", "resolution")}
    blank = {"state": "draft", "by": "", "settled": None, "seen": 1, "into": "", "right": (), "wrong": (), "borne_out": None}
    return lesson.model_copy(update={**blank, **words, "title": shorten_text(lesson.title, MAX_TITLE_CHARS)})


def _dump_row(row: Mapping[str, Any]) -> str:
    return json.dumps(row)


def _format_error(why: Exception) -> str:
    return (
        "; ".join(complaint for _, complaint in iter_complaints(why, Lesson)) if isinstance(why, ValidationError) else "no row of a lesson"
    )


# Repeated misdiagnoses, from accepted lessons: blamed cause, real cause, deciding check. Pure.
#
# Notes hold ids, no people's text. One raises the real cause's prior where the blamed one leads; it proves nothing.

MIN_INCIDENTS: Final = 2  # needed for a note; one mistake is an accident
LEADING_CAUSES = 3  # top causes considered
NOTE_WEIGHT = 0.5  # the weight of a note: half of a past incident with the same words


@dataclass(frozen=True, slots=True)
class MistakeNote:
    """A note. `saved`: incidents in which it would have helped; `detours`: the blamed cause was right."""

    blamed: str
    was: str
    look: str
    saved: int
    detours: int

    @property
    def is_useful(self) -> bool:
        return self.saved > self.detours

    def format_sentence(self, titles: Mapping[str, str]) -> str:
        look = f" `{self.look}` told." if self.look else ""
        return (
            f"Before blaming “{titles.get(self.blamed, self.blamed)}”: {self.saved} times it was “{titles.get(self.was, self.was)}”.{look}"
        )


def find_mistakes(lessons: Iterable[Lesson], reader: str | None = None) -> tuple[MistakeNote, ...]:
    """Return notes for this tenant (None: operators), most frequent first. Lessons count `seen` times."""
    served_lessons = [one for one in lessons if one.state == "accepted" and one.label and one.can_serve_tenant(reader)]
    pairs: dict[tuple[str, str], list[Lesson]] = {}
    for lesson in served_lessons:
        for blamed in dict.fromkeys(lesson.misled):
            pairs.setdefault((blamed, lesson.label), []).append(lesson)
    notes = [_build_note(blamed, was, rows, served_lessons) for (blamed, was), rows in pairs.items()]
    return tuple(sorted((one for one in notes if one.saved >= MIN_INCIDENTS), key=lambda one: (-one.saved, one.blamed, one.was)))


def compute_note_weights(priors: Mapping[str, float], notes: Sequence[MistakeNote], labels: Collection[str]) -> dict[str, float]:
    """Add where a useful note's blamed cause leads."""
    leading = sorted(priors, key=lambda label: (-priors[label], label))[:LEADING_CAUSES]
    return {note.was: NOTE_WEIGHT for note in notes if note.is_useful and note.blamed in leading and note.was in labels}


@dataclass(slots=True)
class MistakeNotes:
    """The current notes, updated by the owner of the lessons."""

    lessons: tuple[Lesson, ...] = field(default=())

    def set_lessons(self, lessons: Iterable[Lesson]) -> None:
        self.lessons = tuple(lessons)

    def list_notes(self, reader: str | None) -> tuple[MistakeNote, ...]:
        """Return the notes for this tenant (None: operators)."""
        return find_mistakes(self.lessons, reader)


def _build_note(blamed: str, was: str, rows: Sequence[Lesson], known: Sequence[Lesson]) -> MistakeNote:
    check_counts = Counter(row.deciding_check for row in rows if row.deciding_check)
    look = min(check_counts, key=lambda one: (-check_counts[one], one)) if check_counts else ""
    detours = sum(one.seen for one in known if one.label == blamed)
    return MistakeNote(blamed, was, look, sum(row.seen for row in rows), detours)
