"""What a step of training computes, reads and moves: counted from its shape alone, with nothing fitted.

Products take 6 operations a parameter and token, attention 6 x layers x hidden x sequence a token (half of all pairs, for a token sees none after it).
Activations are counted as 34 bytes a token, layer and unit of width, each written and read on the way there and back (arXiv 2205.05198).
"""

from dataclasses import dataclass

from kb.catalogues.accelerators import Accelerator
from kb.performance.workloads import JobShape

BYTES_PER_WEIGHT = 2.0
"""Bytes of a weight, a gradient or an activation as they are moved."""
ACTIVATION_BYTES, ACTIVATION_PASSES = 34.0, 4.0
OPTIMIZER_BYTES = 30.0
"""Bytes read and written a parameter by one update of Adam in single precision."""


@dataclass(frozen=True, slots=True)
class JobAmounts:
    """Of one GPU in one step: operations that the model needs and that are done, bytes of memory, seconds x bytes/s of each kind of port."""

    model_flops: float
    flops: float
    memory: float
    nvlink: float
    network: float
    nvlink_steps: int = 0


def compute_peer_bytes(size: float, ranks: int) -> float:
    """Bytes that an all-reduce moves past each rank: 2(n-1)/n of them, by which nccl-tests count bus bandwidth."""
    return 2 * (ranks - 1) / ranks * size


def compute_job_amounts(shape: JobShape, gpu: Accelerator) -> JobAmounts:
    """All of it. A group of GPUs that fits into the reach of NVLink moves over it, any other over the adapters."""
    near, far = _compute_port_bytes(shape, gpu)
    return JobAmounts(
        model_flops=compute_model_flops(shape) / shape.gpus,
        flops=compute_model_flops(shape) * _get_recompute_factor(shape) / shape.gpus,
        memory=_compute_memory_bytes(shape),
        nvlink=near,
        network=far,
        nvlink_steps=_count_all_reduces(shape) * 2 * (shape.tensor - 1),
    )


def compute_model_flops(shape: JobShape) -> float:
    """Of the whole step, without what is computed twice."""
    return 6.0 * shape.tokens * (shape.params + shape.depth * shape.width * shape.sequence)


def _get_recompute_factor(shape: JobShape) -> float:
    """How much more is done where activations are computed again: all of the way there, or the attention of it."""
    if shape.recompute == "full":
        return 4 / 3
    attention = shape.depth * shape.width * shape.sequence
    return 1 + attention / (3 * (shape.params + attention)) if shape.recompute == "selective" else 1.0


def _compute_memory_bytes(shape: JobShape) -> float:
    held = shape.params / (shape.tensor * shape.pipeline)
    passes = 4 if shape.recompute == "full" else 3
    weights = BYTES_PER_WEIGHT * held * passes * shape.micros
    activations = ACTIVATION_BYTES * ACTIVATION_PASSES * shape.width * shape.depth * shape.tokens / shape.gpus
    return weights + activations + OPTIMIZER_BYTES * held / (1 if shape.sharding == "none" else shape.data)


def _count_all_reduces(shape: JobShape) -> int:
    """All-reduces of tensor parallelism in a step: two a layer there, two back, two more where it is computed again."""
    return (6 if shape.recompute == "full" else 4) * -(-shape.depth // shape.pipeline) * shape.micros if shape.tensor > 1 else 0


def _compute_port_bytes(shape: JobShape, gpu: Accelerator) -> tuple[float, float]:
    """Bytes past one GPU over NVLink and over the adapters."""
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
    """Bytes of the model's part that data parallelism moves: summed once; wholly sharded weights are gathered for each micro batch as well."""
    held = BYTES_PER_WEIGHT * shape.params / (shape.tensor * shape.pipeline)
    if shape.sharding == "full":
        return (2 * shape.micros + 1) * (shape.data - 1) / shape.data * held
    return compute_peer_bytes(held, shape.data)


def _count_sharing_gpus(shape: JobShape, gpu: Accelerator) -> int:
    """GPUs of a server that sum the same part: each sends its share of it over an adapter of its own."""
    if shape.gpus <= gpu.domain:
        return 1
    return max(1, min(gpu.node // (shape.tensor * shape.context), shape.data))
