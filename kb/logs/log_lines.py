"""Whole log lines as bytes, each with its kind, their prefixes (time, boot, writer), and the typed events of lines."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any, NamedTuple

from kb.needle_search import DIGITS_TO_ZERO, MAX_LINE_CHARS

# Whole log lines as bytes, each with its kind (digits zeroed), decoded only on demand.

_MAX_BYTES_PER_CHAR = 4  # of UTF-8


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Lines. `sizes`: bytes of preceding lines without line ends, per line and at the end."""

    block: bytes
    kinds: list[bytes]
    sizes: list[int]

    def get_start(self, number: int) -> int:
        """Return the byte offset."""
        return self.sizes[number] + number

    def get_raw_line(self, number: int, most: int) -> bytes:
        start = self.sizes[number] + number
        return self.block[start : min(self.sizes[number + 1] + number, start + most)]

    def get_line(self, number: int, most: int = MAX_LINE_CHARS) -> str:
        """Decode without trailing carriage return."""
        return self.get_raw_line(number, most * _MAX_BYTES_PER_CHAR).decode("utf-8", "replace")[:most].rstrip("\r")

    def get_lines(self, numbers: Sequence[int]) -> list[str]:
        """Decode many lines at once."""
        block, sizes = self.block, self.sizes
        raw = [block[sizes[number] + number : sizes[number + 1] + number] for number in numbers]
        text = b"\n".join(raw)
        if not raw or b"\r" in text or len(max(raw, key=len)) > MAX_LINE_CHARS:
            return list(map(self.get_line, numbers))
        return text.decode("utf-8", "replace").split("\n")

    def count_chars(self, first: int, until: int) -> int:
        """Count characters between two line starts."""
        return len(self.block[self.get_start(first) : self.get_start(until)].decode("utf-8", "replace"))

    def get_rest(self, number: int, before: int = 0) -> tuple["LogPiece", int]:
        """Return the lines from `number` on with `before` characters of context, and how many were dropped."""
        floor, first = self.get_start(number) - before * _MAX_BYTES_PER_CHAR, number
        while first and self.get_start(first) > floor:
            first -= 1
        start, dropped_count = self.get_start(first), self.get_start(first) - first
        return LogPiece(self.block[start:], self.kinds[first:], [size - dropped_count for size in self.sizes[first:]]), first


def build_piece(block: bytes) -> LogPiece:
    """Build from whole lines; the last may lack its end."""
    kinds = block.translate(DIGITS_TO_ZERO).split(b"\n")
    if not kinds[-1]:
        kinds.pop()
    return LogPiece(block, kinds, list(accumulate(map(len, kinds), initial=0)))


def join_pieces(first: LogPiece, then: LogPiece) -> LogPiece:
    """Join two; the first must end with a line end."""
    if not first.kinds or not then.kinds:
        return first if first.kinds else then
    shift = first.sizes[-1]
    return LogPiece(first.block + then.block, first.kinds + then.kinds, first.sizes[:-1] + [size + shift for size in then.sizes])


# Parse line prefixes (time, boot, writer) of dmesg, journalctl, syslog and /dev/kmsg.
#
# UTC without a zone; without a year, the latest date not in the future. `source` tells the kernel from a process that
# imitates it: `kernel`, a program's name, or empty if the format does not say.

_MONTH = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
MONTH_NUMBERS = {name: number for number, name in enumerate(_MONTH.split("|"), 1)}


class LinePrefix(NamedTuple):
    """A line's prefix, and its message."""

    time: datetime | None
    boot_id: str
    message: str
    source: str = ""
    uptime: float | None = None
    found: bool = False  # False for a line without prefix, possibly a continuation


_KMSG_PATTERN = re.compile(r"(\d{1,5}),\d+,(\d{1,18}),[^;,]*(?:,[^;]*)?;")
_PRIORITY_PATTERN = re.compile(r"<(\d{1,3})>(?:1 )?")
_DECODED_PATTERN = re.compile(r"(kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local\d) *: *"
                      r"(?:emerg|alert|crit|err|error|warn|warning|notice|info|debug) *: *")  # fmt: skip
