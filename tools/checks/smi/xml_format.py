"""Read `nvidia-smi -q -x` of every driver branch.

Elements are found by name; a truncated text yields its complete GPUs and is marked cut.

<nvidia_smi_log>
<driver_version>550.90.07</driver_version>
<attached_gpus>8</attached_gpus>
<gpu id="00000000:19:00.0">
<ecc_errors><volatile><dram_uncorrectable>0</dram_uncorrectable> …
"""

import re
from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element, ParseError
from xml.etree.ElementTree import fromstring as read_plain

import defusedxml.ElementTree as Xml
from defusedxml import DefusedXmlException

from kb.needle_search import split_lines
from tools.checks.check_types import Unreadable
from tools.checks.smi.gpu import Cell, GpuFields
from tools.checks.smi.report import ReportedGpu, build_host_facts, build_report_facts
from tools.fact import Fact

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
