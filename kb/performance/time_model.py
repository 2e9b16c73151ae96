"""Expected time of a workload from operations, bytes and their overlap.

Matrix units and memory work in sequence, ports in parallel with both (arXiv 2411.05349, section 4.2.2). The interval
spans healthy machines; at its upper end ports overlap with nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, assert_never

from kb.catalogues.accelerators import Accelerator, Precision
from kb.performance.workloads import AllReduce, BadWorkload, Copy, Gemm, JobShape, Workload

# Share of a vendor's peak that healthy machines reach: centre, range and source per resource.
#
# Four centres (training) are fitted to published single-server results; single products use the middle of a table; the
# others are published statements. docs/performance.md validates the model and marks the rows used.


@dataclass(frozen=True, slots=True)
class Efficiency:
    """A share of peak and its range on healthy machines."""

    centre: float
    least: float
    most: float
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
    """Return the efficiency in a single product."""
    return PRODUCTS_8 if precision == "fp8" else PRODUCTS


def get_training_efficiency(gpu: Accelerator, precision: Precision) -> Efficiency:
    """Return the widest known range for GPUs without published results."""
    efficiency = TRAINING.get((gpu.arch, precision))
    if efficiency is not None:
        return efficiency
    like = [row for (_, kind), row in TRAINING.items() if (kind == "fp8") == (precision == "fp8")]
    centre = sum(row.centre for row in like) / len(like)
    return Efficiency(
        centre, min(row.least for row in like), max(row.most for row in like), f"nothing published of {gpu.title}: as the others"
    )


# Operations and bytes of a training step, from its shape, without fitted constants.
#
# Products: 6 operations per parameter and token; attention: 6 x layers x hidden x sequence per token (causal).
# Activations: 34 bytes per token, layer and unit of width, written and read in both passes (arXiv 2205.05198).

BYTES_PER_WEIGHT = 2.0  # also per gradient and activation, as moved
ACTIVATION_BYTES = 34.0
ACTIVATION_PASSES = 4.0
OPTIMIZER_BYTES = 30.0  # read and written per parameter by one Adam update in single precision


@dataclass(frozen=True, slots=True)
class JobAmounts:
    """Per GPU and step: FLOPs needed and executed, bytes of memory and past each kind of port."""

    model_flops: float
    flops: float
    memory: float
    nvlink: float
    network: float
    nvlink_steps: int = 0


def compute_peer_bytes(size: float, ranks: int) -> float:
    """Return 2(n-1)/n of `size`, the bytes per rank by which nccl-tests counts bus bandwidth."""
    return 2 * (ranks - 1) / ranks * size


def compute_job_amounts(shape: JobShape, gpu: Accelerator) -> JobAmounts:
    """Compute all amounts. Groups within one NVLink domain use NVLink, others the adapters."""
    near_bytes, far = _compute_port_bytes(shape, gpu)
    return JobAmounts(
        model_flops=compute_model_flops(shape) / shape.gpus,
        flops=compute_model_flops(shape) * _get_recompute_factor(shape) / shape.gpus,
        memory=_compute_memory_bytes(shape),
        nvlink=near_bytes,
        network=far,
        nvlink_steps=_count_all_reduces(shape) * 2 * (shape.tensor - 1),
    )


def compute_model_flops(shape: JobShape) -> float:
    """Compute FLOPs without recomputation."""
    return 6.0 * shape.tokens * (shape.params + shape.depth * shape.width * shape.sequence)


def _get_recompute_factor(shape: JobShape) -> float:
    """Recompute the full forward pass, or its attention."""
    if shape.recompute == "full":
        return 4 / 3
    attention = shape.depth * shape.width * shape.sequence
    return 1 + attention / (3 * (shape.params + attention)) if shape.recompute == "selective" else 1.0


def _compute_memory_bytes(shape: JobShape) -> float:
    params_per_gpu = shape.params / (shape.tensor * shape.pipeline)
    passes = 4 if shape.recompute == "full" else 3
    weights = BYTES_PER_WEIGHT * params_per_gpu * passes * shape.micros
    activations = ACTIVATION_BYTES * ACTIVATION_PASSES * shape.width * shape.depth * shape.tokens / shape.gpus
    return weights + activations + OPTIMIZER_BYTES * params_per_gpu / (1 if shape.sharding == "none" else shape.data)


def _count_all_reduces(shape: JobShape) -> int:
    """Two per layer and pass, two more with full recomputation."""
    return (6 if shape.recompute == "full" else 4) * -(-shape.depth // shape.pipeline) * shape.micros if shape.tensor > 1 else 0


def _compute_port_bytes(shape: JobShape, gpu: Accelerator) -> tuple[float, float]:
    """Past one GPU, over NVLink and adapters."""
    moved = {"nvlink": 0.0, "network": 0.0}
    activation = BYTES_PER_WEIGHT * shape.sequence / shape.context * shape.micro * shape.width

    def move(amount: float, reach: int) -> None:
        moved["nvlink" if reach <= gpu.domain else "network"] += amount

    move(_count_all_reduces(shape) * compute_peer_bytes(activation, shape.tensor), shape.tensor)
    if shape.pipeline > 1:
        crossings = 2 * shape.interleave * shape.micros
        move(crossings * activation / shape.tensor, shape.model_gpus)
    if shape.data > 1:
        move(_compute_gradient_bytes(shape) / _count_sharing_gpus(shape, gpu), shape.gpus)
    return moved["nvlink"], moved["network"]


def _compute_gradient_bytes(shape: JobShape) -> float:
    """One sum; fully sharded weights are also gathered per micro batch."""
    gradient_bytes = BYTES_PER_WEIGHT * shape.params / (shape.tensor * shape.pipeline)
    if shape.sharding == "full":
        return (2 * shape.micros + 1) * (shape.data - 1) / shape.data * gradient_bytes
    return compute_peer_bytes(gradient_bytes, shape.data)


def _count_sharing_gpus(shape: JobShape, gpu: Accelerator) -> int:
    """GPUs of a server that sum the same part, each over its own adapter."""
    if shape.gpus <= gpu.domain:
        return 1
    return max(1, min(gpu.node // (shape.tensor * shape.context), shape.data))


Resource = Literal["compute", "memory", "nvlink", "network", "host link"]
BYTES_PER_NUMBER: dict[Precision, float] = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "tf32": 4.0}


@dataclass(frozen=True, slots=True)
class TimePart:
    """One resource's time and range. `beside`: parallel with the others."""

    resource: Resource
    seconds: float
    least: float
    most: float
    beside: bool = False


