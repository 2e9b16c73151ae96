"""An event loop with virtual time, and Slack's rate limits by that time."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class VirtualLoop(asyncio.SelectorEventLoop):
    """Skip waiting times: time jumps to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0

    def time(self) -> float:
        return self.passed

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]  # asyncio's own, untyped
            self.passed = max(self.passed, self._scheduled[0]._when)  # type: ignore[attr-defined]  # likewise
        super()._run_once()  # type: ignore[misc]  # likewise


def virtually(work: Coroutine[Any, Any, Any]) -> None:
    """Run to the end in virtual time."""
    loop = VirtualLoop()
    try:
        loop.run_until_complete(work)
    finally:
        loop.close()


class Tier:
    """A Slack rate limit: a token bucket, and Retry-After once it is empty."""

    def __init__(self, per_minute: float) -> None:
        self.per_second = per_minute / 60
        self.left = per_minute
        self.at = 0.0
        self.refused = 0
        self.most = per_minute

    def wait(self) -> float:
        now = asyncio.get_running_loop().time()
        self.left, self.at = min(self.most, self.left + (now - self.at) * self.per_second), now
        if self.left < 1:
            self.refused += 1
            return float(-(-(1 - self.left) // self.per_second) or 1)
        self.left -= 1
        return 0.0
