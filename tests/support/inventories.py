"""Inventories for tests, parsed as in production."""

from pathlib import Path
from typing import Any

from tools.inventory.inventory import Inventory, parse_inventory, read_inventory


def inventory_of(path: Path) -> Inventory:
    """Return the inventory of a file without sources."""
    document = read_inventory(path)
    return parse_inventory(document.plain, str(path), document)


# default site: nodes with a controller, two nodes without, and an operators' channel
SITE: dict[str, Any] = {
    "defaults": {"kit": True, "sku": "small"},
    "groups": {"g": {"hosts": "n[1-4]", "controller": "ctl"}, "bare": {"hosts": "m[1-2]"}, "ctl": {"hosts": "ctl"}},
    "channels": [{"channel": "C0OPS", "kind": "operators", "groups": ["g", "bare"], "approvers": "S0APPROVE"}],
}


def inventory(**parts: Any) -> Inventory:
    """Return SITE with `parts` replaced."""
    return parse_inventory(SITE | parts)
