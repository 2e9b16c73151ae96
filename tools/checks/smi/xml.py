"""`nvidia-smi -q -x`, every driver branch. Elements are found by name; a cut file yields its whole GPUs and says that it was cut.

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

from kb.scan import lines_in
from tools.checks.row import Unreadable
from tools.checks.smi.gpu import Cell, Leaves
from tools.checks.smi.report import Gpu, host_facts, report_facts
from tools.fact import Fact

ROOT = "nvidia_smi_log"
SKIP = {"mig_devices", "supported_clocks", "processes", "accounted_processes", "encoder_stats", "fbc_stats", "encoder_sessions"}
"""Subtrees with names of their own that would hide the GPU's."""
_NO_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Signs that XML cannot hold; the name of a process may, and would blind the reading of its whole GPU."""


def is_xml(text: str) -> bool:
    """Whether the text holds the report, whole or cut."""
    return f"<{ROOT}" in text or text.lstrip().startswith("<?xml")


def parse_xml(text: str) -> Sequence[Fact]:
    """Facts of the report, and of what nvidia-smi wrote before and after it."""
    start = text.find("<?xml")
    start = text.find(f"<{ROOT}") if start < 0 else start
    closing = text.find(f"</{ROOT}>")
    end = closing + len(f"</{ROOT}>") if closing >= 0 else len(text)
    tail = text[end:] if closing >= 0 else _plain_tail(text)
    beside = f"{text[:start]}\n{tail}"
    try:
        root, cut = _root(text[start:end])
    except DefusedXmlException as why:
        raise Unreadable(f"refused XML with entities or external references ({type(why).__name__})") from why
    gpus = [_gpu(element) for element in root.iter("gpu")]
    attached = root.findtext("attached_gpus", "")
    if not cut and root.tag != ROOT:
        raise Unreadable(f"expected <{ROOT}>, found <{root.tag}>")
    host = host_facts({name: root.findtext(name, "") for name in ("driver_version", "cuda_version")})
    return report_facts(host, gpus, attached, beside, cut)


def _plain_tail(text: str) -> str:
    """What nvidia-smi wrote last where its XML breaks off: lines without markup after the last whole GPU."""
    return "\n".join(line for line in lines_in(text[text.rfind("</gpu>") :]) if "<" not in line)


def _tree(text: str) -> Element:
    """The parsed text. What declares an entity is left to defusedxml, which refuses it; all else needs no guard, and costs a third."""
    return Xml.fromstring(text) if "<!ENTITY" in text else read_plain(text)  # noqa: S314


def _root(text: str) -> tuple[Element, str]:
    """The tree, and why it is not whole ("" when it is). Of a broken text the whole <gpu> elements are kept."""
    try:
        return _tree(text), ""
    except (ParseError, ValueError) as why:
        if _NO_XML.search(text):
            return _root(_NO_XML.sub("\ufffd", text))
        root = Element(ROOT)
        for part in _pieces(text):
            try:
                root.append(_tree(part))
            except (ParseError, ValueError):
                continue
        if not len(root):
            raise Unreadable(f"XML breaks off before the first whole GPU: {why}") from why
        return root, f"XML is broken or cut: {why}"


def _pieces(text: str) -> Iterator[str]:
    """The whole <gpu>…</gpu> and head elements of a broken text."""
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


def _gpu(element: Element) -> Gpu:
    address = (element.get("id") or "").strip() or element.findtext("pci/pci_bus_id")
    listed = element.find("processes")
    processes = None if listed is None or (listed.text or "").strip() == "N/A" else len(listed.findall("process_info"))
    return Gpu(Leaves(_cells(element)), address, processes)


def _cells(element: Element, path: str = "", depth: int = 0) -> Iterator[tuple[str, Cell]]:
    for child in element:
        if child.tag in SKIP or depth > 12:
            continue
        here = f"{path}/{child.tag}" if path else str(child.tag)
        if len(child):
            yield from _cells(child, here, depth + 1)
        else:
            text = (child.text or "").strip()
            yield here, Cell(text, f"<{child.tag}>{text}</{child.tag}>"[:300])
