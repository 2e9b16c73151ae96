"""Settings left behind on a GPU."""

from deploy.sandbox.cluster.faults.row import fault
from deploy.sandbox.cluster.faults.scene import Scene


@fault("G17", "GPU.CONFIG.Clocks_Locked_Low", "Clocks of a GPU locked low", "gpu", "slows")
def clocks_locked_low(s: Scene) -> None:
    s.gpu.reasons.app_clocks = True
    s.gpu.reasons.idle = False
    s.gpu.sm_clock = s.gpu.app_clock = int(s.number("mhz", s.node.profile.idle_sm))
    s.gpu.temp = 41
    s.gpu.memory_temp = 47
    s.gpu.power_draw = round(s.node.profile.idle_watts * 2.1, 2)


@fault("G18", "GPU.CONFIG.Power_Cap_Low", "Power limit set too low", "node", "slows")
def power_cap_low(s: Scene) -> None:
    watts = int(s.number("watts", s.node.profile.power_limit * 3 // 7))
    for gpu in s.node.gpus:
        gpu.power_limit = watts
        gpu.power_draw = round(watts - 0.6 - s.dice.random(), 2)
        gpu.sm_clock = int(s.node.profile.sm_max * 0.64)
        gpu.temp = 49
        gpu.reasons.sw_power_cap = True
        gpu.reasons.idle = False


@fault("G19", "GPU.CONFIG.MIG_Left_Enabled", "MIG left on", "gpu", "never starts")
def mig_left_enabled(s: Scene) -> None:
    s.gpu.mig = True
    rank = s.rank_on(s.gpu)
    s.raises(
        rank,
        "RuntimeError: CUDA error: invalid device ordinal",
        (("/workspace/train.py", 268, "main", "torch.cuda.set_device(local_rank)"),),
        6,
    )
    s.peers_lose([rank], 12)


@fault("G20", "GPU.CONFIG.Compute_Mode_Restricted", "GPU accepts one process only", "gpu", "never starts")
def compute_mode_restricted(s: Scene) -> None:
    s.gpu.compute_mode = "Exclusive_Process"
    rank = s.rank_on(s.gpu)
    s.raises(
        rank,
        "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        (("/workspace/train.py", 270, "main", "torch.zeros(1, device=device)"),),
        6,
    )
    s.peers_lose([rank], 12)
