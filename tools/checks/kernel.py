"""The kernel's log of one host, from the ring buffer and from the journal. However many lines say a thing, it is one fact."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from kb.catalogues import sxid, xid
from kb.catalogues.nvlink5 import decode
from kb.keys import KEYS
from kb.logs.event import Event
from kb.logs.kernel.reader import NEEDED, KernelReader, kernel_events
from kb.logs.timestamps import split
from kb.scan import lines_in
from tools.checks.few import left_out
from tools.checks.kernel_settle import APART, boot_name, merged, settle, settle_host, times
from tools.checks.kernel_unknown import unknown_errors
from tools.checks.lines import WITHOUT_ENTRIES
from tools.checks.row import Check, Command, Format
from tools.fact import Fact, Status

__all__ = ["CHECKS", "gathered", "parse_kernel_log", "settle"]

CHECK = "dmesg"
BOOT_ID = ("cat", "/proc/sys/kernel/random/boot_id")
"""What tells a host's present boot from every other."""

_BOOT_ID = re.compile(r"\s*([0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12})\s*")
_WRITERS = ("", "kernel")
_TELLS = ("NVRM: ", "nvidia-nvswitch", "mlx5_core ", "-- Boot ", "-- Logs begin", "-- Journal begins")
_LEVEL = re.compile(r"\[? ?(?:ERROR|INFO|WARNING|WARN|DEBUG|NOTICE|tid \d|rank\d)[\] ]")
"""A program's log goes on with its level in brackets, a ring-buffer line with the message."""


def is_boot_id(text: str) -> bool:
    """Whether the text is /proc/sys/kernel/random/boot_id."""
    return _BOOT_ID.fullmatch(text) is not None


def parse_boot_id(text: str) -> Sequence[Fact]:
    """`2f1c9f0e-5d1b-4b7a-9a56-0d6b0b8f6a11`."""
    return [Fact(CHECK, "host.boot_id", text.strip(), line=text.strip())]


def is_kernel_log(text: str) -> bool:
    """Whether one of the first lines is the kernel's, in any format of dmesg, journalctl, syslog or /dev/kmsg."""
    head = [line for line in lines_in(text[:65536])[:200] if line.strip()]
    return any(_is_kernels(line) for line in head) or bool(kernel_events(text[:65536]))


def _is_kernels(line: str) -> bool:
    prefix = split(line)
    if not prefix.found:
        return line.startswith(_TELLS)
    if line.startswith("{"):
        return '"MESSAGE"' in line and "_SYSTEMD_UNIT" not in line and prefix.source in _WRITERS
    ring = prefix.uptime is not None or line.startswith(("[", "20"))
    return prefix.source == "kernel" or (not prefix.source and ring and not _LEVEL.match(prefix.message))


def parse_kernel_log(text: str) -> Sequence[Fact]:
    """Facts of a log, in order of first sight. A log without an Xid says so."""
    reader = KernelReader()
    reader.feed(_oldest_first(text))
    found = [_decoded(fact) for fact in gathered(reader.finish())]
    found += [left_out(CHECK, reader.left_out)] if reader.left_out else []
    found += unknown_errors(CHECK, text)
    found += _booted(text)
    if not any(fact.key == "kernel.xid" for fact in found):
        found.append(Fact(CHECK, "kernel.xid", status=Status.ABSENT, line="no Xid in this log"))
    return found


def _booted(text: str) -> list[Fact]:
    """When the host booted, by the ring buffer's first line of the last boot, where it reaches back to it and tells the time."""
    at = -1 if text.startswith("{") else text.rfind("Linux version ")
    line = text[text.rfind("\n", 0, at) + 1 :].partition("\n")[0][:300] if at >= 0 else ""
    prefix = split(line)
    if prefix.time is None or prefix.source not in _WRITERS or not prefix.message.startswith("Linux version "):
        return []
    return [Fact(CHECK, "host.booted_at", prefix.time.isoformat(), line=line)]


def _oldest_first(text: str) -> str:
    """`journalctl --reverse` prints the newest line first; what a line means may hang on the one before it."""
    if not text.startswith("{"):
        return text
    lines = lines_in(text)
    first, last = split(lines[0]).time, split(lines[-1]).time
    return "\n".join(reversed(lines)) if first and last and first > last else text


def gathered(events: Iterable[Event]) -> list[Fact]:
    """One fact per kind, device, value and boot, whatever the number of lines."""
    groups: dict[tuple[object, ...], list[Event]] = {}
    for event in events:
        apart = tuple(str(event.attrs.get(name)) for name in APART)
        groups.setdefault((event.kind, event.device, repr(event.value), boot_name(event.boot_id), *apart), []).append(event)
    return [_one(group) for group in groups.values()]


def _decoded(fact: Fact) -> Fact:
    """What NVIDIA's tables say of an error, beside what the line says."""
    told = _TABLES[fact.key](fact) if fact.key in _TABLES else {}
    return replace(fact, attrs={**fact.attrs, **told}) if told else fact


