"""Layer `wild`: published incidents, each told anew by somebody who would report it, on machines that print what the thread's people saw.

A case is a file in `wild/`, by hand: the ticket in own words, the thread's address, what the simulator breaks or what tools printed, and the cause that the
thread established. Each one that a look can decide has a blind twin, in which that look fails: its label or an abstention that names the look is right.
"""

import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from tests.bench.folder import read_case

WILD = Path(__file__).parent / "wild"
BLINDED = ("timeout", "denied", "missing")
Raw = Mapping[str, Any]


def wild_cases(n: int | None = None, folder: Path = WILD) -> Iterator[Raw]:
    """Each case and its twin, by name; `n` of them all."""
    return islice(_all(folder), n)


@cache
def _all(folder: Path) -> tuple[Raw, ...]:
    found: list[Raw] = []
    for path in sorted(folder.glob("*.yaml")):
        raw = read_case(path)
        found += [raw, twin] if (twin := blinded(raw)) else [raw]
    return tuple(found)


def blinded(raw: Raw) -> Raw | None:
    """The same case with every look that decides it failing, the same way each time; None where none does."""
    checks = sorted({str(row["check"]) for row in raw["truth"].get("decisive_evidence") or ()})
    if not checks:
        return None
    how = BLINDED[zlib.crc32(str(raw["id"]).encode()) % len(BLINDED)]
    modifiers = [*raw["modifiers"], *(f"R6(check={check}, how={how})@*" for check in checks)]
    truth = {**raw["truth"], "blind": checks, "decisive_evidence": []}
    return {**raw, "id": f"{raw['id']}-blind", "modifiers": modifiers, "truth": truth}
