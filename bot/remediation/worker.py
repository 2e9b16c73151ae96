"""The loop that runs actions and reconciles incidents: on wake-ups, and by sweeping what is due."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from redis.exceptions import RedisError

from bot.remediation.action_index import ActionIndex
from bot.remediation.action_runner import ActionRunner
from bot.remediation.reconciler import RemediationReconciler
from bot.tasks import cancel_tasks, run_periodically
from graph.report import Report
from graph.state import IncidentState
from tools.action import is_approval_id
from tools.ledger.ledger import Ledger
from tools.ledger.record import Refused

SWEEP_INTERVAL_SECONDS = 5.0
TAKEOVER_DELAY = timedelta(seconds=60)


class ActionWorker:
    """One per process. Wake-ups carry an approval id or an incident id; `wake` makes some process handle one soon."""

    def __init__(
        self,
        ledger: Ledger,
        runner: ActionRunner,
        reconciler: RemediationReconciler,
        index: ActionIndex,
        wake: Callable[[str], Awaitable[None]],
        *,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._ledger, self._runner, self._reconciler, self._index, self._wake, self._pause = ledger, runner, reconciler, index, wake, pause
        self._running: set[asyncio.Task[None]] = set()

    async def handle_wakeup(self, name: str) -> None:
        """Run an action or reconcile an incident. Starts nothing while stopping."""
        if self._runner.stopping.is_set():
            return
        task = asyncio.create_task(self.run_action(name) if is_approval_id(name) else self.reconcile_incident(name))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        await task

    async def run_action(self, approval: str) -> None:
        await self._runner.run(approval)

    async def reconcile_incident(self, incident: str) -> None:
        await self._reconciler.reconcile(incident)

    async def schedule_incident(self, incident: str) -> None:
        """Schedule a check of the incident's remediations now."""
        await self._index.schedule_check(incident)
        await self._wake(incident)

    async def schedule_after_turn(self, incident: str, state: IncidentState, report: Report) -> None:
        """Schedule a check after a turn, where the incident has remediations."""
        if state.get("ladders"):
            await self.schedule_incident(incident)

    async def wake_due(self) -> int:
        """Wake everything due, here and in the ledger; return how many."""
        names = dict.fromkeys([*await self._index.claim_due(TAKEOVER_DELAY), *await self._ledger.list_due()])
        for name in names:
            await self._wake(name)
        return len(names)

    async def run(self) -> None:
        """Sweep until cancelled, the first time at once: a restart finds what the last process left."""
        await run_periodically("actions", self.wake_due, SWEEP_INTERVAL_SECONDS, expected=(RedisError, Refused), pause=self._pause)

    async def drain(self, grace: float = 20.0) -> None:
        """Start nothing more. Running work stops at its next stored step; the next process continues it."""
        self._runner.stopping.set()
        if self._running:
            _, late = await asyncio.wait(set(self._running), timeout=grace)
            await cancel_tasks(*late)
