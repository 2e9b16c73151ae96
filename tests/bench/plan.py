"""What is to be run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.line import Access


@dataclass(frozen=True, slots=True)
class Plan:
    """`attempts`: worlds of other chances around the same faults; `permuted`: with the labels' names shuffled by this seed; `notes` go into
    the results as they are; `kb`: a site's folder, of which taxonomy and past incidents are known beside ours."""

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
