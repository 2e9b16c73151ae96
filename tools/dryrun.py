"""What an action would meet if it began now. Reads only; for `--dry-run` and for the card."""

from tools.action import Action, Condition
from tools.conditions import ConditionSeen, see
from tools.transport import Transport

BOOT_ID = ("cat", "/proc/sys/kernel/random/boot_id")


async def preview(action: Action, transport: Transport, *, controller: str = "") -> list[ConditionSeen]:
    """Every condition of the action as it is now, and first whether the host still runs the boot that was looked at.

    `controller` is where Slurm is asked; without one it is asked via the action's own host.
    """
    seen = [await see(_same_boot(action), action.via, transport)] if action.boot_id else []
    for condition in action.conditions:
        host = action.via if condition.kind == "node" else controller or action.via
        seen.append(await see(condition, host, transport))
    return seen


def _same_boot(action: Action) -> Condition:
    return Condition("node", "the host has not booted since it was looked at", BOOT_ID, action.boot_id)
