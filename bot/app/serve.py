"""`rackmedic serve` and `rackmedic worker`. Any number may share one Redis.

`serve` listens to Slack and starts workers, unless they run elsewhere or the store is in memory only. While Redis is
unavailable at startup, both wait instead of exiting, and say so in log and health. Configuration errors (wrong password, cluster mode,
invalid URL) are refused at once.
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
from bot.app.workers import install_signal_handlers, run_workers, tie_to_parent
from bot.refusal import Refusal
from bot.settings import ENV_PREFIX, Settings
from bot.store.gpu_reservations import RedisGpuReservations
from bot.store.model_costs import RedisSpendStore
from bot.store.store import REDIS_AWAY_ERRORS, Store, StoreNotAnswering, StoreUnavailable, WrongStoreVersion, open_store
from tools.ledger.refusals import StoreDown

log = structlog.get_logger()
WORKER_NICENESS = 5  # a front end wins over its workers: Slack waits three seconds, a diagnosis can wait
RETRY_DELAYS_SECONDS = (0.5, 1.0, 2.0, 5.0)  # the last one repeats


async def serve(settings: Settings, worker: Sequence[str], *, front: bool = False) -> int:
    """Run until SIGTERM or SIGINT. Raises Refusal if a setting, the store or Slack cannot be used.

    Args:
        worker: the command that starts a worker.
        front: start no workers; they run elsewhere.
    """
    set_up_logs(settings.log_level, settings.log_format)
    stop, health = asyncio.Event(), Health()
    install_signal_handlers(stop)

    async def run(store: Store) -> None:
        log.info("serve.store", what=store.describe())
        worker_count = 0 if front or store.is_memory_only else settings.workers
        role: ProcessRole = "front" if front or worker_count else "all"
        _require_shared_store(store, role)
        async with (
            run_workers(worker, worker_count) as wait_for_workers,
            _open_runtime(settings, store, role) as runtime,
            _delay_until(wait_for_workers),
            run_bot(settings, store, runtime, role) as drain,
        ):
            freeze_startup_objects()
            health.mark_ready()
            log.info("serve.listening", hosts=len(runtime.services.inventory.hosts), model=_get_model_name(runtime), workers=worker_count)
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
        async with _open_runtime(settings, store, "worker") as runtime, run_bot(settings, store, runtime, "worker", name) as drain:
            freeze_startup_objects()
            health.mark_ready()
            log.info("worker.working", hosts=len(runtime.services.inventory.hosts), model=_get_model_name(runtime))
            report_ready_to_parent()
            await stop.wait()
            health.ready = False
            log.info("worker.stopping")
            await drain()

    async with contextlib.AsyncExitStack() as stack:
        report_ready_to_parent = await stack.enter_async_context(tie_to_parent(stop)) if beside else lambda: None
        await stack.enter_async_context(run_health_server(settings.health_host, 0 if beside else settings.health_port, health))
        await run_with_store(settings, health, stop, run)
    return 0


async def run_with_store(settings: Settings, health: Health, stop: asyncio.Event, run: Callable[[Store], Awaitable[None]]) -> None:
    """Open the store and call `run`. Raises Refusal for a store that cannot be used.

    Retry while Redis is unavailable, unless the process has already been ready.
    """
    attempts = 0
    while not stop.is_set():
        try:
            async with _open_checked_store(settings) as store:
                health.redis = store.redis
                health.waits = ""
                await run(store)
                return
        except (StoreNotAnswering, StoreDown, *REDIS_AWAY_ERRORS) as error:
            if health.was_ready:
                raise
            attempts += 1
            health.waits = "waiting for Redis"
            log.warning("store.waiting", why=str(error)[:300], tried=attempts)
            await _wait_or_stop(stop, RETRY_DELAYS_SECONDS[min(attempts, len(RETRY_DELAYS_SECONDS)) - 1])


@contextlib.asynccontextmanager
async def _delay_until(wait_for_workers: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Do not listen to Slack before the workers are ready."""
    await wait_for_workers()
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


@contextlib.asynccontextmanager
async def _open_checked_store(settings: Settings) -> AsyncIterator[Store]:
    try:
        store = await open_store(settings.redis_url or None, settings.data_dir)
    except StoreNotAnswering:
        raise
    except WrongStoreVersion as error:
        raise Refusal(str(error), 2) from error
    except StoreUnavailable as error:
        raise Refusal(f"{ENV_PREFIX}REDIS_URL: {error}") from error
    try:
        yield store
    finally:
        await store.aclose()


async def _wait_or_stop(stop: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
