"""Simplified facts and scoring without a fleet: each clue counts once, without places or trust. Enough to test weights."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kb.taxonomy.taxonomy import Leaf, Taxonomy


@dataclass(frozen=True)
class Seen:
    key: str
    value: Any = True
    device: str | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)
    stale: bool = False
    unit: str = ""
    status: str = "ok"


def seen(key: str, value: Any = True, device: str | None = None, **attrs: Any) -> Seen:
    return Seen(key, value, device, attrs)


DGX: Mapping[str, Any] = {
    "gpu.count": 8,
    "pcie.gpu_count": 8,
    "pcie.width": 16,
    "gpu.pcie.width": 16,
    "pcie.speed": 32.0,
    "nvlink.active": 18,
    "nvlink.inactive": 0,
    "topo.nvlink_width": 18,
    "gpu.power.limit": 700.0,
    "gpu.clock.app": 1980,
    "gpu.mig": False,
    "ib.count": 8,
    "ib.state": "Active",
    "ib.phys_state": "LinkUp",
    "ib.rate": 400,
    "service.state": "active",
    "gpu.fabric.state": "Completed",
    "gpu.compute_mode": "Default",
    "nccl.busbw_max": 460,
    "ib.link_layer": "InfiniBand",
}


def likely(
    taxonomy: Taxonomy, facts: Sequence[Seen], expected: Mapping[str, Any] = DGX, majority: Mapping[str, Any] | None = None
) -> dict[str, float]:
    """Return the posterior by label."""
    most = majority or {}

    def weight(leaf: Leaf) -> float:
        hits = {
            clue.id: clue.weight
            for clue in leaf.evidence
            for fact in facts
            if clue.matches(fact, expected.get(fact.key), most.get(fact.key))
        }
        return leaf.prior + sum(hits.values())

    return {label: 1 / (1 + math.exp(-weight(leaf))) for label, leaf in taxonomy.leaves.items()}


def causes(posteriors: Mapping[str, float], taxonomy: Taxonomy, certain: float = 0.95) -> list[str]:
    """Return certain labels that no other certain label suppresses."""
    sure = [label for label, p in posteriors.items() if p >= certain]
    explained = {other for label in sure for other in taxonomy.get_leaf(label).suppresses}
    return sorted(label for label in sure if label not in explained)
