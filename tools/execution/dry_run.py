"""Dry run of an action, for the card and `rackmedic dry-run`. Advisory: everything is read again at the start."""

import asyncio
from collections.abc import Sequence

from tools.action import Action, Condition
from tools.checks.kernel import BOOT_ID
from tools.execution.conditions import ConditionResult, read_condition
from tools.execution.kit import KitState, get_current_kit_version, read_kit_state
from tools.inventory.inventory import Inventory
from tools.transport import Transport

DRY_RUN_TIMEOUT_SECONDS = 10.0  # longest that a card waits for a host


async def dry_run(action: Action, transport: Transport, inventory: Inventory) -> Sequence[ConditionResult]:
    """Run `preview_conditions` within the card's time limit; on timeout all conditions are unobserved."""
    target = inventory.hosts.get(action.target)
    try:
        async with asyncio.timeout(DRY_RUN_TIMEOUT_SECONDS):
            return await preview_conditions(action, transport, controller=target.controller if target else "")
    except TimeoutError:
        return [
            ConditionResult(condition.says, None, f"no answer within {DRY_RUN_TIMEOUT_SECONDS:.0f} s") for condition in action.conditions
        ]


async def preview_conditions(action: Action, transport: Transport, *, controller: str = "") -> list[ConditionResult]:
    """Return the boot check, node kit problems and every condition as they are now.

    Without `controller`, Slurm is asked via the action's own host.
    """
    if not action.boot_id:
        return list(
            await asyncio.gather(*(_read_action_condition(condition, action, transport, controller) for condition in action.conditions))
        )
    kit, *results = await asyncio.gather(
        read_kit_state(action.via, transport),
        *(
            _read_action_condition(condition, action, transport, controller)
            for condition in (_build_boot_condition(action), *action.conditions)
        ),
    )
    assert isinstance(kit, KitState)
    condition_results = [result for result in results if isinstance(result, ConditionResult)]
    return [*condition_results[:1], *_list_kit_problems(kit), *condition_results[1:]]


async def _read_action_condition(condition: Condition, action: Action, transport: Transport, controller: str) -> ConditionResult:
    return await read_condition(condition, action.via if condition.kind == "node" else controller or action.via, transport)


def _build_boot_condition(action: Action) -> Condition:
    return Condition("node", "not booted since it was looked at", BOOT_ID, action.boot_id)


def _list_kit_problems(kit: KitState) -> list[ConditionResult]:
    """Return an old or missing kit as a condition that fails. An unreachable host already shows in the other results."""
    if kit.state == "older":
        return [ConditionResult("its node kit is this RackMedic's", False, f"version {kit.version}, not {get_current_kit_version()}")]
    return [ConditionResult("its node kit can be used", False, kit.says)] if kit.state == "missing" else []
