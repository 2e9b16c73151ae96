"""Grammar of `NVRM: Xid (…)` and `nvidia-nvswitchN: SXid (…)` messages of all driver branches.

    NVRM: Xid (PCI:0000:9b:00): 119, pid=2024380, name=nvidia-smi, Timeout after 6s of waiting for RPC response from GPU4 GSP! …
    NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid='<unknown>', name=<unknown>, Contained: CE User Channel (0x9). RST: No, D-RST: No

Messages match from their first character, so a process name can alter the detail but never forge an event.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from kb.pci_address import normalize_bdf

NVLINK5_XIDS = range(144, 151)

_XID_PATTERN = re.compile(
    r"NVRM: (?:GPU at [^ ]{1,40} )?Xid \((?:PCI:)?([0-9A-Fa-f:.]{3,20})(?: GPU-I:([0-9A-Fa-f]{1,4}))?\): (\d{1,4})(?![\d.])(?:, ?| |$)"
)
_PID_PATTERN = re.compile(r"pid=(?:'([^']{0,40})'|([^,]{0,40}))(?:, ?|$)")
_NAME_PATTERN = re.compile(r"name=(?:'([^']{0,64})'(?:, ?|$))?")
_DETAIL_PATTERN = re.compile(
    r", (?=Ch [0-9a-fA-F]{8}|channel 0x|Channel ID|Graphics |MMU Fault|NVLink|Row Remapper|GPU |GSP |Timeout |Contained|Uncontained|"
    r"Class Error|Internal |Unrecovered|An uncorrectable|errorString|RLW_|NETIR|SAW_|TLW|MSE|[0-9a-f]{4}\()"
)
_WHERE_PATTERN = re.compile(r"GPC ?(\d{1,6}), TPC ?(\d{1,6})(?:, SM ?(\d{1,6}))?")
_CLIENT_PATTERN = re.compile(r"\bGPC(\d{1,6})\b")
_FATAL_LINK_PATTERN = re.compile(r"(?:on|detected on) link (\d{1,6}) ?\(([^)]{0,200})\)")
_RECOVERY_PATTERN = re.compile(r"GPU recovery action changed from (0x[0-9a-fA-F]+) \(([^)]{1,40})\) to (0x[0-9a-fA-F]+) \(([^)]{1,40})\)")
_CAUSED_PATTERN = re.compile(r"caused by previous Xid (\d{1,4})")
_CHANNEL_PATTERN = re.compile(r"(?:Ch|channel|Channel ID|ChID|ChId) (?:0x)?([0-9a-fA-F]{4,8})")
_FAULT_PATTERN = re.compile(r"Fault is of type (FAULT_[A-Z_]+)(?: (ACCESS_TYPE_[A-Z_]+))?")
_GSP_PATTERN = re.compile(r"(?:RPC response from |RPC from )(?:GPU(\d{1,6}) )?GSP\d*! Expected function (\w+)(?: \((\w+)\))?")
_ROW_PATTERN = re.compile(r"Row Remapper(?: Error)?:[^(]{0,20}\(?(0x[0-9a-fA-F]+)?")
_NVL5_PATTERN = re.compile(
    r"([A-Z][A-Z0-9_]{2,30})(?: {1,8}(\w+))?? {1,8}(Fatal|Nonfatal|Non-fatal) {1,8}(XC\d+) {1,8}(i\d+) {1,8}"
    r"Link {1,8}(-?\d{1,6}) {1,8}\(([^)]{0,120})\)"
)
_SXID_PATTERN = re.compile(
    r"(?:nvidia-)?nvswitch(\d{1,3}): SXid \((?:PCI:)?([0-9A-Fa-f:.]{3,20})\): (\d{3,6})(?:, (Fatal|Non-fatal))?(?:, Link (\d{1,3}))?,? ?"
)
_SXID_LINK_PATTERN = re.compile(r"Link (\d{1,3})\b")


class XidSighting(NamedTuple):
    """One Xid or SXid."""

    code: int
    device: str | None
    attrs: Mapping[str, Any]


def parse_xid(message: str) -> XidSighting | None:
    """Parse an Xid, or return None."""
    head = _XID_PATTERN.match(message)
    if not head:
        return None
    pid, rest = _parse_pid(message[head.end() :])
    name, detail = _parse_process_name(rest)
    code, device = int(head[3]), normalize_bdf(head[1])
    fields = {"bdf": device, "mig": head[2], "pid": pid, "name": name, "detail": detail[:300]}
    return XidSighting(code, device, {key: value for key, value in (fields | _parse_detail(code, detail)).items() if value is not None})


def parse_sxid(message: str) -> XidSighting | None:
    """Parse an SXid. Skip hex dump lines, which have no severity and text."""
    head = _SXID_PATTERN.match(message)
    if not head:
        return None
    detail = message[head.end() :]
    if not head[4] and re.match(r"(?:Severity|Data \{|Additional)", detail):
        return None
    link = head[5] or (match[1] if (match := _SXID_LINK_PATTERN.search(detail)) else None)
    attrs: dict[str, Any] = {"bdf": normalize_bdf(head[2]), "fatal": head[4] == "Fatal", "detail": detail[:300]}
    return XidSighting(int(head[3]), f"nvswitch{head[1]}", attrs | ({"link": int(link)} if link else {}))


def parse_nvlink5(code: int, detail: str) -> tuple[str, Mapping[str, Any]] | None:
    """Return unit and attributes (Xid 144 to 150); `intrinfo` and `errorstatus` decode further."""
    match = _NVL5_PATTERN.search(detail) if code in NVLINK5_XIDS else None
    if not match:
        return None
    words = match[7].split()
    return match[1], {
        "xid": code,
        "severity": "fatal" if match[3] == "Fatal" else "nonfatal",
        "link": int(match[6]),
        "injected": match[5] != "i0",
        "intrinfo": words[0] if words else "",
        "errorstatus": words[1] if len(words) > 1 else "",
        "words": match[7],
    }


def _parse_pid(text: str) -> tuple[int | None, str]:
    match = _PID_PATTERN.match(text)
    if not match:
        return None, text
    pid = match[1] or match[2] or ""
    return (int(pid) if re.fullmatch(r"[0-9]{1,10}", pid) else None), text[match.end() :]


def _parse_process_name(text: str) -> tuple[str | None, str]:
    """A name may hold commas, so a known detail text ends it first."""
    match = _NAME_PATTERN.match(text)
    if not match:
        return None, text
    if match[1] is not None:
        return match[1], text[match.end() :]
    rest = text[match.end() :]
    if end := (_DETAIL_PATTERN.search(rest) or re.search(", |$", rest)):
        rest, detail = rest[: end.start()], rest[end.end() :]
    return (None if rest == "<unknown>" else rest), detail


def _parse_detail(code: int, detail: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if match := _WHERE_PATTERN.search(detail):
        fields = {"gpc": int(match[1]), "tpc": int(match[2]), "sm": int(match[3]) if match[3] else None}
    elif client := _CLIENT_PATTERN.search(detail):
        fields = {"gpc": int(client[1])}
    if "caused by" in detail and (caused := _CAUSED_PATTERN.search(detail)):
        fields["caused_by"] = int(caused[1])
    if channel := _CHANNEL_PATTERN.search(detail):
        fields["channel"] = channel[1]
    reader = _DETAIL_PARSERS.get(code)
    return fields | (reader(detail) if reader else {})


def _parse_recovery(detail: str) -> dict[str, Any]:
    match = _RECOVERY_PATTERN.match(detail)
    return {"recovery": match[4], "recovery_from": match[2]} if match else {}


def _parse_fatal_link(detail: str) -> dict[str, Any]:
    match = _FATAL_LINK_PATTERN.search(detail)
    return {"link": int(match[1]), "registers": match[2]} if match else {}


def _parse_fault(detail: str) -> dict[str, Any]:
    match = _FAULT_PATTERN.search(detail)
    return {"fault": match[1], "access": match[2]} if match else {}


def _parse_gsp(detail: str) -> dict[str, Any]:
    match = _GSP_PATTERN.search(detail)
    return {"gpu_index": int(match[1]) if match[1] else None, "function": match[3] or match[2]} if match else {}


def _parse_row_remap(detail: str) -> dict[str, Any]:
    match = _ROW_PATTERN.search(detail)
    return {"address": match[1]} if match else {}


def _parse_any_link(detail: str) -> dict[str, Any]:
    match = re.search(r"\b[Ll]ink (-?\d{1,3})\b", detail)
    return {"link": int(match[1])} if match else {}


_DETAIL_PARSERS = {
    31: _parse_fault,
    63: _parse_row_remap,
    64: _parse_row_remap,
    74: _parse_fatal_link,
    119: _parse_gsp,
    120: _parse_gsp,
    137: _parse_any_link,
    154: _parse_recovery,
} | dict.fromkeys(NVLINK5_XIDS, _parse_any_link)
