"""Effects of operations on faults: one row per pair with an effect. Operations are tool effects, not remedies:
`reset_clocks` is two of them, and a power failure is also a `reboot`. A row models what such machines do; `heavy`
marks an operation that works but disrupts more than necessary.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from deploy.sandbox.cluster.chance import dice
from deploy.sandbox.cluster.faults import FAULTS
from deploy.sandbox.cluster.machines.state import GpuState
from deploy.sandbox.cluster.plan import Deed, Happening, Plan

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


def _row_was_replaced(gpu: GpuState) -> None:
    gpu.remap.unc += 1
    gpu.remap.high += 1
    gpu.aggregate.dram_unc += 1


def _errors_are_counted(gpu: GpuState) -> None:
    gpu.aggregate.dram_unc += 2


_HOUR = 3600.0
CURES = Effect("cures")
HEAVY = Effect("cures", heavy=True)
NEXT_RUN = Effect("masks", jobs=1)
SOON = Effect("masks", seconds=_HOUR / 2)
REPEATS = Effect("masks", seconds=6 * _HOUR)

EFFECTS: Mapping[tuple[str, str], Effect] = {
    # a GPU reset
    ("G01", "gpu_reset"): Effect("cures", scar=_row_was_replaced),
    ("G03", "gpu_reset"): Effect("cures", scar=_errors_are_counted),
    ("G06", "gpu_reset"): Effect("worsens", chance=0.3, becomes="G08"),
    ("G10", "gpu_reset"): Effect("cures", chance=0.7),
    ("G12", "gpu_reset"): CURES,
    ("G13", "gpu_reset"): Effect("cures", chance=0.8, otherwise=REPEATS),
    ("G17", "gpu_reset"): HEAVY,
    ("N01", "gpu_reset"): Effect("cures", chance=0.6),
    ("N02", "gpu_reset"): SOON,
    ("O07", "gpu_reset"): Effect("worsens", becomes="G07"),
    # a reboot of any origin
    ("G01", "reboot"): Effect("cures", scar=_row_was_replaced, heavy=True),
    ("G03", "reboot"): Effect("cures", scar=_errors_are_counted, heavy=True),
    ("G07", "reboot"): Effect("cures", chance=0.85, otherwise=REPEATS),
    ("G09", "reboot"): Effect("cures", chance=0.5),
    ("G10", "reboot"): CURES,
    ("G12", "reboot"): HEAVY,
    ("G13", "reboot"): Effect("cures", chance=0.8, otherwise=REPEATS, heavy=True),
    ("G17", "reboot"): HEAVY,
    ("G18", "reboot"): HEAVY,
    ("G20", "reboot"): HEAVY,
    ("S01", "reboot"): CURES,
    ("S02", "reboot"): NEXT_RUN,
    ("S04", "reboot"): HEAVY,
    ("S13", "reboot"): SOON,
    ("S14", "reboot"): NEXT_RUN,
    ("S15", "reboot"): CURES,
    ("S18", "reboot"): HEAVY,
    ("N01", "reboot"): Effect("cures", chance=0.6, heavy=True),
    ("N02", "reboot"): SOON,
    ("N03", "reboot"): Effect("cures", chance=0.8, otherwise=REPEATS),
    ("N06", "reboot"): SOON,
    ("N07", "reboot"): SOON,
    ("N10", "reboot"): Effect("cures", chance=0.8, otherwise=REPEATS),
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
    ("G17", "load_driver"): HEAVY,
    ("G18", "load_driver"): HEAVY,
    ("G20", "load_driver"): HEAVY,
    # a power cycle; the following boot does the rest
    ("G07", "power_cycle"): Effect("cures", chance=0.95, otherwise=REPEATS),
    ("G09", "power_cycle"): Effect("cures", chance=0.6),
    ("G13", "power_cycle"): Effect("cures", chance=0.85, otherwise=REPEATS, heavy=True),
    ("N03", "power_cycle"): Effect("cures", chance=0.9, otherwise=REPEATS, heavy=True),
    ("N10", "power_cycle"): Effect("cures", chance=0.9, otherwise=REPEATS, heavy=True),
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
    happenings: list[Happening] = []
    scars: list[Deed] = []
    for happening in plan.happenings:
        effect = find_effect(plan, happening, applied)
        if effect is None:
            happenings.append(happening)
            continue
        hit, spared = _split(plan, happening, applied)
        happenings += [*spared, replace(hit, ended=applied.at), *_build_later_happenings(hit, effect, applied, len(plan.deeds))]
        if effect.scar:
            marks = {"fault": happening.fault, "operation": applied.operation}
            scars += [Deed("scar", applied.node, applied.at, marks | {"gpu": gpu}) for gpu in hit.gpus]
    return replace(plan, happenings=tuple(happenings), deeds=(*plan.deeds, *scars))


def find_effect(plan: Plan, happening: Happening, applied: AppliedOperation) -> Effect | None:
    """Return the operation's effect on a fault, or None. The fault's argument `outcome` overrides chance: `cures`,
    `nothing`, or the only operation that cures.
    """
    effect = EFFECTS.get((happening.fault, applied.operation))
    if effect is None or applied.node not in happening.nodes or happening.ended is not None or happening.at > applied.at:
        return None
    if (
        applied.gpu is not None
        and FAULTS[happening.fault].scope == "gpu"
        and applied.gpu not in list_affected_gpus(plan, happening, applied.node)
    ):
        return None
    wanted = happening.args.get("outcome")
    if wanted == "nothing" or (wanted in OPERATIONS and wanted != applied.operation):
        return None
    lucky = dice(plan.seed, "luck", happening.fault, happening.key, applied.node).random() < effect.chance
    return effect if lucky or wanted in (effect.kind, applied.operation) else effect.otherwise


def list_affected_gpus(plan: Plan, happening: Happening, node: str) -> tuple[int, ...]:
    """Return the GPUs of a fault on a node: the named ones, else the drawn one."""
    return happening.gpus or (dice(plan.seed, happening.fault, happening.key, node).randrange(8),)


def _split(plan: Plan, happening: Happening, applied: AppliedOperation) -> tuple[Happening, list[Happening]]:
    """Split a fault into the part that the operation affects and the rest."""
    if FAULTS[happening.fault].once:
        return happening, []
    others = tuple(name for name in happening.nodes if name != applied.node)
    spared = [replace(happening, nodes=others)] if others else []
    gpus = list_affected_gpus(plan, happening, applied.node) if FAULTS[happening.fault].scope == "gpu" else happening.gpus
    hit = tuple(gpu for gpu in gpus if applied.gpu in (None, gpu)) if FAULTS[happening.fault].scope == "gpu" else gpus
    if left := tuple(gpu for gpu in gpus if gpu not in hit):
        spared.append(replace(happening, nodes=(applied.node,), gpus=left))
    return replace(happening, nodes=(applied.node,), gpus=hit), spared


def _build_later_happenings(hit: Happening, effect: Effect, applied: AppliedOperation, deeds: int) -> list[Happening]:
    again = replace(hit, key=f"{hit.key} again", after=deeds, at=applied.at)
    if effect.kind == "worsens":
        return [replace(again, fault=effect.becomes)]
    if effect.kind == "masks":
        return [
            replace(again, at=math.inf, jobs=effect.jobs) if effect.jobs else replace(again, at=applied.at + effect.seconds * applied.scale)
        ]
    return []
