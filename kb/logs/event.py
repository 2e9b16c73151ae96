"""Event: one typed thing a log line says. Extracted before any compression, so that no number is masked away."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

IDENTITY_ATTRS = ("pid", "name", "gpc", "tpc", "link", "recovery", "severity", "rank", "file", "process", "type")
"""Attributes that tell two events of one kind, value and device apart when they are folded."""


@dataclass(frozen=True, slots=True)
class LogEvent:
    """`kind` is a key of `kb.fact_keys`; `device` what the line calls it (PCI addresses in full, lower case); `line` as it was read."""

    kind: str
    value: Any
    device: str | None = None
    time: datetime | None = None
    boot_id: str = ""
    line: str = ""
    attrs: Mapping[str, Any] = field(default_factory=dict)


def fold_events(events: Iterable[LogEvent]) -> list[LogEvent]:
    """Repeats of one event as one, in order of first sight: `count`, `first` and `last` (ISO times) join its attributes."""
    kept = list(events)
    groups: dict[tuple[object, ...], list[LogEvent]] = {}
    names: dict[int, str] = {}
    """Events of one message share their attributes: what tells them apart is spelled once."""
    for event in kept:
        name = names.get(id(event.attrs))
        if name is None:
            name = names[id(event.attrs)] = repr(list(map(str, map(event.attrs.get, IDENTITY_ATTRS))))
        groups.setdefault((event.kind, event.value, event.device, event.boot_id, name), []).append(event)
    return [_fold_group(group) for group in groups.values()]


def _fold_group(group: list[LogEvent]) -> LogEvent:
    times = [event.time for event in group if event.time]
    one = group[0]
    attrs = {**one.attrs, "count": sum(event.attrs.get("count", 1) for event in group)}
    if times:
        attrs |= {"first": min(times).isoformat(), "last": max(times).isoformat()}
    return LogEvent(one.kind, one.value, one.device, one.time, one.boot_id, one.line, attrs)
