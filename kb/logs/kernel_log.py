"""Read a kernel log into typed events: Xids, NVSwitch errors, kills, lockups, PCIe, InfiniBand, storage."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from kb.logs.kernel_message_rules import NEEDLES, MessageRule, list_eligible_rules
from kb.logs.log_lines import LineHead, LinePrefix, LogEvent, LogPiece, read_head_time, split_head, split_prefix
from kb.logs.xid_text import parse_nvlink5, parse_sxid, parse_xid
from kb.needle_search import Needles, cut_lines
from kb.numbers import parse_integer
from kb.pci_address import normalize_bdf

# Mark events that follow from earlier ones.

# Xid → Xids that it can follow on the same GPU. Also, 45 follows any other; 74 follows a fatal SXid of the host; after
# 79 (GPU off the bus) switches and peer GPUs lose their links to it.
CAUSES: Mapping[int, frozenset[int]] = {
    43: frozenset({13, 31, 48, 95, 109}),
    63: frozenset({48}),
    64: frozenset({48}),
    94: frozenset({48}),
    95: frozenset({48}),
}
_CONSEQUENCE_SECONDS = 60.0


def drop_repeated_kills(events: Iterable[LogEvent]) -> list[LogEvent]:
    """Drop the sentence after the kernel's record of the same kill (`oom-kill:constraint=…`)."""
    kept_events: list[LogEvent] = []
    last_seen: dict[object, datetime | None] = {}
    for event in events:
        if event.kind == "kernel.oom_kill":
            key = (event.attrs.get("pid"), event.boot_id)
            if key in last_seen and _is_within_window(last_seen[key], event.time):
                continue
            last_seen[key] = event.time
        kept_events.append(event)
    return kept_events


def mark_causes(events: Iterable[LogEvent]) -> list[LogEvent]:
    """Set `sympathetic` to the earlier Xid (or `sxid`) that caused an event."""
    recent: dict[object, list[LogEvent]] = {}
    marked = []
    for event in events:
        if event.kind in ("kernel.xid", "kernel.sxid") and (cause := _find_cause(event, recent)):
            event = replace(event, attrs={**event.attrs, "sympathetic": cause})
        marked.append(event)
        if event.kind == "kernel.xid" and event.value not in (45, 154):
            recent[event.device] = [*recent.get(event.device, [])[-7:], event]
            if event.value == 79:
                recent["gone"] = [event]
        elif event.kind == "kernel.sxid" and event.attrs.get("fatal"):
            recent["nvswitch"] = [event]
    return marked


def _find_cause(event: LogEvent, recent: Mapping[object, list[LogEvent]]) -> int | str | None:
    if "caused_by" in event.attrs:
        return int(event.attrs["caused_by"])
    of_links = event.kind == "kernel.sxid" or event.value == 74
    if of_links and any(_is_soon_after(gone_event, event) for gone_event in recent.get("gone", []) if gone_event.device != event.device):
        return 79
    if event.kind == "kernel.sxid":
        return None
    if event.value == 74 and any(_is_soon_after(fatal, event) for fatal in recent.get("nvswitch", [])):
        return "sxid"
    for earlier in reversed(recent.get(event.device, [])):
        follows = event.value == 45 or earlier.value in CAUSES.get(int(event.value), ())
        if follows and earlier.value != event.value and _is_soon_after(earlier, event):
            return int(earlier.value)
    return None


def _is_soon_after(earlier: LogEvent, event: LogEvent) -> bool:
    return earlier.boot_id == event.boot_id and _is_within_window(earlier.time, event.time)


def _is_within_window(then: datetime | None, now: datetime | None) -> bool:
    return then is None or now is None or 0 <= (now - then).total_seconds() <= _CONSEQUENCE_SECONDS


# Read a kernel log into typed events: Xids, NVSwitch errors, kills, lockups, PCIe, InfiniBand, storage.
#
# Trust: a message matches from its first character, and only if the prefix names no other writer. A process name, a
# user's `logger` line or a unit that prints `NVRM: Xid` is no event.

