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
    """Parse the output of `-q`. GPU sections that break off are left out and reported missing.

    A section without its process list breaks off. `-q -d ECC,…` prints selected fields without product names: it has no
    process lists and is never a complete report.
    """
    header_lines, sections = _split_sections(text)
    gpus = [_parse_gpu_section(address, lines) for address, lines in sections]
    if not gpus:
        raise Unreadable(f"no whole GPU section after {get_first_line(text)!r}")
    has_selected_fields = not any(gpu.leaves.get("product_name") for gpu in gpus)
    complete_gpus = [gpu for gpu in gpus if has_selected_fields or gpu.processes is not None]
    broken_count = len(gpus) - len(complete_gpus)
    complete_gpus = complete_gpus or gpus  # every section is truncated: use them, reported as cut
    header_values = {}
    for line in header_lines:
        label, _, value = line.partition(":")
        header_values[normalize_label(label)] = value.strip()
    cut = f"{broken_count} of {len(gpus)} GPU sections break off" if broken_count else ""
    header_notes = "\n".join(line for line in header_lines if ":" in line or "infoROM" in line)
    return build_report_facts(
        build_host_facts(header_values),
        [gpu._replace(processes=_get_process_count(gpu)) for gpu in complete_gpus],
        header_values.get("attached_gpus", ""),
        f"{header_notes}\n{_find_trailing_warnings(text)}",
        cut,
        selected=has_selected_fields,
    )


def _find_trailing_warnings(text: str) -> str:
    return "\n".join(line for line in split_lines(text) if line.startswith(("WARNING", "Unable to", "Failed to")))


def _get_process_count(gpu: ReportedGpu) -> int | None:
    return None if gpu.processes is None or gpu.processes < 0 else gpu.processes


def _split_sections(text: str) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Return the lines before the first GPU, and each GPU's address with its lines."""
    header_lines: list[str] = []
    sections: list[tuple[str, list[str]]] = []
    for line in split_lines(text):
        if match := _GPU_PATTERN.match(line):
            sections.append((match[1], []))
        elif sections:
            sections[-1][1].append(line)
        else:
            header_lines.append(line)
    return header_lines, sections


def _parse_gpu_section(address: str, lines: Sequence[str]) -> ReportedGpu:
    """Parse a section. `processes` is None if it ends before its process list, -1 if the list is not available."""
    list_start = next((index for index, line in enumerate(lines) if line.strip().startswith("Processes")), None)
    processes = None
    if list_start is not None:
        list_value = lines[list_start].partition(":")[2].strip()
        process_count = sum(line.strip().startswith("Process ID") for line in lines[list_start:])
        processes = -1 if list_value == "N/A" else process_count
    return ReportedGpu(GpuFields(_iter_text_cells(lines)), address, processes)


def _iter_text_cells(lines: Sequence[str]) -> Iterator[tuple[str, Cell]]:
    """Yield each label's path and cell. A label's parent is the nearest label above it with less indentation."""
    parents: list[tuple[int, str]] = []  # indentation and label, outermost first
    for line in lines:
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        label, colon, value = line.strip().partition(":")
        while parents and parents[-1][0] >= indent:
            parents.pop()
        parents.append((indent, normalize_label(label)))
        is_skipped = parents[0][1].startswith(_SKIPPED_SECTIONS)
        if colon and len(parents) < 12 and not is_skipped:
            path = "/".join(name for _, name in parents)
            yield path, Cell(value.strip(), f"{label.strip()} : {value.strip()}"[:300])


def is_list(text: str) -> bool:
    lines = [line for line in split_lines(text) if line.strip()]
    other_lines = [line for line in lines if not _LISTED_PATTERN.search(line)]
    has_gpus = len(other_lines) < len(lines)
    return has_gpus and all(line.lstrip().startswith(("MIG ", "WARNING", "Unable to")) for line in other_lines)


def parse_list(text: str) -> Sequence[Fact]:
    """Parse lines such as `GPU 0: NVIDIA L40S (UUID: GPU-…)`, and messages about lost GPUs."""
    gpus = [match for match in map(_LISTED_PATTERN.search, split_lines(text)) if match]
    facts = list(parse_complaints(text))
    for gpu in gpus:
        device, product, uuid = f"gpu{int(gpu[1])}", gpu[2], gpu[3]
        facts.append(Fact("smi", "gpu.uuid", uuid, device, line=gpu[0]))
        facts.append(Fact("smi", "gpu.product", product, device, line=gpu[0]))
    return [*facts, Fact("smi", "gpu.count", len(gpus), line=f"{len(gpus)} GPUs are listed")]


def is_csv(text: str) -> bool:
    columns = {_normalize_column_name(cell) for cell in get_first_line(text).split(",")}
    has_gpu_identity = bool(columns & {"index", "uuid", "gpu_bus_id", "pci/bus_id"})
    is_other_query = bool(columns & {"pid", "process_name", "retired_pages/address"})
    return len(columns) > 1 and has_gpu_identity and not is_other_query


def _normalize_column_name(cell: str) -> str:
    return re.sub(r" \[[^\]]*\]$", "", cell.strip()).lower().replace(".", "/")


def parse_csv(text: str) -> Sequence[Fact]:
    """Parse `index, uuid, pci.bus_id, ecc.errors.uncorrected.volatile.dram, …`, one line per GPU."""
    table = [cells for cells in csv.reader(_list_csv_lines(text), skipinitialspace=True) if cells]
    columns, gpu_rows = [_normalize_column_name(cell) for cell in table[0]], table[1:]
    complete_rows = [row for row in gpu_rows if len(row) == len(columns)]
    if not complete_rows:
        raise Unreadable(f"a header of {len(columns)} names and no row with as many cells")
    gpus = [_parse_csv_gpu(columns, row) for row in complete_rows]
    host_values = dict(zip(columns, complete_rows[0], strict=True))  # versions: the same in every row
    broken_count = len(gpu_rows) - len(complete_rows)
    cut = f"{broken_count} rows do not fit the header" if broken_count else ""
    return build_report_facts(build_host_facts(host_values), gpus, "", text if cut else "", cut)


def _list_csv_lines(text: str) -> list[str]:
    return [line.replace("\0", "") for line in split_lines(text) if line.strip() and not line.startswith("WARNING")]


def _parse_csv_gpu(columns: Sequence[str], row: Sequence[str]) -> ReportedGpu:
    cells = dict(zip(columns, row, strict=True))
    address = cells.get("pci/bus_id") or cells.get("gpu_bus_id")
    leaves = GpuFields((name, Cell(cell.strip(), f"{name.replace('/', '.')}: {cell.strip()}"[:300])) for name, cell in cells.items())
    number = cells.get("index", "").strip()
    index = int(number) if number.isdecimal() and len(number) < 4 else None
    return ReportedGpu(leaves, address if address and normalize_bdf(address) else None, None, index)
