"""The periodic sweep of what is due: lost wake-ups, incidents of dead processes, timers.

The lease and the inbox scripts decide who acts, so any number of sweepers may run.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta

import structlog
from redis.exceptions import RedisError

from bot.incidents.dispatch.inbox import DUE_WORK, DueEntry, Inbox
from bot.incidents.dispatch.wakeups import Wakeups
from bot.tasks import run_periodically
from graph.incident_view import IncidentView
from graph.report import Report
from graph.state import REMINDER_DUE, REMINDER_UNANSWERED, InboxItem, IncidentState

log = structlog.get_logger()
AUTO_CLOSE = "auto_close"
REMIND_AFTER = timedelta(hours=4)
HAND_OVER_AFTER = timedelta(hours=20)  # after the reminder
CLOSE_AFTER = timedelta(days=3)


def plan_timers(state: IncidentState, report: Report, item: InboxItem, now: datetime) -> Mapping[str, datetime]:
    """Return the timers after a turn: recheck, one reminder, auto-close; none before a requested quiet period or snooze ends.

    A tenant that does not answer is reminded, then people get the incident.
    """
    timers: dict[str, datetime] = {}
    rows = IncidentView(state)
    quiet, silence = rows.reminders_from or now, rows.tenant_silence
    lifecycle = state.get("lifecycle", "open")
    second = rows.scheduled_recheck
    if second.due is not None and lifecycle in ("open", "waiting"):
        timers[second.why] = max(second.due, rows.quiet_until or now)
    if silence.since and lifecycle == "waiting":
        why, at = (
            (REMINDER_UNANSWERED, silence.reminded + HAND_OVER_AFTER) if silence.reminded else (REMINDER_DUE, silence.since + REMIND_AFTER)
        )
        return {**timers, why: max(at, quiet)}
    if lifecycle == "waiting" and report.questions and item.kind != "timer":
        timers[REMINDER_DUE] = max(now + REMIND_AFTER, quiet)
    if lifecycle in ("open", "waiting") and not any(
        row.waits for row in report.shared
    ):  # a shared cause is not over while its owner works on it
        timers[AUTO_CLOSE] = max(now + CLOSE_AFTER, quiet)
    return timers


class Sweeper:
    """Woken work is due again after `patience`."""

    def __init__(
        self,
        inbox: Inbox,
        wakeups: Wakeups,
        *,
        every: float = 5.0,
        patience: timedelta = timedelta(seconds=15),
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._inbox = inbox
        self._wakeups = wakeups
        self._every = every
        self._patience = patience
        self._pause = pause

    async def sweep(self) -> int:
        due = await self._inbox.collect_due(self._patience)
        for entry in due:
            try:
                await self._handle_entry(entry)
            except RedisError:
                raise
            except Exception:
                log.exception("sweeper.entry_failed", incident=entry.incident, due=entry.why)  # one bad entry must not hide the others
        return len(due)

    async def _handle_entry(self, entry: DueEntry) -> None:
        if entry.why == DUE_WORK or await self._inbox.fire_timer(entry):
            await self._wakeups.wake(entry.incident)

    async def run(self) -> None:
        """Sweep until cancelled, first at once: a restart finds what the last process left."""
        await run_periodically("due_items", self.sweep, self._every, pause=self._pause)
