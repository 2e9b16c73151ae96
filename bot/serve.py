"""`rackmedic serve`: one process that listens to Slack and works through inboxes, until SIGTERM. Any number of them may share one Redis."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator

import structlog

from bot.app import open_world
from bot.assemble import assembled
from bot.health import Health, health_server
from bot.host_leases import RedisLeases
from bot.logs import set_up_logs
from bot.refusal import Refusal
from bot.settings import PREFIX, Settings
from bot.spend import RedisBook
from bot.store import Store, StoreUnavailable, open_store

log = structlog.get_logger()


async def serve(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT; the exit code. Raises Refusal for what must be mended first."""
    set_up_logs(settings.log_level, settings.log_format)
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    health = Health()
    async with (
        _store(settings) as store,
        open_world(settings, lasting=True, book=RedisBook(store.redis), leases=RedisLeases(store.redis)) as world,
        health_server(settings.health_port, health, store.redis),
    ):
        log.info("serve.store", what=store.describe())
        async with assembled(settings, store, world) as desk:
            health.ready = True
            log.info("serve.listening", hosts=len(world.ports.inventory.hosts), model=settings.model_name if world.ports.model else "none")
            await stop.wait()
            health.ready = False
            log.info("serve.stopping")
            await desk.drain()
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
