"""Lessons from closed incidents: their fields, their trust, and the decisions of the people who accept or retire them."""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from math import sqrt
from typing import Annotated, Any, Final, Literal

from pydantic import Field, StringConstraints, ValidationError

from kb.history.incidents import PastIncident
from kb.history.text_search import extract_terms, join_texts
from kb.redact import redact_once
from kb.schema import StrictModel, iter_complaints

LessonState = Literal["draft", "accepted", "refused", "retired", "folded"]
AT_TERMINAL: Final = "a terminal"  # decided without Slack
MAX_TITLE_CHARS = 120
MAX_TEXT_CHARS = 600
MAX_NAME_CHARS = 160
MAX_SYMPTOMS = 12
MAX_COUNTED_INCIDENTS = 50  # kept of each of `right` and `wrong`
HALF_LIFE_DAYS: Final = 730  # an unconfirmed lesson loses half its trust in this time
MIN_TRUST: Final = 0.25  # below it a lesson is retired
# Word overlap, 0 to 1, from which lessons are duplicates. Words are not weighted by rarity, as there are few lessons.
DUPLICATE_SIMILARITY: Final = 0.75
LessonTitle = Annotated[str, StringConstraints(max_length=MAX_TITLE_CHARS)]
LessonText = Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARS)]
LessonName = Annotated[str, StringConstraints(max_length=MAX_NAME_CHARS)]
LessonNames = Annotated[tuple[LessonName, ...], Field(max_length=MAX_SYMPTOMS)]
CountedIncidents = Annotated[tuple[LessonName, ...], Field(max_length=MAX_COUNTED_INCIDENTS)]


class Lesson(StrictModel):
    """A lesson: symptoms, true cause, deciding check, the fix that held, and what misled. Not used until a person accepts it."""

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
    tenant: LessonName = ""  # only this tenant and operators may use it; empty for all
    inside: bool = False  # it concerns hosts of several tenants, so only operators may use it
    incident: LessonName = ""
    on: date
    by: LessonName = ""  # who decided: `TEAM:USER` or `AT_TERMINAL`
    settled: date | None = None
    edited: bool = False  # a person changed the draft
    seen: Annotated[int, Field(ge=1)] = 1  # incidents that taught it, folded duplicates included
    into: LessonName = ""  # for a folded lesson: the duplicate that counts it
    right: CountedIncidents = ()  # latest incidents that recalled it and had its cause
    wrong: CountedIncidents = ()  # latest incidents that recalled it and had another cause
    borne_out: date | None = None  # last confirmation

    @property
    def digest(self) -> str:
        """The digest of all fields that people decide about."""
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


def shorten_text(text: str, max_chars: int) -> str:
    """Return the text redacted, on one line of at most `max_chars` characters."""
    line = " ".join(str(redact_once(text)).split())
    return line if len(line) <= max_chars else line[: max_chars - 1] + "…"


def compute_trust(lesson: Lesson, today: date) -> float:
    """Return the trust, 0 to 1. An error weighs as much as two confirmations, and unconfirmed lessons lose trust over time."""
    trust = (1 + len(lesson.right)) / (1 + len(lesson.right) + 2 * len(lesson.wrong))
    days = max(0, (today - (lesson.borne_out or lesson.settled or lesson.on)).days)
    age_factor: float = 0.5 ** (days / HALF_LIFE_DAYS)
    return round(trust * age_factor, 4)


def count_outcome(lesson: Lesson, incident: str, label: str, today: date) -> Lesson:
    """Count an incident as right or wrong. A second outcome of an incident replaces its first."""
    right_incidents = tuple(counted for counted in lesson.right if counted != incident)
    wrong_incidents = tuple(counted for counted in lesson.wrong if counted != incident)
    if label == lesson.label:
        borne_out = max(lesson.borne_out or today, today)
        return lesson.model_copy(
            update={"right": (*right_incidents, incident)[-MAX_COUNTED_INCIDENTS:], "wrong": wrong_incidents, "borne_out": borne_out}
        )
    return lesson.model_copy(update={"right": right_incidents, "wrong": (*wrong_incidents, incident)[-MAX_COUNTED_INCIDENTS:]})