@dataclass(frozen=True, slots=True)
class ExpectedTime:
    """A time and its interval. `work` divided by seconds is a rate in `unit`."""

    says: str
    gpu: str
    seconds: float
    least: float
    most: float
    parts: tuple[TimePart, ...]
    work: float
    unit: str
    stretch: float = 1.0  # factor for filling and draining the pipeline
    peers: int = 0  # measured peers behind the time; 0 if modelled

    @property
    def rate(self) -> float:
        return self.work / self.seconds

    @property
    def bound(self) -> Resource:
        """The limiting resource."""
        inside, ports = [part for part in self.parts if not part.beside], [part for part in self.parts if part.beside]
        longest = max(ports, key=lambda part: part.seconds, default=None)
        if longest is not None and longest.seconds > sum(part.seconds for part in inside):
            return longest.resource
        return max(inside, key=lambda part: part.seconds).resource


def compute_expected_time(shape: Workload, gpu: Accelerator, mhz: float | None = None) -> ExpectedTime:
    """Compute at an SM clock, by default the usual one. Raises BadWorkload."""
    match shape:
        case JobShape():
            return _model_job(shape, gpu, mhz)
        case AllReduce():
            return _model_all_reduce(shape, gpu)
        case Gemm():
            return _model_gemm(shape, gpu, mhz)
        case Copy():
            return _model_copy(shape, gpu)
    assert_never(shape)


def compute_overlapped_time(parts: Sequence[TimePart], stretch: float = 1.0) -> tuple[float, float, float]:
    """Return centre and both ends. Ports alone always overlap."""
    inside, ports = [part for part in parts if not part.beside], [part for part in parts if part.beside]

    def hidden(of: Callable[[TimePart], float]) -> float:
        return max(sum(map(of, inside)), *map(of, ports), 0.0) * stretch

    apart = sum(part.most for part in parts) * stretch if inside else hidden(lambda part: part.most)
    return hidden(lambda part: part.seconds), hidden(lambda part: part.least), apart


def _build_part(
    resource: Resource, amount: float, peak: float, reached: Efficiency, *, beside: bool = False, delay: float = 0.0
) -> TimePart:
    ideal = amount / peak
    return TimePart(resource, delay + ideal / reached.centre, delay + ideal / reached.most, delay + ideal / reached.least, beside)


def _build_expected(
    shape: Workload, gpu: Accelerator, parts: Sequence[TimePart], work: float, unit: str, stretch: float = 1.0
) -> ExpectedTime:
    seconds, least, most = compute_overlapped_time(parts, stretch)
    timed_parts = tuple(part for part in parts if part.most > 0)
    return ExpectedTime(shape.describe(), gpu.name, seconds, least, most, timed_parts, work, unit, stretch)


def get_peak_at_clock(gpu: Accelerator, precision: Precision, mhz: float | None) -> float:
    """Return FLOP/s. Raises BadWorkload."""
    peak = gpu.get_peak_flops(precision)
    if peak is None:
        raise BadWorkload(
            "precision", f"{gpu.title} has no matrix units for {precision}; it has {', '.join(name for name, _ in gpu.flops)}"
        )
    return peak * gpu.get_clock_share(mhz)


