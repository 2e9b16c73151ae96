"""Merge a host's ring buffer and journal: remove duplicates, mark other boots stale, find recurring errors."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from kb.catalogues.xid import classify_repeats
from kb.logs.log_events import LogEvent
from tools.checks.kernel_unknown_errors import merge_unknown_counts
from tools.fact import Fact, Status

# Attributes that separate facts: a kill by a job's limit differs from a kill on a full host.
IDENTITY_ATTRS = ("cgroup", "fatal", "severity")
EVENT_KEY_PREFIXES = ("kernel.", "site.log.")  # facts from log lines: the kernel's, and matches of site rules
_MAX_LISTED_VALUES = 20
_SPAN_REDUCERS: Mapping[str, Callable[..., str]] = {"first": min, "last": max}
_KEEP_LAST_ATTRS = ("recovery",)  # the driver's newest value holds
_KEEP_FIRST_ATTRS = ("detail", "process", "seconds", "cpu", "error")


def get_occurrence_count(attrs: Mapping[str, Any]) -> int:
    count = attrs.get("count", 1)
    return count if isinstance(count, int) else 1


def merge_attrs(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Keep attributes on which rows agree; others become a list under the plural name. `sympathetic` needs all rows."""
    merged: dict[str, Any] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        distinct = {repr(row[name]): row[name] for row in rows if name in row}
        first = next(iter(distinct.values()))
        if name == "sympathetic" and not all(name in row for row in rows):
            continue
        if len(distinct) == 1:
            merged[name] = first
        elif isinstance(first, list):
            merged[name] = list({repr(item): item for row in distinct.values() for item in row}.values())[:_MAX_LISTED_VALUES]
        elif name not in ("count", "uptime", *_SPAN_REDUCERS):
            merged[f"{name}s"] = list(distinct.values())[:_MAX_LISTED_VALUES]
            merged |= {name: first} if name in _KEEP_FIRST_ATTRS else {}
            merged |= {name: next(row[name] for row in reversed(rows) if name in row)} if name in _KEEP_LAST_ATTRS else {}
    return merged


def normalize_boot_id(text: str) -> str:
    """Return journald's form, without dashes."""
    return text.replace("-", "").lower()


def merge_kernel_logs(facts: Sequence[Fact], boot_id: str = "", booted_at: datetime | None = None) -> list[Fact]:
    """Merge ring and journal; facts of another boot, or older than `booted_at`, become stale.

    Ring facts have no boot id: the ring is the running boot's. Without `boot_id` the journal's latest boot counts as
    running.
    """
    current = normalize_boot_id(boot_id) or _find_latest_boot(facts)
    kept_facts: dict[tuple[object, ...], Fact] = {}
    for fact in facts:
        name = _build_merge_key(fact, current) if fact.key.startswith(EVENT_KEY_PREFIXES) else (id(fact),)
        kept_facts[name] = _join_facts(kept_facts[name], fact) if name in kept_facts else fact
    aged = _drop_empty_logs([_mark_stale(fact, current, booted_at) for fact in merge_unknown_counts(list(kept_facts.values()), current)])
    return aged + find_repeated_xids(aged)


