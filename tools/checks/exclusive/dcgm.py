"""`dcgmi diag` levels 1 and 2: the JSON of DCGM 3 and 4, and the table that users paste.

    {"DCGM GPU Diagnostic": {"test_categories": [{"category": "Deployment", "tests": [{"name": "Inforom",
        "results": [{"gpu_ids": "0,1", "status": "PASS"}]}]}]}}
    {"DCGM Diagnostic": {"test_categories": [{"tests": [{"name": "software", "results": [
        {"entity_group": "GPU", "entity_id": 3, "status": "Fail", "warnings": [{"warning": "…", "error_id": 12}]}]}]}]}}
    | Page Retirement/Row Remap | Fail                                           |
    | Error                     | GPU 3 has uncorrectable memory errors and row  |
    |                           |  remappings are pending                        |

Skip is not Pass: a test that was not run is reported as such.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kb.needle_search import split_lines
from tools.checks.check_types import Check, Command, Format, Unreadable
from tools.checks.output_values import get_first_line
from tools.fact import Fact, Status, build_unobserved_fact

INSTALL_HINT = "DCGM with its host engine (systemctl start nvidia-dcgm): package datacenter-gpu-manager, or datacenter-gpu-manager-4-cuda12"
# Warnings about how the machine is used or configured, with the reason. Such a test found no fault: it did not run
# properly.
SETTING_PATTERNS = tuple(
    (value, meaning, re.compile(pattern, re.IGNORECASE))
    for value, meaning, pattern in (
        (
            "memory_in_use",
            "GPU memory is in use",
            r"(?:couldn'?t|could not|unable to|failed to) allocate .{0,40}(?:memory|%)|not enough (?:free )?memory",
        ),
        (
            "memory_in_use",
            "another process uses the GPU",
            r"other process|graphics processes|(?:in use|being used) by|graphics contexts? open",
        ),
        ("setting", "MIG is enabled", r"\bMIG\b"),
        ("setting", "persistence mode is off", r"pers?istence mode"),
        ("setting", "the compute mode is exclusive or prohibited", r"compute mode|exclusive.process"),
        ("setting", "ECC is off", r"ECC (?:mode )?(?:is )?(?:not enabled|disabled)"),
        (
            "setting",
            "permissions are missing",
            r"permission|(?:requires?|needs?|must be|only) .{0,20}\broot\b|root privilege|privileged|cgroup",
        ),
        (
            "setting",
            "versions do not fit together",
            r"(?<!library )versions? mismatch|\b(?:API|DCGM|NVVS|host ?engine)\b.{0,60}versions?.{0,20}(?:incompatible|(?:do|does) not match|differ)",
        ),
        ("setting", "an environment variable hides GPUs", r"environment variable"),
        ("setting", "a driver of the deny list is loaded", r"deny.?list|nouveau"),
        (
            "setting",
            "the GPUs are of several models",
            r"not (?:of )?the same (?:SKU|type|model)|different (?:SKU|type|model)s?|incompatible (?:GPU|with each other)",
        ),
        ("setting", "clocks are locked", r"(?:application|graphics) clocks? (?:are|is|have been) (?:set|locked)"),
        ("setting", "the GPU does not support it", r"not supported|unsupported|does not support"),
    )
)
# Lower-case prefilter: without one of these no warning is about a setting.
_SETTING_WORDS = (
    *(
        "alloc",
        "not enough",
        "other process",
        "graphics ",
        "used by",
        "use by",
        "mig",
        "istence",
        "compute",
        "exclusive",
        "ecc ",
        "permission",
        "root",
    ),
    *("privilege", "cgroup", "version", "environment", "deny", "nouveau", "same", "different", "incompatible", "clock", "support"),
)
# The first match in the warning is the reason; the test's name is used if none matches.
REASON_PATTERNS = (
    ("row_remap_failure", re.compile(r"row.?remap\w*.{0,40}fail|remapping fail|ROW_REMAP_FAILURE", re.IGNORECASE)),
    (
        "row_remap_pending",
        re.compile(r"row.?remap\w*.{0,60}pending|pending.{0,40}(?:row.?remap|(?:page )?retire)|retire\w*.{0,40}pending", re.IGNORECASE),
    ),
    ("sram_threshold", re.compile(r"SRAM.{0,60}threshold|threshold.{0,40}SRAM", re.IGNORECASE)),
    ("inforom", re.compile(r"info.?rom", re.IGNORECASE)),
    ("dbe", re.compile(r"double.?bit|volatile DBE|uncorrectable (?:memory|ECC)", re.IGNORECASE)),
    ("thermal", re.compile(r"thermal|temperature", re.IGNORECASE)),
    ("cuda_init", re.compile(r"cuInit|CUDA API|CUDA library|not yet initialized", re.IGNORECASE)),
    ("nvlink", re.compile(r"nvlink|nvswitch", re.IGNORECASE)),
    ("pcie", re.compile(r"pci.?e?\b", re.IGNORECASE)),
    ("power", re.compile(r"\bpower\b", re.IGNORECASE)),
    ("memory", re.compile(r"\bmemory\b|memtest", re.IGNORECASE)),
)
# reasons that a setting in the same warning does not excuse
HARDWARE_REASONS = frozenset({"row_remap_failure", "row_remap_pending", "sram_threshold", "dbe"})
ERROR_PATTERNS = (
    (
        "no_engine",
        re.compile(r"unable to (?:establish a )?connect\w*|host engine is not running|connection to the host engine", re.IGNORECASE),
    ),
    ("busy", re.compile(r"already running|in use by another|resource (?:is )?(?:in use|busy)", re.IGNORECASE)),
    ("unsupported", re.compile(r"unsupported GPU|not supported", re.IGNORECASE)),
    ("other", re.compile(r"Unable to complete diagnostic|Error when executing the diagnostic|error:|runtime_error", re.IGNORECASE)),
)
_GPU_PATTERN = re.compile(r"GPU:? ?(\d{1,3})\b")
_CELL_PATTERN = re.compile(r"^\|(.{27})\| (.{45}) {1,3}\|\s*$")
_RESULT_PATTERN = re.compile(r"^\|.{27}\| (?:Pass|Fail|Skip|Warn)\b", re.MULTILINE)


@dataclass(slots=True)
class DiagnosticResult:
    """One test on some GPUs; none means the whole host."""

    test: str
    status: str
    gpus: tuple[str, ...] = ()
    says: str = ""
    all: bool = False


@dataclass(slots=True)
class _DiagnosticReport:
    results: list[DiagnosticResult] = field(default_factory=list)
    cut: bool = False
    complaint: str = ""  # why the whole diagnostic did not run


def is_json(text: str) -> bool:
    return bool(re.search(r'"DCGM (?:GPU )?Diagnostic"', text))


def is_table(text: str) -> bool:
    return "| Diagnostic  " in text or "ran diagnostic for group" in text or bool(_RESULT_PATTERN.search(text))


def is_error(text: str) -> bool:
    return "diagnostic" in text.lower()[:2000] and any(pattern.search(text[:4000]) for _, pattern in ERROR_PATTERNS)


def parse_json(text: str) -> _DiagnosticReport:
    at = text.find("{")
    try:
        root = json.JSONDecoder().raw_decode(text[at:])[0]
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"JSON of dcgmi breaks off: {type(error).__name__}") from error
    body = next((root[key] for key in ("DCGM Diagnostic", "DCGM GPU Diagnostic") if isinstance(root, dict) and key in root), None)
    if not isinstance(body, dict):
        raise Unreadable("JSON without a DCGM diagnostic")
    reading = _DiagnosticReport([result for test in _iter_tests(body) for result in _iter_results(test)])
    reading.complaint = str(body.get("runtime_error") or body.get("Warning") or body.get("warning") or "")[:300]
    if not reading.results and not reading.complaint:
        raise Unreadable("no test has a result")
    return reading


def _iter_tests(body: dict[str, Any]) -> Iterable[dict[str, Any]]:
    for category in _filter_dicts(body.get("test_categories")):
        yield from _filter_dicts(category.get("tests"))


def _filter_dicts(rows: Any) -> list[dict[str, Any]]:
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _iter_results(test: dict[str, Any]) -> Iterable[DiagnosticResult]:
    for row in _filter_dicts(test.get("results")):
        warnings = [_get_warning_text(entry) for key in ("warnings", "warning", "errors") for entry in _as_list(row.get(key))]
        yield DiagnosticResult(
            str(test.get("name", ""))[:80], str(row.get("status", ""))[:20].lower(), _parse_gpus(row), "; ".join(warnings)[:1000]
        )


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


def _get_warning_text(entry: Any) -> str:
    return str(entry.get("warning") or entry.get("error") or entry) if isinstance(entry, dict) else str(entry)


def _parse_gpus(row: dict[str, Any]) -> tuple[str, ...]:
    if "entity_id" in row:
        return (
            (f"gpu{_parse_small_number(row['entity_id'])}",)
            if str(row.get("entity_group", "GPU")).upper() == "GPU" and _parse_small_number(row["entity_id"])
            else ()
        )
    ids = str(row.get("gpu_ids", row.get("gpu_id", "")))
    return tuple(f"gpu{_parse_small_number(word)}" for word in ids.split(",") if _parse_small_number(word))


def _parse_small_number(value: Any) -> str:
    text = str(value).strip()
    return str(int(text)) if re.fullmatch(r"[0-9]{1,3}", text) else ""


def parse_table(text: str) -> _DiagnosticReport:
    """Join wrapped cells unchanged: the table wraps inside words."""
    reading, rows = _DiagnosticReport(cut="+---" not in text[-400:]), list[list[str]]()
    for line in split_lines(text):
        if cell := _CELL_PATTERN.match(line):
            if cell[1].strip() or not rows:
                rows.append([cell[1].strip(), cell[2]])
            else:
                rows[-1][1] += cell[2] if not re.match(r"(?:Pass|Fail|Skip|Warn)\b", cell[2]) else f"\n{cell[2]}"
    for name, value in rows:
        _add_table_row(reading, name, value.rstrip())
    if not reading.results:
        raise Unreadable("no test of the table has a result")
    return reading


def _add_table_row(reading: _DiagnosticReport, name: str, value: str) -> None:
    if name in ("Warning", "Error", "Info"):
        if reading.results and name != "Info":
            _assign_warning(reading, value.strip())
        elif name == "Error":
            reading.results.append(DiagnosticResult("", "fail"))
            _assign_warning(reading, value.strip())
        return
    for part in value.split("\n"):
        word, _, location = part.strip().partition(" - ")
        if word.lower() in ("pass", "fail", "skip", "warn"):
            gpus = tuple(f"gpu{int(number)}" for number in re.findall(r"\b(\d{1,3})\b", location.partition(":")[2]))
            reading.results.append(DiagnosticResult(name, word.lower(), gpus, all=location.strip() == "All"))


def _assign_warning(reading: _DiagnosticReport, says: str) -> None:
    """Assign to the failed result of the last test, else the last result. GPUs named in it are the faulty ones."""
    last = reading.results[-1]
    test = last.test
    target = next((r for r in reversed(reading.results) if r.test == test and r.status in ("fail", "warn")), None)
    devices = tuple(dict.fromkeys(f"gpu{int(number)}" for number in _GPU_PATTERN.findall(says)))
    if target is None and last.test and devices:
        return  # a remark on a test that passed
    row = target or last
    row.says = f"{row.says}; {says}".strip("; ")[:1000]
    row.gpus = row.gpus or (() if row.all else devices)


def build_dcgm_facts(check: str, reading: _DiagnosticReport) -> Sequence[Fact]:
    if not reading.results:
        return parse_error(check, reading.complaint)
    facts: list[Fact] = []
    for row in reading.results:
        if row.status in ("fail", "warn") and (row.status == "fail" or row.says):
            facts += _build_failure_facts(check, row)
    passed = {row.test for row in reading.results if row.status == "pass"} - {row.test for row in reading.results if row.status == "fail"}
    facts.append(Fact(check, "dcgm.passed", len(passed), line=", ".join(sorted(passed))[:300]))
    not_run = {row.test or "diagnostic": _get_skip_reason(row) for row in reading.results if _was_not_run(row)}
    if not_run:
        skipped_tests = ", ".join(f"{test} ({reason})" for test, reason in sorted(not_run.items()))
        facts.append(Fact(check, "dcgm.not_run", sorted(not_run)[:40], line=f"not run: {skipped_tests}"[:300]))
    if reading.cut:
        facts.append(build_unobserved_fact(check, Status.UNREADABLE, "the table ends before its last line"))
    return facts


def _was_not_run(row: DiagnosticResult) -> bool:
    return row.status not in ("pass", "fail", "warn") or (bool(row.says) and _find_setting(row) is not None)


def _get_skip_reason(row: DiagnosticResult) -> str:
    setting = _find_setting(row)
    return setting[1] if setting else "skipped"


def _find_setting(row: DiagnosticResult) -> tuple[str, str] | None:
    """Return the setting behind a failure; None if any warning is about something else."""
    settings = [_match_setting(part) for part in row.says.split("; ") if part.strip()]
    return settings[0] if settings and all(settings) else None


def _match_setting(warning: str) -> tuple[str, str] | None:
    low = warning.lower()
    if not any(word in low for word in _SETTING_WORDS):
        return None
    if any(name in HARDWARE_REASONS and pattern.search(warning) for name, pattern in REASON_PATTERNS):
        return None
    return next(((value, meaning) for value, meaning, pattern in SETTING_PATTERNS if pattern.search(warning)), None)


def _build_failure_facts(check: str, row: DiagnosticResult) -> list[Fact]:
    if setting := _find_setting(row):
        line = f"{row.test or 'diagnostic'}: not run as it should be, {row.says}"[:300]
        return [Fact(check, "dcgm.reason", setting[0], device, line=line, attrs={"status": row.status}) for device in row.gpus or (None,)]
    reason = next((name for name, pattern in REASON_PATTERNS if pattern.search(row.says)), None)
    reason = reason or next((name for name, pattern in REASON_PATTERNS if pattern.search(row.test)), "other")
    line = f"{row.test or 'diagnostic'}: {row.status}{f', {row.says}' if row.says else ''}"[:300]
    attrs = {"level": int(check[-1]), "reason": reason, "text": row.says[:300]}
    facts = []
    for device in row.gpus or (None,):
        if row.status == "fail":
            facts.append(Fact(check, "dcgm.failed", row.test or "diagnostic", device, line=line, attrs=attrs))
        facts.append(Fact(check, "dcgm.reason", reason, device, line=line, attrs={"status": row.status}))
    return facts


def parse_error(check: str, text: str) -> Sequence[Fact]:
    """Report only the error: without passed tests nothing is called healthy."""
    name = next((name for name, pattern in ERROR_PATTERNS if pattern.search(text[:4000])), "other")
    setting_note = next(
        (f" ({meaning})" for _, meaning, pattern in SETTING_PATTERNS if name == "other" and pattern.search(text[:4000])), ""
    )
    return [Fact(check, "dcgm.error", name, line=f"{get_first_line(text)}{setting_note}")]


def _build_dcgm_check(level: int, seconds: float, timeout: float, asks: str) -> Check:
    name = f"dcgm{level}"
    return Check(
        id=name,
        asks=asks,
        commands=(Command("run", ("dcgmi", "diag", "-r", str(level), "-j")),),
        formats=(
            Format("dcgmi diag JSON", is_json, lambda text: build_dcgm_facts(name, parse_json(text))),
            Format("dcgmi diag", is_table, lambda text: build_dcgm_facts(name, parse_table(text))),
            Format("dcgmi error", is_error, lambda text: parse_error(name, text)),
        ),
        establishes=("dcgm.failed", "dcgm.reason", "dcgm.passed", "dcgm.not_run", "dcgm.error"),
        seconds=seconds,
        exclusive=True,
        timeout=timeout,
        tool=INSTALL_HINT,
    )


CHECKS = (
    _build_dcgm_check(1, 15.0, 90.0, "Does DCGM's quick look at the software and records of the GPUs pass?"),
    _build_dcgm_check(2, 150.0, 600.0, "Do DCGM's tests of PCIe and GPU memory pass?"),
)
