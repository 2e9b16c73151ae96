"""All-reduce over the GPUs of one host: bandwidth, correctness, failure reason. Exclusive."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kb.needle_search import split_lines
from tools.checks.check_types import Check, Command, Format, Unreadable
from tools.checks.output_values import parse_number
from tools.fact import Fact, Status, build_unobserved_fact

# Table of nccl-tests, in every layout of its ten years, with launcher tags anywhere.
#
# # size count type redop root time algbw busbw #wrong time algbw busbw #wrong
# 8589934592 2147483648 float sum -1 33605 255.62 479.28 0 33628 255.44 478.95 0
# # Out of bounds values : 0 OK
# # Avg bus bandwidth : 373.187
#
# Old versions have no `root`, and `error` (the largest deviation) where new ones count wrong elements.

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
    """Return bandwidth, correctness and failure. A table without footer never proves correct results."""
    table = parse_nccl_table(text)
    failure = _find_failure(text, table)
    if not table.rows and not failure:
        raise Unreadable("no row of the table and no known failure")
    ranks, derived = _count_ranks(table)
    facts = [failure] if failure else []
    if ranks:
        facts.append(Fact(CHECK, "nccl.ranks", ranks, attrs={"derived": True} if derived else {}))
    if table.rows:
        facts += _build_table_facts(table, ranks)
    if table.rows and (table.broken or not table.ended):
        problem = f"{table.broken} rows break off" if table.broken else "the table ends without its footer"
        facts.append(build_unobserved_fact(CHECK, Status.UNREADABLE, problem))
    return facts


def _find_failure(text: str, table: NcclTable) -> Fact | None:
    """A test that failed its own criteria says so in the footer."""
    low = next((line for _, verdict, line in table.averages if verdict == "FAILED"), None)
    if low:
        return Fact(CHECK, "nccl.failure", "below_minimum", line=low[:300])
    if any(verdict == "FAILED" for _, verdict, _ in table.bounds):
        return None
    lines = split_lines(text)
    for value, pattern in FAILURE_PATTERNS:
        line = next((line for line in lines if pattern.search(line[:2000])), None)
        if line is not None:
            return Fact(CHECK, "nccl.failure", value, line=line.strip()[:300])
    return None


def _count_ranks(table: NcclTable) -> tuple[int, bool]:
    """Return (ranks, derived). Derived from busbw = algbw * 2(n-1)/n if ranks are not listed or the list was cut."""
    if table.ranks and (max(table.ranks) > 0 or not any(row.busbw for row in table.rows)):
        return max(table.ranks) + 1, False
    largest = max(table.rows, key=lambda row: row.size, default=None)
    half = largest.halves[0] if largest else None
    if half is None or half.algbw < 1 or not 1.05 < half.busbw / half.algbw < 1.97:
        return 0, False
    return round(2 / (2 - half.busbw / half.algbw)), True


def _build_table_facts(table: NcclTable, ranks: int) -> list[Fact]:
    """One rank moves nothing between GPUs, so its figures are dropped."""
    alone = ranks == 1 or all(half.busbw == 0 for row in table.rows for half in row.halves)
    facts = [Fact(CHECK, "nccl.degenerate", alone, line=table.rows[-1].line[:300])]
    if alone:
        return facts + [fact for fact in _build_wrong_facts(table) if fact.value]
    facts += _build_wrong_facts(table)
    best = max(table.rows, key=lambda row: row.busbw)
    facts.append(Fact(CHECK, "nccl.busbw_max", best.busbw, unit="GB/s", line=best.line[:300], attrs={"size": best.size}))
    for row in table.rows:
        if row.size >= MIN_JUDGED_BYTES:
            facts.append(Fact(CHECK, "nccl.busbw_at", row.busbw, unit="GB/s", line=row.line[:300], attrs={"size": row.size}))
    if table.averages:
        value, _, line = min(table.averages)
        facts.append(Fact(CHECK, "nccl.busbw_avg", value, unit="GB/s", line=line[:300]))
    return facts


def _build_wrong_facts(table: NcclTable) -> list[Fact]:
    """Count wrong elements (old column: sizes beyond tolerance). Zero only for a complete, checked table."""
    wrong_counts = [
        (row, count) for row in table.rows for half in row.halves if (count := _count_wrong(row, half.wrong, table.deviation)) is not None
    ]
    failed_count = sum(count for count, verdict, _ in table.bounds if verdict == "FAILED")
    total = max(sum(count for _, count in wrong_counts), failed_count)
    if total:
        line = next((row.line for row, count in wrong_counts if count), next((line for _, _, line in table.bounds), ""))
        sizes = sorted({row.size for row, count in wrong_counts if count})
        attrs = {"sizes": sizes[:40], "rows": len(sizes), "column": "error" if table.deviation else "wrong"}
        return [Fact(CHECK, "nccl.wrong", total, line=line[:300], attrs=attrs)]
    if not wrong_counts:
        return [Fact(CHECK, "nccl.wrong", status=Status.ABSENT, line="results were not checked")]
    is_complete = bool(table.bounds) and not table.broken
    return [Fact(CHECK, "nccl.wrong", 0, line=table.bounds[-1][2])] if is_complete else []


def _count_wrong(row: SizeRow, cell: float | None, deviation: bool) -> int | None:
    if cell is None:
        return None
    if deviation:
        return int(cell > TOLERANCE.get(row.type, 0.0))
    return int(min(cell, 1e18))


CHECKS = (
    Check(
        id="nccl1",
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
