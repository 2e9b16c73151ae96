"""Received ticket documents, and the salt of name signatures."""

import secrets
from datetime import timedelta

from redis.asyncio import Redis

from bot.store.keys import RedisKeys
from bot.tasks import to_coroutine
from graph.ticket_export.document import TicketDocument
from graph.ticket_export.ticket_parser import parse_ticket

UNCLAIMED_RETENTION = timedelta(days=8)  # of a document without incident; then it lives as long as its incident
SALT_BYTES = 32


class TicketStore:
    """The newest document per `TENANT/INCIDENT`."""

    def __init__(self, redis: Redis, names: RedisKeys | None = None) -> None:
        self._redis, self._names = redis, names or RedisKeys()

    async def store_document(self, ticket: str, document: TicketDocument) -> None:
        """Store before the incident opens, so that its thread finds it."""
        key = self._names.ticket_key(ticket)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.set(key, document.to_canonical_bytes(), keepttl=True)
            pipe.expire(key, UNCLAIMED_RETENTION, nx=True)
            await pipe.execute()

    async def attach_to_incident(self, ticket: str, incident: str) -> None:
        """Tie the document's lifetime to its incident."""
        key = self._names.ticket_key(ticket)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.sadd(self._names.incident_key(incident, "threads"), key)
            pipe.persist(key)
            await pipe.execute()

    async def load_document(self, ticket: str) -> TicketDocument | None:
        raw = await self._redis.get(self._names.ticket_key(ticket))
        return parse_ticket(raw).document if isinstance(raw, bytes) else None


async def load_or_create_site_salt(redis: Redis, names: RedisKeys | None = None) -> bytes:
    """Return the salt, created on first use. It never leaves Redis and the process."""
    key = (names or RedisKeys()).salt
    await redis.set(key, secrets.token_hex(SALT_BYTES), nx=True)
    return bytes(await to_coroutine(redis.get(key)))
