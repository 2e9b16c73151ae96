"""All-reduce over the GPUs of one host: bandwidth, correctness, failure reason. Exclusive.

Reads the table of nccl-tests, in every layout of its ten years, with launcher tags anywhere:

# size count type redop root time algbw busbw #wrong time algbw busbw #wrong
8589934592 2147483648 float sum -1 33605 255.62 479.28 0 33628 255.44 478.95 0
# Out of bounds values : 0 OK
# Avg bus bandwidth : 373.187

Old versions have no `root`, and `error` (the largest deviation) where new ones count wrong elements.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kb.needle_search import split_lines
from tools.checks.check_types import Check, Command, Format, Unreadable
from tools.checks.output_values import parse_number
from tools.fact import Fact, Status, build_unobserved_fact

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
    """One run of a size, out of place or in place."""

    algbw: float
    busbw: float
    wrong: float | None  # None if the results were not checked


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
    """The parsed output. `averages` and `bounds` come from the footer: without them the run did not end."""

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
    has_root_column = False
    for line in _iter_clean_lines(text):
        if " busbw" in line and " algbw" in line:
            has_root_column = " root" in line
            table.deviation = table.deviation or " error" in line
        elif rank := _RANK_PATTERN.search(line):
            table.ranks.add(int(rank[1]))
        elif average := _AVERAGE_PATTERN.search(line):
            table.averages.append((parse_number(average[1]) or 0.0, (average[2] or "").upper(), line.strip()))
        elif bounds := _BOUNDS_PATTERN.search(line):
            table.bounds.append((int(bounds[1]), bounds[2].upper(), line.strip()))
        elif size_row := _parse_size_row(line, has_root_column):
            table.rows.append(size_row)
        else:
            table.broken += _is_size_row(line)
    return table


def _iter_clean_lines(text: str) -> Iterator[str]:
    for line in split_lines(text):
        yield _LEAD_PATTERN.sub("", _TAG_PATTERN.sub(" ", line[:2000]))


def _is_size_row(line: str) -> bool:
    words = line.split(maxsplit=3)
    return len(words) > 2 and words[0].isdecimal() and words[1].isdecimal() and words[2] in DATA_TYPES


def _parse_size_row(line: str, has_root_column: bool) -> SizeRow | None:
    if not _is_size_row(line):
        return None
    words = line.split()
    cells = words[3:]
    if cells and cells[0].isalpha():  # the reduction, such as sum
        cells = cells[1:]
    if cells and (has_root_column or cells[0] == "-1"):
        cells = cells[1:]
    halves = _parse_measurements(cells)
    return SizeRow(int(words[0][:18]), words[2], halves, " ".join(words)) if halves else None


def _parse_measurements(cells: Sequence[str]) -> tuple[SizeMeasurement, ...]:
    """Parse time, algbw, busbw and wrong, once or twice. A ninth cell is the number of iterations."""
    if len(cells) not in (4, 5, 8, 9) or not all(_CELL_PATTERN.fullmatch(cell) for cell in cells):
        return ()
    measurements = []
    for start in range(0, len(cells) - 3, 4):
        algbw, busbw, wrong = (parse_number(cell) for cell in cells[start + 1 : start + 4])
        if algbw is None or busbw is None:
            return ()
        measurements.append(SizeMeasurement(algbw, busbw, wrong))
    return tuple(measurements)


CHECK = "nccl1"
MIN_JUDGED_BYTES = 1 << 20  # latency dominates smaller messages, so their bandwidth becomes no fact
# The first entry that matches is the reason; later ones are its consequences.
FAILURE_PATTERNS = (
    ("cuda_802", re.compile(r"system not yet initialized", re.IGNORECASE)),
    ("devices_busy", re.compile(r"(?:is/are|are) busy or unavailable", re.IGNORECASE)),
    ("nvml_not_found", re.compile(r"nvmlDeviceGetHandleByPciBusId\(\) failed: Not Found")),
    ("not_enough_slots", re.compile(r"not enough slots available")),
    (
        "missing_tool",
        re.compile(
            r"all_reduce_perf.{0,40}(?:No such file|not found)|(?:No such file or directory|command not found).{0,80}all_reduce_perf"
        ),
    ),
    ("missing_tool", re.compile(r"error while loading shared libraries")),
    (
        "init_failed",
        re.compile(
            r"Test NCCL failure|ncclCommInit\w+ .{0,60}(?:failed|error)|NCCL WARN .{0,200}(?:Failed to init|Cuda failure)", re.IGNORECASE
        ),
    ),
    ("other", re.compile(r"Test (?:CUDA )?failure|Primary job\s+terminated|exited on signal|Segmentation fault|Killed$")),
)


def is_nccl(text: str) -> bool:
    return bool(
        re.search(r"algbw +busbw|Avg bus bandwidth|# nThread \d|# nccl-tests version|all_reduce_perf|Test (?:CUDA |NCCL )?failure", text)
        or parse_nccl_table(text[:65536]).rows
    )


def parse_nccl(text: str) -> Sequence[Fact]:
    """Return bandwidth, correctness and failure. A table without its footer never proves correct results."""
    table = parse_nccl_table(text)
    failure = _find_failure(text, table)
    if not table.rows and not failure:
        raise Unreadable("no row of the table and no known failure")
    ranks, is_derived = _count_ranks(table)
    facts = [failure] if failure else []
    if ranks:
        facts.append(Fact(CHECK, "nccl.ranks", ranks, attrs={"derived": True} if is_derived else {}))
    if table.rows:
        facts += _build_table_facts(table, ranks)
    if table.rows and (table.broken or not table.ended):
        problem = f"{table.broken} rows break off" if table.broken else "the table ends without its footer"
        facts.append(build_unobserved_fact(CHECK, Status.UNREADABLE, problem))
    return facts


def _find_failure(text: str, table: NcclTable) -> Fact | None:
    """Return why the test failed. The footer says so if the test missed its own minimum."""
    low_average = next((line for _, verdict, line in table.averages if verdict == "FAILED"), None)
    if low_average:
        return Fact(CHECK, "nccl.failure", "below_minimum", line=low_average[:300])
    if any(verdict == "FAILED" for _, verdict, _ in table.bounds):
        return None
    lines = split_lines(text)
    for value, pattern in FAILURE_PATTERNS:
        line = next((line for line in lines if pattern.search(line[:2000])), None)
        if line is not None:
            return Fact(CHECK, "nccl.failure", value, line=line.strip()[:300])
    return None


def _count_ranks(table: NcclTable) -> tuple[int, bool]:
    """Return the number of ranks, and whether it is derived.

    If the ranks are not listed or the list was cut, the number follows from busbw = algbw * 2(n-1)/n.
    """
    if table.ranks and (max(table.ranks) > 0 or not any(size_row.busbw for size_row in table.rows)):
        return max(table.ranks) + 1, False
    largest = max(table.rows, key=lambda size_row: size_row.size, default=None)
    half = largest.halves[0] if largest else None
    if half is None or half.algbw < 1:
        return 0, False
    ratio = half.busbw / half.algbw
    return (round(2 / (2 - ratio)), True) if 1.05 < ratio < 1.97 else (0, False)


def _build_table_facts(table: NcclTable, ranks: int) -> list[Fact]:
    """Return bandwidth and correctness. A single rank moves nothing between GPUs, so its bandwidth is dropped."""
    is_degenerate = ranks == 1 or all(half.busbw == 0 for size_row in table.rows for half in size_row.halves)
    facts = [Fact(CHECK, "nccl.degenerate", is_degenerate, line=table.rows[-1].line[:300])]
    if is_degenerate:
        return facts + [fact for fact in _build_wrong_facts(table) if fact.value]
    facts += _build_wrong_facts(table)
    best = max(table.rows, key=lambda size_row: size_row.busbw)
    facts.append(Fact(CHECK, "nccl.busbw_max", best.busbw, unit="GB/s", line=best.line[:300], attrs={"size": best.size}))
    for size_row in table.rows:
        if size_row.size >= MIN_JUDGED_BYTES:
            attrs = {"size": size_row.size}
            facts.append(Fact(CHECK, "nccl.busbw_at", size_row.busbw, unit="GB/s", line=size_row.line[:300], attrs=attrs))
    if table.averages:
        value, _, line = min(table.averages)
        facts.append(Fact(CHECK, "nccl.busbw_avg", value, unit="GB/s", line=line[:300]))
    return facts


def _build_wrong_facts(table: NcclTable) -> list[Fact]:
    """Count wrong elements; with the old `error` column, count sizes beyond the tolerance.

    Zero is reported only for a complete table whose results were checked.
    """
    has_checked_results = False
    table_count = 0
    wrong_rows: list[SizeRow] = []
    for size_row in table.rows:
        for half in size_row.halves:
            count = _count_wrong(size_row, half.wrong, table.deviation)
            has_checked_results = has_checked_results or count is not None
            if count:
                table_count += count
                wrong_rows.append(size_row)
    footer_count = sum(count for count, verdict, _ in table.bounds if verdict == "FAILED")
    total = max(table_count, footer_count)
    if total:
        lines = [size_row.line for size_row in wrong_rows] or [line for _, _, line in table.bounds]
        sizes = sorted({size_row.size for size_row in wrong_rows})
        attrs = {"sizes": sizes[:40], "rows": len(sizes), "column": "error" if table.deviation else "wrong"}
        return [Fact(CHECK, "nccl.wrong", total, line=lines[0][:300], attrs=attrs)]
    if not has_checked_results:
        return [Fact(CHECK, "nccl.wrong", status=Status.ABSENT, line="results were not checked")]
    is_complete = bool(table.bounds) and not table.broken
    return [Fact(CHECK, "nccl.wrong", 0, line=table.bounds[-1][2])] if is_complete else []


def _count_wrong(size_row: SizeRow, cell: float | None, deviation: bool) -> int | None:
    if cell is None:
        return None
    if deviation:
        return int(cell > TOLERANCE.get(size_row.type, 0.0))
    return int(min(cell, 1e18))


CHECKS = (
    Check(
        id=CHECK,
        asks="Does an all-reduce over all GPUs of this host run at full speed, with right results?",
        commands=(
            Command(
                "run",
                ("{nccl_tests}/all_reduce_perf", "-b", "512M", "-e", "8G", "-f", "2", "-g", "{gpus}", "-c", "1"),
            ),
        ),
        formats=(Format("nccl-tests", is_nccl, parse_nccl),),
        establishes=(
            "nccl.failure",
            "nccl.ranks",
            "nccl.degenerate",
            "nccl.wrong",
            "nccl.busbw_max",
            "nccl.busbw_at",
            "nccl.busbw_avg",
        ),
        seconds=40.0,
        exclusive=True,
        timeout=180.0,
    ),
)
