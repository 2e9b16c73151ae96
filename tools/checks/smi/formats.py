"""Read nvidia-smi's report in each of its formats: the table, `-q`, `-L` and CSV as text, and XML."""

import csv
import re
from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element, ParseError
from xml.etree.ElementTree import fromstring as read_plain

import defusedxml.ElementTree as Xml
from defusedxml import DefusedXmlException

from kb.needle_search import split_lines
from kb.pci_address import normalize_bdf
from tools.checks.check_types import Unreadable
from tools.checks.output_values import get_first_line
from tools.checks.smi.gpu import Cell, GpuFields, normalize_label
from tools.checks.smi.report import ReportedGpu, build_host_facts, build_report_facts, parse_complaints
from tools.fact import Fact

# The table of `nvidia-smi` without arguments: two or three lines per GPU, cells between bars.
#
# | 0 NVIDIA H100 80GB HBM3 On | 00000000:19:00.0 Off | 0 |
# | N/A 27C P0 72W / 700W | 1MiB / 81559MiB | 0% Default |
# | | | Disabled |

_HEAD_PATTERN = re.compile(r"NVIDIA-SMI (\S+) +(?:Driver|KMD) Version: *(\S+) +CUDA (?:UMD )?Version: *(\S+)")
_FIRST_PATTERN = re.compile(
    r"\| +(\d+) +(.{1,60}?) +(On|Off|N/A|WDDM|TCC|MCDM) *\| +([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d) +(?:On|Off|N/A) *\| +(\S.{0,30}?) *\|"
)
_SECOND_PATTERN = re.compile(
    r"\| *\S+ +(\d+C|N/A|ERR!) +\S+ +(\S+) */ *(\S+) *\| +(\d+MiB|N/A|\S+) */ *(\d+MiB|N/A|\S+) *\| +(\d+%|N/A|ERR!) +(\S.{0,20}?) *\|"
)
_THIRD_PATTERN = re.compile(r"\| +\| +\| +(Enabled\*?|Disabled\*?|N/A) *\|")
_COMPUTE_MODES = {"E. Process": "Exclusive_Process", "E. Thread": "Exclusive_Thread", "Prohibited": "Prohibited", "Default": "Default"}


def is_table(text: str) -> bool:
    return len(_HEAD_PATTERN.findall(text[:20000])) == 1 and text.count("NVIDIA-SMI ") == 1


def parse_table(text: str) -> Sequence[Fact]:
    """Parse the table. Its ECC column sums DRAM and SRAM; a count above zero is reported as DRAM's."""
    head = _HEAD_PATTERN.search(text)
    gpus = list(_iter_gpus(split_lines(text)))
    if not gpus or head is None:
        raise Unreadable("a table head without a row of a GPU")
    versions = {"driver_version": head[2], "cuda_version": head[3].rstrip("|")}
    other_lines = "\n".join(line for line in split_lines(text) if not line.startswith(("|", "+")))
    cut = "" if "+--" in text[text.rfind(gpus[-1].address or "") :] else "the table breaks off"
    return build_report_facts(build_host_facts(versions), gpus, "", other_lines, cut)


def _iter_gpus(lines: Sequence[str]) -> Iterator[ReportedGpu]:
    for at, line in enumerate(lines):
        first = _FIRST_PATTERN.match(line)
        if not first:
            continue
        cells = [("product_name", first[2]), ("persistence_mode", first[3] if first[3] in ("On", "Off") else "N/A"), *_parse_ecc(first[5])]
        second = _SECOND_PATTERN.match(lines[at + 1]) if at + 1 < len(lines) else None
        if second:
            cells += _parse_second_line(second)
        third = _THIRD_PATTERN.match(lines[at + 2]) if at + 2 < len(lines) else None
        if third:
            cells.append(("mig_mode/current_mig", third[1].rstrip("*")))
        rows = "\n".join(lines[at : at + 2])[:300]
        yield ReportedGpu(GpuFields((path, Cell(text.strip(), rows)) for path, text in cells), first[4], None, int(first[1][:3]))


def _parse_ecc(text: str) -> list[tuple[str, str]]:
    """Off, N/A (no ECC), On (counts are per MIG device) or the uncorrectable count."""
    if text in ("Off", "On"):
        return [("ecc_mode/current_ecc", "Enabled" if text == "On" else "Disabled")]
    if not text.isdecimal():
        return [("ecc_mode/current_ecc", text)]
    split = [("volatile/sram_uncorrectable", "0")] if int(text) == 0 else []
    return [("ecc_mode/current_ecc", "Enabled"), ("volatile/dram_uncorrectable", text), *split]


def _parse_second_line(match: re.Match[str]) -> list[tuple[str, str]]:
    temperature, draw, limit, used, total, util, mode = match.groups()
    return [
        ("temperature/gpu_temp", temperature),
        ("gpu_power_readings/power_draw", draw),
        ("gpu_power_readings/current_power_limit", limit),
        ("fb_memory_usage/used", used),
        ("fb_memory_usage/total", total),
        ("utilization/gpu_util", util),
        ("compute_mode", _COMPUTE_MODES.get(mode.strip(), mode)),
    ]


# `nvidia-smi -q` as text, `nvidia-smi -L`, and `nvidia-smi --query-gpu=… --format=csv` with its header line.
#
# Attached GPUs : 8
# GPU 00000000:19:00.0
# Product Name : NVIDIA H100 80GB HBM3
# ECC Errors
# Volatile
# DRAM Uncorrectable : 0

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


