"""Drafts a lesson when an incident closes, under its lease, so that none is drafted twice."""

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
    """Counts and drafts, then shows what changed. An undecided draft follows its incident when that is closed again."""

    def __init__(self, lessons: LessonStore, draft: LessonDrafter, show: LessonPresenter, clock: Clock) -> None:
        self._lessons = lessons
        self._draft = draft
        self._show = show
        self._clock = clock

    async def observe_turn(self, incident: str, state: IncidentState, report: Report) -> None:
        """Store everything before the first card is shown: a card may fail, and is shown again when this is repeated."""
        changed = await self._judge_recalled_lessons(incident, state)
        draft = self._draft(state, self._clock.now()) if state.get("lifecycle") == "closed" else None
        if draft is not None and (stored := await self._store_draft(draft)) is not None:
            changed.append(stored)
        for lesson in changed:
            await self._show(lesson)

    async def _judge_recalled_lessons(self, incident: str, state: IncidentState) -> list[Lesson]:
        """Count recalled lessons as right or wrong, once per incident, by its final cause. Return those that it retired."""
        retired: list[Lesson] = []
        label = get_established_cause(IncidentView(state)) if state.get("lifecycle") == "closed" else ""
        for row in (state.get("turn") or {}).get("recalled", ()) if label else ():
            recalled = MatchedLesson.model_validate(row)
            change = partial(
                apply_outcome, incident=incident, label=label, today=self._clock.now().date(), was_shown=recalled.score >= MIN_LIKENESS
            )
            after = await self._lessons.update_lesson(recalled.lesson, change)
            if after is not None and after.state == "retired" and incident in after.wrong[-1:]:
                retired.append(after)
        return retired

    async def _store_draft(self, draft: Lesson) -> Lesson | None:
        """Return the stored lesson, or None if full."""
        if await self._lessons.add_lesson(draft):
            return draft
        return await self._lessons.update_lesson(draft.id, lambda now: _merge_draft(now, draft))


def _merge_draft(lesson: Lesson, draft: Lesson) -> Lesson:
    """Keep an edited draft; replace an unedited one if the cause changed."""
    return draft if lesson.state == "draft" and not lesson.edited and lesson.label != draft.label else lesson
