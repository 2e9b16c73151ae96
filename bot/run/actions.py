"""Opening the acting half: ledger, action threads, driver, tender and their wake-ups, as one thing that is closed in order."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from bot.actions.asked import Announcement, Authorised, KnownFacts, LostContact
from bot.actions.decisions import Decisions
from bot.actions.driver import Delivery, Driver, Post, Show, StateOf
from bot.actions.due import ActionIndex
from bot.actions.ladders import Tender
from bot.actions.proposer import Proposer
from bot.actions.worker import Actions
from bot.desk.desk import Board
from bot.desk.lease import Leases, this_worker
from bot.desk.wakeups import Wakeups
from bot.policy.approvals import Directory, Rights
from bot.policy.approver_sets import ApproverTable
from bot.run.on_call import Schedules
from bot.settings import Settings
from bot.store.keys import ACTIONS
from bot.store.ledger import forgetful, open_ledger
from bot.store.store import Store
from bot.tasks import end
from graph.actions.carry_out import ActionPorts
from graph.actions.looks import Looks
from graph.ports import Ports, Progress
from graph.report import Report
from graph.state import Incident, Origin
from tools.acting.build import catalogue_hash
from tools.ledger.ledger import Ledger
from tools.transport import Transport

if TYPE_CHECKING:
    from graph.actions.flow import ActionThreads

ShowOf = Callable[[Ledger, Rights, str], Show]
"""The cards, given the ledger, who may approve, and what must be said on every card."""


class ActionsInbox(Post, Protocol):
    """The inboxes of incidents, as far as acting has to do with them."""

    async def origin(self, incident: str) -> Origin | None: ...

    async def held_incidents(self) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class ActingNeeds:
    """What the acting half stands on. `wake` wakes the desk, `wakeups` whoever drives actions; `show` makes the cards. `pause` waits between
    two looks at something that runs."""

    settings: Settings
    store: Store
    transport: Transport
    ports: Ports
    state_of: StateOf
    inbox: ActionsInbox
    people: Directory
    show: ShowOf
    wake: Callable[[str], Awaitable[None]]
    wakeups: Wakeups
    approvers: ApproverTable = field(default_factory=ApproverTable)
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep


@dataclass(frozen=True, slots=True)
class Acting:
    """The running acting half. `actions` is None where others drive what is decided here. `warning` is said on every card; empty where the
    store keeps what it acknowledged."""

    actions: Actions | None
    decisions: Decisions
    ledger: Ledger
    rights: Rights
    show: Show
    warning: str

    def watching(self, board: Board) -> Board:
        """A board that, after each turn's report, has the incident's ladders looked after."""
        return ActingBoard(board, self.actions) if self.actions else board


class ActingBoard:
    """Posts as before; then what the turn decided about fixes is put into effect."""

    def __init__(self, board: Board, actions: Actions) -> None:
        self._board, self._actions = board, actions

    async def progress(self, p: Progress) -> None:
        await self._board.progress(p)

    async def report(self, incident: str, state: Incident, report: Report) -> None:
        await self._board.report(incident, state, report)
        if state.get("ladders"):
            await self._actions.note(incident)


@contextlib.asynccontextmanager
async def open_actions(needs: ActingNeeds, *, works: bool = True) -> AsyncIterator[Acting]:
    """Build and start; `works` is false where others drive what is decided here. Raises Refusal for what must be mended first."""
    acting = await _built(needs, works)
    async with _working(acting.actions, needs.wakeups, await needs.inbox.held_incidents() if works else []):
        yield acting


async def _built(needs: ActingNeeds, works: bool) -> Acting:
    """Everything once, each part from those above it."""
    store, ports, transport, state_of, wake = needs.store, needs.ports, needs.transport, needs.state_of, needs.wakeups.wake
    warning = await _warning(needs.settings, store)
    ledger = await open_ledger(needs.settings, store, ports.inventory, ports.clock)
    table = needs.approvers
    schedule = Schedules(table.on_call, needs.people, ports.clock)
    rights = Rights(needs.people, ports.inventory, needs.settings.approvers, needs.inbox.origin, table, schedule)
    cards = needs.show(ledger, rights, warning)
    outside = _outside(needs, ledger, rights, cards)
    leases = Leases(store.redis, ports.clock, names=ACTIONS, seconds=needs.settings.lease_seconds, url=store.url)
    index = ActionIndex(store.redis, ports.clock)
    deliver = Delivery(needs.inbox, needs.wake, ports.clock)
    proposer = Proposer(transport, ports.inventory, rights, outside.catalogue, outside.facts_of, ports.job_place, ports.clock)
    tender = Tender(ledger, Looks(outside), leases, index, deliver, proposer, ports.evidence, state_of, wake, ports.clock)
    actions = None
    if works:
        driver = Driver(ledger, _threads(store, outside), leases, index, deliver, cards, state_of, rights.name, ports.clock)
        actions = Actions(ledger, driver, tender, index, wake)
    decisions = Decisions(ledger, tender, index, rights, deliver, transport, outside.facts_of, state_of, wake)
    return Acting(actions, decisions, ledger, rights, cards, warning)


def _threads(store: Store, outside: ActionPorts) -> "ActionThreads":
    """Where actions' graphs go on; imported here, as a front end has no use for LangGraph."""
    from graph.actions.flow import ActionThreads
    from graph.memory.checkpoint import RedisSaver

    return ActionThreads(RedisSaver(store.redis), outside)


def _outside(needs: ActingNeeds, ledger: Ledger, rights: Rights, cards: Show) -> ActionPorts:
    """The world as an action's nodes meet it."""
    return ActionPorts(
        reading=needs.ports,
        ledger=ledger,
        transport=needs.transport,
        catalogue=catalogue_hash(),
        policy=rights.policy,
        authorised=Authorised(rights),
        facts_of=KnownFacts(needs.ports.evidence, needs.state_of),
        worker=this_worker(),
        began=Announcement(ledger, cards),
        contact=LostContact(ledger, cards),
        pause=needs.pause,
    )


@contextlib.asynccontextmanager
async def _working(actions: Actions | None, wakeups: Wakeups, held: Sequence[str]) -> AsyncIterator[None]:
    """Wake-ups and the sweep; on the way down nothing new begins, and what runs reaches a stored step."""
    await wakeups.start(actions.advance if actions else nobody_works)
    if actions is None:
        try:
            yield
        finally:
            await wakeups.aclose()
        return
    for incident in held:
        await actions.note(incident)
    sweeping = asyncio.create_task(actions.run())
    try:
        yield
    finally:
        await end(sweeping)
        await actions.drain()
        await wakeups.aclose()


async def nobody_works(name: str) -> None:
    """What a front end does when it is woken, which nobody does: it only wakes others."""


async def _warning(settings: Settings, store: Store) -> str:
    """What every card must say where remedies run on a store that may forget."""
    durability = await store.durability()
    if not forgetful(durability, accept=settings.accept_forgetful_ledger):
        return ""
    return f"The approval store may forget: {'; '.join(durability.problems)}. Remedies run all the same, as the settings say."