_ISO_PATTERN = re.compile(r"\[?(\d{4}-\d\d-\d\d)([T ])(\d\d:\d\d:\d\d)(?:([.,])(\d{1,9}))? ?(Z\b|UTC\b|[+-]\d\d:?\d\d)?\]?:?\s+")
_UPTIME_PATTERN = re.compile(r"\[ *(\d{1,10}\.\d{1,9})(?:\] *\[ *[TC]\d+)?\]:? ?")
_CTIME_PATTERN = re.compile(rf"\[?(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ({_MONTH}) +(\d{{1,2}}) (\d\d:\d\d:\d\d)(?:\.\d+)? (\d{{4}})\]?:? ")
_SYSLOG_PATTERN = re.compile(rf"({_MONTH}) +(\d{{1,2}}) (\d\d:\d\d:\d\d)(?:\.(\d{{1,9}}))? (?!\d{{4}}\b)")
_WEEKDAY_PATTERN = re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?=\d{4}-\d\d-\d\d )")
_WRITER_PATTERN = re.compile(r"([^\s:\[\]]{1,255}) ([^\s:\[\]]{1,128})(?:\[\d+\])?: ")
_KERNEL_PATTERN = re.compile(r"(?:[^\s:\[\]]{1,255} )?kernel: ")
_MAX_KERNEL_PREFIX_CHARS = 264  # latest end of `kernel: ` behind a host name
_GLOG_PATTERN = re.compile(r"\[?[EWIF](\d{1,2})(\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?")
_SOMEWHERE_PATTERN = re.compile(r"(?<![\d-])(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))? ?(Z\b|UTC\b|[+-]\d\d:?\d\d)?")
_DAY = r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_TO_END = r"(?:[.,][0-9]{1,9})? ?(?:Z\b|UTC\b|[+-](?:[01][0-9]|2[0-3]):?[0-5][0-9]|(?! ?[+-]\d\d:?\d\d))\]?:?\s+"
# Common heads with valid dates and hours only, so that `split_prefix` treats all heads of one kind alike.
_HEAD_PATTERN = re.compile(
    rf"(?P<ring>\[(?!0000)[0-9]{{4}}-{_DAY}[T ]{_CLOCK}{_TO_END}|(?!0000)[0-9]{{4}}-{_DAY}[T ]{_CLOCK}(?=,){_TO_END})"
    rf"|(?P<iso>(?!0000)[0-9]{{4}}-{_DAY}[T ]{_CLOCK}{_TO_END})"
    rf"|(?P<uptime>\[ *[0-9]{{1,10}}\.[0-9]{{1,9}}(?:\] *\[ *[TC][0-9]+)?\]:? ?)"
    rf"|(?P<syslog>(?:{_MONTH}) +[0-9]{{1,2}} {_CLOCK}(?:\.[0-9]{{1,9}})? (?![0-9]{{4}}\b))"
)
LineHead = tuple[str, str]
_DATED_HEADS = ("ring", "iso")  # with full date and time


def split_head(line: str) -> LineHead | None:
    """Return head kind and rest; lines equal in both differ only in time."""
    match = _HEAD_PATTERN.match(line)
    return (match.lastgroup or "", line[match.end() :]) if match else None


def read_head_time(line: str, head: LineHead, now: datetime | None = None) -> LinePrefix:
    """Return the prefix, only its time where the head has a date."""
    time = _parse_time(line, now)[0] if head[0] in _DATED_HEADS else None
    return LinePrefix(time, "", "", found=True) if time else split_prefix(line, now)


