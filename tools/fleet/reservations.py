"""Who holds a host for a check that needs its GPUs: one holder a host, and a holder that dies loses it by itself."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol


class GpuReservations(Protocol):
    """Who holds a host for a check. A holder that dies loses it after `seconds`."""

    async def reserve_host(self, host: str, seconds: float) -> str | None:
        """A token, or None while somebody else holds the host."""
        ...

    async def release_host(self, host: str, token: str) -> None:
        """Give it back; a token that is not the holder's any more changes nothing."""
        ...


@dataclass(slots=True)
class LocalGpuReservations:
    """For one process."""

    clock: Callable[[], float] = time.monotonic
    _held: dict[str, tuple[str, float]] = field(default_factory=dict)

    async def reserve_host(self, host: str, seconds: float) -> str | None:
        now = self.clock()
        if host in self._held and self._held[host][1] > now:
            return None
        token = secrets.token_hex(8)
        self._held[host] = (token, now + seconds)
        return token

    async def release_host(self, host: str, token: str) -> None:
        if host in self._held and self._held[host][0] == token:
            del self._held[host]
