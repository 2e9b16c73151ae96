"""Checks that use nvidia-smi: GPUs, topology and NVLinks."""

from dataclasses import replace

from tools.checks.check import Check, Command, Format
from tools.checks.smi import nvlink, topo
from tools.checks.smi import table as smi_tabular
from tools.checks.smi import text as smi_text
from tools.checks.smi import xml as smi_xml
from tools.checks.smi.complaints import has_complaint, parse_complaints
from tools.checks.smi.gpu import KEYS
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
            Format("nvidia-smi -q -x", smi_xml.is_xml, smi_xml.parse_xml),
            Format("nvidia-smi -q", smi_text.is_query, smi_text.parse_query),
            Format("nvidia-smi table", smi_tabular.is_table, smi_tabular.parse_table),
            Format("nvidia-smi --query-gpu", smi_text.is_csv, smi_text.parse_csv),
            Format("nvidia-smi -L", smi_text.is_list, smi_text.parse_list),
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
        formats=(Format("nvidia-smi topo -m", topo.is_matrix, topo.parse_matrix), _build_complaint_format("topo")),
        establishes=("topo.peers", "topo.nvlinked", "topo.missing", "topo.nvlink_width", "topo.nics", *_COMPLAINT_KEYS),
        seconds=2.0,
    ),
    Check(
        id="nvlink",
        asks="Are all NVLinks up, and do they count errors?",
        commands=(
            Command("status", ("nvidia-smi", "nvlink", "-s"), optional=True, silence=nvlink.NO_LINKS_TEXT),
            Command("errors", ("nvidia-smi", "nvlink", "-e"), optional=True),
        ),
        formats=(
            Format("nvidia-smi nvlink", nvlink.is_nvlink, nvlink.parse_nvlink),
            Format("no links", lambda text: text == nvlink.NO_LINKS_TEXT, nvlink.parse_no_links),
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
