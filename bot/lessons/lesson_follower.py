"""Apply decisions about lessons that other processes or a terminal made."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import date, timedelta

import structlog

from bot.lessons.store import LessonStore
from bot.slack.client import SLACK_ERRORS
from bot.tasks import run_periodically
from kb.history.index import PastIncidentIndex
from kb.history.lessons import AT_TERMINAL, Lesson, retire_if_faded
from kb.history.mistakes import MistakeNotes
from tools.clock import Clock

log = structlog.get_logger()
POLL_INTERVAL_SECONDS = 1.0  # how often decisions of other processes are noticed
RECENT_DECISION_WINDOW = timedelta(days=2)


@dataclass
class LessonFollower:
    """Keeps this process's past incidents up to date with the lessons that are accepted or retired anywhere."""

    lessons: LessonStore
    history: PastIncidentIndex
    clock: Clock
    show: Callable[[Lesson], Awaitable[None]] | None = None
    mistakes: MistakeNotes = field(default_factory=MistakeNotes)
    _applied_version: tuple[int, date] | None = None
    _states: dict[str, str] | None = None  # state by lesson id, as last seen

    async def run(self) -> None:
        await run_periodically("lessons", self.catch_up, POLL_INTERVAL_SECONDS)

    async def catch_up(self) -> None:
        """Apply lessons that changed, and once a day retire those that were not confirmed for long."""
        today = self.clock.now().date()
        version = await self.lessons.get_version(), today
        if version == self._applied_version:
            return
        lessons = await self.lessons.list_lessons()
        await self._retire_faded(lessons, today)
        await self._refresh_cards(lessons, today)
        accepted = [lesson for lesson in lessons if lesson.state == "accepted" and lesson.label and not _has_faded(lesson, today)]
        self.mistakes.set_lessons(accepted)
        if await self.history.replace_lessons(lesson.to_past_incident(today) for lesson in accepted):
            self._applied_version = version

    async def _retire_faded(self, lessons: Iterable[Lesson], today: date) -> None:
        """Retire lessons that were not confirmed for too long. The first process that notices it does so."""
        for lesson in lessons:
            if not _has_faded(lesson, today):
                continue
            retired = await self.lessons.update_lesson(lesson.id, lambda stored: retire_if_faded(stored, today))
            if retired is not None:
                await self._show_lesson(retired)

    async def _refresh_cards(self, lessons: Iterable[Lesson], today: date) -> None:
        """Show recent decisions again: all of them at the start, as a process may have crashed; later those of a terminal."""
        for lesson in lessons:
            is_new = self._states is None or (lesson.by == AT_TERMINAL and self._states.get(lesson.id) != lesson.state)
            if is_new and lesson.settled is not None and today - lesson.settled <= RECENT_DECISION_WINDOW:
                await self._show_lesson(lesson)
        self._states = {lesson.id: lesson.state for lesson in lessons}

    async def _show_lesson(self, lesson: Lesson) -> None:
        if self.show is None:
            return
        try:
            await self.show(lesson)
        except SLACK_ERRORS as trouble:
            log.warning("lessons.not_painted", lesson=lesson.id, error=str(trouble)[:200])


def _has_faded(lesson: Lesson, today: date) -> bool:
    return retire_if_faded(lesson, today) != lesson
