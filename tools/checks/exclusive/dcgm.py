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
    """The result of one test."""

    test: str
    status: str
    gpus: tuple[str, ...] = ()  # empty if the result is of the whole host
    says: str = ""  # the test's warnings
    all: bool = False  # whether the table says "All" instead of GPU numbers


@dataclass(slots=True)
class _DiagnosticReport:
    results: list[DiagnosticResult] = field(default_factory=list)
    cut: bool = False  # whether the table ends before its last line
    complaint: str = ""  # why the whole diagnostic did not run


def is_json(text: str) -> bool:
    return bool(re.search(r'"DCGM (?:GPU )?Diagnostic"', text))


def is_table(text: str) -> bool:
    return "| Diagnostic  " in text or "ran diagnostic for group" in text or bool(_RESULT_PATTERN.search(text))


def is_error(text: str) -> bool:
    return "diagnostic" in text.lower()[:2000] and any(pattern.search(text[:4000]) for _, pattern in ERROR_PATTERNS)


def parse_json(text: str) -> _DiagnosticReport:
    start = text.find("{")
    try:
        root = json.JSONDecoder().raw_decode(text[start:])[0]
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"JSON of dcgmi breaks off: {type(error).__name__}") from error
    diagnostic = next((root[key] for key in ("DCGM Diagnostic", "DCGM GPU Diagnostic") if isinstance(root, dict) and key in root), None)
    if not isinstance(diagnostic, dict):
        raise Unreadable("JSON without a DCGM diagnostic")
    report = _DiagnosticReport([result for test in _iter_tests(diagnostic) for result in _iter_results(test)])
    report.complaint = str(diagnostic.get("runtime_error") or diagnostic.get("Warning") or diagnostic.get("warning") or "")[:300]
    if not report.results and not report.complaint:
        raise Unreadable("no test has a result")
    return report


def _iter_tests(diagnostic: dict[str, Any]) -> Iterable[dict[str, Any]]:
    for category in _filter_dicts(diagnostic.get("test_categories")):
        yield from _filter_dicts(category.get("tests"))


def _filter_dicts(items: Any) -> list[dict[str, Any]]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _iter_results(test: dict[str, Any]) -> Iterable[DiagnosticResult]:
    name = str(test.get("name", ""))[:80]
    for entry in _filter_dicts(test.get("results")):
        warnings = [_get_warning_text(warning) for key in ("warnings", "warning", "errors") for warning in _wrap_in_list(entry.get(key))]
        status = str(entry.get("status", ""))[:20].lower()
        yield DiagnosticResult(name, status, _parse_gpus(entry), "; ".join(warnings)[:1000])


