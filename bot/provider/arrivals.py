"""A ticket of a customer's own RackMedic → an incident of ours, once. What it says is evidence of low trust: our own looks decide."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from bot.desk.inbox import Inbox
from bot.policy.channels import operators_channels
from bot.provider.kept import TicketBook
from bot.refusal import Refusal
from graph.exchange.document import TicketDocument
from graph.exchange.evidence import evidence_of, words_of
from graph.state import CUSTOMER, SIDE, Item, ItemKind, Origin
from tools.clock import Clock
from tools.inventory.hosts import Inventory

TOLD_BY = "provider_link"
"""Who speaks in an item that a ticket made."""


class NoPlace(Refusal):
    """The inventory does not say where this tenant's incidents are worked on."""


@dataclass(frozen=True, slots=True)
class ArrivedTicket:
    """Our incident for a ticket; `again`: nothing was new. `opened`: it is the first of it."""

    incident: str
    opened: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Opens incidents from tickets."""

    inbox: Inbox
    book: TicketBook
    inventory: Inventory
    clock: Clock

    async def take_in(self, tenant: str, document: TicketDocument) -> ArrivedTicket:
        """The same document twice is one; a newer one of the same ticket is news for its incident. Raises NoPlace."""
        ticket = ticket_of(tenant, document.incident)
        origin = Origin(kind="slack", channel=channel_of(self.inventory, tenant), tenant=tenant, ticket=ticket)
        known = await self.inbox.find(*origin.door)
        key = f"{ticket}:{digest_of(document)}"
        if known is None or not await self.inbox.heard(key):
            await self.book.keep(ticket, document)
        make = partial(self._item, document, key, "reply" if known else "mention")
        received = await self.inbox.open(origin, key, make)
        await self.book.adopt(ticket, received.incident)
        return ArrivedTicket(received.incident, received.opened, received.duplicate)

    def _item(self, document: TicketDocument, key: str, kind: ItemKind, incident: str) -> Item:
        return Item(
            id=key,
            kind=kind,
            incident=incident,
            at=self.clock.now(),
            user=TOLD_BY,
            text=words_of(document),
            data={**evidence_of(document), SIDE: CUSTOMER},
        )


def ticket_of(tenant: str, incident: str) -> str:
    """What a customer's ticket is called here."""
    return f"{tenant}/{incident}"


def digest_of(document: TicketDocument) -> str:
    """Of all that it says but when it was written down."""
    return hashlib.sha256(document.model_dump_json(exclude={"made"}).encode()).hexdigest()


def channel_of(inventory: Inventory, tenant: str) -> str:
    """The operators' channel in which a tenant's incidents live: that of their own channel, else one that speaks of their hosts. Raises NoPlace."""
    if tenant not in tenants_of(inventory):
        raise NoPlace(f"no host of the inventory belongs to tenant {tenant!r}: known are {', '.join(tenants_of(inventory)) or 'none'}", 2)
    bound = {row.channel: row for row in inventory.channels}
    ours = operators_channels(bound)
    for row in inventory.channels:
        if row.kind == "tenant" and row.tenant == tenant and row.internal in ours:
            return row.internal
    for channel in ours:
        if any(inventory.hosts[name].tenant == tenant for name in inventory.of_groups(bound[channel].groups)):
            return channel
    raise NoPlace(f"no operators' channel of the inventory speaks of the hosts of tenant {tenant!r}", 2)


def tenants_of(inventory: Inventory) -> tuple[str, ...]:
    """Everybody who has hosts."""
    return _sorted(host.tenant for host in inventory.hosts.values())


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({name for name in names if name}))
