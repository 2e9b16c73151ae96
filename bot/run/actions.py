"""Opening the acting half: ledger, action threads, driver, tender and their wake-ups, as one thing that is closed in order."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from bot.actions.decisions import Decisions
from bot.actions.driver import Delivery, Driver, Show
from bot.actions.due import ActionIndex
from bot.actions.ladders import Tender
from bot.actions.proposer import Proposer
from bot.actions.worker import Actions
from bot.desk.desk import Board
from bot.desk.inbox import Inbox
from bot.desk.lease import Leases, this_worker
from bot.desk.wakeups import Wakeups
from bot.policy.approvals import Directory, Rights
from bot.refusal import Refusal
from bot.run.world import World
from bot.settings import Settings
from bot.store.keys import ACTIONS
from bot.store.ledger import forgetful, open_ledger
from bot.store.store import Store
from bot.tasks import end
from graph.actions.carry_out import ActionPorts, NotNow
from graph.actions.flow import ActionThreads
from graph.memory.checkpoint import RedisSaver
from graph.ports import Ports, Progress
from graph.state import Incident, Report
from tools.acting.build import catalogue_hash
from tools.fact import Fact
from tools.ledger.ledger import Ledger
from tools.ledger.record import Record

ShowOf = Callable[[Ledger, Rights, str], Show]
"""The cards, given the ledger, who may approve, and what must be said on every card."""


@dataclass(frozen=True, slots=True)
class Acting:
    """The running acting half. `warning` is said on every card; empty where the store keeps what it acknowledged."""

    actions: Actions
    decisions: Decisions
    ledger: Ledger
    rights: Rights
    show: Show
    warning: str

    def watching(self, board: Board) -> Board:
        """A board that, after each turn's report, has the incident's ladders looked after."""
        return ActingBoard(board, self.actions)


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
async def open_actions(
    settings: Settings,
    store: Store,
    world: World,
    *,
    ports: Ports,
    state_of: Callable[[str], Awaitable[Incident]],
    inbox: Inbox,
    people: Directory,
    show: ShowOf,
    wake: Callable[[str], Awaitable[None]],
    wakeups: Wakeups,
    works: bool = True,
) -> AsyncIterator[Acting]:
    """Build and start; `wake` wakes the desk, `wakeups` whoever drives actions; `works` is false where others drive what is decided
    here. Raises Refusal for what must be mended first."""
    inventory, clock = ports.inventory, ports.clock
    warning = await _warning(settings, store)
    ledger = await open_ledger(settings, store, inventory, clock)
    rights = Rights(people, inventory, settings.approvers, inbox.origin)
    cards = show(ledger, rights, warning)
    leases = Leases(store.redis, clock, names=ACTIONS, seconds=settings.lease_seconds)
    index, delivery = ActionIndex(store.redis, clock), Delivery(inbox, wake, clock)

    async def facts_of(incident: str) -> list[Fact]:
        try:
            return await ports.evidence.facts((await state_of(incident)).get("facts", ""))
        except KeyError:
            return []

    async def began(approval: str) -> None:
        await driver.announce(approval)

    async def authorised(seen: Record) -> frozenset[str]:
        try:
            return await rights.approvers(seen.action.incident, fresh=True)
        except Refusal as why:
            raise NotNow(str(why)) from why

    acting = ActionPorts(
        reading=ports,
        ledger=ledger,
        transport=world.transport,
        catalogue=catalogue_hash(),
        policy=rights.policy,
        authorised=authorised,
        facts_of=facts_of,
        worker=this_worker(),
        began=began,
    )
    threads = ActionThreads(RedisSaver(store.redis), acting)
    driver = Driver(ledger, threads, leases, index, delivery, cards, state_of, clock)
    proposer = Proposer(world.transport, inventory, rights, acting.catalogue, facts_of)
    tender = Tender(ledger, threads, leases, index, delivery, proposer, ports.evidence, state_of, wakeups.wake, clock)
    actions = Actions(ledger, driver, tender, index)
    decisions = Decisions(
        ledger,
        tender,
        index,
        rights,
        deliver=delivery,
        transport=world.transport,
        facts_of=facts_of,
        state_of=state_of,
        wake=wakeups.wake,
    )
    async with _working(actions, wakeups, works):
        yield Acting(actions, decisions, ledger, rights, cards, warning)


@contextlib.asynccontextmanager
async def _working(actions: Actions, wakeups: Wakeups, works: bool) -> AsyncIterator[None]:
    """Wake-ups and the sweep; on the way down nothing new begins, and what runs reaches a stored step."""
    actions.use(wakeups)
    await wakeups.start(actions.advance)
    sweeping = [asyncio.create_task(actions.run())] if works else []
    try:
        yield
    finally:
        await end(*sweeping)
        await actions.drain()
        await wakeups.aclose()


async def _warning(settings: Settings, store: Store) -> str:
    """What every card must say where remedies run on a store that may forget."""
    durability = await store.durability()
    if not forgetful(durability, accept=settings.accept_forgetful_ledger):
        return ""
    return f"The approval store may forget: {'; '.join(durability.problems)}. Remedies run all the same, as the settings say."
