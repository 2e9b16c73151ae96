"""What people had to correct more than once, as short notes made of accepted lessons: what was blamed, what it was, and the look that told. Pure.

A note holds ids alone, no word of anybody, and its sentence is ours. It makes the true cause a little likelier where the blamed one leads by words, so that
it is looked for earlier; like a lesson it proves nothing.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kb.history.lessons import Lesson

MIN_INCIDENTS: Final = 2
"""Incidents that make a note; one mistake is an accident."""
LEADING_CAUSES, NOTE_WEIGHT = 3, 0.5
"""Causes that count as leading, and what a note adds to the one that it tells of: half of what a past incident in the same words would."""


@dataclass(frozen=True, slots=True)
class MistakeNote:
    """`saved`: incidents in which it would have pointed right. `detours`: those in which what was blamed was it, and in which it would have cost a
    look."""

    blamed: str
    was: str
    look: str
    saved: int
    detours: int

    @property
    def is_useful(self) -> bool:
        """Whether past incidents are answered better with it."""
        return self.saved > self.detours

    def format_sentence(self, titles: Mapping[str, str]) -> str:
        """For people."""
        look = f" `{self.look}` told." if self.look else ""
        return (
            f"Before blaming “{titles.get(self.blamed, self.blamed)}”: {self.saved} times it was “{titles.get(self.was, self.was)}”.{look}"
        )


def find_mistakes(lessons: Iterable[Lesson], reader: str | None = None) -> tuple[MistakeNote, ...]:
    """Of the accepted lessons that serve this customer (None: our own people), what was seen most first. The same lesson counts as often as it was
    seen."""
    known = [one for one in lessons if one.state == "accepted" and one.label and one.can_serve_tenant(reader)]
    pairs: dict[tuple[str, str], list[Lesson]] = {}
    for lesson in known:
        for blamed in dict.fromkeys(lesson.misled):
            pairs.setdefault((blamed, lesson.label), []).append(lesson)
    notes = [_build_note(blamed, was, rows, known) for (blamed, was), rows in pairs.items()]
    return tuple(sorted((one for one in notes if one.saved >= MIN_INCIDENTS), key=lambda one: (-one.saved, one.blamed, one.was)))


def compute_note_weights(priors: Mapping[str, float], notes: Sequence[MistakeNote], labels: Collection[str]) -> dict[str, float]:
    """What notes add to causes, where the ones that they warn of lead."""
    leading = sorted(priors, key=lambda label: (-priors[label], label))[:LEADING_CAUSES]
    return {note.was: NOTE_WEIGHT for note in notes if note.is_useful and note.blamed in leading and note.was in labels}


@dataclass(slots=True)
class MistakeNotes:
    """The notes as they are now; whoever follows the lessons tells it."""

    lessons: tuple[Lesson, ...] = field(default=())

    def set_lessons(self, lessons: Iterable[Lesson]) -> None:
        """These lessons, and no others."""
        self.lessons = tuple(lessons)

    def list_notes(self, reader: str | None) -> tuple[MistakeNote, ...]:
        """Those that may be used for this reader."""
        return find_mistakes(self.lessons, reader)


def _build_note(blamed: str, was: str, rows: Sequence[Lesson], known: Sequence[Lesson]) -> MistakeNote:
    looks = Counter(row.deciding_check for row in rows if row.deciding_check)
    look = min(looks, key=lambda one: (-looks[one], one)) if looks else ""
    detours = sum(one.seen for one in known if one.label == blamed)
    return MistakeNote(blamed, was, look, sum(row.seen for row in rows), detours)
