"""Run actions and reconcile incidents in this process, on wake-ups and by sweeping what is due. Its parts close in order."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from redis.exceptions import RedisError

from bot.incidents.dispatch.lease import Leases, generate_worker_id
from bot.incidents.dispatch.wakeups import Wakeups, run_wakeup_sender
from bot.policy.approvals import ApprovalRights
from bot.remediation.action_callbacks import ActionStartAnnouncer, ApproverLookup, ContactLossNotifier, IncidentFactsLoader
from bot.remediation.action_index import ActionIndex
from bot.remediation.action_runner import ActionCardPublisher, ActionInbox, ActionRunner, EventDelivery, IncidentStateLoader
from bot.remediation.approval_decisions import ApprovalDecisions
from bot.remediation.proposer import Proposer
from bot.remediation.reconciler import RemediationReconciler
from bot.settings import Settings
from bot.store.keys import ACTION_KEYS
from bot.store.store import Store
from bot.tasks import cancel_tasks, run_periodically
from graph.context import GraphContext
from graph.execution.action_effects import ActionGraphContext
from graph.execution.verification import ActionVerifier
from graph.report import Report
from graph.state import IncidentState
from tools.action import is_approval_id
from tools.execution.build import compute_catalogue_hash
from tools.ledger.ledger import Ledger
from tools.ledger.refusals import Refused
from tools.transport import Transport

if TYPE_CHECKING:
    from graph.execution.action_graph import ActionThreads

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
        self._ledger = ledger
        self._runner = runner
        self._reconciler = reconciler
        self._index = index
        self._wake = wake
        self._pause = pause
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


class DrainedIncidentInbox(ActionInbox, Protocol):
    async def list_drained_incidents(self) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class ActionDependencies:
    """Parts of the action runtime. `wake` wakes the dispatcher, `wakeups` the action workers; `pause` separates polls."""

    settings: Settings
    store: Store
    transport: Transport
    ports: GraphContext
    ledger: Ledger
    rights: ApprovalRights
    cards: ActionCardPublisher
    load_state: IncidentStateLoader
    inbox: DrainedIncidentInbox
    wake: Callable[[str], Awaitable[None]]
    wakeups: Wakeups
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep


@dataclass(frozen=True, slots=True)
class ActionRuntime:
    """`actions` is None in a front end: other processes run the actions."""

    actions: ActionWorker | None
    decisions: ApprovalDecisions


@contextlib.asynccontextmanager
async def open_action_runtime(needs: ActionDependencies, *, works: bool = True) -> AsyncIterator[ActionRuntime]:
    """Start the action runtime; without `works` other processes run the actions."""
    action_runtime = _build_runtime(needs, works)
    async with _run_actions(action_runtime.actions, needs.wakeups, await needs.inbox.list_drained_incidents() if works else []):
        yield action_runtime


def _build_runtime(needs: ActionDependencies, works: bool) -> ActionRuntime:
    store, ports, transport, load_state, wake = needs.store, needs.ports, needs.transport, needs.load_state, needs.wakeups.wake
    ledger, rights, clock = needs.ledger, needs.rights, needs.ports.clock
    action_context = _build_action_context(needs)
    leases = Leases(store.redis, clock, keys=ACTION_KEYS, seconds=needs.settings.lease_seconds, url=store.url)
    index = ActionIndex(store.redis, clock)
    deliver = EventDelivery(needs.inbox, needs.wake, clock)
    proposer = Proposer(transport, ports.inventory, rights, action_context.catalogue, action_context.facts_of, ports.job_place, clock)
    reconciler = RemediationReconciler(
        ledger, ActionVerifier(action_context), leases, index, deliver, proposer, ports.evidence, load_state, wake, clock
    )
    actions = None
    if works:
        threads = _build_threads(store, action_context)
        runner = ActionRunner(ledger, threads, leases, index, deliver, needs.cards, load_state, rights.get_person_name, clock)
        actions = ActionWorker(ledger, runner, reconciler, index, wake)
    decisions = ApprovalDecisions(ledger, reconciler, index, rights, deliver, transport, action_context.facts_of, load_state, wake)
    return ActionRuntime(actions, decisions)


def _build_threads(store: Store, action_context: ActionGraphContext) -> "ActionThreads":
    """Import here, so that a front end does not load LangGraph."""
    from graph.checkpoints.checkpoint import RedisSaver
    from graph.execution.action_graph import ActionThreads

    return ActionThreads(RedisSaver(store.redis), action_context)


def _build_action_context(needs: ActionDependencies) -> ActionGraphContext:
    return ActionGraphContext(
        reading=needs.ports,
        ledger=needs.ledger,
        transport=needs.transport,
        catalogue=compute_catalogue_hash(),
        policy=needs.rights.get_policy_hash,
        authorised=ApproverLookup(needs.rights),
        facts_of=IncidentFactsLoader(needs.ports.evidence, needs.load_state),
        worker=generate_worker_id(),
        began=ActionStartAnnouncer(needs.ledger, needs.cards),
        contact=ContactLossNotifier(needs.ledger, needs.cards),
        pause=needs.pause,
    )


@contextlib.asynccontextmanager
async def _run_actions(actions: ActionWorker | None, wakeups: Wakeups, drained: Sequence[str]) -> AsyncIterator[None]:
    """Run wakeups and the sweep. On exit running actions reach a stored step."""
    if actions is None:
        async with run_wakeup_sender(wakeups):
            yield
        return
    await wakeups.start(actions.handle_wakeup)
    for incident in drained:
        await actions.schedule_incident(incident)
    sweeping = asyncio.create_task(actions.run())
    try:
        yield
    finally:
        await cancel_tasks(sweeping)
        await actions.drain()
        await wakeups.aclose()
