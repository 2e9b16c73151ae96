"""Checks that use nvidia-smi: GPUs, topology and NVLinks."""

from dataclasses import replace

from tools.checks.check_types import Check, Command, Format
from tools.checks.smi import table_format, text_formats, xml_format
from tools.checks.smi.complaints import has_complaint, parse_complaints
from tools.checks.smi.gpu import KEYS
from tools.checks.smi.nvlink import NO_LINKS_TEXT, is_nvlink, parse_no_links, parse_nvlink
from tools.checks.smi.topology import is_matrix, parse_matrix
from tools.fact import Fact


def _build_complaint_format(check: str) -> Format:
    """An error message instead of an answer is a finding of the check."""

    def parse(text: str) -> list[Fact]:
        return [replace(fact, check=check) for fact in parse_complaints(text)]

    return Format("nvidia-smi complaint", has_complaint, parse)


_COMPLAINT_KEYS = ("smi.error", "driver.mismatch", "driver.library_version", "gpu.lost", "gpu.count", "gpu.inforom_corrupt")
CHECKS = (
    Check(
        id="smi",
        asks="What does the driver say of every GPU: memory errors, clocks, power, temperature, PCIe, modes?",
        commands=(Command("query", ("nvidia-smi", "-q", "-x")),),
        formats=(
            Format("nvidia-smi -q -x", xml_format.is_xml, xml_format.parse_xml),
            Format("nvidia-smi -q", text_formats.is_query, text_formats.parse_query),
            Format("nvidia-smi table", table_format.is_table, table_format.parse_table),
            Format("nvidia-smi --query-gpu", text_formats.is_csv, text_formats.parse_csv),
            Format("nvidia-smi -L", text_formats.is_list, text_formats.parse_list),
            _build_complaint_format("smi"),
        ),
        establishes=tuple(
            dict.fromkeys((*KEYS, *_COMPLAINT_KEYS, "gpu.missing", "driver.version", "driver.cuda_version", "check.not_understood"))
        ),
        seconds=3.0,
        partial=True,
        timeout=30.0,
    ),
    Check(
        id="topo",
        asks="Does every GPU reach every other over NVLink?",
        commands=(Command("matrix", ("nvidia-smi", "topo", "-m")),),
        formats=(Format("nvidia-smi topo -m", is_matrix, parse_matrix), _build_complaint_format("topo")),
        establishes=("topo.peers", "topo.nvlinked", "topo.missing", "topo.nvlink_width", "topo.nics", *_COMPLAINT_KEYS),
        seconds=2.0,
    ),
    Check(
        id="nvlink",
        asks="Are all NVLinks up, and do they count errors?",
        commands=(
            Command("status", ("nvidia-smi", "nvlink", "-s"), optional=True, silence=NO_LINKS_TEXT),
            Command("errors", ("nvidia-smi", "nvlink", "-e"), optional=True),
        ),
        formats=(
            Format("nvidia-smi nvlink", is_nvlink, parse_nvlink),
            Format("no links", lambda text: text == NO_LINKS_TEXT, parse_no_links),
            _build_complaint_format("nvlink"),
        ),
        establishes=(
            "nvlink.active",
            "nvlink.inactive",
            "nvlink.speed",
            "nvlink.crc_errors",
            "nvlink.replay_errors",
            "nvlink.recovery_errors",
            "nvlink.worst_link",
            *_COMPLAINT_KEYS,
        ),
        seconds=2.0,
    ),
)
