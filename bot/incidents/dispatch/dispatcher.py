"""The dispatcher: every inbox item completes exactly one turn, and each observer completes once for it.

Invariants: one worker per incident (the lease); the inbox's head is the item in progress; observers run after the turn
was stored, in the order of their table; an item leaves only after all of them completed, the one that posts the report
included; a turn that raises is dead-lettered after three attempts and does not stop the dispatcher; Redis trouble is
waited out.
"""

import asyncio
import contextlib
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

import structlog
from redis.exceptions import OutOfMemoryError, ReadOnlyError, RedisError, ResponseError

from bot.incidents.dispatch.fair_semaphore import NO_TENANT, FairSemaphore
from bot.incidents.dispatch.fingerprint import compute_fingerprint_after_turn
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.lease import Lease, Leases
from bot.incidents.dispatch.wakeups import Wakeups
from bot.refusal import TooEarly
from bot.tasks import BackgroundJob, cancel_tasks, to_coroutine
from graph.checkpoints.fence import LostLease, WorkerStopping
from graph.context import Progress, discard_progress
from graph.incident_view import IncidentView
from graph.remediation.drained_nodes import has_drained_nodes
from graph.report import Report
from graph.state import InboxItem, IncidentState, Lifecycle, Origin
from kb.redact import redact_stored_data
from tools.clock import Clock

log = structlog.get_logger()
# Delays between attempts while Redis is away; after the last, the sweeper retries.
REDIS_BACKOFF_SECONDS = (0.2, 1.0, 3.0, 10.0, 30.0)
TOO_EARLY_RETRY_DELAY = timedelta(seconds=5)  # after an observer raised TooEarly
# Called with the incident, its state after the turn, and the turn's report. Idempotent: a killed worker's call is
# repeated. Raises TooEarly to be called again, however often.
TurnObserver = Callable[[str, IncidentState, Report], Awaitable[None]]
REPORT_OBSERVER = "report"  # the name of the observer that posts the report
# Returns an item's origin, after starting its thread if it had none.
OriginResolver = Callable[[InboxItem], Awaitable[Origin | None]]
TimerPlanner = Callable[[IncidentState, Report, InboxItem, datetime], Mapping[str, datetime]]


def format_machine_effects(item: InboxItem) -> str:
    """Return a sentence for the thread. An action ran, or not, before its result's turn."""
    if item.kind != "action_result":
        return "A message changes nothing on any host; approved actions continue, as their cards show."
    approval, remedy = str(item.data.get("approval", "")), str(item.data.get("remedy", "an action"))
    if not approval:
        return "It was news about a fix in progress; its cards say what was done on the machines."
    if item.data.get("event") == "unknown":
        return f"Unknown whether {remedy} ran ({approval}); its card says what to check."
    if item.data.get("ran"):
        return f"{remedy} ran ({approval}), and its card says how it ended; I could not work out what follows from it."
    return f"{approval} ({remedy}) is over without having run, as its card says; I could not work out what follows from it."


class TurnGate(Protocol):
    """Whether an item may begin now."""

    async def admit_item(self, item: InboxItem) -> datetime | None:
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


@dataclass(frozen=True, slots=True)
class TurnLimits:
    at_once: int = 32  # concurrent turns of this process
    max_raised_attempts: int = 3  # attempts of a turn that raises, before its item is dead-lettered
    max_crashed_attempts: int = 10  # attempts of a turn that kills the process, before its item is dead-lettered
    # Attempts to run the observers of a stored turn whose process ended meanwhile, before its item is dead-lettered.
    # More than `max_crashed_attempts`: the turn is complete, a post may wait long for Slack's rate limits, and all are idempotent.
    max_interrupted_attempts: int = 30
    # Attempts to run the observers that raise, with growing delays of at most five minutes, before the item is
    # dead-lettered. A report is tried for 80 minutes: Slack may be away for an hour.
    max_post_attempts: int = 24
    max_observer_attempts: int = 10  # while the report is posted and only others raise
    keep_closed: timedelta = timedelta(days=30)


