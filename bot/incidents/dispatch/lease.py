"""One worker per incident: a Redis lease with a fencing token.

A worker that cannot show that it holds the lease stops; its later writes are refused (`graph.checkpoints.fence`).
"""

import asyncio
import os
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any, TypeVar

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from bot.incidents.dispatch import lua_scripts as scripts
from bot.incidents.dispatch.lease_renewer import LeaseRenewer
from bot.store.keys import RedisKeys
from bot.tasks import cancel_tasks
from graph.checkpoints.fence import Fence, LostLease, enforce_fence
from tools.clock import Clock

T = TypeVar("T")
log = structlog.get_logger()


def generate_worker_id() -> str:
    return f"{socket.gethostname()}.{os.getpid()}.{secrets.token_hex(4)}"


class Leases:
    """`seconds`: TTL without renewal. `url`: for renewal by a thread, which a busy event loop cannot delay."""

    def __init__(
        self,
        redis: Redis,
        clock: Clock,
        *,
        owner: str | None = None,
        seconds: float = 30.0,
        names: RedisKeys | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        url: str | None = None,
    ) -> None:
        self.beside = LeaseRenewer(url, scripts.RENEW_LEASE_SCRIPT, seconds) if url else None
        self.seconds = seconds
        self.names = names or RedisKeys()
        self.clock = clock
        self.pause = pause
        self.owner = owner or generate_worker_id()
        self.renew = redis.register_script(scripts.RENEW_LEASE_SCRIPT)
        self.release = redis.register_script(scripts.RELEASE_LEASE_SCRIPT)
        self._take = redis.register_script(scripts.ACQUIRE_LEASE_SCRIPT)

    async def acquire(self, incident: str) -> "Lease | None":
        keys = [self.names.lease_key(incident), self.names.fence, self.names.due]
        token = await self._take(keys=keys, args=[self.owner, self.milliseconds, incident, self.get_stale_score()])
        return Lease(self, incident, token.decode()) if token else None

    @property
    def milliseconds(self) -> int:
        return int(self.seconds * 1000)

    def get_stale_score(self) -> str:
        """Return when the sweeper checks on this worker."""
        return f"{(self.clock.now() + timedelta(seconds=self.seconds)).timestamp():.3f}"


class Lease:
    """A held lease on one incident."""

    def __init__(self, leases: Leases, incident: str, token: str) -> None:
        self.incident = incident
        self.token = token
        self.held = True
        self._leases = leases
        self._key = leases.names.lease_key(incident)

    async def guard(self, work: Coroutine[Any, Any, T], stopping: Callable[[], bool] = lambda: False) -> T:
        """Run `work` fenced, while renewing. If the lease is lost, cancel it and raise LostLease."""
        keeper = asyncio.create_task(self._renew_in_thread(self._leases.beside) if self._leases.beside else self._renew_until_lost())
        with enforce_fence(Fence(self._key, self.token, stopping)):
            task = asyncio.create_task(work)  # after the keeper: the work itself may block the loop
        try:
            await asyncio.wait({task, keeper}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            self.held = False
            raise LostLease(f"{self.incident}: the lease {self.token} ran out or was taken")
        finally:
            await cancel_tasks(task, keeper)

    async def release(self, *, again_at: datetime | None = None) -> bool:
        """Return False where items wait and the lease is kept; with `again_at` release it anyway."""
        when = "" if again_at is None else f"{again_at.timestamp():.3f}"
        names = self._leases.names
        keys = [self._key, names.due, names.incident_key(self.incident, "inbox")]
        done = await self._leases.release(keys=keys, args=[self.token, "", self.incident, when])
        self.held = done == 0
        return not self.held

    async def _renew_until_lost(self) -> None:
        shown = time.monotonic()
        while time.monotonic() - shown < self._leases.seconds * 0.8:
            await self._leases.pause(self._leases.seconds / 4)
            try:
                if not await self._renew_once():
                    return
            except RedisError as error:
                log.warning("lease.renewal_failed", incident=self.incident, error=str(error))
            else:
                shown = time.monotonic()

    async def _renew_in_thread(self, beside: LeaseRenewer) -> None:
        await beside.renew_until_lost(self.incident, self._get_renewal_keys(), self._get_renewal_args)

    async def _renew_once(self) -> bool:
        return bool(await self._leases.renew(keys=self._get_renewal_keys(), args=self._get_renewal_args()))

    def _get_renewal_keys(self) -> list[str]:
        return [self._key, self._leases.names.due]

    def _get_renewal_args(self) -> list[str | int]:
        return [self.token, self._leases.milliseconds, self.incident, self._leases.get_stale_score()]