BOOT_PATTERN = re.compile(r"-- Boot ([0-9a-f]{32}) --")
_LOST_PATTERN = re.compile(r"NVRM: GPU (\S{1,20}): GPU has fallen off the bus")
_PROBED_PATTERN = re.compile(r"NVRM: The NVIDIA GPU (\S{1,20})(?: \(PCI ID|\s*$)")
_VERSION_PATTERN = re.compile(r"NVRM: (?:.{0,120}?(?:client .{0,60}?)?)?(this kernel module )?has the version (\d[\d.]{2,20}\d)")
_AER_NAME_PATTERN = re.compile(r"\S{1,40} (\S{1,20}): {1,8}\[ ?\d{1,2}\] (\w{2,30})")
_BYTE_MESSAGE_TEXTS = ('"MESSAGE":[', '"MESSAGE" : [', '"MESSAGE": [')
_AER_NAMES = (
    "] BadTLP",
    "] BadDLLP",
    "] RxErr",
    "] Rollover",
    "] Timeout",
    "] NonFatalErr",
    "] DLP",
    "] CmpltTO",
    "] UnsupReq",
    "] MalfTLP",
)
_NVRM_TEXTS = ("API mismatch", "has the version", "fallen off the bus", "The NVIDIA GPU ")
# prefilter: lines without any of these are skipped
NEEDED_TEXTS = ("NVRM: Xid", "SXid (", "-- Boot ", *_BYTE_MESSAGE_TEXTS, *_AER_NAMES, *_NVRM_TEXTS, *NEEDLES)
_NEEDED_NEEDLES = Needles(NEEDED_TEXTS)
_HEAD_CHARS = 16_384  # examined to see whether lines have prefixes
MAX_EVENT_KINDS = 4096  # distinct events by kind, value and device; further ones are counted
MAX_LOST_EVENTS = 8192  # left-out events after which lines are only counted: this is no machine's log
MAX_SAME_EVENTS = 1024  # events kept per kind, value and device; later ones are counted on the last
_SEVERITY_WORDS = {"Corrected": "corrected", "Correctable": "corrected"}


@dataclass(slots=True)
class _RepeatCount:
    """Repeats beyond MAX_SAME_EVENTS: index of the last kept event; time, count and line of later ones."""

    at: int
    time: datetime | None
    count: int = 0
    line: str = ""


@dataclass(slots=True)
class _LineEvent:
    """A line's event without its time."""

    kind: str
    value: object
    device: str | None
    attrs: Mapping[str, Any]
    more: _RepeatCount | None = None


