"""Repeated misdiagnoses, from accepted lessons: blamed cause, real cause, deciding check.

Notes hold ids, no people's text. One raises the real cause's prior where the blamed one leads; it proves nothing.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kb.history.lessons import Lesson

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
    served_lessons = [lesson for lesson in lessons if lesson.state == "accepted" and lesson.label and lesson.can_serve_tenant(reader)]
    pairs: dict[tuple[str, str], list[Lesson]] = {}
    for lesson in served_lessons:
        for blamed in dict.fromkeys(lesson.misled):
            pairs.setdefault((blamed, lesson.label), []).append(lesson)
    notes = [_build_note(blamed, was, rows, served_lessons) for (blamed, was), rows in pairs.items()]
    return tuple(sorted((note for note in notes if note.saved >= MIN_INCIDENTS), key=lambda one: (-one.saved, one.blamed, one.was)))


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


def _build_note(blamed: str, was: str, lessons: Sequence[Lesson], all_lessons: Sequence[Lesson]) -> MistakeNote:
    check_counts = Counter(lesson.deciding_check for lesson in lessons if lesson.deciding_check)
    look = min(check_counts, key=lambda one: (-check_counts[one], one)) if check_counts else ""
    detours = sum(lesson.seen for lesson in all_lessons if lesson.label == blamed)
    return MistakeNote(blamed, was, look, sum(lesson.seen for lesson in lessons), detours)
