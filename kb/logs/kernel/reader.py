"""The kernel's log → typed events: Xids, NVSwitch errors, kills, lockups, PCIe, InfiniBand, storage.

Trust: a message counts from its first character on, and only when the line's own prefix does not name another writer. A process name,
a user's `logger` line or a user unit that prints `NVRM: Xid` is no event.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from kb.address import bdf
from kb.logs.event import Event
from kb.logs.kernel.causes import once_killed, with_causes
from kb.logs.kernel.rows import NEEDLES, MessageRow, eligible
from kb.logs.kernel.xid_text import nvlink5, sxid, xid
from kb.logs.piece import Piece
from kb.logs.timestamps import Head, Prefix, headed, split, timed
from kb.numbers import whole
from kb.scan import Needles, lines_of

BOOT = re.compile(r"-- Boot ([0-9a-f]{32}) --")
_LOST = re.compile(r"NVRM: GPU (\S{1,20}): GPU has fallen off the bus")
_PROBED = re.compile(r"NVRM: The NVIDIA GPU (\S{1,20})(?: \(PCI ID|\s*$)")
_VERSION = re.compile(r"NVRM: (?:.{0,120}?(?:client .{0,60}?)?)?(this kernel module )?has the version (\d[\d.]{2,20}\d)")
_AER_NAME = re.compile(r"\S{1,40} (\S{1,20}): {1,8}\[ ?\d{1,2}\] (\w{2,30})")
_BYTES = ('"MESSAGE":[', '"MESSAGE" : [', '"MESSAGE": [')
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
_NVRM = ("API mismatch", "has the version", "fallen off the bus", "The NVIDIA GPU ")
NEEDED = ("NVRM: Xid", "SXid (", "-- Boot ", *_BYTES, *_AER_NAMES, *_NVRM, *NEEDLES)
"""What a line must hold to be looked at."""
_NEEDED = Needles(NEEDED)

_HEAD = 16_384
"""Characters from which it is told whether lines have prefixes."""
MOST_NAMED = 4096
"""Kinds of event by value and device that are told apart. No machine has so many: of more only the number is kept."""
MOST_LOST = 8192
"""Events left out after which the lines that follow are only counted: such a log is no machine's."""
MOST_ALIKE = 1024
"""Events of one kind, value and device that are kept one by one; later ones are counted with the last of them."""

_SEVERITY = {"Corrected": "corrected", "Correctable": "corrected"}


@dataclass(slots=True)
class _More:
    """Of what came too often to be kept each time: where the last that was kept stands, how many more came, when, and the last as it was read."""

    at: int
    time: datetime | None
    count: int = 0
    line: str = ""


@dataclass(slots=True)
class _Said:
    """The event of a line but for its time; `more` once it came too often."""

    kind: str
    value: object
    device: str | None
    attrs: Mapping[str, Any]
    more: _More | None = None


