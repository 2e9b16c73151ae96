"""The ticket of a stored incident, as it may leave this site."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from redis.asyncio import Redis

from bot.provider.kept import site_salt
from graph.exchange.build import Secrecy, build_ticket
from graph.exchange.document import TicketDocument
from graph.exchange.public import packaged
from graph.rows import IncidentRows
from graph.stored import StoredIncidents
from tools.clock import Clock
from tools.evidence import EvidenceStore
from tools.fact import Fact
from tools.inventory.hosts import Inventory

public_chunks_once = cache(packaged)
"""Half a second of reading, done once by a process that needs it."""


class NothingKnown(Exception):
    """There is no such incident, or nothing was found out about it yet."""


@dataclass(frozen=True, slots=True)
class MadeTicket:
    """The document; `facts_kept` is false where the facts behind it are not kept any more, or not here."""

    document: TicketDocument
    facts_kept: bool = True


async def ticket_document(redis: Redis, evidence: EvidenceStore, inventory: Inventory, incident: str, clock: Clock) -> MadeTicket:
    """Raises NothingKnown."""
    state = await StoredIncidents(redis).state(incident)
    if not state:
        raise NothingKnown(f"{incident}: no such incident here, or nothing was looked at yet; its card shows its id")
    facts, kept = await _facts(evidence, state.get("facts", ""))
    secrecy = Secrecy(await site_salt(redis), public_chunks_once(), tuple(private_names(inventory)))
    return MadeTicket(build_ticket(IncidentRows(state), facts, secrecy, clock.now()), kept)


async def _facts(evidence: EvidenceStore, digest: str) -> tuple[list[Fact], bool]:
    try:
        return (await evidence.facts(digest) if digest else []), True
    except KeyError:
        return [], False


def private_names(inventory: Inventory) -> Iterator[str]:
    """Names of a site's own: its hosts (those in question are let through by name), how they are reached, switches, controllers, tenants."""
    for host in inventory.hosts.values():
        yield from (name for name in (host.name, host.address, host.jump, host.controller, host.leaf, host.tenant) if name)
