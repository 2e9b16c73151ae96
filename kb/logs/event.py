"""Event: one typed thing a log line says. Extracted before any compression, so that no number is masked away."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

SAME = ("pid", "name", "gpc", "tpc", "link", "recovery", "severity", "rank", "file", "process", "type")
"""Attributes that tell two events of one kind, value and device apart when they are folded."""


@dataclass(frozen=True, slots=True)
class Event:
    """`kind` is a key of `kb.keys`; `device` what the line calls it (PCI addresses in full, lower case); `line` as it was read."""

    kind: str
    value: Any
    device: str | None = None
    time: datetime | None = None
    boot_id: str = ""
    line: str = ""
    attrs: Mapping[str, Any] = field(default_factory=dict)


def fold(events: Iterable[Event]) -> list[Event]:
    """Repeats of one event as one, in order of first sight: `count`, `first` and `last` (ISO times) join its attributes."""
    groups: dict[tuple[object, ...], list[Event]] = {}
    for event in events:
        key = (event.kind, event.value, event.device, event.boot_id, *map(str, map(event.attrs.get, SAME)))
        groups.setdefault(key, []).append(event)
    return [_folded(group) for group in groups.values()]


def _folded(group: list[Event]) -> Event:
    times = sorted(event.time for event in group if event.time)
    attrs = {**group[0].attrs, "count": sum(event.attrs.get("count", 1) for event in group)}
    if times:
        attrs |= {"first": times[0].isoformat(), "last": times[-1].isoformat()}
    return replace(group[0], attrs=attrs)
