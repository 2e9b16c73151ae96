"""SXid error codes of NVSwitches up to Hopper."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from kb.catalogues.table import load_table

Fatal = Literal["always", "potentially", "no", "unstated"]


@dataclass(frozen=True, slots=True)
class SXid:
    """One code. `fatal` follows the fabric manager guide; the kernel message takes precedence."""

    code: int
    name: str
    unit: str
    meaning: str
    fatal: Fatal


@cache
def load_sxids() -> Mapping[int, SXid]:
    """Return every code that the switch driver can print."""
    return {
        int(row["sxid"]): SXid(int(row["sxid"]), row["name"], row["unit"], row["meaning"], row["fatal"])  # type: ignore[arg-type]  # tested
        for row in load_table("sxid")
    }


def find_sxid(code: int) -> SXid | None:
    """Return a code's row, or None."""
    return load_sxids().get(code)
