"""Settings left behind on a GPU."""

from deploy.sandbox.cluster.faults.context import FaultContext
from deploy.sandbox.cluster.faults.registry import register_fault


@register_fault("G17", "GPU.CONFIG.Clocks_Locked_Low", "Clocks of a GPU locked low", "gpu", "slows")
def clocks_locked_low(context: FaultContext) -> None:
    context.gpu.reasons.app_clocks = True
    context.gpu.reasons.idle = False
    context.gpu.sm_clock = context.gpu.app_clock = int(context.get_number("mhz", context.node.profile.idle_sm))
    context.gpu.temp = 41
    context.gpu.memory_temp = 47
    context.gpu.power_draw = round(context.node.profile.idle_watts * 2.1, 2)


@register_fault("G18", "GPU.CONFIG.Power_Cap_Low", "Power limit set too low", "node", "slows")
def power_cap_low(context: FaultContext) -> None:
    watts = int(context.get_number("watts", context.node.profile.power_limit * 3 // 7))
    for gpu in context.node.gpus:
        gpu.power_limit = watts
        gpu.power_draw = round(watts - 0.6 - context.dice.random(), 2)
        gpu.sm_clock = int(context.node.profile.sm_max * 0.64)
        gpu.temp = 49
        gpu.reasons.sw_power_cap = True
        gpu.reasons.idle = False


@register_fault("G19", "GPU.CONFIG.MIG_Left_Enabled", "MIG left on", "gpu", "never starts")
def mig_left_enabled(context: FaultContext) -> None:
    context.gpu.mig = True
    rank = context.get_rank_on(context.gpu)
    context.raise_exception(
        rank,
        "RuntimeError: CUDA error: invalid device ordinal",
        (("/workspace/train.py", 268, "main", "torch.cuda.set_device(local_rank)"),),
        6,
    )
    context.disconnect_peers([rank], 12)


@register_fault("G20", "GPU.CONFIG.Compute_Mode_Restricted", "GPU accepts one process only", "gpu", "never starts")
def compute_mode_restricted(context: FaultContext) -> None:
    context.gpu.compute_mode = "Exclusive_Process"
    rank = context.get_rank_on(context.gpu)
    context.raise_exception(
        rank,
        "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        (("/workspace/train.py", 270, "main", "torch.zeros(1, device=device)"),),
        6,
    )
    context.disconnect_peers([rank], 12)
