"""`rackmedic serve` and `rackmedic worker`: the bot until SIGTERM. Any number of either may share one Redis.

`serve` listens to Slack and starts worker processes for everything else, unless others on the same Redis do that work, or there is
no Redis to share.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import structlog

from bot.refusal import Refusal
from bot.run.bot import Role, assembled
from bot.run.garbage import after_start
from bot.run.health import Health, health_server
from bot.run.logs import set_up_logs
from bot.run.patience import over_store
from bot.run.workers import on_signals, tied, workers
from bot.run.world import World, open_world
from bot.settings import PREFIX, Settings
from bot.store.gpu_holds import RedisHolds
from bot.store.model_costs import RedisBook
from bot.store.store import Store

log = structlog.get_logger()
BEHIND = 5
"""How far a worker stands behind its front end where both want the same processor: Slack waits three seconds, a diagnosis can."""


async def serve(settings: Settings, worker: Sequence[str], *, front: bool = False) -> int:
    """Run until SIGTERM or SIGINT; the exit code. `worker` starts one, `front`: start none. Raises Refusal for what must be mended first."""
    set_up_logs(settings.log_level, settings.log_format)
    stop, health = asyncio.Event(), Health()
    on_signals(stop)

    async def run(store: Store) -> None:
        log.info("serve.store", what=store.describe())
        beside = 0 if front or store.forgets else settings.workers
        role: Role = "front" if front or beside else "all"
        _shared(store, role)
        async with (
            workers(worker, beside) as ready,
            _world(settings, store, role) as world,
            _after(ready),
            assembled(settings, store, world, role) as drain,
        ):
            after_start()
            health.begin()
            log.info("serve.listening", hosts=len(world.ports.inventory.hosts), model=_model(world), workers=beside)
            await stop.wait()
            health.ready = False
            log.info("serve.stopping")
            await drain()

    async with health_server(settings.health_host, settings.health_port, health):
        await over_store(settings, health, stop, run)
    return 0


async def work(settings: Settings, *, beside: bool, name: str) -> int:
    """A worker until SIGTERM, or until the process that it was started `beside` is gone. `name` is its own among those of its host."""
    set_up_logs(settings.log_level, settings.log_format)
    stop, health = asyncio.Event(), Health()
    on_signals(stop, tied=beside)
    if beside:
        os.nice(BEHIND)

    async def run(store: Store) -> None:
        _shared(store, "worker")
        async with _world(settings, store, "worker") as world, assembled(settings, store, world, "worker", name) as drain:
            after_start()
            health.begin()
            log.info("worker.working", hosts=len(world.ports.inventory.hosts), model=_model(world))
            ready()
            await stop.wait()
            health.ready = False
            log.info("worker.stopping")
            await drain()

    async with contextlib.AsyncExitStack() as stack:
        ready = await stack.enter_async_context(tied(stop)) if beside else lambda: None
        await stack.enter_async_context(health_server(settings.health_host, 0 if beside else settings.health_port, health))
        await over_store(settings, health, stop, run)
    return 0


@contextlib.asynccontextmanager
async def _after(ready: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Slack is listened to once somebody can work."""
    await ready()
    yield


def _shared(store: Store, role: Role) -> None:
    if role != "all" and store.forgets:
        raise Refusal(f"{PREFIX}REDIS_URL: a front end and its workers meet in one Redis; name it, or run `rackmedic serve` alone")


def _model(world: World) -> str:
    return world.settings.model_name if world.ports.model else "none"


def _world(settings: Settings, store: Store, role: Role) -> contextlib.AbstractAsyncContextManager[World]:
    return open_world(settings, lasting=True, front=role == "front", book=RedisBook(store.redis), holds=RedisHolds(store.redis))
