"""GPU memory: ECC errors, row remapping, infoROM."""

from deploy.sandbox.cluster.faults.row import fault
from deploy.sandbox.cluster.faults.scene import Scene
from deploy.sandbox.cluster.machines.profiles import branch

_ECC = "uncorrectable ECC error encountered"


def _detail_record(s: Scene, code: int, where: str, dt: float) -> None:
    """Log the error's location as a second Xid, as drivers from r570 on do."""
    if branch(s.node.driver) >= 570:
        s.xid(s.gpu, code, where, dt, s.pid_on(s.gpu))


def _recovery(s: Scene, action: str, dt: float) -> None:
    """Set the recovery action in nvidia-smi, and in the log for drivers from r570 on."""
    s.gpu.recovery_action = action
    if branch(s.node.driver) >= 570:
        s.xid(s.gpu, 154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", dt)


@fault("G01", "GPU.MEMORY.DBE_Row_Remap_Pending", "Uncorrectable memory error, row remap pending", "gpu", "dies")
def dbe_row_remap_pending(s: Scene) -> None:
    rank = s.rank_on(s.gpu)
    s.gpu.volatile.dram_unc += 1
    s.gpu.aggregate.dram_unc += 1
    s.gpu.remap.pending = True
    s.xid(
        s.gpu,
        48,
        "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at partition 6, subpartition 0.",
        0,
        s.pid_on(s.gpu),
    )
    _detail_record(s, 171, "Uncorrectable DRAM error", 0.01)
    row = s.dice.randrange(1 << 32)
    s.xid(s.gpu, 63, f"Row Remapper: New row (0x{row:016x}) marked for remapping, reset gpu to activate.", 0.02, s.pid_on(s.gpu))
    s.xid(s.gpu, 94, "Contained: CE User Channel (0x9). RST: No, D-RST: No", 0.04, s.pid_on(s.gpu))
    s.cuda_error(rank, _ECC)
    s.peers_lose([rank])


@fault("G02", "GPU.MEMORY.Row_Remap_Failure", "Row remapping failed", "gpu", "dies")
def row_remap_failure(s: Scene) -> None:
    rank = s.rank_on(s.gpu)
    s.gpu.remap.failure = True
    s.gpu.remap.unc = 8
    s.gpu.remap.none = 1
    s.gpu.remap.low = 1
    s.gpu.aggregate.dram_unc += 9
    row = s.dice.randrange(1 << 32)
    s.xid(s.gpu, 64, f"Row Remapper Error: (0x{row:016x}) - All reserved rows for bank are remapped")
    s.cuda_error(rank, _ECC)
    s.peers_lose([rank])


@fault("G03", "GPU.MEMORY.Uncontained_ECC", "Uncontained memory error", "gpu", "dies")
def uncontained_ecc(s: Scene) -> None:
    rank = s.rank_on(s.gpu)
    s.gpu.volatile.dram_unc += 2
    s.gpu.aggregate.dram_unc += 2
    s.gpu.broken = "unspecified launch failure"
    s.xid(s.gpu, 95, "Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No", 0, s.pid_on(s.gpu))
    _recovery(s, "Reset", 0.01)
    s.xid(s.gpu, 45, "Ch 00000008", 0.3, s.pid_on(s.gpu))
    s.raises(
        rank,
        (
            "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx( handle, opa, opb, "
            "m, n, k, &falpha, a, CUDA_R_16BF, lda, b, CUDA_R_16BF, ldb, &fbeta, c, CUDA_R_16BF, ldc, compute_type, "
            "CUBLAS_GEMM_DEFAULT_TENSOR_OP)`"
        ),
    )
    s.peers_lose([rank])


@fault("G04", "GPU.MEMORY.SRAM_Threshold_Exceeded", "SRAM errors above the threshold", "gpu", "dies")
def sram_threshold_exceeded(s: Scene) -> None:
    rank = s.rank_on(s.gpu)
    s.gpu.volatile.sram_unc_secded += 3
    s.gpu.aggregate.sram_unc_secded += 11
    s.gpu.sram_threshold_exceeded = True
    s.xid(s.gpu, 48, "An uncorrectable ECC error has been detected on GPU in the L2 cache at slice 3.", 0, s.pid_on(s.gpu))
    _detail_record(s, 172, "Uncorrectable SRAM error", 0.01)
    s.cuda_error(rank, _ECC)
    s.peers_lose([rank])


@fault("G05", "GPU.MEMORY.High_Correctable_Rate", "Many corrected memory errors", "gpu", "runs")
def high_correctable_rate(s: Scene) -> None:
    s.gpu.aggregate.dram_corr += 48_211
    s.gpu.volatile.dram_corr += 3_907
    s.gpu.remap.corr = 1
    s.xid(s.gpu, 92, "High single-bit ECC error rate")


@fault("G06", "GPU.MEMORY.InfoROM_Corruption", "InfoROM corrupted", "gpu", "never starts")
def inforom_corruption(s: Scene) -> None:
    s.gpu.inforom_ok = False
    s.gpu.serial = "N/A"
    s.kernel(f"NVRM: GPU {s.gpu.bdf}: InfoROM checksum mismatch, object ECC: expected 0x{s.dice.randrange(256):02x}", level="err")
    rank = s.rank_on(s.gpu)
    s.raises(rank, "RuntimeError: preflight: nvidia-smi health query failed on this host, refusing to start", dt=6)
    s.peers_lose([rank], 12)
