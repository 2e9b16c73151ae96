"""Ending asyncio tasks for certain."""

import asyncio
from typing import Any

AGAIN_AFTER = 0.5


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel the tasks until they are done, and forget how they ended.

    Once is not enough: on Python 3.11 a cancellation that meets an answer just arriving from Redis is swallowed
    (seen with redis-py and fakeredis), and the task goes on."""
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=AGAIN_AFTER)
    await asyncio.gather(*tasks, return_exceptions=True)
