"""All-reduce over the GPUs of one host: bandwidth, correctness, failure reason. Exclusive."""

import re
from collections.abc import Sequence

from kb.scan import split_lines
from tools.checks.check import Check, Command, Format, Unreadable
from tools.checks.exclusive.nccl_table import TOLERANCE, NcclTable, SizeRow, parse_nccl_table
from tools.fact import Fact, Status, build_unobserved_fact

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
