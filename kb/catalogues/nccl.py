"""NCCL versions with known problems, and their sources. A version that is missing here is not proved good."""

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from kb.catalogues.table import load_table

Effect = Literal["crash", "hang", "corruption", "slow"]
VersionNumbers = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BadNcclRange:
    """An inclusive range of versions with one problem.

    `fixed` is the first version without the problem, "" if none is known; `where` names the affected machines, "" if all are.
    """

    first: VersionNumbers
    last: VersionNumbers
    fixed: str
    effect: Effect
    where: str
    meaning: str
    source: str


@cache
def load_bad_ranges() -> tuple[BadNcclRange, ...]:
    """Return all known bad ranges."""
    return tuple(
        BadNcclRange(
            parse_version(row["first"]),
            parse_version(row["last"]),
            row["fixed"],
            row["effect"],  # type: ignore[arg-type]  # a test checks every row
            row["where"],
            row["meaning"],
            row["source"],
        )
        for row in load_table("nccl")
    )


def parse_version(version: str) -> VersionNumbers:
    """Parse `2.27.7+cuda12.4` to (2, 27, 7); return () for others."""
    match = re.match(r"\d{1,4}(?:\.\d{1,4}){1,2}(?![\d.])", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def find_known_bad(version: str) -> tuple[BadNcclRange, ...]:
    """Return the known problems of a version; none for a version of fewer than three parts."""
    version_numbers = parse_version(version)
    if len(version_numbers) != 3:
        return ()
    return tuple(bad_range for bad_range in load_bad_ranges() if bad_range.first <= version_numbers <= bad_range.last)
