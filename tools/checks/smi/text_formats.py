"""Read `nvidia-smi -q` as text, `nvidia-smi -L`, and `nvidia-smi --query-gpu=… --format=csv` with its header line.

Attached GPUs : 8
GPU 00000000:19:00.0
Product Name : NVIDIA H100 80GB HBM3
ECC Errors
Volatile
DRAM Uncorrectable : 0
"""

import csv
import re
from collections.abc import Iterator, Sequence

from kb.needle_search import split_lines
from kb.pci_address import normalize_bdf
from tools.checks.check_types import Unreadable
from tools.checks.output_values import get_first_line
from tools.checks.smi.complaints import parse_complaints
from tools.checks.smi.gpu import Cell, GpuFields, normalize_label
from tools.checks.smi.report import ReportedGpu, build_host_facts, build_report_facts
from tools.fact import Fact

_QUERY_BANNER = "NVSMI LOG"
_GPU_PATTERN = re.compile(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*$")
_LISTED_PATTERN = re.compile(r"GPU (\d{1,3}): (.{1,120}?) \(UUID: (GPU-[0-9a-f-]{8,40}|MIG-\S{1,60})\)")
_SKIPPED_SECTIONS = ("mig_device", "processes", "supported_clocks", "accounted_processes", "encoder_stats", "fbc_stats", "encoder_sessions")


def is_query(text: str) -> bool:
    return _QUERY_BANNER in text[:2000] and text.count(_QUERY_BANNER) == 1


def parse_query(text: str) -> Sequence[Fact]:
    """Parse `-q`. A section without its process list is incomplete: left out and reported missing.

    `-q -d ECC,…` has no product names and is never a complete report.
    """
    head, sections = _split_sections(text)
    gpus = [_parse_gpu_section(address, lines) for address, lines in sections]
    selected = bool(gpus) and not any(gpu.leaves.get("product_name") for gpu in gpus)
    if not gpus:
        raise Unreadable(f"no whole GPU section after {get_first_line(text)!r}")
    complete_gpus = [gpu for gpu in gpus if selected or gpu.processes is not None]
    broken = len(gpus) - len(complete_gpus)
    complete_gpus = complete_gpus or gpus  # every section is truncated: use them, reported as cut
    header_values = {normalize_label(label): value.strip() for label, _, value in (line.partition(":") for line in head)}
    cut = f"{broken} of {len(gpus)} GPU sections break off" if broken else ""
    other_lines = "\n".join(line for line in head if ":" in line or "infoROM" in line) + "\n" + _find_trailing_warnings(text)
    return build_report_facts(
        build_host_facts(header_values),
        [gpu._replace(processes=_get_process_count(gpu)) for gpu in complete_gpus],
        header_values.get("attached_gpus", ""),
        other_lines,
        cut,
        selected=selected,
    )


def _find_trailing_warnings(text: str) -> str:
    return "\n".join(line for line in split_lines(text) if line.startswith(("WARNING", "Unable to", "Failed to")))


def _get_process_count(gpu: ReportedGpu) -> int | None:
    return None if gpu.processes is None or gpu.processes < 0 else gpu.processes


def _split_sections(text: str) -> tuple[list[str], list[tuple[str, list[str]]]]:
    head: list[str] = []
    sections: list[tuple[str, list[str]]] = []
    for line in split_lines(text):
        if match := _GPU_PATTERN.match(line):
            sections.append((match[1], []))
        elif sections:
            sections[-1][1].append(line)
        else:
            head.append(line)
    return head, sections


def _parse_gpu_section(address: str, lines: Sequence[str]) -> ReportedGpu:
    """`processes` is None if the section ends before its process list, -1 if that is not available."""
    start = next((at for at, line in enumerate(lines) if line.strip().startswith("Processes")), None)
    processes = None
    if start is not None:
        value = lines[start].partition(":")[2].strip()
        processes = -1 if value == "N/A" else sum(line.strip().startswith("Process ID") for line in lines[start:])
    return ReportedGpu(GpuFields(_iter_text_cells(lines)), address, processes)


def _iter_text_cells(lines: Sequence[str]) -> Iterator[tuple[str, Cell]]:
    """A label's parent is the nearest label above with less indentation."""
    above: list[tuple[int, str]] = []
    for line in lines:
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        label, colon, value = line.strip().partition(":")
        while above and above[-1][0] >= indent:
            above.pop()
        above.append((indent, normalize_label(label)))
        if colon and len(above) < 12 and not above[0][1].startswith(_SKIPPED_SECTIONS):
            yield "/".join(name for _, name in above), Cell(value.strip(), " : ".join(part.strip() for part in (label, value))[:300])


def is_list(text: str) -> bool:
    lines = [line for line in split_lines(text) if line.strip()]
    rows = [line for line in lines if _LISTED_PATTERN.search(line)]
    return bool(rows) and all(_LISTED_PATTERN.search(line) or line.lstrip().startswith(("MIG ", "WARNING", "Unable to")) for line in lines)


def parse_list(text: str) -> Sequence[Fact]:
    """Parse `GPU 0: NVIDIA L40S (UUID: GPU-…)` rows, and messages about lost GPUs."""
    rows = [(int(match[1]), match) for match in map(_LISTED_PATTERN.search, split_lines(text)) if match]
    facts = list(parse_complaints(text))
    for number, match in rows:
        facts += [
            Fact("smi", "gpu.uuid", match[3], f"gpu{number}", line=match[0]),
            Fact("smi", "gpu.product", match[2], f"gpu{number}", line=match[0]),
        ]
    return [*facts, Fact("smi", "gpu.count", len(rows), line=f"{len(rows)} GPUs are listed")]


def is_csv(text: str) -> bool:
    names = {_normalize_column_name(cell) for cell in get_first_line(text).split(",")} if "," in get_first_line(text) else set()
    return (
        bool(names & {"index", "uuid", "gpu_bus_id", "pci/bus_id"})
        and len(names) > 1
        and not names & {"pid", "process_name", "retired_pages/address"}
    )


def _normalize_column_name(cell: str) -> str:
    return re.sub(r" \[[^\]]*\]$", "", cell.strip()).lower().replace(".", "/")


def parse_csv(text: str) -> Sequence[Fact]:
    """Parse `index, uuid, pci.bus_id, ecc.errors.uncorrected.volatile.dram, …`, one line per GPU."""
    rows = [row for row in csv.reader(_list_csv_lines(text), skipinitialspace=True) if row]
    names = [_normalize_column_name(cell) for cell in rows[0]]
    complete_rows = [row for row in rows[1:] if len(row) == len(names)]
    if not complete_rows:
        raise Unreadable(f"a header of {len(names)} names and no row with as many cells")
    gpus = [_parse_csv_gpu(names, row) for row in complete_rows]
    versions = dict(zip(names, complete_rows[0], strict=True))
    cut = f"{len(rows) - 1 - len(complete_rows)} rows do not fit the header" if len(complete_rows) < len(rows) - 1 else ""
    return build_report_facts(build_host_facts(versions), gpus, "", text if cut else "", cut)


def _list_csv_lines(text: str) -> list[str]:
    return [line.replace("\0", "") for line in split_lines(text) if line.strip() and not line.startswith("WARNING")]


def _parse_csv_gpu(columns: Sequence[str], row: Sequence[str]) -> ReportedGpu:
    cells = dict(zip(columns, row, strict=True))
    address = cells.get("pci/bus_id") or cells.get("gpu_bus_id")
    leaves = GpuFields((name, Cell(cell.strip(), f"{name.replace('/', '.')}: {cell.strip()}"[:300])) for name, cell in cells.items())
    number = cells.get("index", "").strip()
    return ReportedGpu(
        leaves,
        address if address and normalize_bdf(address) else None,
        None,
        int(number) if number.isdecimal() and len(number) < 4 else None,
    )
