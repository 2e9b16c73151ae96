"""Inventory files of tests, read as the product reads them."""

from pathlib import Path

from tools.inventory.hosts import Inventory, parse_inventory, read_inventory


def inventory_of(path: Path) -> Inventory:
    """The inventory of a file that names no sources."""
    document = read_inventory(path)
    return parse_inventory(document.plain, str(path), document)