def _model_gemm(shape: Gemm, gpu: Accelerator, mhz: float | None) -> ExpectedTime:
    """Loads overlap with computation: the slower resource counts."""
    operations = 2.0 * shape.m * shape.n * shape.k
    moved = BYTES_PER_NUMBER[shape.precision] * (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n)
    parts = [
        _build_part(
            "compute",
            operations,
            get_peak_at_clock(gpu, shape.precision, mhz),
            get_product_efficiency(shape.precision),
            beside=True,
        ),
        _build_part("memory", moved, gpu.memory, MEMORY, beside=True),
    ]
    return _build_expected(shape, gpu, parts, operations / 1e12, "TFLOP/s")


def _model_copy(shape: Copy, gpu: Accelerator) -> ExpectedTime:
    if shape.kind == "host":
        parts = [_build_part("host link", shape.size, gpu.host, HOST)]
    elif shape.kind == "memory":
        parts = [_build_part("memory", 2 * shape.size, gpu.memory, MEMORY)]
    elif gpu.nvlink:
        parts = [_build_part("nvlink", shape.size, gpu.nvlink, PEER)]
    else:
        parts = [_build_part("host link", shape.size, gpu.host, HOST)]
    return _build_expected(shape, gpu, parts, shape.size / 1e9, "GB/s")


def _model_all_reduce(shape: AllReduce, gpu: Accelerator) -> ExpectedTime:
    moved = compute_peer_bytes(shape.size, shape.gpus)
    return _build_expected(shape, gpu, _build_ring_parts(moved, shape, gpu), moved / 1e9, "GB/s")


def _build_ring_parts(moved: float, shape: AllReduce, gpu: Accelerator) -> list[TimePart]:
    """NVLinks and adapters overlap: the slower counts."""
    local_gpus = min(shape.gpus, gpu.domain)
    delay = 2 * (local_gpus - 1) * STEP_NVLINK
    reached = IN_SWITCH if gpu.in_switch else RING
    local_parts = [_build_part("nvlink", moved, gpu.nvlink, reached, beside=True, delay=delay)] if local_gpus > 1 else []
    if shape.gpus <= gpu.domain:
        return local_parts
    if gpu.domain > gpu.node:
        raise BadWorkload(
            "gpus", f"{shape.gpus} are more than the {gpu.domain} that NVLink joins, beyond which nothing is modelled for {gpu.title}"
        )
    if gpu.domain < gpu.node:
        local_parts = [_build_part("host link", moved, gpu.host, HOST, beside=True, delay=delay)]
    return [*local_parts, *_build_network_parts(moved, shape, gpu)]


def _build_network_parts(moved: float, shape: AllReduce, gpu: Accelerator) -> list[TimePart]:
    servers = -(-shape.gpus // gpu.node)
    if servers == 1:
        return []
    rate = shape.network or gpu.network * gpu.node
    if not rate:
        raise BadWorkload("network", f"servers with {gpu.title} differ: say what the adapters of one reach together")
    sent_bytes = moved / 2 if servers == 2 and gpu.in_switch else moved  # each of two servers sends its sum once
    return [_build_part("network", sent_bytes, rate, NETWORK, beside=True, delay=2 * (servers - 1) * STEP_NETWORK)]


def _model_job(shape: JobShape, gpu: Accelerator, mhz: float | None) -> ExpectedTime:
    amounts = compute_job_amounts(shape, gpu)
    if amounts.network and not gpu.network:
        raise BadWorkload(
            "gpus", f"servers with {gpu.title} differ in their adapters: a job on one server of {gpu.node} is all that is modelled"
        )
    if amounts.nvlink and not gpu.nvlink:
        raise BadWorkload("tensor", f"{gpu.title} has no NVLink: tensor parallelism over PCIe is not modelled")
    parts = [
        _build_part("compute", amounts.flops, get_peak_at_clock(gpu, shape.precision, mhz), get_training_efficiency(gpu, shape.precision)),
        _build_part("memory", amounts.memory, gpu.memory, MEMORY),
    ]
    if amounts.nvlink:
        delay = amounts.nvlink_steps * STEP_NVLINK
        parts.append(_build_part("nvlink", amounts.nvlink, gpu.nvlink, RING, beside=True, delay=delay))
    if amounts.network:
        parts.append(_build_part("network", amounts.network, gpu.network, NETWORK, beside=True))
    bubble = 1 + (shape.pipeline - 1) / (shape.micros * shape.interleave)
    return _build_expected(shape, gpu, parts, amounts.model_flops / 1e12, "TFLOP/s of each GPU", bubble)
