"""GPU engines, firmware, heat, and silent data corruption."""

from deploy.sandbox.cluster.faults.context import FORWARD, FaultContext
from deploy.sandbox.cluster.faults.registry import register_fault
from deploy.sandbox.cluster.machines.environment import BmcEvent
from deploy.sandbox.cluster.machines.state import HostProcess


@register_fault("G10", "GPU.EXECUTION.GSP_RPC_Timeout", "GPU firmware does not answer", "gpu", "hangs")
def gsp_rpc_timeout(context: FaultContext) -> None:
    rank = context.get_rank_on(context.gpu)
    context.gpu.hang = True
    context.gpu.broken = "unknown error"
    index = context.gpu.index
    for i in range(4):
        who = f"pid={context.dice.randrange(90000, 400000)}, name=nvidia-smi" if i else context.describe_process(context.gpu)
        text = (
            f"Timeout after 6s of waiting for RPC response from GPU{index} GSP! Expected function 76 (GSP_RM_CONTROL) (0x20801348 0x410)."
        )
        context.log_xid(context.gpu, 119, text, i * 45.0, who)
    context.log_kernel(
        f"NVRM: GPU{index} GSP RPC buffer contains function 76 (GSP_RM_CONTROL) and data 0x0000000020801348 0x0000000000000410.", 0.001
    )
    context.node.procs.append(
        HostProcess(48211, 1410, "root", "D", context.t + 45, 0.0, "/system.slice/nvidia-dcgm.service", "nvidia-smi", "nvidia-smi -q -x")
    )
    context.time_out_peers([rank])


@register_fault("G11", "GPU.EXECUTION.SM_Exception_Same_TPC", "The same SM fails again and again", "gpu", "dies")
def sm_exception_same_tpc(context: FaultContext) -> None:
    rank = context.get_rank_on(context.gpu)
    context.gpu.bad_sm = True
    gpc, tpc = context.dice.randrange(7), context.dice.randrange(9)
    for dt, who in (
        (-52_000.0, "pid=31877, name=python3"),
        (-21_000.0, "pid=36120, name=python3"),
        (0.0, context.describe_process(context.gpu)),
    ):
        text = f"Graphics SM Warp Exception on (GPC {gpc}, TPC {tpc}, SM 1): Illegal Instruction Encoding"
        context.log_xid(context.gpu, 13, text, dt, who)
        context.log_xid(
            context.gpu, 13, "Graphics Exception: ESR 0x50cfb0=0x1070009 0x50cfb4=0x20 0x50cfa8=0xf81eb60 0x50cfac=0x1174", dt + 0.0001, who
        )
    context.log_xid(context.gpu, 43, "Ch 00000008", 0.2, context.describe_process(context.gpu))
    context.raise_cuda_error(rank, "an illegal instruction was encountered")
    context.disconnect_peers([rank])


@register_fault("G12", "GPU.EXECUTION.Ctxsw_Timeout", "GPU does not switch contexts any more", "gpu", "hangs")
def ctxsw_timeout(context: FaultContext) -> None:
    rank = context.get_rank_on(context.gpu)
    context.gpu.broken = "the launch timed out and was terminated"
    context.log_xid(
        context.gpu,
        109,
        f"Ch 00000008, errorString CTX SWITCH TIMEOUT, Info 0x{context.dice.randrange(0x10000, 0x7FFFF):x}",
        0,
        context.describe_process(context.gpu),
    )
    for proc in context.node.procs:
        if proc.pid == rank.pid:
            proc.stat = "D"
            proc.cpu = 99.9
    context.time_out_peers([rank])


@register_fault("G13", "GPU.EXECUTION.PMU_Halt", "Micro-controller of the GPU halted", "gpu", "hangs")
def pmu_halt(context: FaultContext) -> None:
    rank = context.get_rank_on(context.gpu)
    context.gpu.power_unknown = True
    context.gpu.broken = "unknown error"
    words = " ".join(f"{context.dice.randrange(1 << 16):08x}" for _ in range(8))
    context.log_xid(context.gpu, 62, words)
    context.time_out_peers([rank])


@register_fault("G14", "GPU.EXECUTION.Silent_Data_Corruption", "GPU computes wrong results", "gpu", "dies")
def silent_data_corruption(context: FaultContext) -> None:
    context.gpu.corrupts = True
    rank = context.get_rank_on(context.gpu)
    step = context.dice.randrange(20000, 90000)
    context.write_log(rank, f"[rank{rank.rank}] loss of this rank differs from the mean of all ranks at step {step}: 2.9931 against 2.2874")
    context.write_log(context.job.ranks[0], f"[rank0] step={step + 400} loss=nan grad_norm=nan, batch skipped", dt=-0.4)
    context.write_log(context.job.ranks[0], "[rank0] loss was nan for 50 steps in a row, the run stops here")


@register_fault("G15", "GPU.THERMAL.HW_Thermal_Slowdown", "GPU too hot, hardware slows it down", "gpu", "slows")
def hw_thermal_slowdown(context: FaultContext) -> None:
    context.gpu.temp = 91 + context.dice.randrange(3)
    context.gpu.memory_temp = 95
    context.gpu.sm_clock = 600
    context.gpu.power_draw = round(context.node.profile.busy_watts * 0.45, 2)
    context.gpu.reasons.hw_slowdown = context.gpu.reasons.hw_thermal = True
    context.gpu.reasons.idle = False
    context.log_kernel(f"NVRM: GPU {context.gpu.bdf}: GPU temperature {context.gpu.temp} C is above the slowdown threshold", level="warn")


@register_fault("G16", "GPU.POWER.Power_Brake_PSU", "Power brake on all GPUs of the node", "node", "slows")
def power_brake(context: FaultContext) -> None:
    context.node.environment.psu_lost = True
    context.node.environment.bmc.append(BmcEvent(context.t, "Power Supply PSU2 Status", "Failure detected"))
    context.node.environment.bmc.append(BmcEvent(context.t + 1, "Power Unit PSU Redundancy", "Redundancy Lost"))
    for gpu in context.node.gpus:
        gpu.sm_clock = context.node.profile.sm_max // 2
        gpu.power_draw = round(context.node.profile.busy_watts * 0.5, 2)
        gpu.reasons.hw_slowdown = gpu.reasons.hw_power_brake = True
        gpu.reasons.idle = False


@register_fault("O07", "OTHER.UNKNOWN.Out_Of_Taxonomy", "A GPU error nobody has a leaf for", "gpu", "dies")
def out_of_taxonomy(context: FaultContext) -> None:
    rank = context.get_rank_on(context.gpu)
    context.gpu.broken = "unknown error"
    context.log_xid(context.gpu, 167, "PCIE_FATAL_TIMEOUT", 0, context.describe_process(context.gpu))
    context.raise_exception(rank, "RuntimeError: CUDA error: unknown error", FORWARD)
    context.disconnect_peers([rank])
