"""Effects of operations on faults: one row per pair with an effect. Operations are tool effects, not remedies:
`reset_clocks` is two of them, and a power failure is also a `reboot`. A row models what such machines do; `heavy`
marks an operation that works but disrupts more than necessary.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from deploy.sandbox.cluster.faults import FAULTS
from deploy.sandbox.cluster.machines.state import GpuState
from deploy.sandbox.cluster.plan import InjectedFault, MachineAction, Plan
from deploy.sandbox.cluster.seeded_random import make_random

Operation = Literal[
    "gpu_reset", "reboot", "application_clocks", "locked_clocks", "power_limit", "restart_fabricmanager", "modprobe", "kill",
    "mig_off", "compute_mode", "load_driver", "restart_docker", "restart_container", "step_clock", "governor", "cleanup", "power_cycle",
]  # fmt: skip
OPERATIONS: tuple[str, ...] = get_args(Operation)
Scar = Callable[[GpuState], None]


@dataclass(frozen=True, slots=True)
class Effect:
    """`cures`: gone for good. `masks`: gone, and back with the `jobs`-th next run or after `seconds`. `worsens`:
    replaced by the fault `becomes`.

    Happens with `chance`; one draw per fault, so a retry is no better. `otherwise` applies if it fails (None: nothing).
    `scar`: lasting change of the hardware.
    """

    kind: Literal["cures", "masks", "worsens"]
    chance: float = 1.0
    otherwise: "Effect | None" = None
    jobs: int = 0
    seconds: float = 0.0
    becomes: str = ""
    scar: Scar | None = None
    heavy: bool = False


def _count_replaced_row(gpu: GpuState) -> None:
    gpu.remap.unc += 1
    gpu.remap.high += 1
    gpu.aggregate.dram_unc += 1


def _count_memory_errors(gpu: GpuState) -> None:
    gpu.aggregate.dram_unc += 2


_HOUR = 3600.0
CURES = Effect("cures")
CURES_HEAVILY = Effect("cures", heavy=True)
RETURNS_WITH_NEXT_RUN = Effect("masks", jobs=1)
RETURNS_IN_HALF_AN_HOUR = Effect("masks", seconds=_HOUR / 2)
RETURNS_IN_SIX_HOURS = Effect("masks", seconds=6 * _HOUR)

EFFECTS: Mapping[tuple[str, str], Effect] = {
    # a GPU reset
    ("G01", "gpu_reset"): Effect("cures", scar=_count_replaced_row),
    ("G03", "gpu_reset"): Effect("cures", scar=_count_memory_errors),
    ("G06", "gpu_reset"): Effect("worsens", chance=0.3, becomes="G08"),
    ("G10", "gpu_reset"): Effect("cures", chance=0.7),
    ("G12", "gpu_reset"): CURES,
    ("G13", "gpu_reset"): Effect("cures", chance=0.8, otherwise=RETURNS_IN_SIX_HOURS),
    ("G17", "gpu_reset"): CURES_HEAVILY,
    ("N01", "gpu_reset"): Effect("cures", chance=0.6),
    ("N02", "gpu_reset"): RETURNS_IN_HALF_AN_HOUR,
    ("O07", "gpu_reset"): Effect("worsens", becomes="G07"),
    # a reboot of any origin
    ("G01", "reboot"): Effect("cures", scar=_count_replaced_row, heavy=True),
    ("G03", "reboot"): Effect("cures", scar=_count_memory_errors, heavy=True),
    ("G07", "reboot"): Effect("cures", chance=0.85, otherwise=RETURNS_IN_SIX_HOURS),
    ("G09", "reboot"): Effect("cures", chance=0.5),
    ("G10", "reboot"): CURES,
    ("G12", "reboot"): CURES_HEAVILY,
    ("G13", "reboot"): Effect("cures", chance=0.8, otherwise=RETURNS_IN_SIX_HOURS, heavy=True),
    ("G17", "reboot"): CURES_HEAVILY,
    ("G18", "reboot"): CURES_HEAVILY,
    ("G20", "reboot"): CURES_HEAVILY,
    ("S01", "reboot"): CURES,
    ("S02", "reboot"): RETURNS_WITH_NEXT_RUN,
    ("S04", "reboot"): CURES_HEAVILY,
    ("S13", "reboot"): RETURNS_IN_HALF_AN_HOUR,
    ("S14", "reboot"): RETURNS_WITH_NEXT_RUN,
    ("S15", "reboot"): CURES,
    ("S18", "reboot"): CURES_HEAVILY,
    ("N01", "reboot"): Effect("cures", chance=0.6, heavy=True),
    ("N02", "reboot"): RETURNS_IN_HALF_AN_HOUR,
    ("N03", "reboot"): Effect("cures", chance=0.8, otherwise=RETURNS_IN_SIX_HOURS),
    ("N06", "reboot"): RETURNS_IN_HALF_AN_HOUR,
    ("N07", "reboot"): RETURNS_IN_HALF_AN_HOUR,
    ("N10", "reboot"): Effect("cures", chance=0.8, otherwise=RETURNS_IN_SIX_HOURS),
    # settings, services, modules, processes
    ("G17", "application_clocks"): CURES,
    ("G18", "power_limit"): CURES,
    ("S04", "restart_fabricmanager"): CURES,
    ("S08", "modprobe"): CURES,
    ("S18", "kill"): CURES,
    ("G19", "mig_off"): CURES,
    ("G20", "compute_mode"): CURES,
    ("S06", "restart_container"): CURES,
    ("S07", "restart_docker"): CURES,
    ("S10", "cleanup"): CURES,
    ("S17", "step_clock"): CURES,
    ("S19", "governor"): CURES,
    # the driver reloaded, or rebuilt and loaded: its state is new
    ("S01", "load_driver"): CURES,
    ("S03", "load_driver"): CURES,
    ("G17", "load_driver"): CURES_HEAVILY,
    ("G18", "load_driver"): CURES_HEAVILY,
    ("G20", "load_driver"): CURES_HEAVILY,
    # a power cycle; the following boot does the rest
    ("G07", "power_cycle"): Effect("cures", chance=0.95, otherwise=RETURNS_IN_SIX_HOURS),
    ("G09", "power_cycle"): Effect("cures", chance=0.6),
    ("G13", "power_cycle"): Effect("cures", chance=0.85, otherwise=RETURNS_IN_SIX_HOURS, heavy=True),
    ("N03", "power_cycle"): Effect("cures", chance=0.9, otherwise=RETURNS_IN_SIX_HOURS, heavy=True),
    ("N10", "power_cycle"): Effect("cures", chance=0.9, otherwise=RETURNS_IN_SIX_HOURS, heavy=True),
}


@dataclass(frozen=True, slots=True)
class AppliedOperation:
    """An operation on a machine, or on one GPU of it. `scale`: plan seconds per virtual second."""

    operation: str
    node: str
    at: float
    gpu: int | None = None
    scale: float = 1.0


def apply_operation(plan: Plan, applied: AppliedOperation) -> Plan:
    """Return the plan after an operation: cured faults end, masked ones return later, worsened ones are replaced."""
    injected_faults: list[InjectedFault] = []
    scars: list[MachineAction] = []
    for injected_fault in plan.injected_faults:
        effect = find_effect(plan, injected_fault, applied)
        if effect is None:
            injected_faults.append(injected_fault)
            continue
        hit, spared = _split(plan, injected_fault, applied)
        injected_faults += [*spared, replace(hit, ended=applied.at), *_build_later_happenings(hit, effect, applied, len(plan.actions))]
        if effect.scar:
            marks = {"fault": injected_fault.fault, "operation": applied.operation}
            scars += [MachineAction("scar", applied.node, applied.at, marks | {"gpu": gpu}) for gpu in hit.gpus]
    return replace(plan, injected_faults=tuple(injected_faults), actions=(*plan.actions, *scars))


def find_effect(plan: Plan, injected_fault: InjectedFault, applied: AppliedOperation) -> Effect | None:
    """Return the operation's effect on a fault, or None. The fault's argument `outcome` overrides chance: `cures`,
    `nothing`, or the only operation that cures.
    """
    effect = EFFECTS.get((injected_fault.fault, applied.operation))
    if effect is None or applied.node not in injected_fault.nodes or injected_fault.ended is not None or injected_fault.at > applied.at:
        return None
    if (
        applied.gpu is not None
        and FAULTS[injected_fault.fault].scope == "gpu"
        and applied.gpu not in list_affected_gpus(plan, injected_fault, applied.node)
    ):
        return None
    wanted = injected_fault.args.get("outcome")
    if wanted == "nothing" or (wanted in OPERATIONS and wanted != applied.operation):
        return None
    lucky = make_random(plan.seed, "luck", injected_fault.fault, injected_fault.key, applied.node).random() < effect.chance
    return effect if lucky or wanted in (effect.kind, applied.operation) else effect.otherwise


def list_affected_gpus(plan: Plan, injected_fault: InjectedFault, node: str) -> tuple[int, ...]:
    """Return the GPUs of a fault on a node: the named ones, else the drawn one."""
    return injected_fault.gpus or (make_random(plan.seed, injected_fault.fault, injected_fault.key, node).randrange(8),)


def _split(plan: Plan, injected_fault: InjectedFault, applied: AppliedOperation) -> tuple[InjectedFault, list[InjectedFault]]:
    """Split a fault into the part that the operation affects and the rest."""
    if FAULTS[injected_fault.fault].once:
        return injected_fault, []
    others = tuple(name for name in injected_fault.nodes if name != applied.node)
    spared = [replace(injected_fault, nodes=others)] if others else []
    gpus = list_affected_gpus(plan, injected_fault, applied.node) if FAULTS[injected_fault.fault].scope == "gpu" else injected_fault.gpus
    hit = tuple(gpu for gpu in gpus if applied.gpu in (None, gpu)) if FAULTS[injected_fault.fault].scope == "gpu" else gpus
    if left := tuple(gpu for gpu in gpus if gpu not in hit):
        spared.append(replace(injected_fault, nodes=(applied.node,), gpus=left))
    return replace(injected_fault, nodes=(applied.node,), gpus=hit), spared


def _build_later_happenings(hit: InjectedFault, effect: Effect, applied: AppliedOperation, actions: int) -> list[InjectedFault]:
    again = replace(hit, key=f"{hit.key} again", after=actions, at=applied.at)
    if effect.kind == "worsens":
        return [replace(again, fault=effect.becomes)]
    if effect.kind == "masks":
        return [
            replace(again, at=math.inf, jobs=effect.jobs) if effect.jobs else replace(again, at=applied.at + effect.seconds * applied.scale)
        ]
    return []
