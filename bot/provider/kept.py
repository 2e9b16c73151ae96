"""Tickets of customers' own RackMedics, as their provider keeps them, and the salt under which a customer's site signs names away."""

import secrets
from datetime import timedelta

from redis.asyncio import Redis

from bot.store.keys import Names
from bot.tasks import awaited
from graph.exchange.document import TicketDocument
from graph.exchange.read import read_ticket

UNCLAIMED = timedelta(days=8)
"""How long a document waits for its incident; from then on it lives as long as that."""
SALT_BYTES = 32


class TicketBook:
    """Documents by the ticket that they are of (`TENANT/INCIDENT`); the newest stands for it."""

    def __init__(self, redis: Redis, names: Names | None = None) -> None:
        self._redis, self._names = redis, names or Names()

    async def keep(self, ticket: str, document: TicketDocument) -> None:
        """Before its incident is opened: whoever begins the thread finds it."""
        key = self._names.ticket(ticket)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.set(key, document.canonical(), keepttl=True)
            pipe.expire(key, UNCLAIMED, nx=True)
            await pipe.execute()

    async def adopt(self, ticket: str, incident: str) -> None:
        """It goes with its incident."""
        key = self._names.ticket(ticket)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.sadd(self._names.of(incident, "threads"), key)
            pipe.persist(key)
            await pipe.execute()

    async def document(self, ticket: str) -> TicketDocument | None:
        """None where it is gone."""
        raw = await self._redis.get(self._names.ticket(ticket))
        return read_ticket(raw).document if isinstance(raw, bytes) else None


async def site_salt(redis: Redis, names: Names | None = None) -> bytes:
    """The salt of this site, made when it is first wanted. It leaves neither this Redis nor the process."""
    key = (names or Names()).salt
    await redis.set(key, secrets.token_hex(SALT_BYTES), nx=True)
    return bytes(await awaited(redis.get(key)))
