"""The dispatcher: every inbox item completes exactly one turn, and its report is posted once.

Invariants: one worker per incident (the lease); the inbox's head is the item in progress; an item leaves only after its
report was posted; a turn that raises is dead-lettered after three attempts and does not stop the dispatcher; Redis
trouble is waited out.
"""

import asyncio
import contextlib
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

import structlog
from redis.exceptions import OutOfMemoryError, ReadOnlyError, RedisError, ResponseError

from bot.incidents.dispatch.fair_semaphore import NO_TENANT, FairSemaphore
from bot.incidents.dispatch.fingerprint import compute_fingerprint_after_turn
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.lease import Lease, Leases
from bot.incidents.dispatch.machine_effects import format_machine_effects
from bot.refusal import TooEarly
from bot.tasks import cancel_tasks, to_coroutine
from graph.checkpoints.fence import LostLease, WorkerStopping
from graph.context import Progress
from graph.incident_view import IncidentView
from graph.remediation.drained_nodes import has_drained_nodes
from graph.report import Report
from graph.state import InboxItem, IncidentState, Lifecycle, Origin
from kb.redact import redact_stored_data
from tools.clock import Clock

log = structlog.get_logger()
# Delays between attempts while Redis is away; after the last, the sweeper retries.
REDIS_BACKOFF_SECONDS = (0.2, 1.0, 3.0, 10.0, 30.0)
EARLY_REPORT_RETRY_DELAY = timedelta(seconds=5)  # after a report raised TooEarly


class ReportPublisher(Protocol):
    """`publish_report` may be called twice for one item and posts once. Raises TooEarly to be retried."""

    async def publish_progress(self, progress: Progress) -> None: ...

    async def publish_report(self, incident: str, state: IncidentState, report: Report) -> None: ...


class TurnGate(Protocol):
    """Whether an item may begin now."""

    async def get_retry_time(self, item: InboxItem) -> datetime | None:
        """Return when to ask again, or None where the item may begin."""
        ...

    async def record_reported(self, item: InboxItem, state: IncidentState) -> None: ...


class TurnRunner(Protocol):
    """The incident graph."""

    async def run_turn(self, item: InboxItem, origin: Origin | None) -> Report:
        """Begin or continue the turn, or return its report if complete."""
        ...

    async def load_state(self, incident: str) -> IncidentState: ...

    async def abandon_turn(self, item: InboxItem) -> None:
        """Drop the unfinished turn, so that the next item does not continue it."""
        ...

    async def prune_thread(self, incident: str, keep: timedelta | None) -> None:
        """Drop the data of a completed turn's steps. `keep`: TTL of a closed incident."""
        ...


async def return_item_unchanged(item: InboxItem) -> InboxItem:
    return item


# Returns an item's origin, after starting its thread if it had none.
OriginResolver = Callable[[InboxItem], Awaitable[Origin | None]]
TimerPlanner = Callable[[IncidentState, Report, InboxItem, datetime], Mapping[str, datetime]]


@dataclass(frozen=True, slots=True)
class TurnLimits:
    at_once: int = 32  # concurrent turns of this process
    raises: int = 3  # attempts of a turn that raises, before its item is dead-lettered
    crashes: int = 10  # attempts of a turn that kills the process, before its item is dead-lettered
    # Attempts to post a report whose process ended meanwhile, before its item is dead-lettered. More than `crashes`:
    # the turn is complete, a post may wait long for Slack's rate limits, and it is idempotent.
    cuts: int = 30
    posts: int = 10  # attempts to post a report, with growing delays, before its item is dead-lettered
    keep_closed: timedelta = timedelta(days=30)


