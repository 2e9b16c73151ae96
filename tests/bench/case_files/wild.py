"""Layer `wild`: published incidents, retold as tickets, on machines that print what the thread showed.

A case is a handwritten file in `wild/`: ticket, thread address, simulated faults or tool outputs, and the thread's
cause. Each case that a check decides has a blind twin in which that check fails: its label, or an abstention that names
the check, is right.
"""

import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from tests.bench.case_files.folder import read_case

WILD = Path(__file__).parents[1] / "wild"
BLINDED = ("timeout", "denied", "missing")
Raw = Mapping[str, Any]


def wild_cases(n: int | None = None, folder: Path = WILD) -> Iterator[Raw]:
    """Yield each case and its twin, by name; at most `n`."""
    return islice(_all(folder), n)


@cache
def _all(folder: Path) -> tuple[Raw, ...]:
    found: list[Raw] = []
    for path in sorted(folder.glob("*.yaml")):
        raw = read_case(path)
        found += [raw, twin] if (twin := blinded(raw)) else [raw]
    return tuple(found)


def blinded(raw: Raw) -> Raw | None:
    """Return the case with every deciding check failing in the same way, or None without one."""
    checks = sorted({str(row["check"]) for row in raw["truth"].get("decisive_evidence") or ()})
    if not checks:
        return None
    how = BLINDED[zlib.crc32(str(raw["id"]).encode()) % len(BLINDED)]
    modifiers = [*raw["modifiers"], *(f"R6(check={check}, how={how})@*" for check in checks)]
    truth = {**raw["truth"], "blind": checks, "decisive_evidence": []}
    return {**raw, "id": f"{raw['id']}-blind", "modifiers": modifiers, "truth": truth}
