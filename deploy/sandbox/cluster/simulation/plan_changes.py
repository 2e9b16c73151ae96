"""Events as functions from plan to plan: a job run starts, a machine goes down or comes up, faults are healed."""

import math
from dataclasses import replace
from typing import Any

from deploy.sandbox.cluster.faults import FAULTS
from deploy.sandbox.cluster.plan import ActionKind, InjectedFault, MachineAction, Plan
from deploy.sandbox.cluster.simulation import remedies

KEPT_ACTIONS = ("boot",)  # deeds that healing keeps, because a boot id never returns


def add_action(plan: Plan, what: ActionKind, node: str, at: float, **args: Any) -> Plan:
    return replace(plan, actions=(*plan.actions, MachineAction(what, node, at, args)))


def is_down(plan: Plan, name: str) -> bool:
    power = [action.what for action in plan.actions if action.node == name and action.what in ("down", "boot")]
    return power[-1:] == ["down"]


def boot_machine(plan: Plan, name: str, at: float, scale: float) -> Plan:
    """Start the machine and apply a reboot's effects on its faults."""
    return remedies.apply_operation(add_action(plan, "boot", name, at), remedies.AppliedOperation("reboot", name, at, scale=scale))


def start_next_run(plan: Plan, at: float) -> Plan:
    """Restart the job. Remaining faults strike again at once; faults waiting for the next run return."""
    after = len(plan.actions) + 1
    rows: list[InjectedFault] = []
    for row in plan.injected_faults:
        if row.jobs:
            back = row.jobs == 1
            rows.append(replace(row, jobs=row.jobs - 1, at=at if back else math.inf, after=after))
        elif row.ended is None and row.at <= at and FAULTS[row.fault].job != "runs":
            rows += [replace(row, ended=at), replace(row, at=at, after=after, key=f"{row.key}+")]
        else:
            rows.append(row)
    return add_action(replace(plan, injected_faults=tuple(rows)), "job", "", at)


def heal_faults(plan: Plan, node: str | None, at: float) -> Plan:
    """Remove all faults of a node and return it to service; without a node, of all nodes, and undo deeds."""
    rows = []
    for injected_fault in plan.injected_faults:
        names = () if node is None else tuple(name for name in injected_fault.nodes if name != node)
        rows += [replace(injected_fault, nodes=names)] if names else []
    machines = [node] if node else list(filter(None, (*plan.names, plan.controller)))
    off = [name for name in machines if is_down(plan, name)]
    kept = tuple(action if _survives_healing(action, node) else replace(action, what="nothing", args={}) for action in plan.actions)
    plan = replace(plan, injected_faults=tuple(rows), actions=kept)
    for name in off:
        plan = add_action(plan, "boot", name, at)
    return plan if rows or any(action.what != "nothing" for action in plan.actions) else replace(plan, actions=())


def _survives_healing(action: MachineAction, node: str | None) -> bool:
    if node is None:
        return action.what in KEPT_ACTIONS
    return action.node != node or action.what in (*KEPT_ACTIONS, "down") or bool(action.args.get("ends_job"))
