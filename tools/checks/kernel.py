"""The kernel's log of one host: ring buffer and journal. Repeats are one fact; what an earlier boot said is kept, and marked stale."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from kb.keys import KEYS
from kb.logs.event import Event
from kb.logs.kernel import kernel_events
from kb.logs.timestamps import split
from tools.check import Check, Command, Format
from tools.fact import Fact, Status

CHECK = "dmesg"
_BOOT_ID = re.compile(r"\s*([0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12})\s*")
_WRITERS = ("", "kernel")
_TELLS = ("NVRM: ", "nvidia-nvswitch", "mlx5_core ", "-- Boot ", "-- Logs begin", "-- Journal begins")
_APART = ("cgroup", "fatal")
"""Attributes that make two events two facts: a kill by a job's limit is another thing than a kill by a full host."""
_LEVEL = re.compile(r"\[? ?(?:ERROR|INFO|WARNING|WARN|DEBUG|NOTICE|tid \d|rank\d)[\] ]")
"""A program's log goes on with its level in brackets, a ring-buffer line with the message."""
_MOST = 20


def is_boot_id(text: str) -> bool:
    """Whether the text is /proc/sys/kernel/random/boot_id."""
    return _BOOT_ID.fullmatch(text) is not None


def parse_boot_id(text: str) -> Sequence[Fact]:
    """`2f1c9f0e-5d1b-4b7a-9a56-0d6b0b8f6a11`."""
    return [Fact(CHECK, "host.boot_id", text.strip(), line=text.strip())]


def is_kernel_log(text: str) -> bool:
    """Whether one of the first lines is the kernel's, in any format of dmesg, journalctl, syslog or /dev/kmsg."""
    head = [line for line in text[:65536].splitlines()[:200] if line.strip()]
    return any(_is_kernels(line) for line in head) or bool(kernel_events(text[:65536]))


def _is_kernels(line: str) -> bool:
    prefix = split(line)
    if not prefix.found:
        return line.startswith(_TELLS)
    if line.startswith("{"):
        return prefix.source in _WRITERS and "_SYSTEMD_UNIT" not in line
    ring = prefix.uptime is not None or line.startswith(("[", "20"))
    return prefix.source == "kernel" or (not prefix.source and ring and not _LEVEL.match(prefix.message))


def parse_kernel_log(text: str) -> Sequence[Fact]:
    """Facts of a log, in order of first sight. A log without an Xid says so."""
    found = gathered(kernel_events(text))
    if not any(fact.key == "kernel.xid" for fact in found):
        found.append(Fact(CHECK, "kernel.xid", status=Status.ABSENT, line="no Xid in this log"))
    return found


def gathered(events: Iterable[Event]) -> list[Fact]:
    """One fact per kind, device, value and boot, whatever the number of lines."""
    groups: dict[tuple[object, ...], list[Event]] = {}
    for event in events:
        apart = tuple(str(event.attrs.get(name)) for name in _APART)
        groups.setdefault((event.kind, event.device, repr(event.value), _boot(event.boot_id), *apart), []).append(event)
    return [_one(group) for group in groups.values()]


def _one(group: Sequence[Event]) -> Fact:
    first = group[0]
    times = sorted(event.time for event in group if event.time)
    attrs = _merged([event.attrs for event in group])
    attrs["count"] = sum(_count(event.attrs) for event in group)
    if times:
        attrs |= {"first": times[0].isoformat(), "last": times[-1].isoformat()}
    time = times[0] if times else None
    return Fact(CHECK, first.kind, first.value, first.device, line=first.line[:500], attrs=attrs, time=time, boot_id=first.boot_id)


def _count(attrs: Mapping[str, Any]) -> int:
    count = attrs.get("count", 1)
    return count if isinstance(count, int) else 1


