"""One host's kernel log, from ring buffer and journal. Repeated lines become one fact."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from kb.catalogues import error_numbers
from kb.catalogues.error_numbers import decode_nvlink_error
from kb.fact_keys import KEYS
from kb.logs.kernel_log import NEEDED_TEXTS, KernelLogReader, is_known_message, list_kernel_events
from kb.logs.log_lines import LogEvent, split_prefix
from kb.needle_search import MAX_LINE_CHARS, split_lines, zero_digits
from tools.checks.check_types import Check, Command, Format, build_left_out_fact
from tools.checks.not_understood import NOT_UNDERSTOOD_KEY, build_not_understood_facts
from tools.checks.output_values import EMPTY_JOURNAL_FORMAT
from tools.fact import Fact, Status

# Kernel lines of level err or worse that no reader knows, per boot. Needs logs that print the level.

_DECODED_LEVELS = (":err   :", ":crit  :", ":alert :", ":emerg :")
_JSON_LEVELS = tuple(f'"PRIORITY":"{level}"' for level in range(4))
# Kernel lines as in `dmesg --decode`, `journalctl -o json`, `dmesg --raw` and /dev/kmsg.
_BY_LEVEL_PATTERN = re.compile(r'kern {1,4}: ?(?:emerg|alert|crit|err) {0,3}:|\{.{0,4000}"PRIORITY" ?: ?"[0-3]"|<[0-3]>|[0-3],\d{1,18},')
_CHRONIC_TEXTS = ("ACCESS_REG(", "PCIe Bus Error: severity=Correct", "AER: Correct", "AER: Multiple Correct")
COUNTED_LINES_TEXT = "kernel lines of level err or worse"
_MAX_KINDS = 512  # kinds of lines classified once; lines of further kinds count as unknown
# continuation of a known line: stacks, registers, tables and dumps of one report
_FOLLOWS_PATTERN = re.compile(
    r"\s|\"echo 0 >|Not tainted|task:|Call Trace|rcu: |\(detected by|Modules linked in|CPU: |CPU#|RIP\b|IP: |Code: |Hardware name:|"
    r"(?:R[A-Z0-9]{2}|E[A-Z]{2}|[CD]R\d|[C-GS]S): |"
    r"Tainted: |---\[|<TASK>|Kernel Offset|Sending NMI|NMI backtrace|NVRM: (?:GPU at|GPU Board|This|NVIDIA|The NVIDIA)|"
    r"(?:mce: )?(?:\{\d+\})?\[Hardware Error\]|EDAC |.{0,60}(?:device \[[0-9a-f]{4}:|\[ ?\d{1,2}\] [A-Z]|TLP Header|error status/mask)|"
    r".{0,80}(?:print_health_info|mlx5_health_try_recover|mlx5_cmd_out_err|AER: (?:can't|device recovery|broadcast))"
)
# printed by healthy machines at boot, or about features they lack
_HARMLESS_PATTERN = re.compile(
    r"ACPI|DMAR|x86/|Spectre|L1TF|MDS|TAA|MMIO Stale|RETBleed|i8042|tpm|ima:|integrity: |Couldn't get (?:size|UEFI)|Loading compiled-in|PKCS#7|"
    r"blacklist: |device-mapper: core|overlayfs: |kvm|KVM|sev |ccp |snd_|hub |usb |ast |mgag200|ipmi_si|lpc_ich|mei_me|mei |pcspkr|"
    r"Error: Driver 'pcspkr'|platform |pnp |ERST: |BERT: |hpwdt|hpilo|iTCO|wmi|sd .{1,20}No Caching mode|sd .{1,20}Assuming drive cache|"
    r"ip_local_port_range|Initramfs unpacking failed|[\w.-]{1,20} [0-9a-f:.]{7,16}: BAR \d{1,2}: .{0,40}\[io|pci [0-9a-f:.]{7,16}: BAR \d{1,2}: .{0,60}\[io|"
    r"Lockdown: (?!.{0,40}nvidia)|Warning: unmaintained|cgroup: |systemd|random: |audit: |loop\d"
)


@dataclass(slots=True)
class _BootErrors:
    count: int = 0
    first: list[str] = field(default_factory=list)


def build_unknown_error_facts(check: str, text: str) -> list[Fact]:
    """Return one fact per boot with such lines."""
    boots: dict[str, _BootErrors] = {}
    kinds: dict[str, tuple[str, str] | None] = {}
    for line in _iter_error_lines(text):
        if any(word in line for word in _CHRONIC_TEXTS):
            continue
        kind = _normalize_line(line)
        if kind not in kinds and len(kinds) < _MAX_KINDS:
            kinds[kind] = _extract_unknown_message(line)
        occurrence = kinds.get(kind, ("", line))
        if occurrence is not None:
            boot = boots.setdefault(occurrence[0], _BootErrors())
            boot.count += 1
            boot.first += [occurrence[1]] if len(boot.first) < 3 else []
    return [_build_boot_fact(check, name, boot) for name, boot in boots.items()]


def _build_boot_fact(check: str, boot_id: str, boot: _BootErrors) -> Fact:
    fact = build_not_understood_facts(check, boot.first)[0]
    return replace(fact, value=boot.count, boot_id=boot_id, attrs={**fact.attrs, "of": COUNTED_LINES_TEXT})


def _iter_error_lines(text: str) -> Iterator[str]:
    head = text[:4].lstrip()
    if head.startswith("<") or (head[:1].isdigit() and "," in text[:8]):
        yield from (line[:MAX_LINE_CHARS] for line in text.split("\n") if _BY_LEVEL_PATTERN.match(line))
        return
    levels = _JSON_LEVELS if head.startswith("{") else _DECODED_LEVELS
    starts = sorted({text.rfind("\n", 0, at) + 1 for level in levels for at in _find_all(text, level)})
    for start in starts:
        end = text.find("\n", start)
        line = text[start : min(end if end >= 0 else len(text), start + MAX_LINE_CHARS)]
        if _BY_LEVEL_PATTERN.match(line):
            yield line


def _find_all(text: str, word: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        end = text.find("\n", at)
        at = text.find(word, end) if end >= 0 else -1


def _normalize_line(line: str) -> str:
    """Remove what varies between lines of one kind; each kind is classified once."""
    at = line.find('"MESSAGE"') if line.startswith("{") else 0
    boot = line.find('"_BOOT_ID"') if at > 0 else -1
    return zero_digits(line[max(at, 0) :][:200]) + (line[boot : boot + 50] if boot >= 0 else "")


def _extract_unknown_message(line: str) -> tuple[str, str] | None:
    """Return (boot id, message); None if known, harmless, or not the kernel's."""
    prefix = split_prefix(line)
    message = prefix.message.partition("\n")[0]
    if prefix.source not in ("", "kernel") or not message.strip() or _FOLLOWS_PATTERN.match(message) or _HARMLESS_PATTERN.match(message):
        return None
    return None if is_known_message(message) else (prefix.boot_id, message.strip()[:300])


