"""A closed incident drafts a lesson, after the report that closed it and under the incident's lease, so that none is drafted twice."""

from collections.abc import Awaitable, Callable
from datetime import date, datetime
from functools import partial

from bot.desk.desk import Board
from bot.store.lessons import Lessons
from graph.learning.lessons import turned_out
from graph.learning.recalled import ALIKE
from graph.ports import Progress
from graph.report import RecalledLesson, Report
from graph.rows import IncidentRows
from graph.state import Incident
from kb.history.lessons import Lesson, judged
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
        await self._judge(incident, state)
        draft = self._draft(state, self._clock.now()) if state.get("lifecycle") == "closed" else None
        if draft is not None and (kept := await self._keep(draft)) is not None:
            await self._show(kept)

    async def _judge(self, incident: str, state: Incident) -> None:
        """Each lesson that was recalled there is counted by what it turned out to be: once an incident, by its last word, however often it is told."""
        label = turned_out(IncidentRows(state)) if state.get("lifecycle") == "closed" else ""
        for row in (state.get("turn") or {}).get("recalled", ()) if label else ():
            known = RecalledLesson.model_validate(row)
            told = known.score >= ALIKE
            fell: list[bool] = []
            change = partial(_judged, incident=incident, label=label, today=self._clock.now().date(), told=told, fell=fell)
            after = await self._lessons.change(known.lesson, change)
            if after is not None and fell[-1]:
                await self._show(after)

    async def _keep(self, draft: Lesson) -> Lesson | None:
        """The lesson as it is kept now; None where there is no room for one more."""
        if await self._lessons.offer(draft):
            return draft
        return await self._lessons.change(draft.id, lambda now: _anew(now, draft))


def _judged(now: Lesson, *, incident: str, label: str, today: date, told: bool, fell: list[bool]) -> Lesson:
    """`fell` learns, with each try, whether it is used no more by that."""
    after = judged(now, incident, label, today, told=told)
    fell.append(after.state != now.state)
    return after


def _anew(now: Lesson, draft: Lesson) -> Lesson:
    """What people wrote into a draft stays, unless the incident turned out to be something else since."""
    return draft if now.state == "draft" and not now.edited and now.label != draft.label else now
