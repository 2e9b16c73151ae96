"""Typed events of log lines, extracted before masking."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

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
