"""`rackmedic serve`: one process that listens to Slack and works through inboxes, until SIGTERM. Any number of them may share one Redis.

Order matters on the way down: first stop hearing, then let running turns reach a stored step, then close what they used.
"""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta

import structlog
from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_bolt.app.async_app import AsyncApp
from slack_sdk.errors import SlackApiError

from bot.app import World, open_world
from bot.background import Background
from bot.board import SlackBoard
from bot.cards import Cards
from bot.desk import Desk, Limits
from bot.fetch import Fetch
from bot.health import Health, health_server
from bot.inbox import Inbox
from bot.lease import Leases
from bot.listeners import slack_app
from bot.living import LivingCards
from bot.logs import set_up_logs
from bot.people import People
from bot.policy import bindings
from bot.refusal import Refusal
from bot.settings import PREFIX, Settings
from bot.slack_client import slack_client
from bot.spend import RedisBook
from bot.store import Store, StoreUnavailable, open_store
from bot.surface import Surface
from bot.sweeper import Sweeper, timers_after
from bot.turns import GraphTurns
from bot.views.close_modal import choices
from bot.wakeups import Wakeups, wakeups_for
from graph.checkpoint import RedisSaver

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Bot:
    """The running parts, for whoever supervises them."""

    desk: Desk
    surface: Surface
    sweeper: Sweeper
    wakeups: Wakeups
    handler: AsyncSocketModeHandler


async def serve(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT; the exit code. Raises Refusal for what must be mended first."""
    set_up_logs(settings.log_level, settings.log_format)
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    health = Health()
    async with (
        _store(settings) as store,
        open_world(settings, lasting=True, book=RedisBook(store.redis)) as world,
        health_server(settings.health_port, health, store.redis),
    ):
        log.info("serve.store", what=store.describe())
        async with assembled(settings, store, world) as bot:
            health.ready = True
            log.info("serve.listening", hosts=len(world.ports.inventory.hosts), model=settings.model_name if world.ports.model else "none")
            await stop.wait()
            health.ready = False
            log.info("serve.stopping")
            await bot.desk.drain()
    return 0


@contextlib.asynccontextmanager
async def _store(settings: Settings) -> AsyncIterator[Store]:
    try:
        store = await open_store(settings.redis_url or None, settings.data_dir)
    except StoreUnavailable as why:
        raise Refusal(f"{PREFIX}REDIS_URL: {why}") from why
    try:
        yield store
    finally:
        await store.aclose()


@contextlib.asynccontextmanager
async def assembled(settings: Settings, store: Store, world: World) -> AsyncIterator[Bot]:
    """The bot, listening and working; stopped in order afterwards."""
    client = slack_client(settings.slack_bot_token.get_secret_value(), settings.slack_api_url)
    background = Background()
    clock = world.ports.clock
    inbox, leases, cards = Inbox(store.redis, clock), Leases(store.redis, clock, seconds=settings.lease_seconds), Cards(store.redis)
    people = People(client)
    living = LivingCards(client, cards, inbox.origin, background)
    board = SlackBoard(client, cards, living, people, inbox.origin, world.ports.evidence)
    ports = replace(world.ports, progress=board.progress, peek=inbox.peek)
    turns = GraphTurns(RedisSaver(store.redis), ports, fetch=Fetch(client, ports.evidence))
    limits = Limits(keep_closed=timedelta(days=settings.closed_days))
    desk = Desk(inbox, leases, turns, board, clock=clock, timers=timers_after, limits=limits)
    wakeups = wakeups_for(store.url, desk.advance, alone=store.kind != "server")
    surface = Surface(
        client=client,
        intake=inbox,
        wake=wakeups.wake,
        progress=board.progress,
        state_of=turns.state,
        people=people,
        bound=bindings(ports.inventory.channels),
        offered=choices((leaf.label, leaf.title) for leaf in ports.taxonomy.leaves.values()),
        clock=clock,
        tasks=background,
    )
    handler = AsyncSocketModeHandler(await _app(surface), settings.slack_app_token.get_secret_value())
    sweeper = Sweeper(inbox, wakeups)
    await wakeups.start()
    await handler.connect_async()  # type: ignore[no-untyped-call]  # slack_bolt leaves it untyped
    sweeping = asyncio.create_task(sweeper.run())
    try:
        yield Bot(desk, surface, sweeper, wakeups, handler)
    finally:
        await handler.close_async()  # type: ignore[no-untyped-call]
        sweeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sweeping
        await desk.drain()
        await wakeups.aclose()
        await background.aclose()


async def _app(surface: Surface) -> AsyncApp:
    try:
        return await slack_app(surface)
    except SlackApiError as why:
        raise Refusal(f"{PREFIX}SLACK_BOT_TOKEN: Slack answers {why.response['error']}; reinstall the app and copy its bot token") from why
    except OSError as why:
        raise Refusal(f"{PREFIX}SLACK_API_URL: Slack cannot be reached: {why}") from why
