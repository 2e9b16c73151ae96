"""Which event only follows from another: the root is the earliest one that follows from none."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from kb.logs.event import Event

CAUSES: Mapping[int, frozenset[int]] = {
    43: frozenset({13, 31, 48, 95, 109}),
    63: frozenset({48}),
    64: frozenset({48}),
    94: frozenset({48}),
    95: frozenset({48}),
}
"""Xids that follow another on the same GPU. 45 follows any other; 74 follows a fatal SXid of the host; and when a GPU falls off the bus (79),
the switches and the other GPUs lose their links to it."""

_SOON = 60.0


def once_killed(events: Iterable[Event]) -> list[Event]:
    """The kernel reports one kill twice: as a record (`oom-kill:constraint=…`) and in words. The later report is dropped."""
    kept: list[Event] = []
    seen: dict[object, datetime | None] = {}
    for event in events:
        if event.kind == "kernel.oom_kill":
            key = (event.attrs.get("pid"), event.boot_id)
            if key in seen and _within(seen[key], event.time):
                continue
            seen[key] = event.time
        kept.append(event)
    return kept


def with_causes(events: Iterable[Event]) -> list[Event]:
    """`sympathetic`: the earlier Xid (or `sxid`) that this Xid or SXid follows from."""
    recent: dict[object, list[Event]] = {}
    marked = []
    for event in events:
        if event.kind in ("kernel.xid", "kernel.sxid") and (cause := _cause(event, recent)):
            event = replace(event, attrs={**event.attrs, "sympathetic": cause})
        marked.append(event)
        if event.kind == "kernel.xid" and event.value not in (45, 154):
            recent[event.device] = [*recent.get(event.device, [])[-7:], event]
            if event.value == 79:
                recent["gone"] = [event]
        elif event.kind == "kernel.sxid" and event.attrs.get("fatal"):
            recent["nvswitch"] = [event]
    return marked


def _cause(event: Event, recent: Mapping[object, list[Event]]) -> int | str | None:
    if "caused_by" in event.attrs:
        return int(event.attrs["caused_by"])
    of_links = event.kind == "kernel.sxid" or event.value == 74
    if of_links and any(_soon_after(gone, event) for gone in recent.get("gone", []) if gone.device != event.device):
        return 79
    if event.kind == "kernel.sxid":
        return None
    if event.value == 74 and any(_soon_after(fatal, event) for fatal in recent.get("nvswitch", [])):
        return "sxid"
    for earlier in reversed(recent.get(event.device, [])):
        follows = event.value == 45 or earlier.value in CAUSES.get(int(event.value), ())
        if follows and earlier.value != event.value and _soon_after(earlier, event):
            return int(earlier.value)
    return None


def _soon_after(earlier: Event, event: Event) -> bool:
    return earlier.boot_id == event.boot_id and _within(earlier.time, event.time)


def _within(then: datetime | None, now: datetime | None) -> bool:
    return then is None or now is None or 0 <= (now - then).total_seconds() <= _SOON