def split_prefix(line: str, now: datetime | None = None) -> LinePrefix:
    """Split one line. `now` resolves a missing year."""
    if line.startswith("{"):
        return _parse_json_line(line)
    line = _WEEKDAY_PATTERN.sub("", line, count=1) if line[:1] in "MTWFS" else line
    facility, rest, peeled = _split_facility(line)
    if "," in rest[:6] and (raw := _KMSG_PATTERN.match(rest)):
        source = "kernel" if int(raw[1]) >> 3 == 0 else "user"
        return LinePrefix(None, "", rest[raw.end() :], source, int(raw[2]) / 1e6, True)
    time, end, ring = _parse_time(rest, now)
    message, source, uptime = _split_writer(rest[end:], facility, named=end > 0 and not ring and not peeled)
    return LinePrefix(time, "", message, source, uptime, bool(end or peeled or source or uptime is not None))


def _split_facility(line: str) -> tuple[str, str, bool]:
    if line.startswith("<") and (prio := _PRIORITY_PATTERN.match(line)):
        return ("kernel" if int(prio[1]) >> 3 == 0 else "user"), line[prio.end() :], True
    if line[:1].isalpha() and (decoded := _DECODED_PATTERN.match(line)):
        return ("kernel" if decoded[1] == "kern" else decoded[1]), line[decoded.end() :], True
    return "", line, False


def _parse_time(line: str, now: datetime | None) -> tuple[datetime | None, int, bool]:
    """Return time, end, and whether it is dmesg's own format (no host and program)."""
    if iso := _ISO_PATTERN.match(line):
        time = build_time(iso[1], iso[3], iso[5], iso[6])
        return time, iso.end() if time else 0, iso[4] == "," or line.startswith("[")
    if ctime := _CTIME_PATTERN.match(line):
        return build_time(f"{ctime[4]}-{MONTH_NUMBERS[ctime[1]]:02}-{int(ctime[2]):02}", ctime[3]), ctime.end(), True
    if syslog := _SYSLOG_PATTERN.match(line):
        return build_time_without_year(MONTH_NUMBERS[syslog[1]], int(syslog[2]), syslog[3], syslog[4], now), syslog.end(), False
    return None, 0, False


def _split_writer(rest: str, facility: str, *, named: bool) -> tuple[str, str, float | None]:
    source, uptime = facility, None
    for _ in range(3):
        if rest.startswith("[") and (up := _UPTIME_PATTERN.match(rest)):
            uptime, rest, named = float(up[1]), rest[up.end() :], False
        elif "kernel: " in rest[:_MAX_KERNEL_PREFIX_CHARS] and (kernel := _KERNEL_PATTERN.match(rest)):
            source, rest, named = facility or "kernel", rest[kernel.end() :], False
        elif named and (writer := _WRITER_PATTERN.match(rest)):
            source, rest, named = writer[2], rest[writer.end() :], False
        else:
            break
    return rest, source, uptime


def _parse_json_line(line: str) -> LinePrefix:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return LinePrefix(None, "", line)
    if not isinstance(row, dict):
        return LinePrefix(None, "", line)
    stamp = str(row.get("__REALTIME_TIMESTAMP", ""))
    time = datetime.fromtimestamp(int(stamp) / 1e6, UTC) if re.fullmatch(r"[0-9]{1,17}", stamp) else None
    if "MESSAGE" not in row and "log" in row:  # a container runtime's json-file
        return LinePrefix(find_time(str(row.get("time", ""))), "", _decode_message(row["log"]).rstrip("\n"), "container", None, True)
    return LinePrefix(time, str(row.get("_BOOT_ID", "")), _decode_message(row.get("MESSAGE")), _find_json_writer(row), None, True)


def _find_json_writer(row: dict[str, Any]) -> str:
    if row.get("_TRANSPORT", "kernel") != "kernel" or str(row.get("SYSLOG_FACILITY", "0")) != "0":
        return str(row.get("SYSLOG_IDENTIFIER") or row.get("_SYSTEMD_UNIT") or "user").replace("kernel", "user")
    if row.get("_SYSTEMD_UNIT") or row.get("_PID"):
        return str(row.get("SYSLOG_IDENTIFIER") or row.get("_SYSTEMD_UNIT") or "user").replace("kernel", "user")
    return str(row.get("SYSLOG_IDENTIFIER") or "")


