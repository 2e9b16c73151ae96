"""Access to the Redis of `rackmedic serve`."""

import contextlib
from collections.abc import AsyncIterator

from bot.refusal import Refusal
from bot.settings import ENV_PREFIX, Settings
from bot.store.store import Store, StoreUnavailable, WrongStoreVersion, open_store


@contextlib.asynccontextmanager
async def open_persistent_store(settings: Settings, what: str) -> AsyncIterator[Store]:
    """Open the store. Raises Refusal if it is in memory only."""
    try:
        store = await open_store(settings.redis_url or None, settings.data_dir)
    except WrongStoreVersion as error:
        raise Refusal(str(error), 2) from error
    except StoreUnavailable as error:
        raise Refusal(f"{ENV_PREFIX}REDIS_URL: {error}") from error
    try:
        if store.is_memory_only:
            raise Refusal(f"there is no Redis with {what} here: set {ENV_PREFIX}REDIS_URL to the one that `rackmedic serve` uses")
        yield store
    finally:
        await store.aclose()