class KernelLogReader:
    """Reader of pieces of whole lines."""

    def __init__(self, now: datetime | None = None) -> None:
        self._now = now
        self._events: list[LogEvent] = []
        self._boot = ""
        self._prefixed: bool | None = None
        self._probed: str | None = None
        self._aer: dict[str, int] = {}
        self._booted = self._nvidia = False
        self._alike: dict[tuple[object, ...], int] = {}  # occurrences of each event
        self._more: dict[tuple[object, ...], _RepeatCount] = {}
        self._said: dict[LineHead, _LineEvent] = {}  # parsed lines without their time; a known one is not parsed again
        self.left_out = 0  # events that were not kept

    def feed(self, text: str) -> None:
        self._note_log_properties(text[:_HEAD_CHARS], booted="Linux version " in text, nvidia="NVRM" in text or "nvidia" in text)
        self._read_lines([line for _, line in cut_lines(text, list(_NEEDED_NEEDLES.find_in_text(text)))])

    def read_piece(self, piece: LogPiece, wanted: Sequence[int]) -> None:
        """Read a piece. `wanted`: numbers of possibly relevant lines."""
        block = piece.block
        booted = self._booted or b"Linux version " in block
        nvidia = self._nvidia or b"NVRM" in block or b"nvidia" in block
        self._note_log_properties(block[: 4 * _HEAD_CHARS].decode("utf-8", "replace")[:_HEAD_CHARS], booted=booted, nvidia=nvidia)
        self._read_lines(piece.get_lines(wanted))

    def _note_log_properties(self, head: str, *, booted: bool, nvidia: bool) -> None:
        if self._prefixed is None and head.strip():
            self._prefixed = has_prefixes(head)
        self._booted |= booted
        self._nvidia |= nvidia

    def _read_lines(self, lines: Sequence[str]) -> None:
        for line in lines:
            head = split_head(line)
            cached_rules = self._said.get(head) if head else None
            if self.left_out >= MAX_LOST_EVENTS:
                self.left_out += 1
            elif head and cached_rules and cached_rules.more:
                cached_rules.more.count += 1
                cached_rules.more.line = line
            elif head and cached_rules:
                self._keep_event(cached_rules, read_head_time(line, head, self._now), line)
            elif boot := BOOT_PATTERN.match(line):
                self._boot, self._said = boot[1], {}
            else:
                self._read_new_line(line, head)

    def finish(self) -> list[LogEvent]:
        """Return events in log order; consequences carry their cause."""
        self._store_counts()
        if self._booted and not self._nvidia:
            self._events.append(LogEvent("kernel.nvidia_absent", True))
        return mark_causes(drop_repeated_kills(self._events))

    def _read_new_line(self, line: str, head: LineHead | None) -> None:
        prefix = split_prefix(line, self._now)
        if not prefix.found and self._prefixed:
            return  # the continuation of a previous message
        message = prefix.message.partition("\n")[0]
        driver = _is_driver_message(message, prefix)
        if driver and self._read_driver_line(message, prefix, line):
            return
        rules = self._match_rules(message, prefix)
        if rules:
            self._keep_event(rules, prefix, line)
            if head and not driver:
                self._said = self._said if len(self._said) < MAX_EVENT_KINDS else {}
                self._said[head] = rules

    def _keep_event(self, said: _LineEvent, prefix: LinePrefix, line: str) -> None:
        event_count = len(self._events)
        said.more = self._add_event(said.kind, said.value, said.device, prefix, line, said.attrs)
        if said.kind == "kernel.aer" and len(self._events) > event_count:
            self._aer[said.device or ""] = event_count

    def _add_event(
        self, kind: str, value: object, device: str | None, prefix: LinePrefix, line: str, attrs: Mapping[str, Any]
    ) -> _RepeatCount | None:
        """Keep the event, or return the counter of its repeats."""
        name = (kind, value, device, prefix.boot_id or self._boot)
        times = self._alike.get(name, 0)
        if not times and len(self._alike) >= MAX_EVENT_KINDS:
            self.left_out += 1
            return None
        self._alike[name] = times + 1
        if times >= MAX_SAME_EVENTS:
            more = self._more[name]
            more.time, more.line, more.count = prefix.time or self._get_last_time(more), "", more.count + 1
            return more
        if times == MAX_SAME_EVENTS - 1:
            self._more[name] = _RepeatCount(len(self._events), prefix.time)
        if prefix.uptime is not None and prefix.time is None:
            attrs = {**attrs, "uptime": prefix.uptime}
        self._events.append(LogEvent(kind, value, device, prefix.time, prefix.boot_id or self._boot, line, attrs))
        return None

    def _get_last_time(self, more: _RepeatCount) -> datetime | None:
        return (split_prefix(more.line, self._now).time if more.line else None) or more.time

    def _store_counts(self) -> None:
        for more in self._more.values():
            event = self._events[more.at]
            count = int(event.attrs.get("count", 1)) + more.count
            self._events[more.at] = (
                replace(event, time=self._get_last_time(more), attrs={**event.attrs, "count": count}) if more.count else event
            )
        self._more, self._said = {}, {}

    def _read_driver_line(self, message: str, prefix: LinePrefix, line: str) -> bool:
        """True if handled."""
        if xid := parse_xid(message):
            self._add_event("kernel.xid", xid.code, xid.device, prefix, line, xid.attrs)
            if decoded := parse_nvlink5(xid.code, str(xid.attrs.get("detail", ""))):
                self._add_event("kernel.nvlink5", decoded[0], xid.device, prefix, line, decoded[1])
            return True
        if xid := parse_sxid(message):
            self._add_event("kernel.sxid", xid.code, xid.device, prefix, line, xid.attrs)
            return True
        return message.startswith("NVRM: ") and (
            self._read_fallen_gpu(message, prefix, line) or self._read_version_mismatch(message, prefix, line)
        )

    def _read_fallen_gpu(self, message: str, prefix: LinePrefix, line: str) -> bool:
        """Newer drivers repeat Xid 79 without number; at driver load a dead GPU takes two lines."""
        if probed := _PROBED_PATTERN.match(message):
            self._probed = normalize_bdf(probed[1])
            return "fallen off" not in message
        lost = _LOST_PATTERN.match(message)
        device = normalize_bdf(lost[1]) if lost else self._probed
        if device and (lost or message.startswith("NVRM: fallen off the bus")):
            self._add_event(
                "kernel.xid", 79, device, prefix, line, {"bdf": device, "detail": "GPU has fallen off the bus", "unnumbered": True}
            )
            self._probed = None
            return True
        return False

    def _read_version_mismatch(self, message: str, prefix: LinePrefix, line: str) -> bool:
        if "API mismatch" in message:
            self._add_event("kernel.driver_mismatch", "API mismatch", None, prefix, line, {})
        elif "has the version" not in message:
            return False
        if (version := _VERSION_PATTERN.match(message)) and (at := self._find_last_event("kernel.driver_mismatch")) is not None:
            part = "module" if version[1] else "client"
            attrs = dict(self._events[at].attrs) | {part: version[2]}
            text = ", ".join(f"{name} {attrs[name]}" for name in ("client", "module") if name in attrs)
            self._events[at] = replace(self._events[at], value=text, attrs=attrs)
        return True

    def _find_last_event(self, kind: str) -> int | None:
        return next((at for at in range(len(self._events) - 1, max(-1, len(self._events) - 9), -1) if self._events[at].kind == kind), None)

    def _match_rules(self, message: str, prefix: LinePrefix) -> _LineEvent | None:
        if name := _AER_NAME_PATTERN.match(message):
            self._name_aer(name[1], name[2])
            return None
        for row in list_eligible_rules(message):
            if prefix.source in row.sources and (match := row.pattern.match(message)):
                return _LineEvent(row.kind, *_build_event_values(row, match))
        return None

    def _name_aer(self, device: str, error: str) -> None:
        """The error's name is on its own line after the report."""
        at = self._aer.get(normalize_bdf(device) or "")
        if at is not None and "error" not in self._events[at].attrs:
            self._events[at] = replace(self._events[at], attrs={**self._events[at].attrs, "error": error})


