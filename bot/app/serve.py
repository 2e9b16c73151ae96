"""`rackmedic serve` and `rackmedic worker`. Any number may share one Redis.

`serve` listens to Slack and starts workers, unless they run elsewhere or the store is in memory only.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import structlog

from bot.app.bot import ProcessRole, run_bot
from bot.app.diagnosis_runtime import DiagnosisRuntime, open_diagnosis_runtime
from bot.app.gc_tuning import freeze_startup_objects
from bot.app.health import Health, run_health_server
from bot.app.logs import set_up_logs
from bot.app.store_startup import run_with_store
from bot.app.workers import install_signal_handlers, run_workers, tie_to_parent
from bot.refusal import Refusal
from bot.settings import ENV_PREFIX, Settings
from bot.store.gpu_reservations import RedisGpuReservations
from bot.store.model_costs import RedisSpendStore
from bot.store.store import Store

log = structlog.get_logger()
WORKER_NICENESS = 5  # a front end wins over its workers: Slack waits three seconds, a diagnosis can wait


async def serve(settings: Settings, worker: Sequence[str], *, front: bool = False) -> int:
    """Run until SIGTERM or SIGINT. `worker`: command of a worker; `front`: start none. Raises Refusal if a setting, the store or Slack cannot be used."""
    set_up_logs(settings.log_level, settings.log_format)
    stop, health = asyncio.Event(), Health()
    install_signal_handlers(stop)

    async def run(store: Store) -> None:
        log.info("serve.store", what=store.describe())
        beside = 0 if front or store.is_memory_only else settings.workers
        role: ProcessRole = "front" if front or beside else "all"
        _require_shared_store(store, role)
        async with (
            run_workers(worker, beside) as ready,
            _open_runtime(settings, store, role) as world,
            _wait_until_ready(ready),
            run_bot(settings, store, world, role) as drain,
        ):
            freeze_startup_objects()
            health.mark_ready()
            log.info("serve.listening", hosts=len(world.services.inventory.hosts), model=_get_model_name(world), workers=beside)
            await stop.wait()
            health.ready = False
            log.info("serve.stopping")
            await drain()

    async with run_health_server(settings.health_host, settings.health_port, health):
        await run_with_store(settings, health, stop, run)
    return 0


async def run_worker(settings: Settings, *, beside: bool, name: str) -> int:
    """Run until SIGTERM, or until the parent of a `beside` worker is gone. `name` is unique on its host."""
    set_up_logs(settings.log_level, settings.log_format)
    stop, health = asyncio.Event(), Health()
    install_signal_handlers(stop, tied=beside)
    if beside:
        os.nice(WORKER_NICENESS)

    async def run(store: Store) -> None:
        _require_shared_store(store, "worker")
        async with _open_runtime(settings, store, "worker") as world, run_bot(settings, store, world, "worker", name) as drain:
            freeze_startup_objects()
            health.mark_ready()
            log.info("worker.working", hosts=len(world.services.inventory.hosts), model=_get_model_name(world))
            ready()
            await stop.wait()
            health.ready = False
            log.info("worker.stopping")
            await drain()

    async with contextlib.AsyncExitStack() as stack:
        ready = await stack.enter_async_context(tie_to_parent(stop)) if beside else lambda: None
        await stack.enter_async_context(run_health_server(settings.health_host, 0 if beside else settings.health_port, health))
        await run_with_store(settings, health, stop, run)
    return 0


@contextlib.asynccontextmanager
async def _wait_until_ready(ready: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Do not listen to Slack before the workers are ready."""
    await ready()
    yield


def _require_shared_store(store: Store, role: ProcessRole) -> None:
    if role != "all" and store.is_memory_only:
        raise Refusal(f"{ENV_PREFIX}REDIS_URL: a front end and its workers meet in one Redis; name it, or run `rackmedic serve` alone")


def _get_model_name(runtime: DiagnosisRuntime) -> str:
    return runtime.settings.model_name if runtime.services.model else "none"


def _open_runtime(settings: Settings, store: Store, role: ProcessRole) -> contextlib.AbstractAsyncContextManager[DiagnosisRuntime]:
    return open_diagnosis_runtime(
        settings,
        lasting=True,
        front=role == "front",
        spend_store=RedisSpendStore(store.redis),
        reservations=RedisGpuReservations(store.redis),
    )