def _parse_csv_gpu(names: Sequence[str], row: Sequence[str]) -> ReportedGpu:
    cells = dict(zip(names, row, strict=True))
    address = cells.get("pci/bus_id") or cells.get("gpu_bus_id")
    leaves = GpuFields((name, Cell(cell.strip(), f"{name.replace('/', '.')}: {cell.strip()}"[:300])) for name, cell in cells.items())
    number = cells.get("index", "").strip()
    return ReportedGpu(
        leaves,
        address if address and normalize_bdf(address) else None,
        None,
        int(number) if number.isdecimal() and len(number) < 4 else None,
    )


# `nvidia-smi -q -x` of every driver branch. Elements are found by name; a truncated text yields its complete GPUs and is marked cut.
#
# <nvidia_smi_log>
# <driver_version>550.90.07</driver_version>
# <attached_gpus>8</attached_gpus>
# <gpu id="00000000:19:00.0">
# <ecc_errors><volatile><dram_uncorrectable>0</dram_uncorrectable> …

ROOT_ELEMENT = "nvidia_smi_log"
# subtrees whose element names would hide the GPU's
SKIPPED_ELEMENTS = {"mig_devices", "supported_clocks", "processes", "accounted_processes", "encoder_stats", "fbc_stats", "encoder_sessions"}
# Not allowed in XML. A process name may contain them and would make its whole GPU unreadable.
_INVALID_XML_CHARS_PATTERN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def is_xml(text: str) -> bool:
    return f"<{ROOT_ELEMENT}" in text or text.lstrip().startswith("<?xml")


def parse_xml(text: str) -> Sequence[Fact]:
    start = text.find("<?xml")
    start = text.find(f"<{ROOT_ELEMENT}") if start < 0 else start
    closing = text.find(f"</{ROOT_ELEMENT}>")
    end = closing + len(f"</{ROOT_ELEMENT}>") if closing >= 0 else len(text)
    tail = text[end:] if closing >= 0 else _find_plain_tail(text)
    surrounding_text = f"{text[:start]}\n{tail}"
    try:
        root, cut = _parse_root(text[start:end])
    except DefusedXmlException as error:
        raise Unreadable(f"refused XML with entities or external references ({type(error).__name__})") from error
    gpus = [_parse_gpu(element) for element in root.iter("gpu")]
    attached = root.findtext("attached_gpus", "")
    if not cut and root.tag != ROOT_ELEMENT:
        raise Unreadable(f"expected <{ROOT_ELEMENT}>, found <{root.tag}>")
    host = build_host_facts({name: root.findtext(name, "") for name in ("driver_version", "cuda_version")})
    return build_report_facts(host, gpus, attached, surrounding_text, cut)


def _find_plain_tail(text: str) -> str:
    """Messages after truncated XML: lines without markup after the last complete GPU."""
    return "\n".join(line for line in split_lines(text[text.rfind("</gpu>") :]) if "<" not in line)


def _parse_tree(text: str) -> Element:
    """defusedxml refuses entities; without them the plain parser saves a third of the time."""
    return Xml.fromstring(text) if "<!ENTITY" in text else read_plain(text)  # noqa: S314


def _parse_root(text: str) -> tuple[Element, str]:
    """Return the tree, and why it is incomplete or "". Broken text keeps its complete <gpu> elements."""
    try:
        return _parse_tree(text), ""
    except (ParseError, ValueError) as error:
        if _INVALID_XML_CHARS_PATTERN.search(text):
            return _parse_root(_INVALID_XML_CHARS_PATTERN.sub("\ufffd", text))
        root = Element(ROOT_ELEMENT)
        for part in _iter_whole_elements(text):
            try:
                root.append(_parse_tree(part))
            except (ParseError, ValueError):
                continue
        if not len(root):
            raise Unreadable(f"XML breaks off before the first whole GPU: {error}") from error
        return root, f"XML is broken or cut: {error}"


def _iter_whole_elements(text: str) -> Iterator[str]:
    for name in ("driver_version", "cuda_version", "attached_gpus"):
        at, end = text.find(f"<{name}>"), text.find(f"</{name}>")
        if 0 <= at < end:
            yield text[at : end + len(name) + 3]
    at = text.find("<gpu ")
    while at >= 0:
        end = text.find("</gpu>", at)
        if end < 0:
            return
        yield text[text.rfind("<gpu ", at, end) : end + 6]
        at = text.find("<gpu ", end)


def _parse_gpu(element: Element) -> ReportedGpu:
    address = (element.get("id") or "").strip() or element.findtext("pci/pci_bus_id")
    listed = element.find("processes")
    processes = None if listed is None or (listed.text or "").strip() == "N/A" else len(listed.findall("process_info"))
    return ReportedGpu(GpuFields(_iter_xml_cells(element)), address, processes)


def _iter_xml_cells(element: Element, path: str = "", depth: int = 0) -> Iterator[tuple[str, Cell]]:
    for child in element:
        if child.tag in SKIPPED_ELEMENTS or depth > 12:
            continue
        child_path = f"{path}/{child.tag}" if path else str(child.tag)
        if len(child):
            yield from _iter_xml_cells(child, child_path, depth + 1)
        else:
            text = (child.text or "").strip()
            yield child_path, Cell(text, f"<{child.tag}>{text}</{child.tag}>"[:300])
