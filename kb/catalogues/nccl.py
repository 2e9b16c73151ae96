"""NCCL versions known to be bad, with sources. Others are not thereby good. Pure."""

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from kb.catalogues.table import load_table

Effect = Literal["crash", "hang", "corruption", "slow"]
VersionNumbers = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BadNcclRange:
    """One inclusive range of versions. `fixed`: first good one or ""; `where`: affected machines, "" for all."""

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
    """Return known problems; none for a version of fewer than three parts."""
    version_parts = parse_version(version)
    return tuple(row for row in load_bad_ranges() if len(version_parts) == 3 and row.first <= version_parts <= row.last)
