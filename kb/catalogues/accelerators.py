"""Vendors' peak rates and clocks of GPUs.

Matrix rates are dense, link rates one-way; None or zero if unstated.
"""

import fnmatch
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

from kb.catalogues.table import load_table

Precision = Literal["bf16", "fp16", "fp8", "tf32"]
PRECISIONS: tuple[Precision, ...] = ("bf16", "fp16", "fp8", "tf32")


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One GPU in its most common server. Rates are FLOP/s and bytes/s.

    `node` is the number of GPUs in a server and `domain` that of GPUs joined by NVLink; with `in_switch` their switches
    reduce data (SHARP). `network` is one GPU's share of the network adapters, 0 if servers differ. Peaks hold at
    `rated_mhz`; `max_mhz` is the highest SM clock.
    """

    name: str
    arch: str
    title: str
    products: tuple[str, ...]
    flops: tuple[tuple[Precision, float], ...]
    memory: float
    node: int
    domain: int
    nvlink: float
    in_switch: bool
    host_link: str
    host: float
    network: float
    rated_mhz: int
    max_mhz: int
    source: str
    clock_source: str

    def get_peak_flops(self, precision: Precision) -> float | None:
        """Return dense matrix FLOP/s; None without that precision."""
        return dict(self.flops).get(precision)

    def get_clock_share(self, mhz: float | None) -> float:
        """Return the share of peak at an SM clock, at most 1."""
        return 1.0 if mhz is None else min(1.0, max(mhz, 1.0) / self.rated_mhz)

    def matches_product(self, product: str) -> bool:
        return any(fnmatch.fnmatch(product.lower(), pattern.lower()) for pattern in self.products)


@cache
def load_accelerators() -> dict[str, Accelerator]:
    """Return every GPU by name."""
    return {row["name"]: _build_accelerator(row) for row in load_table("accelerators")}


@lru_cache(maxsize=256)
def find_accelerator(product: str) -> Accelerator | None:
    """Return the GPU with this nvidia-smi product name, or None."""
    for accelerator in load_accelerators().values():
        if accelerator.matches_product(product):
            return accelerator
    return None


def _build_accelerator(row: dict[str, str]) -> Accelerator:
    return Accelerator(
        name=row["name"],
        arch=row["arch"],
        title=row["title"],
        products=tuple(row["products"].split(";")),
        flops=tuple((precision, float(row[precision]) * 1e12) for precision in PRECISIONS if row[precision]),
        memory=float(row["memory_gbs"]) * 1e9,
        node=int(row["node"]),
        domain=int(row["domain"]),
        nvlink=float(row["nvlink_gbs"]) * 1e9,
        in_switch=row["in_switch"] == "yes",
        host_link=row["host_link"],
        host=float(row["host_gbs"]) * 1e9,
        network=float(row["nic_gbps"]) * 1e9 / 8,
        rated_mhz=int(row["rated_mhz"]),
        max_mhz=int(row["max_mhz"]),
        source=row["source"],
        clock_source=row["clock_source"],
    )
