"""Bounds the wait for Redis, and turns its absence into one exception."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from redis.exceptions import OutOfMemoryError, ReadOnlyError, RedisError, ResponseError

STORE_TIMEOUT_SECONDS: Final = 2.0  # Slack waits three seconds for an acknowledgement


class StoreUnreachable(Exception):
    """What happened could not be noted down."""


@asynccontextmanager
async def guard_store(seconds: float = STORE_TIMEOUT_SECONDS) -> AsyncIterator[None]:
    """Turn Redis trouble into StoreUnreachable, in time to tell Slack. Other Redis error replies are bugs and pass."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except (TimeoutError, OSError) as error:
        raise StoreUnreachable from error
    except RedisError as error:
        if isinstance(error, ResponseError) and not isinstance(error, OutOfMemoryError | ReadOnlyError):
            raise
        raise StoreUnreachable from error
