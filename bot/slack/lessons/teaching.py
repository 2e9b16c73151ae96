"""A closed incident drafts a lesson, after the report that closed it and under the incident's lease, so that none is drafted twice."""

from collections.abc import Awaitable, Callable
from datetime import datetime

from bot.desk.desk import Board
from bot.store.lessons import Lessons
from graph.ports import Progress
from graph.report import Report
from graph.state import Incident
from kb.history.lessons import Lesson
from tools.clock import Clock

Draft = Callable[[Incident, datetime], Lesson | None]
Show = Callable[[Lesson], Awaitable[None]]


class TeachingBoard:
    """Posts as before. A draft that nobody decided about follows its incident where that is closed anew; what was decided stays."""

    def __init__(self, board: Board, lessons: Lessons, draft: Draft, show: Show, clock: Clock) -> None:
        self._board, self._lessons, self._draft, self._show, self._clock = board, lessons, draft, show, clock

    async def progress(self, p: Progress) -> None:
        await self._board.progress(p)

    async def report(self, incident: str, state: Incident, report: Report) -> None:
        await self._board.report(incident, state, report)
        draft = self._draft(state, self._clock.now()) if state.get("lifecycle") == "closed" else None
        if draft is not None and (kept := await self._keep(draft)) is not None:
            await self._show(kept)

    async def _keep(self, draft: Lesson) -> Lesson | None:
        """The lesson as it is kept now; None where there is no room for one more."""
        if await self._lessons.offer(draft):
            return draft
        return await self._lessons.change(draft.id, lambda now: _anew(now, draft))


def _anew(now: Lesson, draft: Lesson) -> Lesson:
    """What people wrote into a draft stays, unless the incident turned out to be something else since."""
    return draft if now.state == "draft" and not now.edited and now.label != draft.label else now