def _merged(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """An attribute on which all agree stays as it is; others become a list under the plural name. A consequence is one only if all are."""
    merged: dict[str, Any] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = list(dict.fromkeys(repr(row[name]) for row in rows if name in row))
        first = next(row[name] for row in rows if name in row)
        if name == "sympathetic" and not all(name in row for row in rows):
            continue
        if len(values) == 1:
            merged[name] = first
        elif name not in ("count", "first", "last", "uptime"):
            distinct = {repr(row[name]): row[name] for row in rows if name in row}
            merged[f"{name}s"] = list(distinct.values())[:_MOST]
            if name in ("detail", "process", "seconds", "cpu", "error"):
                merged[name] = first
    return merged


def settle(facts: Sequence[Fact], boot_id: str = "", booted_at: datetime | None = None) -> list[Fact]:
    """Ring and journal as one: doubles merged, facts of another boot (or older than this one) marked stale.

    A ring fact has no boot id: the ring belongs to the boot that runs. Without `boot_id` the journal's latest boot counts as that.
    """
    current = _boot(boot_id) or _latest_boot(facts)
    kept: dict[tuple[object, ...], Fact] = {}
    for fact in _without_empty(facts):
        boot = _boot(fact.boot_id) or current
        apart = tuple(str(fact.attrs.get(name)) for name in _APART)
        name = (fact.key, fact.device, repr(fact.value), fact.status, boot, *apart) if fact.key.startswith("kernel.") else (id(fact),)
        kept[name] = _joined(kept[name], fact) if name in kept else fact
    return [_aged(fact, current, booted_at) for fact in kept.values()]


def _settle_host(facts: Sequence[Fact]) -> Sequence[Fact]:
    def told(key: str) -> str:
        return next((str(fact.value) for fact in facts if fact.key == key and fact.value), "")

    booted = told("host.booted_at")
    try:
        return settle(facts, told("host.boot_id"), datetime.fromisoformat(booted) if booted else None)
    except ValueError:
        return settle(facts, told("host.boot_id"))


def _without_empty(facts: Sequence[Fact]) -> list[Fact]:
    """ "No Xid here" falls away where the other log has one; so does an empty journal where the ring was read."""
    logs = [fact for fact in facts if fact.key.startswith("kernel.")]
    xids = any(fact.key == "kernel.xid" and fact.status is Status.OK for fact in logs)
    return [
        fact
        for fact in facts
        if not (xids and fact.key == "kernel.xid" and fact.status is Status.ABSENT)
        and not (logs and not fact.key and fact.status is Status.UNREADABLE and fact.line.startswith("empty output"))
    ]


def _joined(one: Fact, other: Fact) -> Fact:
    """The same thing seen in both logs: the larger count, the wider span, every process."""
    attrs = _merged([one.attrs, other.attrs])
    attrs["count"] = max(_count(one.attrs), _count(other.attrs))
    for name, pick in _SPAN.items():
        times = [str(attrs_[name]) for attrs_ in (one.attrs, other.attrs) if name in attrs_]
        if times:
            attrs[name] = pick(times, key=datetime.fromisoformat)
    for name in ("pid", "name", "tpc", "gpc"):
        distinct = list(dict.fromkeys([*_listed(one.attrs, name), *_listed(other.attrs, name)]))
        if len(distinct) > 1:
            attrs.pop(name, None)
            attrs[f"{name}s"] = distinct[:_MOST]
    times_ = [fact.time for fact in (one, other) if fact.time and "first" in fact.attrs]
    return replace(one, attrs=attrs, time=min(times_) if times_ else one.time, boot_id=one.boot_id or other.boot_id)


_SPAN: Mapping[str, Callable[..., str]] = {"first": min, "last": max}


def _listed(attrs: Mapping[str, Any], name: str) -> list[Any]:
    return [*attrs.get(f"{name}s", []), *([attrs[name]] if name in attrs else [])]


def _aged(fact: Fact, current: str, booted_at: datetime | None) -> Fact:
    if not fact.key.startswith("kernel.") or fact.status is not Status.OK:
        return fact
    boot = _boot(fact.boot_id)
    if boot and current:
        return replace(fact, stale=boot != current)
    last = fact.attrs.get("last")
    if booted_at and isinstance(last, str) and datetime.fromisoformat(last) < booted_at:
        return replace(fact, stale=True)
    return fact


def _boot(text: str) -> str:
    """A boot id as journald writes it: without dashes."""
    return text.replace("-", "").lower()


def _latest_boot(facts: Sequence[Fact]) -> str:
    dated = [(str(fact.attrs.get("last", "")), _boot(fact.boot_id)) for fact in facts if fact.boot_id and fact.key.startswith("kernel.")]
    return max(dated, default=("", ""))[1]


_JOURNAL = "journalctl -o json --output-fields=MESSAGE,_BOOT_ID,PRIORITY --no-pager --since=-24h -p warning _TRANSPORT=kernel"

CHECKS = (
    Check(
        id="dmesg",
        asks="What did the kernel and the driver report?",
        commands=(
            Command("ring", ("dmesg", "--decode", "--time-format", "iso"), privileged=True),
            Command(
                "journal",
                tuple(_JOURNAL.split()),
                privileged=True,
                optional=True,
            ),
            Command("boot", ("cat", "/proc/sys/kernel/random/boot_id")),
        ),
        formats=(Format("boot id", is_boot_id, parse_boot_id), Format("kernel log", is_kernel_log, parse_kernel_log)),
        establishes=("host.boot_id", *(key.name for key in KEYS if key.name.startswith("kernel.") and key.name != "kernel.release")),
        seconds=3.0,
        timeout=30.0,
        settle=_settle_host,
    ),
)
