"""For whom a customer's view is made, of what the inventory says of them. Pure."""

from collections.abc import Iterable

from bot.cards.customers.drivers import with_drivers
from bot.cards.customers.view import CustomerReader, Known
from graph.incident.visible import visible_hosts
from graph.ownership import machines_of
from graph.state import Origin
from kb.customers.words import CustomerWords
from tools.fact import Fact
from tools.inventory.hosts import Inventory


def reader_of(
    inventory: Inventory, words: CustomerWords, origin: Origin, language: str, known: Known, facts: Iterable[Fact]
) -> CustomerReader:
    """The customer of an incident: their own hosts by their own names, and whose the others are not told."""
    own = frozenset(visible_hosts(inventory, origin))
    names = {host: inventory.hosts[host].called for host in own}
    nodes = machines_of(inventory, own).nodes
    return CustomerReader(own, words, language, with_drivers(known, facts, own), frozenset(inventory.workers) - own, names, nodes)
