"""Facts that no single check can state, because they compare hosts, GPUs or checks with each other. Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from kb.xid import repeats
from tools.devices import missing_gpus
from tools.fact import Fact, Status

REPEATING = (13, 31)
"""Xids that a program causes as readily as a broken GPU: only their pattern tells."""


def derived(facts: Sequence[Fact], bus: Callable[[str], Sequence[str]]) -> list[Fact]:
    """Everything that follows from the facts together. `bus(host)` is the SKU's bus table, empty where unknown."""
    return [*unreachable(facts), *xid_patterns(facts), *absent_gpus(facts, bus)]


def unreachable(facts: Sequence[Fact]) -> list[Fact]:
    """One fact for each host that no session reached while another host was seen. When none was seen, the fault may be ours."""
    silent = {f.host: f for f in facts if f.status is Status.UNREACHABLE and f.host}
    seen = {f.host for f in facts if f.host and not f.status.blind}
    if not seen:
        return []
    return [
        Fact(check="ssh", key="host.reachable", value=False, line=fact.line, host=host, time=fact.time)
        for host, fact in sorted(silent.items())
        if host not in seen
    ]


@dataclass(frozen=True, slots=True)
class _Sighting:
    """An Xid as `kb.xid` reads it, its GPU named with its host."""

    kind: str
    value: Any
    device: str | None
    time: datetime | None
    boot_id: str
    attrs: Mapping[str, Any]


def xid_patterns(facts: Iterable[Fact]) -> list[Fact]:
    """Whether such Xids stay with one GPU (and one part of it) or are scattered over those of the job.

    A check tells it of its own host; here the hosts are taken together.
    """
    facts = list(facts)
    told = {fact.host for fact in facts if fact.key == "kernel.xid_repeat"}
    seen = {
        f"{fact.host}/{fact.device}": fact
        for fact in facts
        if fact.key == "kernel.xid" and fact.value in REPEATING and fact.status is Status.OK and fact.host and fact.device and _counts(fact)
    }
    patterns = repeats(_Sighting("kernel.xid", f.value, name, f.time, f.boot_id, f.attrs) for name, f in seen.items())
    return [
        replace(seen[name], key="kernel.xid_repeat", value=pattern, attrs={**seen[name].attrs, "xid": seen[name].value, "gpus": len(seen)})
        for name, pattern in patterns.items()
        if seen[name].host not in told
    ]


def _counts(fact: Fact) -> bool:
    return not fact.stale and not fact.attrs.get("sympathetic")


def absent_gpus(facts: Iterable[Fact], bus: Callable[[str], Sequence[str]]) -> list[Fact]:
    """GPUs that a host should have and that nvidia-smi or lspci does not list."""
    by_host: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        if fact.host:
            by_host[fact.host].append(fact)
    found: list[Fact] = []
    for host, own in by_host.items():
        if not any(fact.key in ("gpu.missing", "pcie.absent") for fact in own):
            source = {fact.check: fact for fact in own if fact.key in ("gpu.bdf", "pcie.rev_ff")}
            found += [_placed(gone, host, source.get(gone.check)) for gone in missing_gpus(own, bus(host))]
    return found


def _placed(gone: Fact, host: str, source: Fact | None) -> Fact:
    return replace(gone, host=host, time=source.time if source else None, sha256=source.sha256 if source else "")
