"""Workloads: training step, all-reduce, product, copy. Each rejects invalid values by field name."""

import math
import re
from dataclasses import dataclass
from typing import Literal

from kb.catalogues.accelerators import Precision

# Parse and format amounts: 70B, 8G, 350ms. Invalid text is refused with an example.

_FORM_PATTERN = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)\s{0,3}([a-zA-Zµ]{0,4})")
_COUNT_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}
_BYTE_UNITS = {"": 1.0, "b": 1.0, "k": 2.0**10, "m": 2.0**20, "g": 2.0**30, "t": 2.0**40}
_SECOND_UNITS = {"": 1.0, "s": 1.0, "sec": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "min": 60.0, "m": 60.0, "h": 3600.0}
_MAX_CHARS = 40


class BadQuantity(ValueError):
    """Words that are no such amount."""


def parse_count(text: str) -> float:
    """Parse `70B`, `7.5 b` or `1300`."""
    return _parse_quantity(text, _COUNT_UNITS, "70B or 1.3T")


def parse_bytes(text: str) -> float:
    """Parse `8G` or `512MiB`, in powers of two as in nccl-tests."""
    return _parse_quantity(re.sub(r"(?i)([kmgt])i?b$", r"\1", text.strip()[:_MAX_CHARS]), _BYTE_UNITS, "8G or 512M")


def parse_seconds(text: str) -> float:
    """Parse `12.3s`, `350ms` or `2min`."""
    return _parse_quantity(text, _SECOND_UNITS, "12.3s or 350ms")


def _parse_quantity(text: str, units: dict[str, float], example: str) -> float:
    match = _FORM_PATTERN.fullmatch(text.strip()[:_MAX_CHARS])
    unit = match[2].lower() if match else None
    value = float(match[1]) * units[unit] if match and unit in units else 0.0
    if not 0 < value < math.inf:
        raise BadQuantity(f"{text[:_MAX_CHARS]!r} is no such amount; write it as {example}")
    return value


def format_duration(seconds: float) -> str:
    """`12.3 s`, `350 ms`, `41.2 µs`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}" if seconds < 1000 * size else f"{seconds / size:,.0f} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def format_bytes(size: float) -> str:
    """`8 GiB`, `64 MiB`."""
    for unit, step in (("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10)):
        if size >= step:
            return f"{size / step:.4g} {unit}"
    return f"{size:.4g} B"


Recompute = Literal["none", "selective", "full"]
Sharding = Literal["none", "optimizer", "full"]
RECOMPUTE_KINDS: tuple[Recompute, ...] = ("none", "selective", "full")
SHARDING_KINDS: tuple[Sharding, ...] = ("none", "optimizer", "full")
# Typical hidden size per layer of dense transformers: 8,192 in 80 layers, 16,384 in 126, 4,096 in 32.
HIDDEN_PER_LAYER = 128
MAX_COUNT = 1 << 24  # GPUs, layers or sequences; more is a typing error


class BadWorkload(ValueError):
    """A shape that cannot be; `field` is the part of it that is wrong, `why` the rest of the sentence."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field, self.why = field, why


@dataclass(frozen=True, slots=True)
class JobShape:
    """One training step of a dense transformer. `batch` counts sequences over all GPUs.

    `layers` and `hidden` are estimated if 0. `interleave`: model chunks per pipeline stage.
    """

    params: float
    sequence: int
    batch: int
    gpus: int
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    micro: int = 1
    interleave: int = 1
    layers: int = 0
    hidden: int = 0
    precision: Precision = "bf16"
    recompute: Recompute = "none"
    sharding: Sharding = "optimizer"

    def __post_init__(self) -> None:
        _require_within("params", self.params, 1e6, 1e14)
        for field in ("sequence", "batch", "gpus", "tensor", "pipeline", "context", "micro", "interleave"):
            _require_within(field, getattr(self, field), 1, MAX_COUNT)
        for field in ("layers", "hidden"):
            _require_within(field, getattr(self, field), 0, MAX_COUNT)
        if self.gpus % self.model_gpus:
            raise BadWorkload(
                "gpus", f"{self.gpus} cannot be divided by tensor {self.tensor} x pipeline {self.pipeline} x context {self.context}"
            )
        if self.batch % (self.data * self.micro):
            raise BadWorkload("batch", f"{self.batch} cannot be divided by data parallelism {self.data} x micro batch {self.micro}")
        if self.depth < self.pipeline * self.interleave:
            raise BadWorkload("pipeline", f"{self.depth} layers are fewer than pipeline {self.pipeline} x interleave {self.interleave}")

    @property
    def model_gpus(self) -> int:
        """GPUs per model replica."""
        return self.tensor * self.pipeline * self.context

    @property
    def data(self) -> int:
        """Model replicas."""
        return self.gpus // self.model_gpus

    @property
    def micros(self) -> int:
        """Micro batches per pipeline and step."""
        return self.batch // (self.data * self.micro)

    @property
    def tokens(self) -> int:
        return self.batch * self.sequence

    @property
    def width(self) -> float:
        """Hidden size, given or from `params` (12 x layers x hidden²)."""
        return float(self.hidden) if self.hidden else (HIDDEN_PER_LAYER * self.params / 12) ** (1 / 3)

    @property
    def depth(self) -> int:
        return self.layers or max(1, round(self.params / (12 * self.width**2)))

    def describe(self) -> str:
        parts = (("tensor", self.tensor), ("pipeline", self.pipeline), ("context", self.context), ("data", self.data))
        split = ", ".join(f"{name} {n}" for name, n in parts if n > 1 or name == "data")
        return (
            f"a step of {self.params / 1e9:.4g} B parameters in {self.precision}: {self.batch:,} sequences of {self.sequence:,} "
            f"on {self.gpus:,} GPUs ({split})"
        )


@dataclass(frozen=True, slots=True)
class AllReduce:
    """An all-reduce. `network` overrides the total bytes/s of a server's adapters."""

    size: float
    gpus: int
    network: float | None = None

    def __post_init__(self) -> None:
        _require_within("size", self.size, 1, 1e15)
        _require_within("gpus", self.gpus, 2, MAX_COUNT)
        if self.network is not None:
            _require_within("network", self.network, 1e6, 1e14)

    def describe(self) -> str:
        return f"an all-reduce of {format_bytes(self.size)} over {self.gpus:,} GPUs"


@dataclass(frozen=True, slots=True)
class Gemm:
    """One matrix product, m x k by k x n."""

    m: int
    n: int
    k: int
    precision: Precision = "bf16"

    def __post_init__(self) -> None:
        for field in ("m", "n", "k"):
            _require_within(field, getattr(self, field), 1, 1 << 30)

    def describe(self) -> str:
        return f"a product of {self.m:,} x {self.k:,} by {self.k:,} x {self.n:,} in {self.precision}"


CopyKind = Literal["host", "peer", "memory"]
COPY_KINDS: tuple[CopyKind, ...] = ("host", "peer", "memory")


@dataclass(frozen=True, slots=True)
class Copy:
    """A one-way copy: host to GPU, GPU to GPU, or within a GPU's memory (read and write)."""

    size: float
    kind: CopyKind = "host"

    def __post_init__(self) -> None:
        _require_within("size", self.size, 1, 1e15)

    def describe(self) -> str:
        ends = {"host": "between host and GPU", "peer": "between two GPUs", "memory": "within a GPU's memory"}
        return f"a copy of {format_bytes(self.size)} {ends[self.kind]}"


Workload = JobShape | AllReduce | Gemm | Copy


def _require_within(field: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise BadWorkload(field, f"{value:g} is not between {least:g} and {most:g}")
