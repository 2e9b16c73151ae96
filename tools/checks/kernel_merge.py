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


def merge_attrs(attrs_of_facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Keep attributes on which the facts agree; others become a list under the plural name.

    `sympathetic` is kept only if all facts have it.
    """
    merged: dict[str, Any] = {}
    for name in dict.fromkeys(name for attrs in attrs_of_facts for name in attrs):
        values = [attrs[name] for attrs in attrs_of_facts if name in attrs]
        if name == "sympathetic" and len(values) < len(attrs_of_facts):
            continue
        distinct_values = _drop_duplicates(values)
        first_value = distinct_values[0]
        if len(distinct_values) == 1:
            merged[name] = first_value
        elif isinstance(first_value, list):
            merged[name] = _drop_duplicates([item for items in distinct_values for item in items])[:_MAX_LISTED_VALUES]
        elif name not in ("count", "uptime", *_SPAN_REDUCERS):
            merged[f"{name}s"] = distinct_values[:_MAX_LISTED_VALUES]
            if name in _KEEP_FIRST_ATTRS:
                merged[name] = first_value
            if name in _KEEP_LAST_ATTRS:
                merged[name] = values[-1]
    return merged


def _drop_duplicates(values: Sequence[Any]) -> list[Any]:
    """Keep one of equal values, in order. Compare by repr: values may be lists, and 1 differs from True."""
    return list({repr(value): value for value in values}.values())


def normalize_boot_id(text: str) -> str:
    """Return the boot id as journald writes it: lower case without dashes."""
    return text.replace("-", "").lower()


def merge_kernel_logs(facts: Sequence[Fact], boot_id: str = "", booted_at: datetime | None = None) -> list[Fact]:
    """Merge the facts of ring buffer and journal. Facts of another boot, or older than `booted_at`, become stale.

    Facts from the ring buffer have no boot id, because it holds only messages of the running boot. Without `boot_id` the
    latest boot in the journal counts as running.
    """
    current_boot = normalize_boot_id(boot_id) or _find_latest_boot(facts)
    facts_by_key: dict[tuple[object, ...], Fact] = {}
    for fact in facts:
        merge_key = _build_merge_key(fact, current_boot) if fact.key.startswith(EVENT_KEY_PREFIXES) else (id(fact),)
        earlier_fact = facts_by_key.get(merge_key)
        facts_by_key[merge_key] = _join_facts(earlier_fact, fact) if earlier_fact else fact
    merged_facts = merge_unknown_counts(list(facts_by_key.values()), current_boot)
    dated_facts = _drop_empty_logs([_mark_stale(fact, current_boot, booted_at) for fact in merged_facts])
    return dated_facts + find_repeated_xids(dated_facts)


def merge_host_kernel_logs(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Merge a host's kernel logs; boot id and boot time are taken from the facts themselves."""
    boot_id = _get_fact_text(facts, "host.boot_id")
    try:
        booted_at = datetime.fromisoformat(_get_fact_text(facts, "host.booted_at"))
    except ValueError:
        return merge_kernel_logs(facts, boot_id)
    return merge_kernel_logs(facts, boot_id, booted_at if booted_at.tzinfo else booted_at.replace(tzinfo=UTC))


def _get_fact_text(facts: Sequence[Fact], key: str) -> str:
    return next((str(fact.value) for fact in facts if fact.key == key and fact.value), "")


def find_repeated_xids(facts: Sequence[Fact]) -> list[Fact]:
    """Return whether this boot's Xid 13 and 31 come from one place, one GPU or several."""
    xids = [fact for fact in facts if fact.key == "kernel.xid" and fact.status is Status.OK and not fact.stale]
    repeats = classify_repeats([LogEvent(fact.key, fact.value, fact.device, fact.time, "", fact.line, fact.attrs) for fact in xids])
    repeat_facts = []
    for device, repeat in repeats.items():
        device_xids = [fact for fact in xids if fact.device == device and fact.value in (13, 31)]
        most_frequent = max(device_xids, key=lambda fact: get_occurrence_count(fact.attrs))
        count = sum(get_occurrence_count(fact.attrs) for fact in device_xids)
        attrs = {name: most_frequent.attrs[name] for name in ("gpc", "tpc", "pids", "names") if name in most_frequent.attrs}
        attrs |= {"xid": most_frequent.value, "count": count, "gpus": len(repeats)}
        repeat_facts.append(replace(most_frequent, key="kernel.xid_repeat", value=repeat, attrs=attrs))
    return repeat_facts


def _build_merge_key(fact: Fact, current_boot: str) -> tuple[object, ...]:
    identity = tuple(str(fact.attrs.get(name)) for name in IDENTITY_ATTRS)
    return fact.key, fact.device, repr(fact.value), fact.status, normalize_boot_id(fact.boot_id) or current_boot, *identity


def _drop_empty_logs(facts: Sequence[Fact]) -> list[Fact]:
    """Drop "no Xid" if the other log has one, and an empty journal if the ring buffer was read."""
    event_facts = [fact for fact in facts if fact.key.startswith(EVENT_KEY_PREFIXES)]
    has_xid = any(fact.key == "kernel.xid" and fact.status is Status.OK and not fact.stale for fact in event_facts)

    def is_refuted(fact: Fact) -> bool:
        if fact.key == "kernel.xid":
            return has_xid and fact.status is Status.ABSENT
        is_empty_log = not fact.key and fact.status is Status.UNREADABLE and fact.line.startswith("empty output")
        return is_empty_log and bool(event_facts)

    return [fact for fact in facts if not is_refuted(fact)]


def _join_facts(one: Fact, other: Fact) -> Fact:
    """Join two facts of one event. Keep the larger count, the wider time span and every process."""
    attrs = merge_attrs([one.attrs, other.attrs])
    attrs["count"] = max(get_occurrence_count(one.attrs), get_occurrence_count(other.attrs))
    for name, choose in _SPAN_REDUCERS.items():
        times = [str(side.attrs[name]) for side in (one, other) if name in side.attrs]
        if times:
            attrs[name] = choose(times, key=datetime.fromisoformat)
    for name in ("pid", "name", "tpc", "gpc"):
        distinct_values = list(dict.fromkeys([*_list_attr_values(one.attrs, name), *_list_attr_values(other.attrs, name)]))
        if len(distinct_values) > 1:
            attrs.pop(name, None)
            attrs[f"{name}s"] = distinct_values[:_MAX_LISTED_VALUES]
    first_times = [fact.time for fact in (one, other) if fact.time and "first" in fact.attrs]
    return replace(one, attrs=attrs, time=min(first_times, default=one.time), boot_id=one.boot_id or other.boot_id)


def _list_attr_values(attrs: Mapping[str, Any], name: str) -> Iterable[Any]:
    """Return the values under the plural and the singular name of an attribute."""
    return [*attrs.get(f"{name}s", []), *([attrs[name]] if name in attrs else [])]


def _mark_stale(fact: Fact, current_boot: str, booted_at: datetime | None) -> Fact:
    if not fact.key.startswith(EVENT_KEY_PREFIXES) or fact.status is not Status.OK:
        return fact
    boot = normalize_boot_id(fact.boot_id)
    if boot and current_boot:
        return replace(fact, stale=boot != current_boot)
    last = fact.attrs.get("last")
    if booted_at and isinstance(last, str) and datetime.fromisoformat(last) < booted_at:
        return replace(fact, stale=True)
    return fact


def _find_latest_boot(facts: Sequence[Fact]) -> str:
    boots_by_time = [
        (str(fact.attrs.get("last", "")), normalize_boot_id(fact.boot_id))
        for fact in facts
        if fact.boot_id and fact.key.startswith(EVENT_KEY_PREFIXES)
    ]
    _, latest_boot = max(boots_by_time, default=("", ""))
    return latest_boot
