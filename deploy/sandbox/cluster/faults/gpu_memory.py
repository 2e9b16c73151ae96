"""GPU memory: ECC errors, row remapping, infoROM."""

from deploy.sandbox.cluster.faults.context import FaultContext
from deploy.sandbox.cluster.faults.registry import register_fault
from deploy.sandbox.cluster.machines.profiles import get_driver_branch

_ECC = "uncorrectable ECC error encountered"


def _detail_record(context: FaultContext, code: int, where: str, dt: float) -> None:
    """Log the error's location as a second Xid, as drivers from r570 on do."""
    if get_driver_branch(context.node.driver) >= 570:
        context.log_xid(context.gpu, code, where, dt, context.describe_process(context.gpu))


def _recovery(context: FaultContext, action: str, dt: float) -> None:
    """Set the recovery action in nvidia-smi, and in the log for drivers from r570 on."""
    context.gpu.recovery_action = action
    if get_driver_branch(context.node.driver) >= 570:
        context.log_xid(context.gpu, 154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", dt)


@register_fault("G01", "GPU.MEMORY.DBE_Row_Remap_Pending", "Uncorrectable memory error, row remap pending", "gpu", "dies")
def dbe_row_remap_pending(context: FaultContext) -> None:
    rank = context.get_rank_on(context.gpu)
    context.gpu.volatile.dram_unc += 1
    context.gpu.aggregate.dram_unc += 1
    context.gpu.remap.pending = True
    context.log_xid(
        context.gpu,
        48,
        "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at partition 6, subpartition 0.",
        0,
        context.describe_process(context.gpu),
    )
    _detail_record(context, 171, "Uncorrectable DRAM error", 0.01)
    row = context.dice.randrange(1 << 32)
    context.log_xid(
        context.gpu,
        63,
        f"Row Remapper: New row (0x{row:016x}) marked for remapping, reset gpu to activate.",
        0.02,
        context.describe_process(context.gpu),
    )
    context.log_xid(context.gpu, 94, "Contained: CE User Channel (0x9). RST: No, D-RST: No", 0.04, context.describe_process(context.gpu))
    context.raise_cuda_error(rank, _ECC)
    context.disconnect_peers([rank])


@register_fault("G02", "GPU.MEMORY.Row_Remap_Failure", "Row remapping failed", "gpu", "dies")
def row_remap_failure(context: FaultContext) -> None:
    rank = context.get_rank_on(context.gpu)
    context.gpu.remap.failure = True
    context.gpu.remap.unc = 8
    context.gpu.remap.none = 1
    context.gpu.remap.low = 1
    context.gpu.aggregate.dram_unc += 9
    row = context.dice.randrange(1 << 32)
    context.log_xid(context.gpu, 64, f"Row Remapper Error: (0x{row:016x}) - All reserved rows for bank are remapped")
    context.raise_cuda_error(rank, _ECC)
    context.disconnect_peers([rank])


@register_fault("G03", "GPU.MEMORY.Uncontained_ECC", "Uncontained memory error", "gpu", "dies")
def uncontained_ecc(context: FaultContext) -> None:
    rank = context.get_rank_on(context.gpu)
    context.gpu.volatile.dram_unc += 2
    context.gpu.aggregate.dram_unc += 2
    context.gpu.broken = "unspecified launch failure"
    context.log_xid(context.gpu, 95, "Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No", 0, context.describe_process(context.gpu))
    _recovery(context, "Reset", 0.01)
    context.log_xid(context.gpu, 45, "Ch 00000008", 0.3, context.describe_process(context.gpu))
    context.raise_exception(
        rank,
        (
            "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx( handle, opa, opb, "
            "m, n, k, &falpha, a, CUDA_R_16BF, lda, b, CUDA_R_16BF, ldb, &fbeta, c, CUDA_R_16BF, ldc, compute_type, "
            "CUBLAS_GEMM_DEFAULT_TENSOR_OP)`"
        ),
    )
    context.disconnect_peers([rank])


@register_fault("G04", "GPU.MEMORY.SRAM_Threshold_Exceeded", "SRAM errors above the threshold", "gpu", "dies")
def sram_threshold_exceeded(context: FaultContext) -> None:
    rank = context.get_rank_on(context.gpu)
    context.gpu.volatile.sram_unc_secded += 3
    context.gpu.aggregate.sram_unc_secded += 11
    context.gpu.sram_threshold_exceeded = True
    context.log_xid(
        context.gpu,
        48,
        "An uncorrectable ECC error has been detected on GPU in the L2 cache at slice 3.",
        0,
        context.describe_process(context.gpu),
    )
    _detail_record(context, 172, "Uncorrectable SRAM error", 0.01)
    context.raise_cuda_error(rank, _ECC)
    context.disconnect_peers([rank])


@register_fault("G05", "GPU.MEMORY.High_Correctable_Rate", "Many corrected memory errors", "gpu", "runs")
def high_correctable_rate(context: FaultContext) -> None:
    context.gpu.aggregate.dram_corr += 48_211
    context.gpu.volatile.dram_corr += 3_907
    context.gpu.remap.corr = 1
    context.log_xid(context.gpu, 92, "High single-bit ECC error rate")


@register_fault("G06", "GPU.MEMORY.InfoROM_Corruption", "InfoROM corrupted", "gpu", "never starts")
def inforom_corruption(context: FaultContext) -> None:
    context.gpu.inforom_ok = False
    context.gpu.serial = "N/A"
    context.log_kernel(
        f"NVRM: GPU {context.gpu.bdf}: InfoROM checksum mismatch, object ECC: expected 0x{context.dice.randrange(256):02x}", level="err"
    )
    rank = context.get_rank_on(context.gpu)
    context.raise_exception(rank, "RuntimeError: preflight: nvidia-smi health query failed on this host, refusing to start", dt=6)
    context.disconnect_peers([rank], 12)