def merge_host_kernel_logs(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Merge with the boot id and boot time among the facts (`settle`)."""

    def told(key: str) -> str:
        return next((str(fact.value) for fact in facts if fact.key == key and fact.value), "")

    try:
        booted = datetime.fromisoformat(told("host.booted_at"))
    except ValueError:
        return merge_kernel_logs(facts, told("host.boot_id"))
    return merge_kernel_logs(facts, told("host.boot_id"), booted if booted.tzinfo else booted.replace(tzinfo=UTC))


def find_repeated_xids(facts: Sequence[Fact]) -> list[Fact]:
    """Return whether this boot's Xid 13 and 31 come from one place, one GPU or several."""
    xids = [fact for fact in facts if fact.key == "kernel.xid" and fact.status is Status.OK and not fact.stale]
    repeats = classify_repeats([LogEvent(fact.key, fact.value, fact.device, fact.time, "", fact.line, fact.attrs) for fact in xids])
    repeat_facts = []
    for device, repeat in repeats.items():
        own = [fact for fact in xids if fact.device == device and fact.value in (13, 31)]
        most_frequent_fact = max(own, key=lambda fact: get_occurrence_count(fact.attrs))
        attrs = {name: most_frequent_fact.attrs[name] for name in ("gpc", "tpc", "pids", "names") if name in most_frequent_fact.attrs}
        attrs |= {"xid": most_frequent_fact.value, "count": sum(get_occurrence_count(fact.attrs) for fact in own), "gpus": len(repeats)}
        repeat_facts.append(replace(most_frequent_fact, key="kernel.xid_repeat", value=repeat, attrs=attrs))
    return repeat_facts


def _build_merge_key(fact: Fact, current: str) -> tuple[object, ...]:
    apart = tuple(str(fact.attrs.get(name)) for name in IDENTITY_ATTRS)
    return fact.key, fact.device, repr(fact.value), fact.status, normalize_boot_id(fact.boot_id) or current, *apart


def _drop_empty_logs(facts: Sequence[Fact]) -> list[Fact]:
    """Drop "no Xid" if the other log has one, and an empty journal if the ring was read."""
    logs = [fact for fact in facts if fact.key.startswith(EVENT_KEY_PREFIXES)]
    xids = any(fact.key == "kernel.xid" and fact.status is Status.OK and not fact.stale for fact in logs)
    return [
        fact
        for fact in facts
        if not (xids and fact.key == "kernel.xid" and fact.status is Status.ABSENT)
        and not (logs and not fact.key and fact.status is Status.UNREADABLE and fact.line.startswith("empty output"))
    ]


def _join_facts(one: Fact, other: Fact) -> Fact:
    """Keep the larger count, the wider span, every process."""
    attrs = merge_attrs([one.attrs, other.attrs])
    attrs["count"] = max(get_occurrence_count(one.attrs), get_occurrence_count(other.attrs))
    for name, pick in _SPAN_REDUCERS.items():
        values = [str(row[name]) for row in (one.attrs, other.attrs) if name in row]
        attrs |= {name: pick(values, key=datetime.fromisoformat)} if values else {}
    for name in ("pid", "name", "tpc", "gpc"):
        distinct = list(dict.fromkeys([*_list_attr_values(one.attrs, name), *_list_attr_values(other.attrs, name)]))
        if len(distinct) > 1:
            attrs.pop(name, None)
            attrs[f"{name}s"] = distinct[:_MAX_LISTED_VALUES]
    moments = [fact.time for fact in (one, other) if fact.time and "first" in fact.attrs]
    return replace(one, attrs=attrs, time=min(moments, default=one.time), boot_id=one.boot_id or other.boot_id)


def _list_attr_values(attrs: Mapping[str, Any], name: str) -> Iterable[Any]:
    return [*attrs.get(f"{name}s", []), *([attrs[name]] if name in attrs else [])]


def _mark_stale(fact: Fact, current: str, booted_at: datetime | None) -> Fact:
    if not fact.key.startswith(EVENT_KEY_PREFIXES) or fact.status is not Status.OK:
        return fact
    boot = normalize_boot_id(fact.boot_id)
    if boot and current:
        return replace(fact, stale=boot != current)
    last = fact.attrs.get("last")
    if booted_at and isinstance(last, str) and datetime.fromisoformat(last) < booted_at:
        return replace(fact, stale=True)
    return fact


def _find_latest_boot(facts: Sequence[Fact]) -> str:
    dated = [
        (str(fact.attrs.get("last", "")), normalize_boot_id(fact.boot_id))
        for fact in facts
        if fact.boot_id and fact.key.startswith(EVENT_KEY_PREFIXES)
    ]
    return max(dated, default=("", ""))[1]
