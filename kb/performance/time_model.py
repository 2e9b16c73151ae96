"""Model of the time that a workload should take, from its operations, its bytes and their overlap.

Matrix units and memory work in sequence, and ports in parallel with both (arXiv 2411.05349, section 4.2.2). The interval
covers healthy machines. At its upper end, ports overlap with nothing.

Operations and bytes of a training step follow from its shape, without fitted constants. Products: 6 operations per
parameter and token; attention: 6 x layers x hidden x sequence per token (causal). Activations: 34 bytes per token, layer
and unit of width, written and read in both passes (arXiv 2205.05198).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, assert_never

from kb.catalogues.accelerators import Accelerator, Precision
from kb.performance.efficiency import (
    HOST,
    IN_SWITCH,
    MEMORY,
    NETWORK,
    PEER,
    RING,
    STEP_NETWORK,
    STEP_NVLINK,
    Efficiency,
    get_product_efficiency,
    get_training_efficiency,
)
from kb.performance.workloads import AllReduce, BadWorkload, Copy, Gemm, JobShape, Workload

BYTES_PER_WEIGHT = 2.0  # also per gradient and activation, as moved
ACTIVATION_BYTES = 34.0
ACTIVATION_PASSES = 4.0
OPTIMIZER_BYTES = 30.0  # read and written per parameter by one Adam update in single precision
Resource = Literal["compute", "memory", "nvlink", "network", "host link"]
BYTES_PER_NUMBER: dict[Precision, float] = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "tf32": 4.0}


@dataclass(frozen=True, slots=True)
class JobAmounts:
    """Amounts per GPU and step: FLOPs of the model and executed, bytes of memory, and bytes through each kind of port."""

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
    """Compute all amounts. Groups of GPUs within one NVLink domain use NVLink, others use the network adapters."""
    nvlink_bytes, network_bytes = _compute_port_bytes(shape, gpu)
    return JobAmounts(
        model_flops=compute_model_flops(shape) / shape.gpus,
        flops=compute_model_flops(shape) * _get_recompute_factor(shape) / shape.gpus,
        memory=_compute_memory_bytes(shape),
        nvlink=nvlink_bytes,
        network=network_bytes,
        nvlink_steps=_count_all_reduces(shape) * 2 * (shape.tensor - 1),
    )


def compute_model_flops(shape: JobShape) -> float:
    """Return the FLOPs of a step without recomputation."""
    return 6.0 * shape.tokens * (shape.params + shape.layer_count * shape.hidden_size * shape.sequence)


def _get_recompute_factor(shape: JobShape) -> float:
    """Return executed by needed FLOPs, if the backward pass recomputes the forward pass or its attention."""
    if shape.recompute == "full":
        return 4 / 3
    attention = shape.layer_count * shape.hidden_size * shape.sequence
    return 1 + attention / (3 * (shape.params + attention)) if shape.recompute == "selective" else 1.0


def _compute_memory_bytes(shape: JobShape) -> float:
    params_per_gpu = shape.params / (shape.tensor * shape.pipeline)
    passes = 4 if shape.recompute == "full" else 3
    weights = BYTES_PER_WEIGHT * params_per_gpu * passes * shape.micro_batches
    activations = ACTIVATION_BYTES * ACTIVATION_PASSES * shape.hidden_size * shape.layer_count * shape.tokens / shape.gpus
    return weights + activations + OPTIMIZER_BYTES * params_per_gpu / (1 if shape.sharding == "none" else shape.replicas)


def _count_all_reduces(shape: JobShape) -> int:
    """Count the all-reduces of tensor parallelism: two per layer and pass, and two more with full recomputation."""
    if shape.tensor <= 1:
        return 0
    per_layer = 6 if shape.recompute == "full" else 4
    layers_per_stage = -(-shape.layer_count // shape.pipeline)
    return per_layer * layers_per_stage * shape.micro_batches


def _compute_port_bytes(shape: JobShape, gpu: Accelerator) -> tuple[float, float]:
    """Return the bytes that one GPU moves over NVLink and over the network."""
    moved_bytes = {"nvlink": 0.0, "network": 0.0}
    activation_bytes = BYTES_PER_WEIGHT * shape.sequence / shape.context * shape.micro * shape.hidden_size

    def add_bytes(amount: float, group_size: int) -> None:
        moved_bytes["nvlink" if group_size <= gpu.domain else "network"] += amount

    add_bytes(_count_all_reduces(shape) * compute_peer_bytes(activation_bytes, shape.tensor), shape.tensor)
    if shape.pipeline > 1:
        crossings = 2 * shape.interleave * shape.micro_batches
        add_bytes(crossings * activation_bytes / shape.tensor, shape.model_gpus)
    if shape.replicas > 1:
        add_bytes(_compute_gradient_bytes(shape) / _count_sharing_gpus(shape, gpu), shape.gpus)
    return moved_bytes["nvlink"], moved_bytes["network"]


def _compute_gradient_bytes(shape: JobShape) -> float:
    """Return the bytes that sum the gradients. Fully sharded weights are also gathered for each micro batch."""
    gradient_bytes = BYTES_PER_WEIGHT * shape.params / (shape.tensor * shape.pipeline)
    if shape.sharding == "full":
        return (2 * shape.micro_batches + 1) * (shape.replicas - 1) / shape.replicas * gradient_bytes
    return compute_peer_bytes(gradient_bytes, shape.replicas)


def _count_sharing_gpus(shape: JobShape, gpu: Accelerator) -> int:
    """Count the GPUs of a server that sum the same gradients, each over its own adapter."""
    if shape.gpus <= gpu.domain:
        return 1
    return max(1, min(gpu.node // (shape.tensor * shape.context), shape.replicas))


@dataclass(frozen=True, slots=True)
class TimePart:
    """The time of one resource and its range. A part that `is_parallel` overlaps with the others."""

    resource: Resource
    seconds: float
    min_seconds: float
    max_seconds: float
    is_parallel: bool = False


@dataclass(frozen=True, slots=True)
class ExpectedTime:
    """An expected time and its interval on healthy machines. `work` divided by seconds is a rate in `unit`."""

    says: str
    gpu: str
    seconds: float
    min_seconds: float
    max_seconds: float
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
        """The resource that limits the time."""
        sequential_parts, parallel_parts = _partition_parts(self.parts)
        longest = max(parallel_parts, key=lambda part: part.seconds, default=None)
        if longest is not None and longest.seconds > sum(part.seconds for part in sequential_parts):
            return longest.resource
        return max(sequential_parts, key=lambda part: part.seconds).resource


def _partition_parts(parts: Sequence[TimePart]) -> tuple[list[TimePart], list[TimePart]]:
    """Return the parts that work in sequence, and those that overlap with the others."""
    return [part for part in parts if not part.is_parallel], [part for part in parts if part.is_parallel]


def compute_expected_time(shape: Workload, gpu: Accelerator, mhz: float | None = None) -> ExpectedTime:
    """Return the expected time at an SM clock, by default the usual one.

    Raises:
        BadWorkload: the workload cannot be modelled on this GPU.
    """
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
    """Return the centre, the lower end and the upper end of the total time.

    At the upper end ports do not overlap with other parts, though they always overlap with each other if alone.
    """
    sequential_parts, parallel_parts = _partition_parts(parts)

    def overlap(get_seconds: Callable[[TimePart], float]) -> float:
        return max(sum(map(get_seconds, sequential_parts)), *map(get_seconds, parallel_parts), 0.0) * stretch

    max_seconds = overlap(lambda part: part.max_seconds)
    if sequential_parts:
        max_seconds = sum(part.max_seconds for part in parts) * stretch
    return overlap(lambda part: part.seconds), overlap(lambda part: part.min_seconds), max_seconds


def _build_part(
    resource: Resource, amount: float, peak: float, efficiency: Efficiency, *, is_parallel: bool = False, delay: float = 0.0
) -> TimePart:
    ideal = amount / peak
    return TimePart(
        resource,
        seconds=delay + ideal / efficiency.centre,
        min_seconds=delay + ideal / efficiency.highest,
        max_seconds=delay + ideal / efficiency.lowest,
        is_parallel=is_parallel,
    )


def _build_expected(
    shape: Workload, gpu: Accelerator, parts: Sequence[TimePart], work: float, unit: str, stretch: float = 1.0
) -> ExpectedTime:
    seconds, min_seconds, max_seconds = compute_overlapped_time(parts, stretch)
    timed_parts = tuple(part for part in parts if part.max_seconds > 0)
    return ExpectedTime(shape.describe(), gpu.name, seconds, min_seconds, max_seconds, timed_parts, work, unit, stretch)


def get_peak_at_clock(gpu: Accelerator, precision: Precision, mhz: float | None) -> float:
    """Return the peak FLOP/s of the matrix units at an SM clock.

    Raises:
        BadWorkload: the GPU has no matrix units for the precision.
    """
    peak = gpu.get_peak_flops(precision)
    if peak is None:
        raise BadWorkload(
            "precision", f"{gpu.title} has no matrix units for {precision}; it has {', '.join(name for name, _ in gpu.flops)}"
        )
    return peak * gpu.get_clock_share(mhz)


def _model_gemm(shape: Gemm, gpu: Accelerator, mhz: float | None) -> ExpectedTime:
    """Model a product. Loads overlap with computation, so the slower resource counts."""
    operations = 2.0 * shape.m * shape.n * shape.k
    moved = BYTES_PER_NUMBER[shape.precision] * (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n)
    parts = [
        _build_part(
            "compute",
            operations,
            get_peak_at_clock(gpu, shape.precision, mhz),
            get_product_efficiency(shape.precision),
            is_parallel=True,
        ),
        _build_part("memory", moved, gpu.memory, MEMORY, is_parallel=True),
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
    """Return the parts of a ring over NVLink and the network. They overlap, so the slower one counts."""
    local_gpus = min(shape.gpus, gpu.domain)
    delay = 2 * (local_gpus - 1) * STEP_NVLINK
    efficiency = IN_SWITCH if gpu.in_switch else RING
    local_parts = [_build_part("nvlink", moved, gpu.nvlink, efficiency, is_parallel=True, delay=delay)] if local_gpus > 1 else []
    if shape.gpus <= gpu.domain:
        return local_parts
    if gpu.domain > gpu.node:
        raise BadWorkload(
            "gpus", f"{shape.gpus} are more than the {gpu.domain} that NVLink joins, beyond which nothing is modelled for {gpu.title}"
        )
    if gpu.domain < gpu.node:
        local_parts = [_build_part("host link", moved, gpu.host, HOST, is_parallel=True, delay=delay)]
    return [*local_parts, *_build_network_parts(moved, shape, gpu)]


def _build_network_parts(moved: float, shape: AllReduce, gpu: Accelerator) -> list[TimePart]:
    servers = -(-shape.gpus // gpu.node)
    if servers == 1:
        return []
    rate = shape.network or gpu.network * gpu.node
    if not rate:
        raise BadWorkload("network", f"servers with {gpu.title} differ: say what the adapters of one reach together")
    sent_bytes = moved / 2 if servers == 2 and gpu.in_switch else moved  # each of two servers sends its sum once
    return [_build_part("network", sent_bytes, rate, NETWORK, is_parallel=True, delay=2 * (servers - 1) * STEP_NETWORK)]


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
        parts.append(_build_part("nvlink", amounts.nvlink, gpu.nvlink, RING, is_parallel=True, delay=delay))
    if amounts.network:
        parts.append(_build_part("network", amounts.network, gpu.network, NETWORK, is_parallel=True))
    bubble = 1 + (shape.pipeline - 1) / (shape.micro_batches * shape.interleave)
    return _build_expected(shape, gpu, parts, amounts.model_flops / 1e12, "TFLOP/s of each GPU", bubble)
