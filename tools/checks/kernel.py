"""One host's kernel log, from ring buffer and journal. Repeated lines become one fact."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from kb.catalogues import sxid
from kb.catalogues.nvlink_errors import decode_nvlink_error
from kb.catalogues.xid import find_xid
from kb.fact_keys import KEYS
from kb.logs.kernel_log import NEEDED_TEXTS, KernelLogReader, list_kernel_events
from kb.logs.line_prefixes import split_prefix
from kb.logs.log_events import LogEvent
from kb.needle_search import split_lines
from tools.checks.check_types import Check, Command, Format
from tools.checks.fact_limits import build_left_out_fact
from tools.checks.kernel_merge import IDENTITY_ATTRS, get_occurrence_count, merge_attrs, merge_host_kernel_logs, normalize_boot_id
from tools.checks.kernel_unknown_errors import build_unknown_error_facts
from tools.checks.output_values import EMPTY_JOURNAL_FORMAT
from tools.fact import Fact, Status

CHECK = "dmesg"
BOOT_ID = ("cat", "/proc/sys/kernel/random/boot_id")  # identifies the host's current boot
_BOOT_ID_PATTERN = re.compile(r"\s*([0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12})\s*")
_KERNEL_SOURCES = ("", "kernel")
_KERNEL_PREFIXES = ("NVRM: ", "nvidia-nvswitch", "mlx5_core ", "-- Boot ", "-- Logs begin", "-- Journal begins")
# A program's log continues with a bracketed level, a ring-buffer line with the message.
_LEVEL_PATTERN = re.compile(r"\[? ?(?:ERROR|INFO|WARNING|WARN|DEBUG|NOTICE|tid \d|rank\d)[\] ]")


def is_boot_id(text: str) -> bool:
    return _BOOT_ID_PATTERN.fullmatch(text) is not None


def parse_boot_id(text: str) -> Sequence[Fact]:
    return [Fact(CHECK, "host.boot_id", text.strip(), line=text.strip())]


def is_kernel_log(text: str) -> bool:
    """Accept any format of dmesg, journalctl, syslog or /dev/kmsg."""
    head = [line for line in split_lines(text[:65536])[:200] if line.strip()]
    return any(_is_kernel_line(line) for line in head) or bool(list_kernel_events(text[:65536]))


def _is_kernel_line(line: str) -> bool:
    prefix = split_prefix(line)
    if not prefix.found:
        return line.startswith(_KERNEL_PREFIXES)
    if line.startswith("{"):
        return '"MESSAGE"' in line and "_SYSTEMD_UNIT" not in line and prefix.source in _KERNEL_SOURCES
    ring = prefix.uptime is not None or line.startswith(("[", "20"))
    return prefix.source == "kernel" or (not prefix.source and ring and not _LEVEL_PATTERN.match(prefix.message))


def parse_kernel_log(text: str) -> Sequence[Fact]:
    """Return facts by first occurrence. A log without an Xid says so."""
    reader = KernelLogReader()
    reader.feed(_order_oldest_first(text))
    facts = [_decode_fact(fact) for fact in group_kernel_events(reader.finish())]
    facts += [build_left_out_fact(CHECK, reader.left_out)] if reader.left_out else []
    facts += build_unknown_error_facts(CHECK, text)
    facts += _build_boot_time_facts(text)
    if not any(fact.key == "kernel.xid" for fact in facts):
        facts.append(Fact(CHECK, "kernel.xid", status=Status.ABSENT, line="no Xid in this log"))
    return facts


def _build_boot_time_facts(text: str) -> list[Fact]:
    """The last boot's first ring-buffer line, if the buffer reaches back to it."""
    at = -1 if text.startswith("{") else text.rfind("Linux version ")
    line = text[text.rfind("\n", 0, at) + 1 :].partition("\n")[0][:300] if at >= 0 else ""
    prefix = split_prefix(line)
    if prefix.time is None or prefix.source not in _KERNEL_SOURCES or not prefix.message.startswith("Linux version "):
        return []
    return [Fact(CHECK, "host.booted_at", prefix.time.isoformat(), line=line)]


def _order_oldest_first(text: str) -> str:
    """`journalctl --reverse` prints newest first, but a line may depend on the previous one."""
    if not text.startswith("{"):
        return text
    lines = split_lines(text)
    first, last = split_prefix(lines[0]).time, split_prefix(lines[-1]).time
    return "\n".join(reversed(lines)) if first and last and first > last else text


def group_kernel_events(events: Iterable[LogEvent]) -> list[Fact]:
    """Return one fact per kind, device, value and boot."""
    groups: dict[tuple[object, ...], list[LogEvent]] = {}
    for event in events:
        apart = tuple(str(event.attrs.get(name)) for name in IDENTITY_ATTRS)
        groups.setdefault((event.kind, event.device, repr(event.value), normalize_boot_id(event.boot_id), *apart), []).append(event)
    return [_build_group_fact(group) for group in groups.values()]


def _decode_fact(fact: Fact) -> Fact:
    """Add what NVIDIA's tables say."""
    details = _DECODERS[fact.key](fact) if fact.key in _DECODERS else {}
    return replace(fact, attrs={**fact.attrs, **details}) if details else fact


