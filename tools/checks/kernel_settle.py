"""Ring buffer and journal of one host as one log: doubles merged, other boots marked stale, errors that keep coming from one place recognised."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from kb.catalogues import xid
from kb.logs.event import Event
from tools.checks.kernel_unknown import settle_unknown
from tools.fact import Fact, Status

APART = ("cgroup", "fatal", "severity")
"""Attributes that make two events two facts: a kill by a job's limit is another thing than a kill by a full host."""
EVENTS = ("kernel.", "site.log.")
"""What lines of a log say: the kernel's own, and what a rule of the site finds in them."""
_MOST = 20
_SPAN: Mapping[str, Callable[..., str]] = {"first": min, "last": max}
_KEEP_LAST = ("recovery",)
"""The driver's newest word is the one that holds."""
_KEEP_FIRST = ("detail", "process", "seconds", "cpu", "error")


def times(attrs: Mapping[str, Any]) -> int:
    """How often an event came."""
    said = attrs.get("count", 1)
    return said if isinstance(said, int) else 1


def merged(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """An attribute on which all agree stays as it is; others become a list under the plural name. A consequence is one only if all are."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        distinct = {repr(row[name]): row[name] for row in rows if name in row}
        first = next(iter(distinct.values()))
        if name == "sympathetic" and not all(name in row for row in rows):
            continue
        if len(distinct) == 1:
            found[name] = first
        elif isinstance(first, list):
            found[name] = list({repr(item): item for row in distinct.values() for item in row}.values())[:_MOST]
        elif name not in ("count", "uptime", *_SPAN):
            found[f"{name}s"] = list(distinct.values())[:_MOST]
            found |= {name: first} if name in _KEEP_FIRST else {}
            found |= {name: next(row[name] for row in reversed(rows) if name in row)} if name in _KEEP_LAST else {}
    return found


def boot_name(text: str) -> str:
    """A boot id as journald writes it: without dashes."""
    return text.replace("-", "").lower()


def settle(facts: Sequence[Fact], boot_id: str = "", booted_at: datetime | None = None) -> list[Fact]:
    """Ring and journal as one; facts of another boot (or older than this one) are stale.

    A ring fact has no boot id: the ring belongs to the boot that runs. Without `boot_id` the journal's latest boot counts as that.
    """
    current = boot_name(boot_id) or _latest_boot(facts)
    kept: dict[tuple[object, ...], Fact] = {}
    for fact in facts:
        name = _name(fact, current) if fact.key.startswith(EVENTS) else (id(fact),)
        kept[name] = _joined(kept[name], fact) if name in kept else fact
    aged = _without_empty([_aged(fact, current, booted_at) for fact in settle_unknown(list(kept.values()), current)])
    return aged + repeats(aged)


def settle_host(facts: Sequence[Fact]) -> Sequence[Fact]:
    """`settle` with the boot id and boot time that stand among the facts."""

    def told(key: str) -> str:
        return next((str(fact.value) for fact in facts if fact.key == key and fact.value), "")

    try:
        booted = datetime.fromisoformat(told("host.booted_at"))
    except ValueError:
        return settle(facts, told("host.boot_id"))
    return settle(facts, told("host.boot_id"), booted if booted.tzinfo else booted.replace(tzinfo=UTC))


def repeats(facts: Sequence[Fact]) -> list[Fact]:
    """Whether Xid 13 and 31 of this boot come from one place, one GPU, or several."""
    xids = [fact for fact in facts if fact.key == "kernel.xid" and fact.status is Status.OK and not fact.stale]
    said = xid.repeats([Event(fact.key, fact.value, fact.device, fact.time, "", fact.line, fact.attrs) for fact in xids])
    found = []
    for device, how in said.items():
        own = [fact for fact in xids if fact.device == device and fact.value in (13, 31)]
        most = max(own, key=lambda fact: times(fact.attrs))
        attrs = {name: most.attrs[name] for name in ("gpc", "tpc", "pids", "names") if name in most.attrs}
        attrs |= {"xid": most.value, "count": sum(times(fact.attrs) for fact in own), "gpus": len(said)}
        found.append(replace(most, key="kernel.xid_repeat", value=how, attrs=attrs))
    return found


def _name(fact: Fact, current: str) -> tuple[object, ...]:
    apart = tuple(str(fact.attrs.get(name)) for name in APART)
    return fact.key, fact.device, repr(fact.value), fact.status, boot_name(fact.boot_id) or current, *apart


def _without_empty(facts: Sequence[Fact]) -> list[Fact]:
    """ "No Xid here" falls away where the other log has one of this boot; so does an empty journal where the ring was read."""
    logs = [fact for fact in facts if fact.key.startswith(EVENTS)]
    xids = any(fact.key == "kernel.xid" and fact.status is Status.OK and not fact.stale for fact in logs)
    return [
        fact
        for fact in facts
        if not (xids and fact.key == "kernel.xid" and fact.status is Status.ABSENT)
        and not (logs and not fact.key and fact.status is Status.UNREADABLE and fact.line.startswith("empty output"))
    ]


def _joined(one: Fact, other: Fact) -> Fact:
    """The same thing seen in both logs: the larger count, the wider span, every process."""
    attrs = merged([one.attrs, other.attrs])
    attrs["count"] = max(times(one.attrs), times(other.attrs))
    for name, pick in _SPAN.items():
        told = [str(row[name]) for row in (one.attrs, other.attrs) if name in row]
        attrs |= {name: pick(told, key=datetime.fromisoformat)} if told else {}
    for name in ("pid", "name", "tpc", "gpc"):
        distinct = list(dict.fromkeys([*_listed(one.attrs, name), *_listed(other.attrs, name)]))
        if len(distinct) > 1:
            attrs.pop(name, None)
            attrs[f"{name}s"] = distinct[:_MOST]
    moments = [fact.time for fact in (one, other) if fact.time and "first" in fact.attrs]
    return replace(one, attrs=attrs, time=min(moments, default=one.time), boot_id=one.boot_id or other.boot_id)


def _listed(attrs: Mapping[str, Any], name: str) -> Iterable[Any]:
    return [*attrs.get(f"{name}s", []), *([attrs[name]] if name in attrs else [])]


def _aged(fact: Fact, current: str, booted_at: datetime | None) -> Fact:
    if not fact.key.startswith(EVENTS) or fact.status is not Status.OK:
        return fact
    boot = boot_name(fact.boot_id)
    if boot and current:
        return replace(fact, stale=boot != current)
    last = fact.attrs.get("last")
    if booted_at and isinstance(last, str) and datetime.fromisoformat(last) < booted_at:
        return replace(fact, stale=True)
    return fact


def _latest_boot(facts: Sequence[Fact]) -> str:
    dated = [(str(fact.attrs.get("last", "")), boot_name(fact.boot_id)) for fact in facts if fact.boot_id and fact.key.startswith(EVENTS)]
    return max(dated, default=("", ""))[1]
