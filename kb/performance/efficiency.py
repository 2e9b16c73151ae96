"""Shares of a vendor's peak that healthy machines reach: centre, range and source for each resource.

Four centres (training) are fitted to published single-server results; single products use the middle of a table; the
others are published statements. docs/performance.md validates the model and marks the rows used.
"""

from dataclasses import dataclass

from kb.catalogues.accelerators import Accelerator, Precision


@dataclass(frozen=True, slots=True)
class Efficiency:
    """A share of the vendor's peak: its centre and its range on healthy machines."""

    centre: float
    lowest: float
    highest: float
    source: str


_MAMF = "https://github.com/stas00/ml-engineering/tree/master/compute/accelerator"
_NCCL_RING = "https://github.com/NVIDIA/nccl-tests/issues/212"
# fmt: off
PRODUCTS   = Efficiency(0.80, 0.70, 0.90, f"largest matmul rates found, 0.73 to 0.87 of peak: {_MAMF}")
PRODUCTS_8 = Efficiency(0.74, 0.67, 0.80, f"the same in FP8, 0.71 to 0.78: {_MAMF}")
MEMORY     = Efficiency(0.80, 0.70, 0.93, "memory tests of DCGM, about 0.76 of peak on H100: https://github.com/NVIDIA/DCGM")
RING       = Efficiency(0.80, 0.74, 0.84, f"protocol overhead of about 20 % over NVLink: {_NCCL_RING}")
IN_SWITCH  = Efficiency(1.00, 0.91, 1.08, f"bus bandwidth about the line rate where switches add up: {_NCCL_RING}")
NETWORK    = Efficiency(0.95, 0.88, 0.98, "24 GB/s of a 200 Gb/s adapter, 46 to 48 of a 400 Gb/s one: https://github.com/NVIDIA/nccl-tests/issues/252, /290")
HOST       = Efficiency(0.83, 0.74, 0.89, "limits and usual rates of copies: https://github.com/Azure/azurehpc-health-checks, nvbandwidth")
PEER       = Efficiency(0.79, 0.74, 0.84, "copies between GPUs, 0.78 and 0.76 of the line: https://github.com/Azure/azurehpc-health-checks")
_MPT = "https://github.com/mosaicml/llm-foundry/tree/main/scripts/train/benchmarking"
_BRIDGE = "https://docs.nvidia.com/nemo/megatron-bridge/latest/performance-summary-archive.html"
# Matrix units within a training step; memory traffic, pipeline bubble and ports are modelled separately.
TRAINING = {
    ("ampere", "bf16"):    Efficiency(0.687, 0.45, 0.82, f"fitted: the middle of 7, 13 and 30 B at 2,048 tokens on 8 A100: {_MPT}"),
    ("hopper", "bf16"):    Efficiency(0.513, 0.42, 0.62, f"fitted: the middle of 7, 13 and 30 B at 2,048 tokens on 8 H100: {_MPT}"),
    ("hopper", "fp8"):     Efficiency(0.458, 0.36, 0.53, f"fitted: Llama 3 8B on 8 H100, release 25.11: {_BRIDGE}"),
    ("blackwell", "fp8"):  Efficiency(0.413, 0.33, 0.51, f"fitted: Llama 3 8B on 8 B200, release 25.11: {_BRIDGE}"),
}
# fmt: on

# Seconds per ring step over NVLink and over a network: https://github.com/NVIDIA/nccl, its tuning table (simple
# protocol).
STEP_NVLINK = 3.4e-6
STEP_NETWORK = 14e-6


def get_product_efficiency(precision: Precision) -> Efficiency:
    """Return the efficiency of matrix units in a single product."""
    return PRODUCTS_8 if precision == "fp8" else PRODUCTS


def get_training_efficiency(gpu: Accelerator, precision: Precision) -> Efficiency:
    """Return the efficiency in a training step. GPUs without published results get the widest range of the others."""
    efficiency = TRAINING.get((gpu.arch, precision))
    if efficiency is not None:
        return efficiency
    published = [other for (_, kind), other in TRAINING.items() if (kind == "fp8") == (precision == "fp8")]
    return Efficiency(
        centre=sum(other.centre for other in published) / len(published),
        lowest=min(other.lowest for other in published),
        highest=max(other.highest for other in published),
        source=f"nothing published of {gpu.title}: as the others",
    )