def _describe_xid(fact: Fact) -> Mapping[str, str]:
    xid = find_xid(fact.value) if isinstance(fact.value, int) else None
    if xid is None:
        return {}
    return {"meaning": xid.meaning, "resolution": xid.immediate} if xid.immediate else {"meaning": xid.meaning}


def _describe_sxid(fact: Fact) -> Mapping[str, str]:
    error = sxid.find_sxid(fact.value) if isinstance(fact.value, int) else None
    return {"meaning": error.meaning, "unit": error.unit, "listed": error.fatal} if error else {}


def _describe_nvlink5(fact: Fact) -> Mapping[str, str]:
    error = decode_nvlink_error(int(fact.attrs.get("xid", 0)), str(fact.attrs.get("intrinfo", "")), str(fact.attrs.get("errorstatus", "")))
    return {"resolution": error.action, "investigate": error.investigate, "class": error.severity} if error else {}


_DECODERS: Mapping[str, Callable[[Fact], Mapping[str, str]]] = {
    "kernel.xid": _describe_xid,
    "kernel.sxid": _describe_sxid,
    "kernel.nvlink5": _describe_nvlink5,
}


def _build_group_fact(group: Sequence[LogEvent]) -> Fact:
    first = group[0]
    moments = sorted(event.time for event in group if event.time)
    attrs = merge_attrs([event.attrs for event in group])
    attrs["count"] = sum(get_occurrence_count(event.attrs) for event in group)
    if moments:
        attrs |= {"first": moments[0].isoformat(), "last": moments[-1].isoformat()}
    time = moments[0] if moments else None
    return Fact(CHECK, first.kind, first.value, first.device, line=first.line[:500], attrs=attrs, time=time, boot_id=first.boot_id)


_FIELDS = "--output-fields=MESSAGE,_BOOT_ID,PRIORITY,SYSLOG_IDENTIFIER,SYSLOG_FACILITY"
_JOURNAL_COMMAND = ("journalctl", "-o", "json", _FIELDS, "--no-pager")
_LAST_DAY_ARGS = ("--since=-24h", "-p", "warning")
# Harmless messages that repeat by the ten thousand (an adapter's register complaint, corrected PCIe errors); the start
# of a log shows them well enough.
_CHRONIC_WORDS = ("ACCESS_REG", "] BadTLP", "] BadDLLP", "] RxErr", "] Rollover", "] Timeout", "] NonFatalErr")
_DRIVER_WORDS = ("Linux version ", "NVRM", "nvidia")  # show whether the driver is loaded at all


def _escape_word(word: str) -> str:
    """Escape for the pattern; characters that a shell reads become a dot."""
    return re.sub(r"[|;&$`<>]", ".", re.sub(r"([][(){}.*+?^])", r"\\\1", word))


def _build_kernel_grep_pattern() -> str:
    """No argv word may hold a shell character such as |, so "one of" is written "not none of"."""
    words = [word for word in (*_DRIVER_WORDS, *NEEDED_TEXTS) if word not in _CHRONIC_WORDS and not word.startswith(('"', "-- "))]
    shortest = [word for word in dict.fromkeys(words) if not any(other != word and other in word for other in words)]
    none = "".join(f"(?!.*{_escape_word(word)})" for word in shortest)
    return rf"^(?!.*ACCESS_REG\()(?!.*severity=Correct)(?!.*AER: (?:Multiple )?Correct)(?!{none})"


# Every relevant kernel line but the chronic ones. Works in journalctl and Python; case-sensitive.
KERNEL_GREP_PATTERN = _build_kernel_grep_pattern()
_NEWEST_ARGS = ("--reverse", "--case-sensitive=true", f"--grep={KERNEL_GREP_PATTERN}", "_TRANSPORT=kernel")
_ONLY = (
    "the newest lines on the GPU driver, NVSwitches, adapters, PCIe, disks, file systems, memory and crashes, "
    "and of adapters' register complaints and corrected PCIe errors the oldest"
)
CHECKS = (
    Check(
        id=CHECK,
        asks="What did the kernel and the driver report?",
        commands=(
            Command("ring", ("dmesg", "--decode", "--time-format", "iso"), privileged=True),
            Command("journal", (*_JOURNAL_COMMAND, *_LAST_DAY_ARGS, "_TRANSPORT=kernel"), privileged=True, optional=True),
            Command("boot", BOOT_ID),
            Command(
                "newest", (*_JOURNAL_COMMAND, "--boot", *_NEWEST_ARGS), privileged=True, optional=True, stands_in_for="ring", only=_ONLY
            ),
            Command(
                "recent",
                (*_JOURNAL_COMMAND, *_LAST_DAY_ARGS, *_NEWEST_ARGS),
                privileged=True,
                optional=True,
                stands_in_for="journal",
                only=_ONLY,
            ),
        ),
        formats=(
            Format("boot id", is_boot_id, parse_boot_id),
            EMPTY_JOURNAL_FORMAT,
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
        settle=merge_host_kernel_logs,
    ),
)
