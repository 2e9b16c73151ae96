"""Ticket documents: those received, and a stored incident as one that may leave the site."""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cache

from redis.asyncio import Redis

from bot.store.keys import RedisKeys
from bot.tasks import to_coroutine
from graph.incident_view import IncidentView
from graph.state_reader import IncidentStateReader
from graph.ticket_export.document import TicketDocument
from graph.ticket_export.document_builder import ExportPrivacy, build_ticket_document, load_public_chunks
from graph.ticket_export.received_ticket import parse_ticket
from tools.clock import Clock
from tools.evidence import EvidenceStore
from tools.fact import Fact
from tools.inventory.inventory import Inventory

# Received ticket documents, and the salt of name signatures.

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


# A stored incident as a ticket document that may leave the site.

get_public_chunks = cache(load_public_chunks)  # takes half a second, so cached per process


class IncidentNotFound(Exception):
    """There is no such incident, or it was not checked yet."""


@dataclass(frozen=True, slots=True)
class BuiltTicket:
    """`facts_kept` is False if the facts are no longer stored here."""

    document: TicketDocument
    facts_kept: bool = True


async def build_incident_ticket(redis: Redis, evidence: EvidenceStore, inventory: Inventory, incident: str, clock: Clock) -> BuiltTicket:
    """Build the document. Raises IncidentNotFound."""
    state = await IncidentStateReader(redis).load_state(incident)
    if not state:
        raise IncidentNotFound(f"{incident}: no such incident here, or it was not checked yet; its card shows its id")
    facts, has_facts = await _load_facts(evidence, state.get("facts", ""))
    secrecy = ExportPrivacy(await load_or_create_site_salt(redis), get_public_chunks(), tuple(list_private_names(inventory)))
    return BuiltTicket(build_ticket_document(IncidentView(state), facts, secrecy, clock.now()), has_facts)


async def _load_facts(evidence: EvidenceStore, digest: str) -> tuple[list[Fact], bool]:
    try:
        return (await evidence.get_facts(digest) if digest else []), True
    except KeyError:
        return [], False


def list_private_names(inventory: Inventory) -> Iterator[str]:
    """Yield the site's own names, which the export signs away (affected hosts are exempt there)."""
    for host in inventory.hosts.values():
        yield from (name for name in (host.name, host.address, host.jump, host.controller, host.leaf, host.tenant) if name)
