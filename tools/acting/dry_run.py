"""What an action's conditions look like before anybody decides, in the time that a card can wait. Reading changes nothing."""

import asyncio
from collections.abc import Sequence

from tools.acting.conditions import ConditionSeen
from tools.acting.dryrun_ import preview
from tools.action import Action
from tools.inventory.hosts import Inventory
from tools.transport import Transport

SECONDS = 10.0
"""No card is kept waiting longer for a host that does not answer."""


async def dry_run(action: Action, transport: Transport, inventory: Inventory) -> Sequence[ConditionSeen]:
    """Every condition as it is now, whether the host still runs the boot that was looked at, and what is wrong with its node kit."""
    target = inventory.hosts.get(action.target)
    try:
        async with asyncio.timeout(SECONDS):
            return await preview(action, transport, controller=target.controller if target else "")
    except TimeoutError:
        return [ConditionSeen(one.says, None, f"no answer within {SECONDS:.0f} s") for one in action.conditions]