def merge_unknown_counts(facts: Sequence[Fact], current: str) -> list[Fact]:
    """Keep one count: the running boot's, the larger of two logs."""
    own_facts = [
        fact
        for fact in facts
        if fact.key == NOT_UNDERSTOOD_KEY and (not fact.boot_id or not current or fact.boot_id.replace("-", "").lower() == current)
    ]
    most = max(own_facts, key=lambda fact: fact.value if isinstance(fact.value, int) else 0, default=None)
    return [fact for fact in facts if fact.key != NOT_UNDERSTOOD_KEY or fact is most]


# Merge a host's ring buffer and journal: remove duplicates, mark other boots stale, find recurring errors.

# Attributes that separate facts: a kill by a job's limit differs from a kill on a full host.
IDENTITY_ATTRS = ("cgroup", "fatal", "severity")
EVENT_KEY_PREFIXES = ("kernel.", "site.log.")  # facts from log lines: the kernel's, and matches of site rules
_MAX_LISTED_VALUES = 20
_SPAN_REDUCERS: Mapping[str, Callable[..., str]] = {"first": min, "last": max}
_KEEP_LAST_ATTRS = ("recovery",)  # the driver's newest value holds
_KEEP_FIRST_ATTRS = ("detail", "process", "seconds", "cpu", "error")