def apply_outcome(lesson: Lesson, incident: str, label: str, today: date, *, was_shown: bool) -> Lesson:
    """Count an incident's outcome, and retire the lesson if its trust fell too low.

    A lesson that was too dissimilar to be shown can be confirmed, but not refuted.
    """
    if lesson.state != "accepted" or not (was_shown or label == lesson.label):
        return lesson
    return retire_if_faded(count_outcome(lesson, incident, label, today), today)


def accept_lesson(lesson: Lesson, by: str, today: date, duplicate: Lesson | None) -> Lesson:
    """Accept the lesson, or fold it into an accepted duplicate."""
    state: dict[str, Any] = {"state": "folded", "into": duplicate.id} if duplicate else {"state": "accepted"}
    return lesson.model_copy(update={"by": by, "settled": today, **state})


def count_seen_again(lesson: Lesson, times: int) -> Lesson:
    """Add the incidents of folded duplicates."""
    return lesson.model_copy(update={"seen": lesson.seen + times})


def retire_lesson(lesson: Lesson, by: str, today: date) -> Lesson:
    """Retire at a person's request."""
    return lesson.model_copy(update={"state": "retired", "by": by, "settled": today})


def restore_lesson(lesson: Lesson, by: str, today: date) -> Lesson:
    """Accept the lesson again, without its errors and with a new age."""
    return lesson.model_copy(update={"state": "accepted", "by": by, "settled": today, "wrong": (), "borne_out": None})


def find_duplicate_lesson(lesson: Lesson, others: Iterable[Lesson]) -> Lesson | None:
    """Return the oldest accepted lesson with the same content, cause and audience."""
    duplicates = [
        other
        for other in others
        if other.id != lesson.id
        and other.state == "accepted"
        and (other.label, other.tenant, other.inside) == (lesson.label, lesson.tenant, lesson.inside)
        and _compute_word_overlap(other.text, lesson.text) >= DUPLICATE_SIMILARITY
    ]
    return min(duplicates, key=lambda duplicate: (duplicate.on, duplicate.id), default=None)


def _compute_word_overlap(text: str, other_text: str) -> float:
    terms, other_terms = set(extract_terms(text)), set(extract_terms(other_text))
    if not terms or not other_terms:
        return 0.0
    return len(terms & other_terms) / sqrt(len(terms) * len(other_terms))


def retire_if_faded(lesson: Lesson, today: date) -> Lesson:
    """Retire an accepted lesson whose trust is below MIN_TRUST."""
    is_faded = lesson.state == "accepted" and compute_trust(lesson, today) < MIN_TRUST
    return lesson.model_copy(update={"state": "retired", "settled": today, "by": ""}) if is_faded else lesson


def build_lesson_rows(lessons: Iterable[Lesson]) -> list[dict[str, Any]]:
    """Return the accepted lessons as rows of an export, sorted by id."""
    accepted_lessons = sorted((lesson for lesson in lessons if lesson.state == "accepted"), key=lambda lesson: lesson.id)
    return [lesson.model_dump(mode="json", exclude_defaults=True, exclude={"by"}) for lesson in accepted_lessons]


def parse_lessons(rows: Sequence[Mapping[str, Any]], labels: Collection[str]) -> tuple[list[Lesson], list[str]]:
    """Return the lessons of another site's export as drafts, and the problem of each skipped row."""
    lessons: dict[str, Lesson] = {}
    problems: list[str] = []
    for number, row in enumerate(rows, 1):
        try:
            lesson = Lesson.model_validate_json(json.dumps(row))
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
    """Return the lesson as a draft with shortened texts, without the other site's decision and trust."""
    texts = {name: shorten_text(getattr(lesson, name), MAX_TEXT_CHARS) for name in ("description", "root_cause", "resolution")}
    undecided = {"state": "draft", "by": "", "settled": None, "seen": 1, "into": "", "right": (), "wrong": (), "borne_out": None}
    return lesson.model_copy(update={**undecided, **texts, "title": shorten_text(lesson.title, MAX_TITLE_CHARS)})


def _format_error(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(complaint for _, complaint in iter_complaints(error, Lesson))
    return "no row of a lesson"
