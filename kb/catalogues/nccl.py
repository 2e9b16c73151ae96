"""NCCL versions that are known to be bad, with who says so. Pure look-ups; a version that is not in the table is not thereby good."""

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from kb.catalogues.table import rows

Effect = Literal["crash", "hang", "corruption", "slow"]
Numbers = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bad:
    """One range of versions, both ends in it. `fixed`: the first good one, "" when unknown; `where`: on what machines, "" for all."""

    first: Numbers
    last: Numbers
    fixed: str
    effect: Effect
    where: str
    meaning: str
    source: str


@cache
def catalogue() -> tuple[Bad, ...]:
    """Every range."""
    return tuple(
        Bad(
            numbers(row["first"]),
            numbers(row["last"]),
            row["fixed"],
            row["effect"],  # type: ignore[arg-type]  # a test checks every row
            row["where"],
            row["meaning"],
            row["source"],
        )
        for row in rows("nccl")
    )


def numbers(version: str) -> Numbers:
    """2.27.7 of `2.27.7+cuda12.4`; nothing of what is no version."""
    found = re.match(r"\d{1,4}(?:\.\d{1,4}){1,2}(?![\d.])", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def known_bad(version: str) -> tuple[Bad, ...]:
    """What is known against a version; nothing where it has fewer than three parts."""
    asked = numbers(version)
    return tuple(row for row in catalogue() if len(asked) == 3 and row.first <= asked <= row.last)
