"""Drafts a lesson when an incident closes, under its lease, so that none is drafted twice."""

from collections.abc import Awaitable, Callable
from datetime import date, datetime
from functools import partial

from bot.incidents.dispatch.dispatcher import ReportPublisher
from bot.lessons.store import LessonStore
from graph.context import Progress
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
    """Publishes, then drafts. An undecided draft follows its incident when that is closed again."""

    def __init__(self, publisher: ReportPublisher, lessons: LessonStore, draft: LessonDrafter, show: LessonPresenter, clock: Clock) -> None:
        self._board, self._lessons, self._draft, self._show, self._clock = publisher, lessons, draft, show, clock

    async def publish_progress(self, progress: Progress) -> None:
        await self._board.publish_progress(progress)

    async def publish_report(self, incident: str, state: IncidentState, report: Report) -> None:
        await self._board.publish_report(incident, state, report)
        await self._judge_recalled_lessons(incident, state)
        draft = self._draft(state, self._clock.now()) if state.get("lifecycle") == "closed" else None
        if draft is not None and (stored := await self._store_draft(draft)) is not None:
            await self._show(stored)

    async def _judge_recalled_lessons(self, incident: str, state: IncidentState) -> None:
        """Count recalled lessons as right or wrong, once per incident, by its final cause."""
        label = get_established_cause(IncidentView(state)) if state.get("lifecycle") == "closed" else ""
        for row in (state.get("turn") or {}).get("recalled", ()) if label else ():
            recalled = MatchedLesson.model_validate(row)
            is_shown = recalled.score >= MIN_LIKENESS
            fell: list[bool] = []
            change = partial(_judge_lesson, incident=incident, label=label, today=self._clock.now().date(), told=is_shown, fell=fell)
            after = await self._lessons.update_lesson(recalled.lesson, change)
            if after is not None and fell[-1]:
                await self._show(after)

    async def _store_draft(self, draft: Lesson) -> Lesson | None:
        """Return the stored lesson, or None if full."""
        if await self._lessons.add_lesson(draft):
            return draft
        return await self._lessons.update_lesson(draft.id, lambda now: _merge_draft(now, draft))


def _judge_lesson(lesson: Lesson, *, incident: str, label: str, today: date, told: bool, fell: list[bool]) -> Lesson:
    """Apply the outcome; appends to `fell` whether the state changed."""
    after = apply_outcome(lesson, incident, label, today, told=told)
    fell.append(after.state != lesson.state)
    return after


def _merge_draft(lesson: Lesson, draft: Lesson) -> Lesson:
    """Keep an edited draft; replace an unedited one if the cause changed."""
    return draft if lesson.state == "draft" and not lesson.edited and lesson.label != draft.label else lesson
