"""Renew a lease from a thread with its own connection, so that a busy event loop does not lose it. A loop that hangs
for good does.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog
from redis import Redis
from redis.exceptions import RedisError

log = structlog.get_logger()
MAX_LOOP_STALL_SECONDS = 300.0  # bounded work ends long before


@dataclass(slots=True)
class _LoopWatchdog:
    loop: asyncio.AbstractEventLoop
    moved: float = field(default_factory=time.monotonic)

    def is_responsive(self) -> bool:
        """Return whether the loop ran lately, and schedule its next heartbeat."""
        self.loop.call_soon_threadsafe(self._record_heartbeat)
        return time.monotonic() - self.moved < MAX_LOOP_STALL_SECONDS

    def _record_heartbeat(self) -> None:
        self.moved = time.monotonic()


@dataclass(frozen=True, slots=True)
class LeaseRenewer:
    """`script` returns 0 where the lease is lost; `seconds` is its TTL."""

    url: str
    script: str
    seconds: float

    async def renew_until_lost(self, incident: str, keys: Sequence[str], args: Callable[[], Sequence[str | int]]) -> None:
        """Renew until the lease is lost or can no longer be shown to be held."""
        mine = _LoopWatchdog(asyncio.get_running_loop())
        stop, over = threading.Event(), asyncio.Event()

        def work() -> None:
            try:
                self._renew_in_thread(incident, keys, args, mine, stop)
            finally:
                if not stop.is_set():
                    mine.loop.call_soon_threadsafe(over.set)

        threading.Thread(target=work, name=f"lease of {incident}", daemon=True).start()
        try:
            await over.wait()
        finally:
            stop.set()

    def _renew_in_thread(
        self, incident: str, keys: Sequence[str], args: Callable[[], Sequence[str | int]], mine: _LoopWatchdog, stop: threading.Event
    ) -> None:
        shown = time.monotonic()
        with Redis.from_url(self.url, socket_timeout=self.seconds / 4, socket_connect_timeout=self.seconds / 4) as client:
            while time.monotonic() - shown < self.seconds * 0.8 and not stop.wait(self.seconds / 4):
                if not mine.is_responsive():
                    log.error("lease.loop_stands_still", incident=incident)
                    return
                try:
                    if not client.eval(self.script, len(keys), *keys, *args()):
                        return
                except RedisError as error:
                    log.warning("lease.renewal_failed", incident=incident, error=str(error))
                else:
                    shown = time.monotonic()
