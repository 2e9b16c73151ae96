"""Wiring of the action runtime: ledger, action threads, runner, reconciler and wakeups, closed in order."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from bot.app.on_call import OnCallSchedules
from bot.incidents.dispatch.lease import Leases, generate_worker_id
from bot.incidents.dispatch.wakeups import Wakeups
from bot.policy.approvals import ApprovalRights, ApproverTable, Directory
from bot.remediation.action_callbacks import ActionStartAnnouncer, ApproverLookup, ContactLossNotifier, IncidentFactsLoader
from bot.remediation.action_index import ActionIndex
from bot.remediation.action_runner import ActionCardPublisher, ActionInbox, ActionRunner, EventDelivery, IncidentStateLoader
from bot.remediation.approval_decisions import ApprovalDecisions
from bot.remediation.proposer import Proposer
from bot.remediation.reconciler import RemediationReconciler
from bot.remediation.worker import ActionWorker
from bot.settings import Settings
from bot.store.keys import ACTION_KEYS
from bot.store.open_ledger import is_non_durable_allowed, open_ledger
from bot.store.store import Store
from bot.tasks import cancel_tasks
from graph.context import GraphContext
from graph.execution.action_effects import ActionGraphContext
from graph.execution.verification import ActionVerifier
from graph.state import Origin
from tools.execution.build import compute_catalogue_hash
from tools.ledger.ledger import Ledger
from tools.transport import Transport

if TYPE_CHECKING:
    from graph.execution.action_graph import ActionThreads

# called with the ledger, the approval rights, and the warning for every card
ActionCardsFactory = Callable[[Ledger, ApprovalRights, str], ActionCardPublisher]


class ActionsInbox(ActionInbox, Protocol):
    async def get_origin(self, incident: str) -> Origin | None: ...

    async def list_drained_incidents(self) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class ActionDependencies:
    """Parts of the action runtime. `wake` wakes the dispatcher, `wakeups` the action workers; `pause` separates polls."""

    settings: Settings
    store: Store
    transport: Transport
    ports: GraphContext
    state_of: IncidentStateLoader
    inbox: ActionsInbox
    people: Directory
    show: ActionCardsFactory
    wake: Callable[[str], Awaitable[None]]
    wakeups: Wakeups
    approvers: ApproverTable = field(default_factory=ApproverTable)
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep


@dataclass(frozen=True, slots=True)
class ActionRuntime:
    """The running action runtime. `actions` is None in a front end; `warning` is shown on every card."""

    actions: ActionWorker | None
    decisions: ApprovalDecisions
    ledger: Ledger
    rights: ApprovalRights
    show: ActionCardPublisher
    warning: str


@contextlib.asynccontextmanager
async def open_action_runtime(needs: ActionDependencies, *, works: bool = True) -> AsyncIterator[ActionRuntime]:
    """Start the action runtime; without `works` other processes run the actions. Raises Refusal."""
    acting = await _build_runtime(needs, works)
    async with _run_actions(acting.actions, needs.wakeups, await needs.inbox.list_drained_incidents() if works else []):
        yield acting


async def _build_runtime(needs: ActionDependencies, works: bool) -> ActionRuntime:
    store, ports, transport, state_of, wake = needs.store, needs.ports, needs.transport, needs.state_of, needs.wakeups.wake
    warning = await _get_durability_warning(needs.settings, store)
    ledger = await open_ledger(needs.settings, store, ports.inventory, ports.clock)
    table = needs.approvers
    schedule = OnCallSchedules(table.on_call, needs.people, ports.clock)
    rights = ApprovalRights(needs.people, ports.inventory, needs.settings.approvers, needs.inbox.get_origin, table, schedule)
    cards = needs.show(ledger, rights, warning)
    outside = _build_action_ports(needs, ledger, rights, cards)
    leases = Leases(store.redis, ports.clock, names=ACTION_KEYS, seconds=needs.settings.lease_seconds, url=store.url)
    index = ActionIndex(store.redis, ports.clock)
    deliver = EventDelivery(needs.inbox, needs.wake, ports.clock)
    proposer = Proposer(transport, ports.inventory, rights, outside.catalogue, outside.facts_of, ports.job_place, ports.clock)
    tender = RemediationReconciler(
        ledger, ActionVerifier(outside), leases, index, deliver, proposer, ports.evidence, state_of, wake, ports.clock
    )
    actions = None
    if works:
        driver = ActionRunner(
            ledger, _build_threads(store, outside), leases, index, deliver, cards, state_of, rights.get_person_name, ports.clock
        )
        actions = ActionWorker(ledger, driver, tender, index, wake)
    decisions = ApprovalDecisions(ledger, tender, index, rights, deliver, transport, outside.facts_of, state_of, wake)
    return ActionRuntime(actions, decisions, ledger, rights, cards, warning)


def _build_threads(store: Store, outside: ActionGraphContext) -> "ActionThreads":
    """Import here, so that a front end does not load LangGraph."""
    from graph.checkpoints.checkpoint import RedisSaver
    from graph.execution.action_graph import ActionThreads

    return ActionThreads(RedisSaver(store.redis), outside)


def _build_action_ports(
    needs: ActionDependencies, ledger: Ledger, rights: ApprovalRights, cards: ActionCardPublisher
) -> ActionGraphContext:
    return ActionGraphContext(
        reading=needs.ports,
        ledger=ledger,
        transport=needs.transport,
        catalogue=compute_catalogue_hash(),
        policy=rights.get_policy_hash,
        authorised=ApproverLookup(rights),
        facts_of=IncidentFactsLoader(needs.ports.evidence, needs.state_of),
        worker=generate_worker_id(),
        began=ActionStartAnnouncer(ledger, cards),
        contact=ContactLossNotifier(ledger, cards),
        pause=needs.pause,
    )


@contextlib.asynccontextmanager
async def _run_actions(actions: ActionWorker | None, wakeups: Wakeups, held: Sequence[str]) -> AsyncIterator[None]:
    """Run wakeups and the sweep. On exit running actions reach a stored step."""
    await wakeups.start(actions.handle_wakeup if actions else ignore_wakeup)
    if actions is None:
        try:
            yield
        finally:
            await wakeups.aclose()
        return
    for incident in held:
        await actions.schedule_incident(incident)
    sweeping = asyncio.create_task(actions.run())
    try:
        yield
    finally:
        await cancel_tasks(sweeping)
        await actions.drain()
        await wakeups.aclose()


async def ignore_wakeup(name: str) -> None:
    """Do nothing: a front end only sends wakeups."""


async def _get_durability_warning(settings: Settings, store: Store) -> str:
    durability = await store.get_durability()
    if not is_non_durable_allowed(durability, accept=settings.allow_non_durable_ledger):
        return ""
    return f"The approval store may forget: {'; '.join(durability.problems)}. Remedies run all the same, as the settings say."