class KernelReader:
    """Reads a kernel log piece by piece, each piece of whole lines. `finish` gives the events in the order of the log."""

    def __init__(self, now: datetime | None = None) -> None:
        self._now = now
        self._events: list[Event] = []
        self._boot = ""
        self._prefixed: bool | None = None
        self._probed: str | None = None
        self._aer: dict[str, int] = {}
        self._booted = self._nvidia = False
        self._alike: dict[tuple[object, ...], int] = {}
        """How often each was seen."""
        self._more: dict[tuple[object, ...], _More] = {}
        self._said: dict[Head, _Said] = {}
        """What lines said, by what stands behind their time: a line that is known need not be read again, and not at all to be counted."""
        self.left_out = 0
        """Events that were not kept."""

    def feed(self, text: str) -> None:
        """Lines as text."""
        self._says(text[:_HEAD], booted="Linux version " in text, nvidia="NVRM" in text or "nvidia" in text)
        self._take([line for _, line in lines_of(text, list(_NEEDED.in_text(text)))])

    def read(self, piece: Piece, wanted: Sequence[int]) -> None:
        """`wanted`: the numbers of the lines that hold something."""
        block = piece.block
        booted = self._booted or b"Linux version " in block
        nvidia = self._nvidia or b"NVRM" in block or b"nvidia" in block
        self._says(block[: 4 * _HEAD].decode("utf-8", "replace")[:_HEAD], booted=booted, nvidia=nvidia)
        self._take(piece.lines(wanted))

    def _says(self, head: str, *, booted: bool, nvidia: bool) -> None:
        """What is to be known of all of it: the beginning tells whether lines have prefixes."""
        if self._prefixed is None and head.strip():
            self._prefixed = has_prefixes(head)
        self._booted |= booted
        self._nvidia |= nvidia

    def _take(self, lines: Sequence[str]) -> None:
        for line in lines:
            head = headed(line)
            said = self._said.get(head) if head else None
            if self.left_out >= MOST_LOST:
                self.left_out += 1
            elif head and said and said.more:
                said.more.count += 1
                said.more.line = line
            elif head and said:
                self._keep(said, timed(line, head, self._now), line)
            elif boot := BOOT.match(line):
                self._boot, self._said = boot[1], {}
            else:
                self._new(line, head)

    def finish(self) -> list[Event]:
        """All events; consequences are marked with what they follow."""
        self._counted()
        if self._booted and not self._nvidia:
            self._events.append(Event("kernel.nvidia_absent", True))
        return with_causes(once_killed(self._events))

    def _new(self, line: str, head: Head | None) -> None:
        prefix = split(line, self._now)
        if not prefix.found and self._prefixed:
            return  # the continuation of a message above, whatever it says
        message = prefix.message.partition("\n")[0]
        driver = _is_driver(message, prefix)
        if driver and self._driver(message, prefix, line):
            return
        said = self._rows(message, prefix)
        if said:
            self._keep(said, prefix, line)
            if head and not driver:
                self._said = self._said if len(self._said) < MOST_NAMED else {}
                self._said[head] = said

    def _keep(self, said: _Said, prefix: Prefix, line: str) -> None:
        kept = len(self._events)
        said.more = self._add(said.kind, said.value, said.device, prefix, line, said.attrs)
        if said.kind == "kernel.aer" and len(self._events) > kept:
            self._aer[said.device or ""] = kept

    def _add(self, kind: str, value: object, device: str | None, prefix: Prefix, line: str, attrs: Mapping[str, Any]) -> _More | None:
        """Keeps the event, or counts it: then with what it is counted."""
        name = (kind, value, device, prefix.boot_id or self._boot)
        times = self._alike.get(name, 0)
        if not times and len(self._alike) >= MOST_NAMED:
            self.left_out += 1
            return None
        self._alike[name] = times + 1
        if times >= MOST_ALIKE:
            more = self._more[name]
            more.time, more.line, more.count = prefix.time or self._time(more), "", more.count + 1
            return more
        if times == MOST_ALIKE - 1:
            self._more[name] = _More(len(self._events), prefix.time)
        if prefix.uptime is not None and prefix.time is None:
            attrs = {**attrs, "uptime": prefix.uptime}
        self._events.append(Event(kind, value, device, prefix.time, prefix.boot_id or self._boot, line, attrs))
        return None

    def _time(self, more: _More) -> datetime | None:
        return (split(more.line, self._now).time if more.line else None) or more.time

    def _counted(self) -> None:
        """Those that were not kept stand with the last that was."""
        for more in self._more.values():
            event = self._events[more.at]
            count = int(event.attrs.get("count", 1)) + more.count
            self._events[more.at] = replace(event, time=self._time(more), attrs={**event.attrs, "count": count}) if more.count else event
        self._more, self._said = {}, {}

    def _driver(self, message: str, prefix: Prefix, line: str) -> bool:
        """What the NVIDIA drivers say; True when the line is settled."""
        if seen := xid(message):
            self._add("kernel.xid", seen.code, seen.device, prefix, line, seen.attrs)
            if decoded := nvlink5(seen.code, str(seen.attrs.get("detail", ""))):
                self._add("kernel.nvlink5", decoded[0], seen.device, prefix, line, decoded[1])
            return True
        if seen := sxid(message):
            self._add("kernel.sxid", seen.code, seen.device, prefix, line, seen.attrs)
            return True
        return message.startswith("NVRM: ") and (self._fallen(message, prefix, line) or self._mismatch(message, prefix, line))

    def _fallen(self, message: str, prefix: Prefix, line: str) -> bool:
        """Newer drivers repeat Xid 79 without its number; a driver that finds a dead GPU at start says it in two lines."""
        if probed := _PROBED.match(message):
            self._probed = bdf(probed[1])
            return "fallen off" not in message
        lost = _LOST.match(message)
        device = bdf(lost[1]) if lost else self._probed
        if device and (lost or message.startswith("NVRM: fallen off the bus")):
            self._add("kernel.xid", 79, device, prefix, line, {"bdf": device, "detail": "GPU has fallen off the bus", "unnumbered": True})
            self._probed = None
            return True
        return False

    def _mismatch(self, message: str, prefix: Prefix, line: str) -> bool:
        if "API mismatch" in message:
            self._add("kernel.driver_mismatch", "API mismatch", None, prefix, line, {})
        elif "has the version" not in message:
            return False
        if (version := _VERSION.match(message)) and (at := self._last("kernel.driver_mismatch")) is not None:
            part = "module" if version[1] else "client"
            attrs = dict(self._events[at].attrs) | {part: version[2]}
            text = ", ".join(f"{name} {attrs[name]}" for name in ("client", "module") if name in attrs)
            self._events[at] = replace(self._events[at], value=text, attrs=attrs)
        return True

    def _last(self, kind: str) -> int | None:
        return next((at for at in range(len(self._events) - 1, max(-1, len(self._events) - 9), -1) if self._events[at].kind == kind), None)

    def _rows(self, message: str, prefix: Prefix) -> _Said | None:
        if name := _AER_NAME.match(message):
            self._name_aer(name[1], name[2])
            return None
        for row in eligible(message):
            if prefix.source in row.sources and (found := row.pattern.match(message)):
                return _Said(row.kind, *_read(row, found))
        return None

    def _name_aer(self, device: str, error: str) -> None:
        """The name of a PCIe error stands on a line of its own after the report."""
        at = self._aer.get(bdf(device) or "")
        if at is not None and "error" not in self._events[at].attrs:
            self._events[at] = replace(self._events[at], attrs={**self._events[at].attrs, "error": error})


