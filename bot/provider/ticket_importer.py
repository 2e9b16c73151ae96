"""Turns a tenant's ticket into one incident. It is evidence of low trust: own checks decide."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from bot.incidents.dispatch.inbox import Inbox
from bot.policy.channels import list_operator_channels
from bot.provider.ticket_documents import TicketStore
from bot.refusal import Refusal
from graph.state import SIDE_KEY, TENANT_SIDE, InboxItem, InboxItemKind, Origin
from graph.ticket_export.document import TicketDocument
from graph.ticket_export.received_ticket import build_item_data, build_report_text
from tools.clock import Clock
from tools.inventory.inventory import Inventory

PROVIDER_LINK_USER = "provider_link"  # author of items made from tickets


class NoOperatorChannel(Refusal):
    """The inventory does not say where this tenant's incidents are worked on."""


@dataclass(frozen=True, slots=True)
class ImportedTicket:
    """`opened`: by this ticket; `again`: nothing new."""

    incident: str
    opened: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True)
class TicketImporter:
    inbox: Inbox
    book: TicketStore
    inventory: Inventory
    clock: Clock

    async def import_ticket(self, tenant: str, document: TicketDocument) -> ImportedTicket:
        """Import a document once; a newer one becomes a reply. Raises NoOperatorChannel."""
        ticket = build_ticket_id(tenant, document.incident)
        origin = Origin(kind="slack", channel=find_operator_channel(self.inventory, tenant), tenant=tenant, ticket=ticket)
        incident = await self.inbox.find_incident(*origin.source_key)
        key = f"{ticket}:{hash_document(document)}"
        if incident is None or not await self.inbox.is_already_stored(key):
            await self.book.store_document(ticket, document)
        make = partial(self._build_item, document, key, "reply" if incident else "mention")
        received = await self.inbox.open_or_join(origin, key, make)
        await self.book.attach_to_incident(ticket, received.incident)
        return ImportedTicket(received.incident, received.opened, received.duplicate)

    def _build_item(self, document: TicketDocument, key: str, kind: InboxItemKind, incident: str) -> InboxItem:
        return InboxItem(
            id=key,
            kind=kind,
            incident=incident,
            at=self.clock.now(),
            user=PROVIDER_LINK_USER,
            text=build_report_text(document),
            data={**build_item_data(document), SIDE_KEY: TENANT_SIDE},
        )


def build_ticket_id(tenant: str, incident: str) -> str:
    return f"{tenant}/{incident}"


def hash_document(document: TicketDocument) -> str:
    """Hash all but the creation time."""
    return hashlib.sha256(document.model_dump_json(exclude={"made"}).encode()).hexdigest()


def find_operator_channel(inventory: Inventory, tenant: str) -> str:
    """Return the channel bound to the tenant's, else one that covers its hosts. Raises NoOperatorChannel."""
    if tenant not in list_tenants(inventory):
        raise NoOperatorChannel(
            f"no host of the inventory belongs to tenant {tenant!r}: known are {', '.join(list_tenants(inventory)) or 'none'}", 2
        )
    bound = {row.channel: row for row in inventory.channels}
    operator_channels = list_operator_channels(bound)
    for row in inventory.channels:
        if row.kind == "tenant" and row.tenant == tenant and row.internal in operator_channels:
            return row.internal
    for channel in operator_channels:
        if any(inventory.hosts[name].tenant == tenant for name in inventory.list_group_hosts(bound[channel].groups)):
            return channel
    raise NoOperatorChannel(f"no operators' channel of the inventory speaks of the hosts of tenant {tenant!r}", 2)


def list_tenants(inventory: Inventory) -> tuple[str, ...]:
    """Return tenants that own hosts, sorted."""
    return _sort_names(host.tenant for host in inventory.hosts.values())


def _sort_names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({name for name in names if name}))
