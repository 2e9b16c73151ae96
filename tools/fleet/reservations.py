"""Reservations of a host's GPUs for a check: one holder per host, with expiry in case it dies."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol


class GpuReservations(Protocol):
    """A reservation expires after `seconds`."""

    async def reserve_host(self, host: str, seconds: float) -> str | None:
        """Return a token; None if the host is reserved."""
        ...

    async def release_host(self, host: str, token: str) -> None:
        """Release the host; a stale token changes nothing."""
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
