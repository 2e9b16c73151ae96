"""What `rackmedic serve` keeps in Redis, as a command of the same settings finds it."""

import contextlib
from collections.abc import AsyncIterator

from bot.refusal import Refusal
from bot.settings import ENV_PREFIX, Settings
from bot.store.store import Store, StoreUnavailable, WrongStoreVersion, open_store


@contextlib.asynccontextmanager
async def open_persistent_store(settings: Settings, what: str) -> AsyncIterator[Store]:
    """The store; Refusal, naming `what` was looked for, where there is none that outlives this command."""
    try:
        store = await open_store(settings.redis_url or None, settings.data_dir)
    except WrongStoreVersion as why:
        raise Refusal(str(why), 2) from why
    except StoreUnavailable as why:
        raise Refusal(f"{ENV_PREFIX}REDIS_URL: {why}") from why
    try:
        if store.is_memory_only:
            raise Refusal(f"there is no Redis with {what} here: set {ENV_PREFIX}REDIS_URL to the one that `rackmedic serve` uses")
        yield store
    finally:
        await store.aclose()
