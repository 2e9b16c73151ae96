"""Find the first failure among all ranks' errors, and its consequences."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from kb.logs.job_error_rules import AMBIGUOUS_CAUSES, CONSEQUENCE_CAUSES, HINT_CAUSES, NON_FATAL_CAUSES
from kb.logs.log_lines import LogEvent

_MAX_CLOCK_SKEW = timedelta(seconds=120)  # clock difference of two nodes within which their order means nothing


def mark_first_error(events: Sequence[LogEvent]) -> list[LogEvent]:
    """Set `first` (the cause) and `consequence`."""
    events = _keep_outliers(events)
    events = [*events, *_find_desync(events)]
    first = _prefer_rank_error(_find_first(events), events)
    return [
        replace(event, attrs={**event.attrs, "first": event is first, "consequence": _is_consequence(event, first)}) for event in events
    ]


def _find_first(events: Sequence[LogEvent]) -> LogEvent | None:
    """A definite error beats a possible echo, unless the echo is dated earlier."""
    errors = [event for event in events if event.value not in HINT_CAUSES]
    firm = [event for event in errors if event.value not in NON_FATAL_CAUSES and not event.attrs.get("warning")]
    own = _find_earliest([event for event in firm if event.value not in CONSEQUENCE_CAUSES | AMBIGUOUS_CAUSES])
    either = _find_earliest([event for event in firm if event.value in AMBIGUOUS_CAUSES])
    if own and either:
        return either if own.time and either.time and either.time < own.time else own
    soft = _find_earliest([event for event in errors if event.value in NON_FATAL_CAUSES])
    return own or either or soft or _find_earliest(firm) or _find_earliest(errors)


def _prefer_rank_error(first: LogEvent | None, events: Sequence[LogEvent]) -> LogEvent | None:
    """The launcher's report lacks the rank number."""
    if first is None or first.value != "crash_signal" or first.attrs.get("rank") is not None:
        return first
    signal = first.attrs.get("signal")
    rank_errors = (
        event
        for event in events
        if event.value == first.value and event.attrs.get("signal") == signal and event.attrs.get("rank") is not None
    )
    return next(rank_errors, first)


def _find_earliest(events: Sequence[LogEvent]) -> LogEvent | None:
    return min(events, key=lambda event: (event.time is None, event.time.timestamp() if event.time else 0.0), default=None)


def _is_consequence(event: LogEvent, first: LogEvent | None) -> bool:
    if first is None or event is first or event.value not in CONSEQUENCE_CAUSES | AMBIGUOUS_CAUSES:
        return False
    if event.value == first.value and event.attrs.get("rank") != first.attrs.get("rank"):
        return bool(event.value == "nccl_remote_exited")
    return not _is_before(event.time, first.time)


def _is_before(one: datetime | None, other: datetime | None) -> bool:
    return one is not None and other is not None and one < other - _MAX_CLOCK_SKEW


def _keep_outliers(events: Sequence[LogEvent]) -> list[LogEvent]:
    """A flight recorder lists all ranks: keep the minority, with the others' operation."""
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


def _find_desync(events: Sequence[LogEvent]) -> list[LogEvent]:
    """The rank whose watchdog names another operation for the common sequence number."""
    if any(event.value == "collective_desync" for event in events):
        return []
    waiting_events = [event for event in events if event.value == "nccl_timeout" and {"seq", "op"} <= event.attrs.keys()]
    usual = Counter((event.attrs["seq"], event.attrs["op"]) for event in waiting_events).most_common(1)
    if not usual or usual[0][1] < 2:
        return []
    (seq, op), _ = usual[0]
    odd = next((event for event in waiting_events if event.attrs["seq"] == seq and event.attrs["op"] != op), None)
    return [replace(odd, value="collective_desync", attrs={**odd.attrs, "others": op})] if odd else []
