"""A checkpoint saver whose process dies at a chosen checkpoint: the previous node's writes are stored, the checkpoint
is not.
"""

from typing import Any

from redis.asyncio import Redis

from graph.checkpoints.checkpoint import RedisSaver
from tests.support.fakes_graph import Killed


class DyingSaver(RedisSaver):
    """Die once instead of saving checkpoint number `after`. `died` tells whether it happened."""

    def __init__(self, redis: Redis, after: int) -> None:
        super().__init__(redis)
        self._left = after
        self.died = False

    async def aput(self, *given: Any, **named: Any) -> Any:
        self._left -= 1
        if self._left < 0 and not self.died:
            self.died = True
            raise Killed(f"at checkpoint {-self._left}")
        return await super().aput(*given, **named)