class Dispatcher:
    """Calls for the same incident are idempotent."""

    def __init__(
        self,
        inbox: Inbox,
        leases: Leases,
        turns: TurnRunner,
        publisher: ReportPublisher,
        *,
        clock: Clock,
        timers: TimerPlanner,
        fetch: Callable[[InboxItem], Awaitable[InboxItem]] = return_item_unchanged,
        home: OriginResolver | None = None,
        limits: TurnLimits | None = None,
        gate: TurnGate | None = None,
        weight: Callable[[str], int] = lambda _: 1,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._inbox = inbox
        self._leases = leases
        self._turns = turns
        self._board = publisher
        self._clock = clock
        self._timers = timers
        self._fetch = fetch
        self._home = home or (lambda item: inbox.get_origin(item.incident))
        self._limits = limits or TurnLimits()
        self._pause = pause
        self._gate = gate
        self._places = FairSemaphore(self._limits.at_once, weight)
        self._running: set[asyncio.Task[None]] = set()
        self._waiting: set[str] = set()  # incidents that wait for a slot
        self._stopping = False
        # Attempts of an item that ended without its fault, subtracted from its count once Redis is back.
        self._owed: Counter[str] = Counter()

    async def process_incident(self, incident: str) -> None:
        """Process the inbox unless another worker does. Never raises for a failed turn or Redis."""
        if not self._stopping:
            await self._start_task(incident)

    async def schedule_incident(self, incident: str) -> None:
        """Like `process_incident`, without waiting. An incident that waits for a slot already will see the new item."""
        if not self._stopping and incident not in self._waiting:
            self._waiting.add(incident)
            self._start_task(incident).add_done_callback(_log_task_error)

    def _start_task(self, incident: str) -> asyncio.Task[None]:
        task = asyncio.create_task(self._process_with_retries(incident), name=incident)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def drain(self, grace: float = 20.0) -> None:
        """Stop every turn at its next step; cancel it after `grace` seconds. All resume later."""
        self._stopping = True
        if not self._running:
            return
        _, late = await asyncio.wait(self._running, timeout=grace)
        await cancel_tasks(*late)

    async def _process_with_retries(self, incident: str) -> None:
        for seconds in REDIS_BACKOFF_SECONDS:
            try:
                async with self._hold_slot(incident):
                    await self._process_under_lease(incident)
            except Exception as e:
                if not _is_redis_unavailable(e):
                    raise
                log.warning("dispatcher.redis_away", incident=incident, error=str(e))
                await self._pause(seconds * random.uniform(0.5, 1.5))  # noqa: S311  spreads retries
            else:
                return
            if self._stopping:
                return
        log.error("dispatcher.redis_away_for_long", incident=incident)

    @contextlib.asynccontextmanager
    async def _hold_slot(self, incident: str) -> AsyncIterator[None]:
        try:
            origin = await self._inbox.get_origin(incident)
            async with self._places.hold_slot(origin.tenant if origin else NO_TENANT):
                self._waiting.discard(incident)
                yield
        finally:
            self._waiting.discard(incident)

    async def _process_under_lease(self, incident: str) -> None:
        lease = await self._leases.acquire(incident) if not self._stopping else None
        if lease is None:
            return
        with structlog.contextvars.bound_contextvars(incident=incident):
            again_at: datetime | None = None
            try:
                again_at = await self._process_items(lease)
            except LostLease as e:
                lease.held = False
                log.warning("dispatcher.lost_lease", why=str(e))
            except WorkerStopping as e:
                log.info("dispatcher.drained", where=str(e))
            finally:
                if lease.held:
                    await lease.release(again_at=again_at or self._clock.now())

    async def _process_items(self, lease: Lease) -> datetime | None:
        """Return when to come back if an item must wait."""
        while not self._stopping:
            if items := await self._inbox.list_waiting(lease.incident, 1):
                if (again_at := await self._process_item(lease, items[0])) is not None:
                    return again_at
            elif await self._inbox.drop_damaged_item(lease.incident, lease.token):
                log.error("dispatcher.damaged_item", incident=lease.incident)
            elif await lease.release():
                return None
        return None

    async def _process_item(self, lease: Lease, item: InboxItem) -> datetime | None:
        if self._gate is not None and (again_at := await self._gate.get_retry_time(item)) is not None:
            return again_at
        begun, tries = await self._inbox.begin_attempt(item.incident, item.id, owed=self._owed.pop(item.id, 0))
        if tries.begun > self._limits.crashes or tries.raised >= self._limits.raises or tries.cut > self._limits.cuts:
            ended = (
                f"a turn was begun {tries.begun} times and raised {tries.raised} times; posting its report was cut off {tries.cut} times"
            )
            return await self._abandon_item(lease, item, ended)
        try:
            report = await lease.guard(self._run_turn(item), lambda: self._stopping)
        except (LostLease, WorkerStopping, asyncio.CancelledError):
            await self._inbox.add_attempts(item.incident, item.id, begun, -1)
            raise
        except Exception as e:
            if _is_redis_unavailable(e):
                self._owed[item.id] += 1
                raise
            return await self._handle_turn_error(lease, item, e)
        return await self._publish_and_finish(lease, item, report)

    async def _run_turn(self, item: InboxItem) -> Report:
        """Fetch files and thread inside the turn: the acknowledged item holds only pointers."""
        origin = await self._home(item)
        return await self._turns.run_turn(await self._fetch(item), origin)

    async def _handle_turn_error(self, lease: Lease, item: InboxItem, error: Exception) -> datetime | None:
        raised = await self._inbox.add_attempts(item.incident, item.id, "raised", 1)
        log.exception("dispatcher.turn_raised", item=item.id, kind=item.kind, attempt=raised, exc_info=error)
        if raised >= self._limits.raises:
            return await self._abandon_item(lease, item, f"{type(error).__name__}: {error}")
        await self._publish_progress(
            Progress(item.incident, "error", f"Something broke inside; trying again ({raised} of {self._limits.raises}).")
        )
        return self._clock.now() + timedelta(seconds=2**raised)

    async def _publish_and_finish(self, lease: Lease, item: InboxItem, report: Report) -> datetime | None:
        state = await self._turns.load_state(item.incident)
        about = compute_fingerprint_after_turn(state)
        if can_release_causes(IncidentView(state)):
            await self._inbox.release_causes(item.incident)
        await self._inbox.add_fingerprint(item.incident, about)  # before the post: a reader may report the same at once
        if (again_at := await self._publish_report(lease, item, state, report)) is not None:
            return again_at
        if self._gate is not None:
            await self._gate.record_reported(item, state)
        lifecycle: Lifecycle = state.get("lifecycle", "open")
        keep = None if has_drained_nodes(IncidentView(state).remediations) else self._limits.keep_closed
        await self._turns.prune_thread(item.incident, keep if lifecycle == "closed" else None)
        timers = self._timers(state, report, item, self._clock.now())
        await self._inbox.finish_item(item.incident, lease.token, item.id, lifecycle, timers, keep=keep, fingerprint=about)
        return None

    async def _publish_report(self, lease: Lease, item: InboxItem, state: IncidentState, report: Report) -> datetime | None:
        if not await self._inbox.mark_posting(item.incident, lease.token, item.id):
            return None
        try:
            await lease.guard(to_coroutine(self._board.publish_report(item.incident, state, report)))
        except LostLease:
            raise
        except Exception as e:
            if _is_redis_unavailable(e):
                raise
            self._owed[item.id] += 1
            if isinstance(e, TooEarly):
                log.warning("dispatcher.report_waits", item=item.id, error=str(e))
                return self._clock.now() + EARLY_REPORT_RETRY_DELAY
            unposted = await self._inbox.add_attempts(item.incident, item.id, "unposted", 1)
            log.exception("dispatcher.report_not_posted", item=item.id, attempt=unposted, exc_info=e)
            if unposted < self._limits.posts:
                return self._clock.now() + timedelta(seconds=min(2**unposted, 300))
            await self._dead_letter_item(lease, item, f"its report could not be posted: {e}")
            return self._clock.now()
        await self._inbox.mark_posted(item.incident, lease.token, item.id)
        return None

    async def _abandon_item(self, lease: Lease, item: InboxItem, why: str) -> datetime | None:
        report = Report(
            item=item.id,
            outcome="abstained",
            headline="Internal error: I could not work on this message.",
            reply=f"I tried {self._limits.raises} times and set it aside. {format_machine_effects(item)} The log says what broke.",
            next_step="Ask again in other words, or press Hand off.",
        )
        await lease.guard(to_coroutine(self._turns.abandon_turn(item)))
        if (again_at := await self._publish_report(lease, item, await self._turns.load_state(item.incident), report)) is not None:
            return again_at
        await self._dead_letter_item(lease, item, why)
        return None

    async def _dead_letter_item(self, lease: Lease, item: InboxItem, why: str) -> None:
        log.error("dispatcher.set_aside", item=item.id, kind=item.kind, why=why)
        letter = {"incident": item.incident, "why": why, "at": self._clock.now().isoformat(), "item": item.model_dump(mode="json")}
        await self._inbox.dead_letter_item(item.incident, lease.token, item.id, json.dumps(redact_stored_data(letter)))

    async def _publish_progress(self, progress: Progress) -> None:
        try:
            await self._board.publish_progress(progress)
        except Exception as e:
            log.warning("dispatcher.progress_not_shown", error=str(e))


def can_release_causes(incident_view: IncidentView) -> bool:
    """Return whether a stopped incident releases its causes; an action with unknown result keeps them."""
    return incident_view.is_stopped and not any(row.outcome == "unknown" for row in incident_view.remediations)


def _log_task_error(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("dispatcher.failed", incident=task.get_name(), exc_info=error)


def _is_redis_unavailable(error: Exception) -> bool:
    """Other error replies of Redis are bugs."""
    ours = isinstance(error, ResponseError) and not isinstance(error, OutOfMemoryError | ReadOnlyError)
    return isinstance(error, RedisError) and not ours
