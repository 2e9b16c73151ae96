"""Operations and bytes of a training step, from its shape, without fitted constants.

Products: 6 operations per parameter and token; attention: 6 x layers x hidden x sequence per token (causal).
Activations: 34 bytes per token, layer and unit of width, written and read in both passes (arXiv 2205.05198).
"""

from dataclasses import dataclass

from kb.catalogues.accelerators import Accelerator
from kb.performance.workloads import JobShape

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
