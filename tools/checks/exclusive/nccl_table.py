"""Table of nccl-tests, in every layout of its ten years, with launcher tags anywhere.

    #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
      8589934592    2147483648     float     sum      -1    33605  255.62  479.28      0    33628  255.44  478.95      0
    # Out of bounds values : 0 OK
    # Avg bus bandwidth    : 373.187

Old versions have no `root`, and `error` (the largest deviation) where new ones count wrong elements.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kb.scan import split_lines
from tools.checks.cells import parse_number

_TAG_PATTERN = re.compile(r"\[\d{1,6}(?:,\d{1,6})?\](?:<std(?:out|err)>:?)?")
_LEAD_PATTERN = re.compile(r"^\s*\d{1,6}: +")
_RANK_PATTERN = re.compile(r"# +Rank +(\d{1,6}) ")
_AVERAGE_PATTERN = re.compile(r"Avg bus bandwidth +: +([\d.]{1,12}(?:e[+-]?\d{1,3})?|N/A)(?: +(FAILED|OK))?", re.IGNORECASE)
_BOUNDS_PATTERN = re.compile(r"Out of bounds values +: +(\d{1,12}) +(FAILED|OK)", re.IGNORECASE)
_CELL_PATTERN = re.compile(r"-?\d{1,20}(?:\.\d{1,9})?(?:e[+-]?\d{1,3})?|N/A", re.IGNORECASE)

# Largest deviation by type that nccl-tests accepted while it had the `error` column; integers have none.
TOLERANCE = {"half": 1e-2, "bfloat16": 1e-2, "f8e4m3": 1e-1, "f8e5m2": 1e-1, "float": 1e-5, "double": 1e-12}
DATA_TYPES = (*TOLERANCE, "int8", "uint8", "int32", "uint32", "int64", "uint64", "fp8_e4m3", "fp8_e5m2", "char")


@dataclass(frozen=True, slots=True)
class SizeMeasurement:
    """One run of a size, out of place or in place. `wrong` None: unchecked."""

    algbw: float
    busbw: float
    wrong: float | None


@dataclass(frozen=True, slots=True)
class SizeRow:
    """One message size with one or two measurements."""

    size: int
    type: str
    halves: tuple[SizeMeasurement, ...]
    line: str

    @property
    def busbw(self) -> float:
        return max(half.busbw for half in self.halves)


@dataclass(slots=True)
class NcclTable:
    """`averages` and `bounds` come from the footer: without them the run did not end."""

    rows: list[SizeRow] = field(default_factory=list)
    ranks: set[int] = field(default_factory=set)
    averages: list[tuple[float, str, str]] = field(default_factory=list)
    bounds: list[tuple[int, str, str]] = field(default_factory=list)
    deviation: bool = False  # the column holds deviations, not counts
    broken: int = 0  # rows that start like a size row and are incomplete

    @property
    def ended(self) -> bool:
        return bool(self.bounds or self.averages)


def parse_nccl_table(text: str) -> NcclTable:
    table = NcclTable()
    root = False
    for line in _iter_clean_lines(text):
        if " busbw" in line and " algbw" in line:
            root, table.deviation = " root" in line, table.deviation or " error" in line
        elif rank := _RANK_PATTERN.search(line):
            table.ranks.add(int(rank[1]))
        elif average := _AVERAGE_PATTERN.search(line):
            table.averages.append((parse_number(average[1]) or 0.0, (average[2] or "").upper(), line.strip()))
        elif bounds := _BOUNDS_PATTERN.search(line):
            table.bounds.append((int(bounds[1]), bounds[2].upper(), line.strip()))
        elif row := _parse_size_row(line, root):
            table.rows.append(row)
        else:
            table.broken += _is_size_row(line)
    return table


def _iter_clean_lines(text: str) -> Iterator[str]:
    for line in split_lines(text):
        yield _LEAD_PATTERN.sub("", _TAG_PATTERN.sub(" ", line[:2000]))


def _is_size_row(line: str) -> bool:
    words = line.split(maxsplit=3)
    return len(words) > 2 and words[0].isdecimal() and words[1].isdecimal() and words[2] in DATA_TYPES


def _parse_size_row(line: str, root: bool) -> SizeRow | None:
    words = line.split()
    if not _is_size_row(line):
        return None
    cells = words[3:]
    if cells and cells[0].isalpha():
        cells = cells[1:]
    if cells and (root or cells[0] == "-1"):
        cells = cells[1:]
    halves = _parse_measurements(cells)
    return SizeRow(int(words[0][:18]), words[2], halves, " ".join(words)) if halves else None


def _parse_measurements(cells: Sequence[str]) -> tuple[SizeMeasurement, ...]:
    """(time, algbw, busbw, wrong) once or twice; a ninth cell is the iterations."""
    if len(cells) not in (4, 5, 8, 9) or not all(_CELL_PATTERN.fullmatch(cell) for cell in cells):
        return ()
    measurements = []
    for at in range(0, len(cells) - 3, 4):
        algbw, busbw = parse_number(cells[at + 1]), parse_number(cells[at + 2])
        if algbw is None or busbw is None:
            return ()
        measurements.append(SizeMeasurement(algbw, busbw, parse_number(cells[at + 3])))
    return tuple(measurements)
