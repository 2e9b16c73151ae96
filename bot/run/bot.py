"""The bot put together: desk, acting half and Slack side over one store and one world. Started in order, stopped in the reverse.

A process plays one of three roles. Parts that its role does not need are built all the same, and are never woken.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal

from bot.actions.decisions import Approvals
from bot.cards.incidents.close_modal import choices
from bot.desk.desk import Desk, TurnLimits
from bot.desk.inbox import Inbox
from bot.desk.lease import Leases
from bot.desk.sweeper import Sweeper, timers_after
from bot.desk.wakeups import Wakeups, wakeups_for
from bot.policy.channels import bindings
from bot.run.actions import Acting, open_actions
from bot.run.world import World
from bot.settings import Settings
from bot.slack.client import SlackClient, slack_client
from bot.slack.context import Surface
from bot.slack.incoming.files import Fetch
from bot.slack.outgoing.approvals import cards_over
from bot.slack.outgoing.posts import Cards
from bot.slack.outgoing.progress import LivingCards
from bot.slack.outgoing.reports import SlackBoard
from bot.slack.people import People
from bot.store.store import Store
from bot.tasks import Background, end
from graph.incident.turns import IncidentTurns
from graph.memory.checkpoint import RedisSaver
from graph.ports import Ports

Role = Literal["all", "front", "worker"]
"""`front`: Slack's events into inboxes and ledger. `worker`: turns and remedies. `all`: both in one process."""


class LaterWake:
    """How the desk is woken, for parts that are built before it. A wake-up lost before then costs one sweep."""

    def __init__(self) -> None:
        self._wakeups: Wakeups | None = None

    def use(self, wakeups: Wakeups) -> None:
        """From now on wake-ups arrive."""
        self._wakeups = wakeups

    async def __call__(self, incident: str) -> None:
        if self._wakeups is not None:
            await self._wakeups.wake(incident)


@dataclass(frozen=True, slots=True)
class Parts:
    """What both halves share."""

    settings: Settings
    store: Store
    world: World
    role: Role
    client: SlackClient
    inbox: Inbox
    cards: Cards
    people: People
    board: SlackBoard
    ports: Ports
    turns: IncidentTurns
    background: Background
    wake: LaterWake


@contextlib.asynccontextmanager
async def assembled(settings: Settings, store: Store, world: World, role: Role = "all") -> AsyncIterator[Desk]:
    """The bot, listening and working as its role says. Raises Refusal for what must be mended first."""
    parts = _parts(settings, store, world, role)
    try:
        async with _acting(parts) as acting, _working(parts, acting) as desk, _listening(parts, acting):
            yield desk
    finally:
        await parts.background.aclose()


def _parts(settings: Settings, store: Store, world: World, role: Role) -> Parts:
    client = slack_client(settings.slack_bot_token.get_secret_value(), settings.slack_api_url)
    background, people = Background(), People(client)
    inbox, cards = Inbox(store.redis, world.ports.clock), Cards(store.redis)
    living = LivingCards(client, cards, inbox.origin, background)
    board = SlackBoard(client, cards, living, people, inbox.origin, world.ports.evidence)
    ports = replace(world.ports, progress=board.progress, peek=inbox.peek)
    turns = IncidentTurns(RedisSaver(store.redis), ports)
    return Parts(settings, store, world, role, client, inbox, cards, people, board, ports, turns, background, LaterWake())


@contextlib.asynccontextmanager
async def _acting(parts: Parts) -> AsyncIterator[Acting]:
    """Ledger, action threads and their cards."""
    opened = open_actions(
        parts.settings,
        parts.store,
        parts.world,
        ports=parts.ports,
        state_of=parts.turns.state,
        inbox=parts.inbox,
        people=parts.people,
        show=cards_over(parts.client, parts.cards, parts.people, parts.inbox.origin, parts.ports, parts.world.transport),
        wake=parts.wake,
        alone=_alone(parts),
        works=parts.role != "front",
    )
    async with opened as acting:
        yield acting


@contextlib.asynccontextmanager
async def _working(parts: Parts, acting: Acting) -> AsyncIterator[Desk]:
    """The desk with its wake-ups and its sweeper; on the way down running turns reach a stored step."""
    clock, settings = parts.ports.clock, parts.settings
    leases = Leases(parts.store.redis, clock, seconds=settings.lease_seconds)
    limits = TurnLimits(keep_closed=timedelta(days=settings.closed_days))
    board, fetch = acting.watching(parts.board), Fetch(parts.client, parts.ports.evidence)
    desk = Desk(parts.inbox, leases, parts.turns, board, clock=clock, timers=timers_after, fetch=fetch, limits=limits)
    wakeups = wakeups_for(parts.store.url, desk.advance, alone=_alone(parts), receive=parts.role != "front")
    parts.wake.use(wakeups)
    await wakeups.start()
    sweeping = [asyncio.create_task(Sweeper(parts.inbox, wakeups).run())] if parts.role != "front" else []
    try:
        yield desk
    finally:
        await end(*sweeping)
        await desk.drain()
        await wakeups.aclose()


def _alone(parts: Parts) -> bool:
    """Whether nobody else works on this store, so that wake-ups need not travel."""
    return parts.role == "all" and parts.store.kind != "server"


@contextlib.asynccontextmanager
async def _listening(parts: Parts, acting: Acting) -> AsyncIterator[None]:
    """Slack's events reach us; the first thing to stop."""
    if parts.role == "worker":
        yield
        return
    from bot.slack.incoming.socket import listening  # Bolt: a worker needs none of it

    async with listening(_surface(parts, acting), parts.settings.slack_app_token.get_secret_value()):
        yield


def _surface(parts: Parts, acting: Acting) -> Surface:
    return Surface(
        client=parts.client,
        intake=parts.inbox,
        wake=parts.wake,
        progress=parts.board.progress,
        state_of=parts.turns.state,
        people=parts.people,
        bound=bindings(parts.ports.inventory.channels),
        offered=choices((leaf.label, leaf.title) for leaf in parts.ports.taxonomy.leaves.values()),
        clock=parts.ports.clock,
        tasks=parts.background,
        approvals=Approvals(acting.decisions, acting.ledger, acting.show, frozenset(parts.settings.approvers)),
    )
