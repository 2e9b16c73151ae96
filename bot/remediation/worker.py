"""The loop that looks after all actions and all incidents' ladders: woken for one of them, and sweeping for what nobody was woken for."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from redis.exceptions import RedisError

from bot.remediation.action_index import ActionIndex
from bot.remediation.action_runner import ActionRunner
from bot.remediation.reconciler import RemediationReconciler
from bot.tasks import cancel_tasks, run_periodically
from tools.action import is_approval_id
from tools.ledger.ledger import Ledger
from tools.ledger.record import Refused

SWEEP_INTERVAL_SECONDS = 5.0
TAKEOVER_DELAY = timedelta(seconds=60)


class ActionWorker:
    """One for each process. `advance` is what wake-ups call, with an approval id or an incident id: what is due is known by its id alone,
    and an approval id says whole what it is. `wake` has some process call `advance` soon."""

    def __init__(
        self,
        ledger: Ledger,
        driver: ActionRunner,
        tender: RemediationReconciler,
        index: ActionIndex,
        wake: Callable[[str], Awaitable[None]],
        *,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._ledger, self._driver, self._tender, self._index, self._wake, self._pause = ledger, driver, tender, index, wake, pause
        self._running: set[asyncio.Task[None]] = set()

    async def handle_wakeup(self, name: str) -> None:
        """Drive an action or tend an incident. Nothing new is begun while stopping."""
        if self._driver.stopping.is_set():
            return
        task = asyncio.create_task(self.run_action(name) if is_approval_id(name) else self.reconcile_incident(name))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        await task

    async def run_action(self, approval: str) -> None:
        """Bring one action as far as it goes now."""
        await self._driver.run(approval)

    async def reconcile_incident(self, incident: str) -> None:
        """Propose what the incident's ladders wait to have decided, and look after what else they wait for."""
        await self._tender.reconcile(incident)

    async def schedule_incident(self, incident: str) -> None:
        """A turn ended: its ladders may want something."""
        await self._index.schedule_check(incident)
        await self._wake(incident)

    async def wake_due(self) -> int:
        """Wake everything that is due, here and in the ledger; how many."""
        names = dict.fromkeys([*await self._index.claim_due(TAKEOVER_DELAY), *await self._ledger.list_due()])
        for name in names:
            await self._wake(name)
        return len(names)

    async def run(self) -> None:
        """Sweep until cancelled. The first look is at once: a restart finds what the last process left."""
        await run_periodically("actions", self.wake_due, SWEEP_INTERVAL_SECONDS, expected=(RedisError, Refused), pause=self._pause)

    async def drain(self, grace: float = 20.0) -> None:
        """Begin nothing more; what runs stops at its next stored step. Whoever comes next finds out what became of it."""
        self._driver.stopping.set()
        if self._running:
            _, late = await asyncio.wait(set(self._running), timeout=grace)
            await cancel_tasks(*late)