def get_occurrence_count(attrs: Mapping[str, Any]) -> int:
    count = attrs.get("count", 1)
    return count if isinstance(count, int) else 1


def merge_attrs(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Keep attributes on which rows agree; others become a list under the plural name. `sympathetic` needs all rows."""
    merged: dict[str, Any] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        distinct = {repr(row[name]): row[name] for row in rows if name in row}
        first = next(iter(distinct.values()))
        if name == "sympathetic" and not all(name in row for row in rows):
            continue
        if len(distinct) == 1:
            merged[name] = first
        elif isinstance(first, list):
            merged[name] = list({repr(item): item for row in distinct.values() for item in row}.values())[:_MAX_LISTED_VALUES]
        elif name not in ("count", "uptime", *_SPAN_REDUCERS):
            merged[f"{name}s"] = list(distinct.values())[:_MAX_LISTED_VALUES]
            merged |= {name: first} if name in _KEEP_FIRST_ATTRS else {}
            merged |= {name: next(row[name] for row in reversed(rows) if name in row)} if name in _KEEP_LAST_ATTRS else {}
    return merged


def normalize_boot_id(text: str) -> str:
    """Return journald's form, without dashes."""
    return text.replace("-", "").lower()


def merge_kernel_logs(facts: Sequence[Fact], boot_id: str = "", booted_at: datetime | None = None) -> list[Fact]:
    """Merge ring and journal; facts of another boot, or older than `booted_at`, become stale.

    Ring facts have no boot id: the ring is the running boot's. Without `boot_id` the journal's latest boot counts as
    running.
    """
    current = normalize_boot_id(boot_id) or _find_latest_boot(facts)
    kept_facts: dict[tuple[object, ...], Fact] = {}
    for fact in facts:
        name = _build_merge_key(fact, current) if fact.key.startswith(EVENT_KEY_PREFIXES) else (id(fact),)
        kept_facts[name] = _join_facts(kept_facts[name], fact) if name in kept_facts else fact
    aged = _drop_empty_logs([_mark_stale(fact, current, booted_at) for fact in merge_unknown_counts(list(kept_facts.values()), current)])
    return aged + find_repeated_xids(aged)


def merge_host_kernel_logs(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Merge with the boot id and boot time among the facts (`settle`)."""

    def told(key: str) -> str:
        return next((str(fact.value) for fact in facts if fact.key == key and fact.value), "")

    try:
        booted = datetime.fromisoformat(told("host.booted_at"))
    except ValueError:
        return merge_kernel_logs(facts, told("host.boot_id"))
    return merge_kernel_logs(facts, told("host.boot_id"), booted if booted.tzinfo else booted.replace(tzinfo=UTC))


def find_repeated_xids(facts: Sequence[Fact]) -> list[Fact]:
    """Return whether this boot's Xid 13 and 31 come from one place, one GPU or several."""
    xids = [fact for fact in facts if fact.key == "kernel.xid" and fact.status is Status.OK and not fact.stale]
    repeats = error_numbers.classify_repeats(
        [LogEvent(fact.key, fact.value, fact.device, fact.time, "", fact.line, fact.attrs) for fact in xids]
    )
    repeat_facts = []
    for device, repeat in repeats.items():
        own = [fact for fact in xids if fact.device == device and fact.value in (13, 31)]
        most = max(own, key=lambda fact: get_occurrence_count(fact.attrs))
        attrs = {name: most.attrs[name] for name in ("gpc", "tpc", "pids", "names") if name in most.attrs}
        attrs |= {"xid": most.value, "count": sum(get_occurrence_count(fact.attrs) for fact in own), "gpus": len(repeats)}
        repeat_facts.append(replace(most, key="kernel.xid_repeat", value=repeat, attrs=attrs))
    return repeat_facts


def _build_merge_key(fact: Fact, current: str) -> tuple[object, ...]:
    apart = tuple(str(fact.attrs.get(name)) for name in IDENTITY_ATTRS)
    return fact.key, fact.device, repr(fact.value), fact.status, normalize_boot_id(fact.boot_id) or current, *apart


def _drop_empty_logs(facts: Sequence[Fact]) -> list[Fact]:
    """Drop "no Xid" if the other log has one, and an empty journal if the ring was read."""
    logs = [fact for fact in facts if fact.key.startswith(EVENT_KEY_PREFIXES)]
    xids = any(fact.key == "kernel.xid" and fact.status is Status.OK and not fact.stale for fact in logs)
    return [
        fact
        for fact in facts
        if not (xids and fact.key == "kernel.xid" and fact.status is Status.ABSENT)
        and not (logs and not fact.key and fact.status is Status.UNREADABLE and fact.line.startswith("empty output"))
    ]


def _join_facts(one: Fact, other: Fact) -> Fact:
    """Keep the larger count, the wider span, every process."""
    attrs = merge_attrs([one.attrs, other.attrs])
    attrs["count"] = max(get_occurrence_count(one.attrs), get_occurrence_count(other.attrs))
    for name, pick in _SPAN_REDUCERS.items():
        values = [str(row[name]) for row in (one.attrs, other.attrs) if name in row]
        attrs |= {name: pick(values, key=datetime.fromisoformat)} if values else {}
    for name in ("pid", "name", "tpc", "gpc"):
        distinct = list(dict.fromkeys([*_list_attr_values(one.attrs, name), *_list_attr_values(other.attrs, name)]))
        if len(distinct) > 1:
            attrs.pop(name, None)
            attrs[f"{name}s"] = distinct[:_MAX_LISTED_VALUES]
    moments = [fact.time for fact in (one, other) if fact.time and "first" in fact.attrs]
    return replace(one, attrs=attrs, time=min(moments, default=one.time), boot_id=one.boot_id or other.boot_id)


def _list_attr_values(attrs: Mapping[str, Any], name: str) -> Iterable[Any]:
    return [*attrs.get(f"{name}s", []), *([attrs[name]] if name in attrs else [])]


def _mark_stale(fact: Fact, current: str, booted_at: datetime | None) -> Fact:
    if not fact.key.startswith(EVENT_KEY_PREFIXES) or fact.status is not Status.OK:
        return fact
    boot = normalize_boot_id(fact.boot_id)
    if boot and current:
        return replace(fact, stale=boot != current)
    last = fact.attrs.get("last")
    if booted_at and isinstance(last, str) and datetime.fromisoformat(last) < booted_at:
        return replace(fact, stale=True)
    return fact


def _find_latest_boot(facts: Sequence[Fact]) -> str:
    dated = [
        (str(fact.attrs.get("last", "")), normalize_boot_id(fact.boot_id))
        for fact in facts
        if fact.boot_id and fact.key.startswith(EVENT_KEY_PREFIXES)
    ]
    return max(dated, default=("", ""))[1]


# One host's kernel log, from ring buffer and journal. Repeated lines become one fact.

__all__ = ["CHECKS", "group_kernel_events", "merge_kernel_logs", "parse_kernel_log"]
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
    row = error_numbers.find_xid(fact.value) if isinstance(fact.value, int) else None
    return {"meaning": row.meaning} | ({"resolution": row.immediate} if row.immediate else {}) if row else {}


def _describe_sxid(fact: Fact) -> Mapping[str, str]:
    row = error_numbers.find_sxid(fact.value) if isinstance(fact.value, int) else None
    return {"meaning": row.meaning, "unit": row.unit, "listed": row.fatal} if row else {}


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
        id="dmesg",
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
