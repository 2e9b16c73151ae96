"""Follows decisions about lessons that other processes or a terminal made."""

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
    """Keeps this process's history in step with lessons accepted or retired anywhere."""

    lessons: LessonStore
    history: PastIncidentIndex
    clock: Clock
    show: Callable[[Lesson], Awaitable[None]] | None = None
    mistakes: MistakeNotes = field(default_factory=MistakeNotes)
    _seen: tuple[int, date] | None = None
    _states: dict[str, str] | None = None

    async def run(self) -> None:
        await run_periodically("lessons", self.catch_up, POLL_INTERVAL_SECONDS)

    async def catch_up(self) -> None:
        """Apply changed lessons, and daily the fading of trust."""
        today = self.clock.now().date()
        now = await self.lessons.get_version(), today
        if now == self._seen:
            return
        every = await self.lessons.list_lessons()
        await self._retire_faded(every, today)
        await self._refresh_cards(every, today)
        accepted = [one for one in every if one.state == "accepted" and one.label and retire_if_faded(one, today) == one]
        self.mistakes.set_lessons(accepted)
        if await self.history.replace_lessons(one.to_past_incident(today) for one in accepted):
            self._seen = now

    async def _retire_faded(self, every: Iterable[Lesson], today: date) -> None:
        """Retire lessons that went unconfirmed too long. The first process to notice does it."""
        for one in every:
            if (
                retire_if_faded(one, today) != one
                and (after := await self.lessons.update_lesson(one.id, lambda now: retire_if_faded(now, today))) is not None
            ):
                await self._show_lesson(after)

    async def _refresh_cards(self, every: Iterable[Lesson], today: date) -> None:
        """Redraw cards of recent decisions: all at start, after a possible crash; later those made in a terminal."""
        for one in every:
            here = self._states is None or (one.by == AT_TERMINAL and self._states.get(one.id) != one.state)
            if here and one.settled is not None and today - one.settled <= RECENT_DECISION_WINDOW:
                await self._show_lesson(one)
        self._states = {one.id: one.state for one in every}

    async def _show_lesson(self, lesson: Lesson) -> None:
        if self.show is None:
            return
        try:
            await self.show(lesson)
        except SLACK_ERRORS as trouble:
            log.warning("lessons.not_painted", lesson=lesson.id, error=str(trouble)[:200])