def _wrap_in_list(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    return [value] if value else []


def _get_warning_text(warning: Any) -> str:
    return str(warning.get("warning") or warning.get("error") or warning) if isinstance(warning, dict) else str(warning)


def _parse_gpus(entry: dict[str, Any]) -> tuple[str, ...]:
    if "entity_id" in entry:
        is_gpu = str(entry.get("entity_group", "GPU")).upper() == "GPU"
        gpu_ids = [entry["entity_id"]] if is_gpu else []
    else:
        gpu_ids = str(entry.get("gpu_ids", entry.get("gpu_id", ""))).split(",")
    numbers = [_parse_small_number(gpu_id) for gpu_id in gpu_ids]
    return tuple(f"gpu{number}" for number in numbers if number)


def _parse_small_number(value: Any) -> str:
    text = str(value).strip()
    return str(int(text)) if re.fullmatch(r"[0-9]{1,3}", text) else ""


def parse_table(text: str) -> _DiagnosticReport:
    report = _DiagnosticReport(cut="+---" not in text[-400:])
    for name, value in _join_wrapped_rows(text):
        _add_table_row(report, name, value.rstrip())
    if not report.results:
        raise Unreadable("no test of the table has a result")
    return report


def _join_wrapped_rows(text: str) -> list[tuple[str, str]]:
    """Return the table's names and values. Wrapped values are joined without a blank: the table wraps inside words."""
    rows: list[tuple[str, str]] = []
    for cells in filter(None, map(_CELL_PATTERN.match, split_lines(text))):
        name, value = cells[1].strip(), cells[2]
        if name or not rows:
            rows.append((name, value))
            continue
        name, value_so_far = rows[-1]
        is_next_result = re.match(r"(?:Pass|Fail|Skip|Warn)\b", value) is not None
        rows[-1] = (name, f"{value_so_far}\n{value}" if is_next_result else value_so_far + value)
    return rows


def _add_table_row(report: _DiagnosticReport, name: str, value: str) -> None:
    if name in ("Warning", "Error", "Info"):
        if report.results and name != "Info":
            _assign_warning(report, value.strip())
        elif name == "Error":
            report.results.append(DiagnosticResult("", "fail"))
            _assign_warning(report, value.strip())
        return
    for part in value.split("\n"):
        status, _, location = part.strip().partition(" - ")
        if status.lower() in ("pass", "fail", "skip", "warn"):
            gpus = tuple(f"gpu{int(number)}" for number in re.findall(r"\b(\d{1,3})\b", location.partition(":")[2]))
            report.results.append(DiagnosticResult(name, status.lower(), gpus, all=location.strip() == "All"))


def _assign_warning(report: _DiagnosticReport, warning: str) -> None:
    """Add the warning to the failed result of the last test, else to the last result.

    GPUs that the warning names are the faulty ones.
    """
    last = report.results[-1]
    results_of_test = [result for result in report.results if result.test == last.test]
    failed = next((result for result in reversed(results_of_test) if result.status in ("fail", "warn")), None)
    devices = tuple(dict.fromkeys(f"gpu{int(number)}" for number in _GPU_PATTERN.findall(warning)))
    if failed is None and last.test and devices:
        return  # a remark on a test that passed
    result = failed or last
    result.says = f"{result.says}; {warning}".strip("; ")[:1000]
    if not result.gpus and not result.all:
        result.gpus = devices


def build_dcgm_facts(check: str, report: _DiagnosticReport) -> Sequence[Fact]:
    if not report.results:
        return parse_error(check, report.complaint)
    facts: list[Fact] = []
    for result in report.results:
        if result.status == "fail" or (result.status == "warn" and result.says):
            facts += _build_failure_facts(check, result)
    failed_tests = {result.test for result in report.results if result.status == "fail"}
    passed_tests = {result.test for result in report.results if result.status == "pass"} - failed_tests
    facts.append(Fact(check, "dcgm.passed", len(passed_tests), line=", ".join(sorted(passed_tests))[:300]))
    not_run = {result.test or "diagnostic": _get_skip_reason(result) for result in report.results if _was_not_run(result)}
    if not_run:
        skipped_tests = ", ".join(f"{test} ({reason})" for test, reason in sorted(not_run.items()))
        facts.append(Fact(check, "dcgm.not_run", sorted(not_run)[:40], line=f"not run: {skipped_tests}"[:300]))
    if report.cut:
        facts.append(build_unobserved_fact(check, Status.UNREADABLE, "the table ends before its last line"))
    return facts


def _was_not_run(result: DiagnosticResult) -> bool:
    return result.status not in ("pass", "fail", "warn") or (bool(result.says) and _find_setting(result) is not None)


def _get_skip_reason(result: DiagnosticResult) -> str:
    setting = _find_setting(result)
    return setting[1] if setting else "skipped"


def _find_setting(result: DiagnosticResult) -> tuple[str, str] | None:
    """Return the value and meaning of the setting behind a failure; None if any warning is about something else."""
    settings = [_match_setting(part) for part in result.says.split("; ") if part.strip()]
    return settings[0] if settings and all(settings) else None


def _match_setting(warning: str) -> tuple[str, str] | None:
    lower_case = warning.lower()
    if not any(word in lower_case for word in _SETTING_WORDS):
        return None
    if any(name in HARDWARE_REASONS and pattern.search(warning) for name, pattern in REASON_PATTERNS):
        return None
    return next(((value, meaning) for value, meaning, pattern in SETTING_PATTERNS if pattern.search(warning)), None)


def _build_failure_facts(check: str, result: DiagnosticResult) -> list[Fact]:
    if setting := _find_setting(result):
        line = f"{result.test or 'diagnostic'}: not run as it should be, {result.says}"[:300]
        setting_attrs = {"status": result.status}
        return [Fact(check, "dcgm.reason", setting[0], device, line=line, attrs=setting_attrs) for device in result.gpus or (None,)]
    reason = _classify_reason(result.says) or _classify_reason(result.test) or "other"
    line = f"{result.test or 'diagnostic'}: {result.status}{f', {result.says}' if result.says else ''}"[:300]
    attrs = {"level": int(check[-1]), "reason": reason, "text": result.says[:300]}
    facts = []
    for device in result.gpus or (None,):
        if result.status == "fail":
            facts.append(Fact(check, "dcgm.failed", result.test or "diagnostic", device, line=line, attrs=attrs))
        facts.append(Fact(check, "dcgm.reason", reason, device, line=line, attrs={"status": result.status}))
    return facts


def _classify_reason(text: str) -> str:
    return next((name for name, pattern in REASON_PATTERNS if pattern.search(text)), "")


def parse_error(check: str, text: str) -> Sequence[Fact]:
    """Report only the error: without passed tests nothing is called healthy."""
    head = text[:4000]
    name = next((name for name, pattern in ERROR_PATTERNS if pattern.search(head)), "other")
    setting = ""
    if name == "other":
        setting = next((f" ({meaning})" for _, meaning, pattern in SETTING_PATTERNS if pattern.search(head)), "")
    return [Fact(check, "dcgm.error", name, line=f"{get_first_line(text)}{setting}")]


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