def list_kernel_events(text: str, now: datetime | None = None) -> list[LogEvent]:
    """Return events in log order, for any format of `kb.logs.log_lines`."""
    reader = KernelLogReader(now)
    reader.feed(text)
    return reader.finish()


def _is_driver_message(message: str, prefix: LinePrefix) -> bool:
    return prefix.source in ("", "kernel") and message.startswith(("NVRM: ", "nvidia-nvswitch", "nvswitch"))


def is_known_message(message: str) -> bool:
    """Return whether any rule recognises the message on its own."""
    if not _NEEDED_NEEDLES.find_in_line(message):
        return False
    if message.startswith("NVRM: ") and any(word in message for word in _NVRM_TEXTS):
        return True
    return bool(parse_xid(message) or parse_sxid(message)) or any(row.pattern.match(message) for row in list_eligible_rules(message))


def has_prefixes(text: str) -> bool:
    """Return whether lines have prefixes; then one without continues the previous line."""
    head = [line for line in text[:_HEAD_CHARS].split("\n", 41)[:40] if line.strip()]
    return any(split_prefix(line).found for line in head)


def _build_event_values(row: MessageRule, found: re.Match[str]) -> tuple[object, str | None, dict[str, Any]]:
    groups = {name: value for name, value in found.groupdict().items() if value is not None}
    value, device = groups.pop("value", ""), groups.pop("device", None)
    attrs: dict[str, Any] = {
        name: value if (number := parse_integer(value)) is None or number < 0 else number for name, value in groups.items()
    }
    shape = _EVENT_SHAPERS.get(row.kind)
    shaped: object = row.value or value.strip()
    if shape:
        shaped, device, attrs = shape(shaped, device, attrs)
    return shaped, (normalize_bdf(device) or device) if device else None, attrs


def _shape_oom_kill(value: object, device: str | None, attrs: dict[str, Any]) -> tuple[object, str | None, dict[str, Any]]:
    scope = str(attrs.pop("scope"))
    return value, device, {**attrs, "cgroup": "cgroup" in scope or "MEMCG" in scope}


def _shape_aer(value: object, device: str | None, attrs: dict[str, Any]) -> tuple[object, str | None, dict[str, Any]]:
    severity = _SEVERITY_WORDS.get(str(value)) or ("nonfatal" if "Non" in str(value) else "fatal")
    return severity, device or attrs.get("root"), attrs


def _shape_mce(value: object, device: str | None, attrs: dict[str, Any]) -> tuple[object, str | None, dict[str, Any]]:
    text = str(value)
    fatal = text == "UE" or any(word in text for word in ("Uncorrected", "fatal", "Exception", "severity: recoverable"))
    return ("fatal" if fatal else "corrected"), device, {"detail": text, **attrs}


def _shape_mlx5(value: object, device: str | None, attrs: dict[str, Any]) -> tuple[object, str | None, dict[str, Any]]:
    name = re.match(r"mlx5_\d+$", str(attrs.get("netdev", "")))
    return value, name[0] if name else device, attrs | {"bdf": device}


def _shape_fs_readonly(value: object, device: str | None, attrs: dict[str, Any]) -> tuple[object, str | None, dict[str, Any]]:
    return value, str(value), attrs


def _shape_panic(value: object, device: str | None, attrs: dict[str, Any]) -> tuple[object, str | None, dict[str, Any]]:
    return value, device, attrs | {"machine_check": "machine check" in str(value).lower()}


def _shape_nouveau(value: object, device: str | None, attrs: dict[str, Any]) -> tuple[object, str | None, dict[str, Any]]:
    return True, device, attrs


def _shape_segfault(value: object, device: str | None, attrs: dict[str, Any]) -> tuple[object, str | None, dict[str, Any]]:
    return value or "unknown", device, attrs


_EVENT_SHAPERS = {
    "kernel.oom_kill": _shape_oom_kill,
    "kernel.aer": _shape_aer,
    "kernel.mce": _shape_mce,
    "kernel.mlx5": _shape_mlx5,
    "kernel.fs_readonly": _shape_fs_readonly,
    "kernel.panic": _shape_panic,
    "kernel.nouveau": _shape_nouveau,
    "kernel.segfault": _shape_segfault,
}
