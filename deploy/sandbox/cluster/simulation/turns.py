"""Events as functions from plan to plan: a job run starts, a machine goes down or comes up, faults are healed."""

import math
from dataclasses import replace
from typing import Any

from deploy.sandbox.cluster.faults import FAULTS
from deploy.sandbox.cluster.plan import Deed, Happening, Plan, What
from deploy.sandbox.cluster.simulation import remedies

FOREVER = ("boot",)  # deeds that healing keeps, because a boot id never returns


def done(plan: Plan, what: What, node: str, at: float, **args: Any) -> Plan:
    return replace(plan, deeds=(*plan.deeds, Deed(what, node, at, args)))


def is_down(plan: Plan, name: str) -> bool:
    power = [deed.what for deed in plan.deeds if deed.node == name and deed.what in ("down", "boot")]
    return power[-1:] == ["down"]


def booted(plan: Plan, name: str, at: float, scale: float) -> Plan:
    """Start the machine and apply a reboot's effects on its faults."""
    return remedies.apply_operation(done(plan, "boot", name, at), remedies.AppliedOperation("reboot", name, at, scale=scale))


def next_run(plan: Plan, at: float) -> Plan:
    """Restart the job. Remaining faults strike again at once; faults waiting for the next run return."""
    after = len(plan.deeds) + 1
    rows: list[Happening] = []
    for row in plan.happenings:
        if row.jobs:
            back = row.jobs == 1
            rows.append(replace(row, jobs=row.jobs - 1, at=at if back else math.inf, after=after))
        elif row.ended is None and row.at <= at and FAULTS[row.fault].job != "runs":
            rows += [replace(row, ended=at), replace(row, at=at, after=after, key=f"{row.key}+")]
        else:
            rows.append(row)
    return done(replace(plan, happenings=tuple(rows)), "job", "", at)


def healed(plan: Plan, node: str | None, at: float) -> Plan:
    """Remove all faults of a node and return it to service; without a node, of all nodes, and undo deeds."""
    rows = []
    for happening in plan.happenings:
        names = () if node is None else tuple(name for name in happening.nodes if name != node)
        rows += [replace(happening, nodes=names)] if names else []
    machines = [node] if node else list(filter(None, (*plan.names, plan.controller)))
    off = [name for name in machines if is_down(plan, name)]
    kept = tuple(deed if _stays(deed, node) else replace(deed, what="nothing", args={}) for deed in plan.deeds)
    plan = replace(plan, happenings=tuple(rows), deeds=kept)
    for name in off:
        plan = done(plan, "boot", name, at)
    return plan if rows or any(deed.what != "nothing" for deed in plan.deeds) else replace(plan, deeds=())


def _stays(deed: Deed, node: str | None) -> bool:
    if node is None:
        return deed.what in FOREVER
    return deed.node != node or deed.what in (*FOREVER, "down") or bool(deed.args.get("ends_job"))