def kernel_events(text: str, now: datetime | None = None) -> list[Event]:
    """Every typed event of a kernel log, in any format of `kb.logs.timestamps`, in the order of the log."""
    reader = KernelReader(now)
    reader.feed(text)
    return reader.finish()


def _is_driver(message: str, prefix: Prefix) -> bool:
    return prefix.source in ("", "kernel") and message.startswith(("NVRM: ", "nvidia-nvswitch", "nvswitch"))


def is_known(message: str) -> bool:
    """Return whether a message is of a kind that is read, whichever line it follows."""
    if not _NEEDED.in_line(message):
        return False
    if message.startswith("NVRM: ") and any(word in message for word in _NVRM):
        return True
    return bool(xid(message) or sxid(message)) or any(row.pattern.match(message) for row in eligible(message))


def has_prefixes(text: str) -> bool:
    """Whether the lines of a log begin with who wrote them, or when: then one that does not goes on with the one above it."""
    head = [line for line in text[:_HEAD].split("\n", 41)[:40] if line.strip()]
    return any(split(line).found for line in head)


def _read(row: MessageRow, found: re.Match[str]) -> tuple[object, str | None, dict[str, Any]]:
    groups = {name: given for name, given in found.groupdict().items() if given is not None}
    value, device = groups.pop("value", ""), groups.pop("device", None)
    attrs: dict[str, Any] = {name: given if (number := whole(given)) is None or number < 0 else number for name, given in groups.items()}
    shape = _SHAPES.get(row.kind)
    said: object = row.value or value.strip()
    if shape:
        said, device, attrs = shape(said, device, attrs)
    return said, (bdf(device) or device) if device else None, attrs


def _oom(value: object, device: str | None, attrs: dict[str, Any]) -> tuple[object, str | None, dict[str, Any]]:
    scope = str(attrs.pop("scope"))
    return value, device, {**attrs, "cgroup": "cgroup" in scope or "MEMCG" in scope}


def _aer(value: object, device: str | None, attrs: dict[str, Any]) -> tuple[object, str | None, dict[str, Any]]:
    severity = _SEVERITY.get(str(value)) or ("nonfatal" if "Non" in str(value) else "fatal")
    return severity, device or attrs.get("root"), attrs


def _mce(value: object, device: str | None, attrs: dict[str, Any]) -> tuple[object, str | None, dict[str, Any]]:
    text = str(value)
    fatal = text == "UE" or any(word in text for word in ("Uncorrected", "fatal", "Exception", "severity: recoverable"))
    return ("fatal" if fatal else "corrected"), device, {"detail": text, **attrs}


def _mlx5(value: object, device: str | None, attrs: dict[str, Any]) -> tuple[object, str | None, dict[str, Any]]:
    name = re.match(r"mlx5_\d+$", str(attrs.get("netdev", "")))
    return value, name[0] if name else device, attrs | {"bdf": device}


def _mounted(value: object, device: str | None, attrs: dict[str, Any]) -> tuple[object, str | None, dict[str, Any]]:
    return value, str(value), attrs


def _fatal_mce(value: object, device: str | None, attrs: dict[str, Any]) -> tuple[object, str | None, dict[str, Any]]:
    return value, device, attrs | {"machine_check": "machine check" in str(value).lower()}


def _nouveau(value: object, device: str | None, attrs: dict[str, Any]) -> tuple[object, str | None, dict[str, Any]]:
    return True, device, attrs


def _crashed(value: object, device: str | None, attrs: dict[str, Any]) -> tuple[object, str | None, dict[str, Any]]:
    return value or "unknown", device, attrs


_SHAPES = {
    "kernel.oom_kill": _oom,
    "kernel.aer": _aer,
    "kernel.mce": _mce,
    "kernel.mlx5": _mlx5,
    "kernel.fs_readonly": _mounted,
    "kernel.panic": _fatal_mce,
    "kernel.nouveau": _nouveau,
    "kernel.segfault": _crashed,
}
