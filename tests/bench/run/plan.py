"""The plan of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.model.endpoint import Access


@dataclass(frozen=True, slots=True)
class Plan:
    """`attempts`: worlds with other noise around the same faults; `permuted`: seed that shuffles label names; `notes`:
    copied into the results; `kb`: a site folder whose taxonomy and past incidents are added.
    """

    cases: Sequence[Mapping[str, Any]]
    arms: tuple[str, ...]
    seed: str
    attempts: int = 1
    jobs: int = 1
    transport: str = "inprocess"
    access: Access | None = field(default=None, repr=False)
    permuted: int | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    kb: Path | None = None
