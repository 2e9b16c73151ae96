"""Baseline scores frozen at the benchmark's release, and their cases."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench.case_files.generate import as_yaml

FROZEN = Path(__file__).parent / "frozen.json"
Raw = Mapping[str, Any]


def frozen(raws: Sequence[Raw]) -> tuple[Mapping[str, float], str]:
    """Return the frozen scores and their provenance; empty if the cases differ."""
    held = json.loads(FROZEN.read_text()) if FROZEN.exists() else {}
    n = held.get("n", 0)
    return (held["micro_f1_l3"], f"{held['as_of']}, the first {n} cases") if n and held.get("cases") == digest(raws[:n]) else ({}, "")


_POSED = ("id", "profile", "nodes", "t0", "ticket", "faults", "modifiers", "outputs")


def digest(raws: Iterable[Raw]) -> str:
    """Return a digest of the posed cases and labels; remedy marks do not affect it."""
    whole = hashlib.sha256()
    for raw in raws:
        truth = raw["truth"]
        labels = [truth["primary"]["label"], *(row["label"] for row in truth.get("also") or ())]
        whole.update(as_yaml({name: raw.get(name) for name in _POSED} | {"labels": labels, "removed": truth.get("removed")}).encode())
    return whole.hexdigest()