def _xid(fact: Fact) -> Mapping[str, str]:
    row = xid.find(fact.value) if isinstance(fact.value, int) else None
    return {"meaning": row.meaning} | ({"resolution": row.immediate} if row.immediate else {}) if row else {}


def _sxid(fact: Fact) -> Mapping[str, str]:
    row = sxid.find(fact.value) if isinstance(fact.value, int) else None
    return {"meaning": row.meaning, "unit": row.unit, "listed": row.fatal} if row else {}


def _nvlink5(fact: Fact) -> Mapping[str, str]:
    told = decode(int(fact.attrs.get("xid", 0)), str(fact.attrs.get("intrinfo", "")), str(fact.attrs.get("errorstatus", "")))
    return {"resolution": told.action, "investigate": told.investigate, "class": told.severity} if told else {}


_TABLES: Mapping[str, Callable[[Fact], Mapping[str, str]]] = {"kernel.xid": _xid, "kernel.sxid": _sxid, "kernel.nvlink5": _nvlink5}


def _one(group: Sequence[Event]) -> Fact:
    first = group[0]
    moments = sorted(event.time for event in group if event.time)
    attrs = merged([event.attrs for event in group])
    attrs["count"] = sum(times(event.attrs) for event in group)
    if moments:
        attrs |= {"first": moments[0].isoformat(), "last": moments[-1].isoformat()}
    time = moments[0] if moments else None
    return Fact(CHECK, first.kind, first.value, first.device, line=first.line[:500], attrs=attrs, time=time, boot_id=first.boot_id)


_FIELDS = "--output-fields=MESSAGE,_BOOT_ID,PRIORITY,SYSLOG_IDENTIFIER,SYSLOG_FACILITY"
_JOURNAL = ("journalctl", "-o", "json", _FIELDS, "--no-pager")
_LAST_DAY = ("--since=-24h", "-p", "warning")

_CHRONIC = ("ACCESS_REG", "] BadTLP", "] BadDLLP", "] RxErr", "] Rollover", "] Timeout", "] NonFatalErr")
"""What harmless trouble writes by the ten thousand (an adapter's register complaint, the names of corrected PCIe errors): the beginning of a
log shows it well enough."""
_SPEAKERS = ("Linux version ", "NVRM", "nvidia")
"""What tells whether the driver is there at all."""


def _said(word: str) -> str:
    """The word in a pattern, every character as it is, but those that a shell reads."""
    return re.sub(r"[|;&$`<>]", ".", re.sub(r"([][(){}.*+?^])", r"\\\1", word))


def _matters() -> str:
    """No word of an argv holds a character that a shell reads, so "one of these" is written "not none of these"."""
    words = [word for word in (*_SPEAKERS, *NEEDED) if word not in _CHRONIC and not word.startswith(('"', "-- "))]
    shortest = [word for word in dict.fromkeys(words) if not any(other != word and other in word for other in words)]
    none = "".join(f"(?!.*{_said(word)})" for word in shortest)
    return rf"^(?!.*ACCESS_REG\()(?!.*severity=Correct)(?!.*AER: (?:Multiple )?Correct)(?!{none})"


MATTERS = _matters()
"""Every kernel line that is looked at, but the chronic ones. For journalctl and for Python alike; small and large letters count."""
_NEWEST = ("--reverse", "--case-sensitive=true", f"--grep={MATTERS}", "_TRANSPORT=kernel")
_ONLY = (
    "the newest lines on the GPU driver, NVSwitches, adapters, PCIe, disks, file systems, memory and crashes, "
    "and of adapters' register complaints and corrected PCIe errors the oldest"
)

CHECKS = (
    Check(
        id="dmesg",
        asks="What did the kernel and the driver report?",
        commands=(
            Command("ring", ("dmesg", "--decode", "--time-format", "iso"), privileged=True),
            Command("journal", (*_JOURNAL, *_LAST_DAY, "_TRANSPORT=kernel"), privileged=True, optional=True),
            Command("boot", BOOT_ID),
            Command("newest", (*_JOURNAL, "--boot", *_NEWEST), privileged=True, optional=True, stands_in_for="ring", only=_ONLY),
            Command("recent", (*_JOURNAL, *_LAST_DAY, *_NEWEST), privileged=True, optional=True, stands_in_for="journal", only=_ONLY),
        ),
        formats=(
            Format("boot id", is_boot_id, parse_boot_id),
            WITHOUT_ENTRIES,
            Format("kernel log", is_kernel_log, parse_kernel_log),
        ),
        establishes=(
            *("host.boot_id", "host.booted_at", "check.not_understood"),
            *(key.name for key in KEYS if key.name.startswith("kernel.") and key.name != "kernel.release"),
        ),
        seconds=3.0,
        partial=True,
        damage="tell",
        timeout=30.0,
        settle=settle_host,
    ),
)
