"""Draft a lesson when an incident closes. This runs under the incident's lease, so that no lesson is drafted twice."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial

from bot.lessons.store import LessonStore
from graph.incident_view import IncidentView
from graph.learning.lesson_drafts import get_established_cause
from graph.learning.lesson_recall import MIN_LIKENESS
from graph.report import MatchedLesson, Report
from graph.state import IncidentState
from kb.history.lessons import Lesson, apply_outcome
from tools.clock import Clock

LessonDrafter = Callable[[IncidentState, datetime], Lesson | None]
LessonPresenter = Callable[[Lesson], Awaitable[None]]


class LessonObserver:
    """Counts whether recalled lessons were right, drafts a new one, and shows those that changed.

    An undecided draft is updated if its incident is opened and closed again.
    """

    def __init__(self, lessons: LessonStore, draft: LessonDrafter, show: LessonPresenter, clock: Clock) -> None:
        self._lessons = lessons
        self._draft = draft
        self._show = show
        self._clock = clock

    async def observe_turn(self, incident: str, state: IncidentState, report: Report) -> None:
        """Update the lessons after a turn. All are stored before the first is shown: a card may fail, and the turn is observed again."""
        changed_lessons = await self._judge_recalled_lessons(incident, state)
        draft = self._draft(state, self._clock.now()) if state.get("lifecycle") == "closed" else None
        if draft is not None and (stored := await self._store_draft(draft)) is not None:
            changed_lessons.append(stored)
        for lesson in changed_lessons:
            await self._show(lesson)

    async def _judge_recalled_lessons(self, incident: str, state: IncidentState) -> list[Lesson]:
        """Count recalled lessons as right or wrong, once per incident, by its final cause. Return those that it retired."""
        retired: list[Lesson] = []
        label = get_established_cause(IncidentView(state)) if state.get("lifecycle") == "closed" else ""
        if not label:
            return retired
        today = self._clock.now().date()
        for row in (state.get("turn") or {}).get("recalled", ()):
            match = MatchedLesson.model_validate(row)
            was_shown = match.score >= MIN_LIKENESS
            update = partial(apply_outcome, incident=incident, label=label, today=today, was_shown=was_shown)
            lesson = await self._lessons.update_lesson(match.lesson, update)
            if lesson is not None and lesson.state == "retired" and incident in lesson.wrong[-1:]:
                retired.append(lesson)
        return retired

    async def _store_draft(self, draft: Lesson) -> Lesson | None:
        """Store the draft, or merge it into the stored lesson. Return None if the store is full."""
        if await self._lessons.add_lesson(draft):
            return draft
        return await self._lessons.update_lesson(draft.id, lambda lesson: _merge_draft(lesson, draft))


def _merge_draft(lesson: Lesson, draft: Lesson) -> Lesson:
    """Return the new draft if the stored one is undecided, not edited, and of another cause. Else return the stored lesson."""
    is_untouched = lesson.state == "draft" and not lesson.edited
    return draft if is_untouched and lesson.label != draft.label else lesson
