"""Startup while Redis is away: a long-lived process waits instead of exiting, visible in log and health.

Configuration errors (wrong password, cluster mode, invalid URL) are refused at once.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import structlog

from bot.app.health import Health
from bot.refusal import Refusal
from bot.settings import ENV_PREFIX, Settings
from bot.store.store import REDIS_AWAY_ERRORS, Store, StoreNotAnswering, StoreUnavailable, WrongStoreVersion, open_store
from tools.ledger.refusals import StoreDown

log = structlog.get_logger()
RETRY_DELAYS_SECONDS = (0.5, 1.0, 2.0, 5.0)  # the last one repeats


async def run_with_store(settings: Settings, health: Health, stop: asyncio.Event, run: Callable[[Store], Awaitable[None]]) -> None:
    """Run with the open store; retry while Redis is away until the process was ready. Raises Refusal if the store cannot be used."""
    tried = 0
    while not stop.is_set():
        try:
            async with _open_checked_store(settings) as store:
                health.redis = store.redis
                health.waits = ""
                await run(store)
                return
        except (StoreNotAnswering, StoreDown, *REDIS_AWAY_ERRORS) as away:
            if health.was_ready:
                raise
            health.waits = "waiting for Redis"
            log.warning("store.waiting", why=str(away)[:300], tried=tried + 1)
            await _wait_or_stop(stop, RETRY_DELAYS_SECONDS[min(tried, len(RETRY_DELAYS_SECONDS) - 1)])
            tried += 1


@contextlib.asynccontextmanager
async def _open_checked_store(settings: Settings) -> AsyncIterator[Store]:
    try:
        store = await open_store(settings.redis_url or None, settings.data_dir)
    except StoreNotAnswering:
        raise
    except WrongStoreVersion as why:
        raise Refusal(str(why), 2) from why
    except StoreUnavailable as why:
        raise Refusal(f"{ENV_PREFIX}REDIS_URL: {why}") from why
    try:
        yield store
    finally:
        await store.aclose()


async def _wait_or_stop(stop: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
