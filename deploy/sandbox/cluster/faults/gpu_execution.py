"""GPU engines, firmware, heat, and silent data corruption."""

from deploy.sandbox.cluster.faults.row import fault
from deploy.sandbox.cluster.faults.scene import FORWARD, Scene
from deploy.sandbox.cluster.machines.around import BmcEvent
from deploy.sandbox.cluster.machines.state import HostProcess


@fault("G10", "GPU.EXECUTION.GSP_RPC_Timeout", "GPU firmware does not answer", "gpu", "hangs")
def gsp_rpc_timeout(s: Scene) -> None:
    rank = s.rank_on(s.gpu)
    s.gpu.hang = True
    s.gpu.broken = "unknown error"
    index = s.gpu.index
    for i in range(4):
        who = f"pid={s.dice.randrange(90000, 400000)}, name=nvidia-smi" if i else s.pid_on(s.gpu)
        text = (
            f"Timeout after 6s of waiting for RPC response from GPU{index} GSP! Expected function 76 (GSP_RM_CONTROL) (0x20801348 0x410)."
        )
        s.xid(s.gpu, 119, text, i * 45.0, who)
    s.kernel(
        f"NVRM: GPU{index} GSP RPC buffer contains function 76 (GSP_RM_CONTROL) and data 0x0000000020801348 0x0000000000000410.", 0.001
    )
    s.node.procs.append(
        HostProcess(48211, 1410, "root", "D", s.t + 45, 0.0, "/system.slice/nvidia-dcgm.service", "nvidia-smi", "nvidia-smi -q -x")
    )
    s.peers_time_out([rank])


@fault("G11", "GPU.EXECUTION.SM_Exception_Same_TPC", "The same SM fails again and again", "gpu", "dies")
def sm_exception_same_tpc(s: Scene) -> None:
    rank = s.rank_on(s.gpu)
    s.gpu.bad_sm = True
    gpc, tpc = s.dice.randrange(7), s.dice.randrange(9)
    for dt, who in ((-52_000.0, "pid=31877, name=python3"), (-21_000.0, "pid=36120, name=python3"), (0.0, s.pid_on(s.gpu))):
        text = f"Graphics SM Warp Exception on (GPC {gpc}, TPC {tpc}, SM 1): Illegal Instruction Encoding"
        s.xid(s.gpu, 13, text, dt, who)
        s.xid(s.gpu, 13, "Graphics Exception: ESR 0x50cfb0=0x1070009 0x50cfb4=0x20 0x50cfa8=0xf81eb60 0x50cfac=0x1174", dt + 0.0001, who)
    s.xid(s.gpu, 43, "Ch 00000008", 0.2, s.pid_on(s.gpu))
    s.cuda_error(rank, "an illegal instruction was encountered")
    s.peers_lose([rank])


@fault("G12", "GPU.EXECUTION.Ctxsw_Timeout", "GPU does not switch contexts any more", "gpu", "hangs")
def ctxsw_timeout(s: Scene) -> None:
    rank = s.rank_on(s.gpu)
    s.gpu.broken = "the launch timed out and was terminated"
    s.xid(s.gpu, 109, f"Ch 00000008, errorString CTX SWITCH TIMEOUT, Info 0x{s.dice.randrange(0x10000, 0x7FFFF):x}", 0, s.pid_on(s.gpu))
    for proc in s.node.procs:
        if proc.pid == rank.pid:
            proc.stat = "D"
            proc.cpu = 99.9
    s.peers_time_out([rank])


@fault("G13", "GPU.EXECUTION.PMU_Halt", "Micro-controller of the GPU halted", "gpu", "hangs")
def pmu_halt(s: Scene) -> None:
    rank = s.rank_on(s.gpu)
    s.gpu.power_unknown = True
    s.gpu.broken = "unknown error"
    words = " ".join(f"{s.dice.randrange(1 << 16):08x}" for _ in range(8))
    s.xid(s.gpu, 62, words)
    s.peers_time_out([rank])


@fault("G14", "GPU.EXECUTION.Silent_Data_Corruption", "GPU computes wrong results", "gpu", "dies")
def silent_data_corruption(s: Scene) -> None:
    s.gpu.corrupts = True
    rank = s.rank_on(s.gpu)
    step = s.dice.randrange(20000, 90000)
    s.says(rank, f"[rank{rank.rank}] loss of this rank differs from the mean of all ranks at step {step}: 2.9931 against 2.2874")
    s.says(s.job.ranks[0], f"[rank0] step={step + 400} loss=nan grad_norm=nan, batch skipped", dt=-0.4)
    s.says(s.job.ranks[0], "[rank0] loss was nan for 50 steps in a row, the run stops here")


@fault("G15", "GPU.THERMAL.HW_Thermal_Slowdown", "GPU too hot, hardware slows it down", "gpu", "slows")
def hw_thermal_slowdown(s: Scene) -> None:
    s.gpu.temp = 91 + s.dice.randrange(3)
    s.gpu.memory_temp = 95
    s.gpu.sm_clock = 600
    s.gpu.power_draw = round(s.node.profile.busy_watts * 0.45, 2)
    s.gpu.reasons.hw_slowdown = s.gpu.reasons.hw_thermal = True
    s.gpu.reasons.idle = False
    s.kernel(f"NVRM: GPU {s.gpu.bdf}: GPU temperature {s.gpu.temp} C is above the slowdown threshold", level="warn")


@fault("G16", "GPU.POWER.Power_Brake_PSU", "Power brake on all GPUs of the node", "node", "slows")
def power_brake(s: Scene) -> None:
    s.node.around.psu_lost = True
    s.node.around.bmc.append(BmcEvent(s.t, "Power Supply PSU2 Status", "Failure detected"))
    s.node.around.bmc.append(BmcEvent(s.t + 1, "Power Unit PSU Redundancy", "Redundancy Lost"))
    for gpu in s.node.gpus:
        gpu.sm_clock = s.node.profile.sm_max // 2
        gpu.power_draw = round(s.node.profile.busy_watts * 0.5, 2)
        gpu.reasons.hw_slowdown = gpu.reasons.hw_power_brake = True
        gpu.reasons.idle = False


@fault("O07", "OTHER.UNKNOWN.Out_Of_Taxonomy", "A GPU error nobody has a leaf for", "gpu", "dies")
def out_of_taxonomy(s: Scene) -> None:
    rank = s.rank_on(s.gpu)
    s.gpu.broken = "unknown error"
    s.xid(s.gpu, 167, "PCIE_FATAL_TIMEOUT", 0, s.pid_on(s.gpu))
    s.raises(rank, "RuntimeError: CUDA error: unknown error", FORWARD)
    s.peers_lose([rank])
