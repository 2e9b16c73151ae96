"""A stored incident as a ticket document that may leave the site."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from redis.asyncio import Redis

from bot.provider.ticket_store import load_or_create_site_salt
from graph.incident_view import IncidentView
from graph.state_reader import IncidentStateReader
from graph.ticket_export.build import ExportPrivacy, build_ticket_document
from graph.ticket_export.document import TicketDocument
from graph.ticket_export.public_catalogues import load_public_chunks
from tools.clock import Clock
from tools.evidence import EvidenceStore
from tools.fact import Fact
from tools.inventory.inventory import Inventory

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
