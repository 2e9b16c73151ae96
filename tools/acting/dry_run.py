"""What an action would meet if it began now, for the card and for `rackmedic dry-run`. Reads only and promises nothing: everything is read
again at the start.
"""

import asyncio
from collections.abc import Sequence

from tools.acting.conditions import ConditionSeen, see
from tools.acting.kit import KitState, current_version, kit_of
from tools.action import Action, Condition
from tools.checks.kernel import BOOT_ID
from tools.inventory.hosts import Inventory
from tools.transport import Transport

SECONDS = 10.0
"""No card is kept waiting longer for a host that does not answer."""


async def dry_run(action: Action, transport: Transport, inventory: Inventory) -> Sequence[ConditionSeen]:
    """`preview` within the time that a card can wait; what has not answered by then could not be looked at."""
    target = inventory.hosts.get(action.target)
    try:
        async with asyncio.timeout(SECONDS):
            return await preview(action, transport, controller=target.controller if target else "")
    except TimeoutError:
        return [ConditionSeen(one.says, None, f"no answer within {SECONDS:.0f} s") for one in action.conditions]


async def preview(action: Action, transport: Transport, *, controller: str = "") -> list[ConditionSeen]:
    """Every condition of the action as it is now; before them whether the host still runs the boot that was looked at, and what is wrong
    with its node kit where something is. `controller` is where Slurm is asked; without one it is asked via the action's own host.
    """
    if not action.boot_id:
        return list(await asyncio.gather(*(_see(one, action, transport, controller) for one in action.conditions)))
    kit, *seen = await asyncio.gather(
        kit_of(action.via, transport),
        *(_see(one, action, transport, controller) for one in (_same_boot(action), *action.conditions)),
    )
    assert isinstance(kit, KitState)
    rows = [row for row in seen if isinstance(row, ConditionSeen)]
    return [*rows[:1], *_trouble(kit), *rows[1:]]


async def _see(condition: Condition, action: Action, transport: Transport, controller: str) -> ConditionSeen:
    return await see(condition, action.via if condition.kind == "node" else controller or action.via, transport)


def _same_boot(action: Action) -> Condition:
    return Condition("node", "not booted since it was looked at", BOOT_ID, action.boot_id)


def _trouble(kit: KitState) -> list[ConditionSeen]:
    """An older kit may refuse the action, or do it as it was done then; without one nothing runs. A host that cannot be asked says so already."""
    if kit.state == "older":
        return [ConditionSeen("its node kit is this RackMedic's", False, f"version {kit.version}, not {current_version()}")]
    return [ConditionSeen("its node kit can be used", False, kit.says)] if kit.state == "missing" else []
