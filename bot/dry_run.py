"""What an action's conditions look like before anybody decides. Reading changes nothing, and promises nothing: all are read again at the start."""

import asyncio
from collections.abc import Sequence

from tools.action import Action, Condition
from tools.conditions import ConditionSeen, see
from tools.inventory import Inventory
from tools.transport import Transport

SECONDS = 10.0
"""No card is kept waiting longer for a host that does not answer."""


async def dry_run(action: Action, transport: Transport, inventory: Inventory) -> Sequence[ConditionSeen]:
    """Every condition as it is now, and whether the host still runs the boot that was looked at."""
    target = inventory.hosts.get(action.target)
    controller = (target.controller if target else "") or action.via
    boot = Condition("node", "the host has not booted since it was looked at", ("cat", "/proc/sys/kernel/random/boot_id"), action.boot_id)
    asked = [*([boot] if action.boot_id else []), *action.conditions]
    try:
        async with asyncio.timeout(SECONDS):
            return await asyncio.gather(*(see(one, action.via if one.kind == "node" else controller, transport) for one in asked))
    except TimeoutError:
        return [ConditionSeen(one.says, None, f"no answer within {SECONDS:.0f} s") for one in asked]
