"""Mark kernel events that follow from earlier ones."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from kb.logs.log_events import LogEvent

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