class Dispatcher:
    """Calls for the same incident are idempotent. `observers` run after each turn, in this order; names are stored."""

    def __init__(
        self,
        inbox: Inbox,
        leases: Leases,
        turns: TurnRunner,
        observers: Mapping[str, TurnObserver],
        *,
        clock: Clock,
        timers: TimerPlanner,
        progress: Callable[[Progress], Awaitable[None]] = discard_progress,
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
        self._observers = observers
        self._progress = progress
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
            except Exception as error:
                if not _is_redis_unavailable(error):
                    raise
                log.warning("dispatcher.redis_away", incident=incident, error=str(error))
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
            except LostLease as error:
                lease.held = False
                log.warning("dispatcher.lost_lease", why=str(error))
            except WorkerStopping as error:
                log.info("dispatcher.drained", where=str(error))
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
        if self._gate is not None and (again_at := await self._gate.admit_item(item)) is not None:
            return again_at
        begun, tries = await self._inbox.begin_attempt(item.incident, item.id, owed=self._owed.pop(item.id, 0))
        if (
            tries.begun > self._limits.max_crashed_attempts
            or tries.raised >= self._limits.max_raised_attempts
            or tries.cut > self._limits.max_interrupted_attempts
        ):
            ended = f"a turn was begun {tries.begun} times and raised {tries.raised} times; what follows it was cut off {tries.cut} times"
            return await self._abandon_item(lease, item, ended)
        try:
            report = await lease.guard(self._run_turn(item), lambda: self._stopping)
        except (LostLease, WorkerStopping, asyncio.CancelledError):
            await self._inbox.add_attempts(item.incident, item.id, begun, -1)
            raise
        except Exception as error:
            if _is_redis_unavailable(error):
                self._owed[item.id] += 1
                raise
            return await self._handle_turn_error(lease, item, error)
        return await self._observe_and_finish(lease, item, report)

    async def _run_turn(self, item: InboxItem) -> Report:
        """Fetch files and thread inside the turn: the acknowledged item holds only pointers."""
        origin = await self._home(item)
        return await self._turns.run_turn(await self._fetch(item), origin)

    async def _handle_turn_error(self, lease: Lease, item: InboxItem, error: Exception) -> datetime | None:
        raised = await self._inbox.add_attempts(item.incident, item.id, "raised", 1)
        log.exception("dispatcher.turn_raised", item=item.id, kind=item.kind, attempt=raised, exc_info=error)
        if raised >= self._limits.max_raised_attempts:
            return await self._abandon_item(lease, item, f"{type(error).__name__}: {error}")
        await self._publish_progress(
            Progress(item.incident, "error", f"Something broke inside; trying again ({raised} of {self._limits.max_raised_attempts}).")
        )
        return self._clock.now() + timedelta(seconds=2**raised)

    async def _observe_and_finish(self, lease: Lease, item: InboxItem, report: Report) -> datetime | None:
        state = await self._turns.load_state(item.incident)
        about = compute_fingerprint_after_turn(state)
        if can_release_causes(IncidentView(state)):
            await self._inbox.release_causes(item.incident)
        await self._inbox.add_fingerprint(item.incident, about)  # before the post: a reader may report the same at once
        if (again_at := await self._observe_turn(lease, item, state, report)) is not None:
            return again_at
        if self._gate is not None:
            await self._gate.record_reported(item, state)
        lifecycle: Lifecycle = state.get("lifecycle", "open")
        keep = None if has_drained_nodes(IncidentView(state).remediations) else self._limits.keep_closed
        await self._turns.prune_thread(item.incident, keep if lifecycle == "closed" else None)
        timers = self._timers(state, report, item, self._clock.now())
        await self._inbox.finish_item(item.incident, lease.token, item.id, lifecycle, timers, keep=keep, fingerprint=about)
        return None

    async def _observe_turn(self, lease: Lease, item: InboxItem, state: IncidentState, report: Report) -> datetime | None:
        """Run the observers that have not completed. Return when to run those that failed again."""
        done = await self._inbox.begin_observing(item.incident, lease.token, item.id)
        if done is None:
            return None
        failed = await lease.guard(self._run_observers(lease, item, state, report, done))
        if not failed:
            await self._inbox.finish_observing(item.incident, lease.token, item.id)
            return None
        if unavailable := [error for error in failed.values() if _is_redis_unavailable(error)]:
            raise unavailable[0]
        self._owed[item.id] += 1
        if early := [error for error in failed.values() if isinstance(error, TooEarly)]:
            log.warning("dispatcher.report_waits", item=item.id, observers=[*failed], error=str(early[0]))
            return self._clock.now() + TOO_EARLY_RETRY_DELAY
        unposted = await self._inbox.add_attempts(item.incident, item.id, "unposted", 1)
        if unposted < (self._limits.max_post_attempts if REPORT_OBSERVER in failed else self._limits.max_observer_attempts):
            return self._clock.now() + timedelta(seconds=min(2**unposted, 300))
        why = "; ".join(f"{name}: {type(error).__name__}: {error}" for name, error in failed.items())
        await self._dead_letter_item(lease, item, f"its turn is stored, and this could not be done after it: {why}")
        return self._clock.now()

    async def _run_observers(
        self, lease: Lease, item: InboxItem, state: IncidentState, report: Report, done: Sequence[str]
    ) -> Mapping[str, Exception]:
        """Run each observer, whatever the others raise; record who completed; return who failed, with the error."""
        failed: dict[str, Exception] = {}
        for name, observe in self._observers.items():
            if name in done:
                continue
            try:
                await observe(item.incident, state, report)
            except LostLease:
                raise
            except Exception as error:
                failed[name] = error
                if not isinstance(error, TooEarly) and not _is_redis_unavailable(error):
                    log.exception("dispatcher.observer_failed", item=item.id, observer=name, exc_info=error)
            else:
                done = (*done, name)
                await self._inbox.mark_observed(item.incident, lease.token, item.id, done)
        return failed

    async def _abandon_item(self, lease: Lease, item: InboxItem, reason: str) -> datetime | None:
        report = Report(
            item=item.id,
            outcome="abstained",
            headline="Internal error: I could not work on this message.",
            reply=f"I tried {self._limits.max_raised_attempts} times and set it aside. {format_machine_effects(item)} The log says what broke.",
            next_step="Ask again in other words, or press Hand off.",
        )
        await lease.guard(to_coroutine(self._turns.abandon_turn(item)))
        if (again_at := await self._observe_turn(lease, item, await self._turns.load_state(item.incident), report)) is not None:
            return again_at
        await self._dead_letter_item(lease, item, reason)
        return None

    async def _dead_letter_item(self, lease: Lease, item: InboxItem, reason: str) -> None:
        log.error("dispatcher.set_aside", item=item.id, kind=item.kind, why=reason)
        letter = {"incident": item.incident, "why": reason, "at": self._clock.now().isoformat(), "item": item.model_dump(mode="json")}
        await self._inbox.dead_letter_item(item.incident, lease.token, item.id, json.dumps(redact_stored_data(letter)))

    async def _publish_progress(self, progress: Progress) -> None:
        try:
            await self._progress(progress)
        except Exception as error:
            log.warning("dispatcher.progress_not_shown", error=str(error))


@contextlib.asynccontextmanager
async def run_dispatcher(dispatcher: Dispatcher, wakeups: Wakeups, background_jobs: Sequence[BackgroundJob]) -> AsyncIterator[None]:
    """Run wakeups, sweepers and jobs. On exit running turns reach a stored step."""
    await wakeups.start(dispatcher.schedule_incident)
    running = [asyncio.create_task(job()) for job in background_jobs]
    try:
        yield
    finally:
        await cancel_tasks(*running)
        await dispatcher.drain()
        await wakeups.aclose()


def can_release_causes(incident_view: IncidentView) -> bool:
    """Return whether a stopped incident releases its causes; an action with unknown result keeps them."""
    return incident_view.is_stopped and not any(remediation.outcome == "unknown" for remediation in incident_view.remediations)


def _log_task_error(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("dispatcher.failed", incident=task.get_name(), exc_info=error)


def _is_redis_unavailable(error: Exception) -> bool:
    """Other error replies of Redis are bugs."""
    ours = isinstance(error, ResponseError) and not isinstance(error, OutOfMemoryError | ReadOnlyError)
    return isinstance(error, RedisError) and not ours
