"""Inventory files of tests, read as the product reads them."""

from pathlib import Path
from typing import Any

from tools.inventory.inventory import Inventory, parse_inventory, read_inventory


def inventory_of(path: Path) -> Inventory:
    """The inventory of a file that names no sources."""
    document = read_inventory(path)
    return parse_inventory(document.plain, str(path), document)


SITE: dict[str, Any] = {
    "defaults": {"kit": True, "sku": "small"},
    "groups": {"g": {"hosts": "n[1-4]", "controller": "ctl"}, "bare": {"hosts": "m[1-2]"}, "ctl": {"hosts": "ctl"}},
    "channels": [{"channel": "C0OPS", "kind": "operators", "groups": ["g", "bare"], "approvers": "S0APPROVE"}],
}
"""Where most stories play: nodes of a group with a controller, two nodes without one, and a channel of the operators."""


def inventory(**parts: Any) -> Inventory:
    """That site, with `parts` in place of what is written there under these names."""
    return parse_inventory(SITE | parts)
