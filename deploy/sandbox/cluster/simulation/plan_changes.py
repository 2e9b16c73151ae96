"""Events as functions from plan to plan: a job run starts, a machine goes down or comes up, faults are healed."""

import math
from dataclasses import replace
from typing import Any

from deploy.sandbox.cluster.faults import FAULTS
from deploy.sandbox.cluster.plan import ActionKind, InjectedFault, MachineAction, Plan
from deploy.sandbox.cluster.simulation import remedies

KEPT_ACTIONS = ("boot",)  # actions that healing keeps, because a boot id never returns


def add_action(plan: Plan, what: ActionKind, node: str, at: float, **args: Any) -> Plan:
    return replace(plan, actions=(*plan.actions, MachineAction(what, node, at, args)))


def is_down(plan: Plan, name: str) -> bool:
    power_actions = [action.kind for action in plan.actions if action.node == name and action.kind in ("down", "boot")]
    return power_actions[-1:] == ["down"]


def boot_machine(plan: Plan, name: str, at: float, scale: float) -> Plan:
    """Start the machine and apply a reboot's effects on its faults."""
    return remedies.apply_operation(add_action(plan, "boot", name, at), remedies.AppliedOperation("reboot", name, at, scale=scale))


def start_next_run(plan: Plan, at: float) -> Plan:
    """Restart the job. Remaining faults strike again at once; faults waiting for the next run return."""
    after = len(plan.actions) + 1
    faults: list[InjectedFault] = []
    for fault in plan.injected_faults:
        if fault.jobs:
            returns_now = fault.jobs == 1
            faults.append(replace(fault, jobs=fault.jobs - 1, at=at if returns_now else math.inf, after=after))
        elif fault.ended is None and fault.at <= at and FAULTS[fault.fault].job != "runs":
            faults += [replace(fault, ended=at), replace(fault, at=at, after=after, key=f"{fault.key}+")]
        else:
            faults.append(fault)
    return add_action(replace(plan, injected_faults=tuple(faults)), "job", "", at)


def heal_faults(plan: Plan, node: str | None, at: float) -> Plan:
    """Remove all faults of a node and return it to service; without a node, of all nodes, and undo actions."""
    remaining_faults = []
    for fault in plan.injected_faults:
        other_nodes = () if node is None else tuple(name for name in fault.nodes if name != node)
        if other_nodes:
            remaining_faults.append(replace(fault, nodes=other_nodes))
    machines = [node] if node else list(filter(None, (*plan.names, plan.controller)))
    stopped_machines = [name for name in machines if is_down(plan, name)]
    actions = tuple(action if _survives_healing(action, node) else replace(action, kind="nothing", args={}) for action in plan.actions)
    plan = replace(plan, injected_faults=tuple(remaining_faults), actions=actions)
    for name in stopped_machines:
        plan = add_action(plan, "boot", name, at)
    if remaining_faults or any(action.kind != "nothing" for action in plan.actions):
        return plan
    return replace(plan, actions=())


def _survives_healing(action: MachineAction, node: str | None) -> bool:
    if node is None:
        return action.kind in KEPT_ACTIONS
    return action.node != node or action.kind in (*KEPT_ACTIONS, "down") or bool(action.args.get("ends_job"))