def _decode_message(message: object) -> str:
    """journald encodes unclean text as an array of bytes, repeated fields as an array of strings."""
    if isinstance(message, list) and all(isinstance(byte, int) and 0 <= byte < 256 for byte in message):
        return bytes(message).decode("utf-8", "replace")
    if isinstance(message, list):
        return str(message[0]) if message else ""
    return message if isinstance(message, str) else ""


def build_time(day: str, clock: str, fraction: str | None = None, zone: str | None = None) -> datetime | None:
    """Return None if invalid."""
    zone = "+00:00" if zone in (None, "", "Z", "UTC") else zone
    if zone and ":" not in zone:
        zone = f"{zone[:3]}:{zone[3:]}"
    try:
        return datetime.fromisoformat(f"{day}T{clock}.{(fraction or '0')[:6]:0<6}{zone}")
    except ValueError:
        return None


def build_time_without_year(month: int, day: int, clock: str, fraction: str | None, now: datetime | None) -> datetime | None:
    """Return the latest such date at most a day ahead of now."""
    now = now or datetime.now(UTC)
    for year in (now.year + 1, now.year, now.year - 1):
        time = build_time(f"{year}-{month:02}-{day:02}", clock, fraction)
        if time and time <= now + timedelta(days=1):
            return time
    return None


def find_time(line: str, now: datetime | None = None) -> datetime | None:
    """Find a time near the start of a job's log line."""
    head = line[:160]
    if match := _SOMEWHERE_PATTERN.search(head):
        return build_time(f"{match[1]}-{match[2]}-{match[3]}", match[4], match[5], match[6])
    for glog in _GLOG_PATTERN.finditer(head):
        if 1 <= int(glog[1]) <= 12:
            return build_time_without_year(int(glog[1]), int(glog[2]), glog[3], glog[4], now)
    return split_prefix(head, now).time


# Typed events of log lines, extracted before masking.

# attributes that keep events of equal kind, value and device apart when folding
IDENTITY_ATTRS = ("pid", "name", "gpc", "tpc", "link", "recovery", "severity", "rank", "file", "process", "type")


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One event. `kind` is a `kb.fact_keys` key; `device` as in the line (PCI addresses full, lower case)."""

    kind: str
    value: Any
    device: str | None = None
    time: datetime | None = None
    boot_id: str = ""
    line: str = ""
    attrs: Mapping[str, Any] = field(default_factory=dict)


def fold_events(events: Iterable[LogEvent]) -> list[LogEvent]:
    """Merge repeats in order, adding `count`, `first` and `last` (ISO times)."""
    kept_events = list(events)
    groups: dict[tuple[object, ...], list[LogEvent]] = {}
    names: dict[int, str] = {}  # events of one message share their attrs object, so its identity is formatted once
    for event in kept_events:
        name = names.get(id(event.attrs))
        if name is None:
            name = names[id(event.attrs)] = repr(list(map(str, map(event.attrs.get, IDENTITY_ATTRS))))
        groups.setdefault((event.kind, event.value, event.device, event.boot_id, name), []).append(event)
    return [_fold_group(group) for group in groups.values()]


def _fold_group(group: list[LogEvent]) -> LogEvent:
    times = [event.time for event in group if event.time]
    first_event = group[0]
    attrs = {**first_event.attrs, "count": sum(event.attrs.get("count", 1) for event in group)}
    if times:
        attrs |= {"first": min(times).isoformat(), "last": max(times).isoformat()}
    return LogEvent(first_event.kind, first_event.value, first_event.device, first_event.time, first_event.boot_id, first_event.line, attrs)
