"""Who failed first: of all ranks' errors, which is the cause and which are its echoes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from kb.logs.event import Event
from kb.logs.job.rows import CONSEQUENCES, EITHER, HINTS, SOFT

_SKEW = timedelta(seconds=120)
"""Clocks of two nodes may differ this much before their order says anything."""


def ordered(events: Sequence[Event]) -> list[Event]:
    """The events, each with `first` (it is the cause) and `consequence` (it follows from the first)."""
    events = _outliers(events)
    events = [*events, *_desync(events)]
    first = _of_its_rank(_first(events), events)
    return [replace(event, attrs={**event.attrs, "first": event is first, "consequence": _follows(event, first)}) for event in events]


def _first(events: Sequence[Event]) -> Event | None:
    """By time, then by order. An error of its own beats one that may be an echo, unless the clock says that the echo came first."""
    errors = [event for event in events if event.value not in HINTS]
    firm = [event for event in errors if event.value not in SOFT and not event.attrs.get("warning")]
    own = _earliest([event for event in firm if event.value not in CONSEQUENCES | EITHER])
    either = _earliest([event for event in firm if event.value in EITHER])
    if own and either:
        return either if own.time and either.time and either.time < own.time else own
    soft = _earliest([event for event in errors if event.value in SOFT])
    return own or either or soft or _earliest(firm) or _earliest(errors)


def _of_its_rank(first: Event | None, events: Sequence[Event]) -> Event | None:
    """A launcher says how a rank ended without its number, and has the time that the rank's own word lacks: that word then is the cause."""
    if first is None or first.value != "crash_signal" or first.attrs.get("rank") is not None:
        return first
    signal = first.attrs.get("signal")
    named = (
        event
        for event in events
        if event.value == first.value and event.attrs.get("signal") == signal and event.attrs.get("rank") is not None
    )
    return next(named, first)


def _earliest(events: Sequence[Event]) -> Event | None:
    return min(events, key=lambda event: (event.time is None, event.time.timestamp() if event.time else 0.0), default=None)


def _follows(event: Event, first: Event | None) -> bool:
    if first is None or event is first or event.value not in CONSEQUENCES | EITHER:
        return False
    if event.value == first.value and event.attrs.get("rank") != first.attrs.get("rank"):
        return bool(event.value == "nccl_remote_exited")
    return not _before(event.time, first.time)


def _before(one: datetime | None, other: datetime | None) -> bool:
    return one is not None and other is not None and one < other - _SKEW


def _outliers(events: Sequence[Event]) -> list[Event]:
    """A flight recorder lists what every rank was doing: only the ranks in the minority say something, and what the others did."""
    rows = [event for event in events if event.value == "collective_desync" and "op" in event.attrs and "others" not in event.attrs]
    usual = Counter(event.attrs["op"] for event in rows).most_common(1)
    if len(rows) < 2 or not usual:
        return list(events)
    listed = {id(event) for event in rows}
    return [
        replace(event, attrs={**event.attrs, "others": usual[0][0]}) if id(event) in listed else event
        for event in events
        if id(event) not in listed or event.attrs["op"] != usual[0][0]
    ]


def _desync(events: Sequence[Event]) -> list[Event]:
    """Watchdogs that name the same sequence number but not the same operation: the rank in the minority left the common path."""
    if any(event.value == "collective_desync" for event in events):
        return []
    waits = [event for event in events if event.value == "nccl_timeout" and {"seq", "op"} <= event.attrs.keys()]
    usual = Counter((event.attrs["seq"], event.attrs["op"]) for event in waits).most_common(1)
    if not usual or usual[0][1] < 2:
        return []
    (seq, op), _ = usual[0]
    odd = next((event for event in waits if event.attrs["seq"] == seq and event.attrs["op"] != op), None)
    return [replace(odd, value="collective_desync", attrs={**odd.attrs, "others": op})] if odd else []
