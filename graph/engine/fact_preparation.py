"""Prepare facts for weighing: one name per GPU, shared and old events marked. Pure.

Sets `attrs` of events: `hosts_with_same` and `devices_with_same` (how many show this key and value), `aged` and
`chronic` (`graph.engine.fact_history`), `elsewhere` (the host lacks the device); of adapters: `elsewhere` (another kind of
network than most).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from graph.engine.derived_facts import add_daily_rates, derive_facts
from graph.engine.expected_devices import KnownDevices, mark_unlisted_devices
from graph.engine.fact_history import EVENT_KEY_PREFIXES, mark_age
from kb.pci_address import normalize_bdf
from tools.checks.services import FABRIC_MANAGER, NEEDED_UNITS
from tools.fact import Fact, Status

MIN_ADAPTERS = 3  # adapters of a host needed for a majority

PORT_KEYS = ("ib.state", "ib.phys_state", "ib.rate", "ib.sm_lid", "ib.pkeys")  # keys about the network behind a port

# kernel events of adapters, which may name only a PCI address
HCA_EVENT_KEY_PREFIXES = ("kernel.mlx5", "kernel.ib_link")


def prepare_facts(
    facts: Iterable[Fact],
    opened: datetime | None = None,
    bus: Callable[[str], Sequence[str]] = lambda host: (),
    adapters: Callable[[str], object] = lambda host: None,
    kind: Callable[[str], str] = lambda host: "",
) -> list[Fact]:
    """Return the facts as the engine weighs them, unobserved ones included.

    `bus(host)` is the SKU's bus table, `adapters(host)` its number of adapters; hosts of one `kind` should be alike.
    """
    listed = _mark_stopped_services(list(facts), kind)
    named_facts = _mark_other_networks(_name_hcas(_name_gpus(listed)))
    named_facts = add_daily_rates(mark_unlisted_devices(named_facts, KnownDevices.from_facts(listed, bus, adapters)))
    return mark_age(_mark_shared_events([*named_facts, *derive_facts(named_facts, bus, kind)]), opened)


def _mark_stopped_services(facts: list[Fact], kind: Callable[[str], str] = lambda host: "") -> list[Fact]:
    """Mark a service as stopped if most hosts of its kind run it, or if it is slurmd and the scheduler knows the host.

    A host unknown to the scheduler needs none; a fabric manager that reports nothing to do exits on its own.
    """
    needless = {fact.host for fact in facts if fact.key == "service.event" and fact.value == "fm_nothing_to_do"}
    ended = {
        id(f) for f in facts if f.key == "service.state" and f.device == FABRIC_MANAGER and f.value == "inactive" and f.host in needless
    }
    states = [fact for fact in facts if fact.key == "service.state" and fact.device in NEEDED_UNITS and fact.status is Status.OK]
    idle = [fact for fact in states if fact.value == "inactive" and not fact.attrs.get("trouble") and id(fact) not in ended]
    is_running_by_host = {fact.host: fact.status is Status.OK and str(fact.value).isupper() for fact in facts if fact.key == "sched.state"}
    counts = Counter((kind(fact.host), fact.device, fact.value == "active") for fact in states)

    def is_missed(fact: Fact) -> bool:
        runs, stopped = (counts[kind(fact.host), fact.device, active] for active in (True, False))
        return is_running_by_host.get(fact.host, True) and (
            (fact.device == "slurmd" and fact.host in is_running_by_host) or runs > max(1, stopped)
        )

    marks: dict[int, dict[str, object]] = {key: {"needless": True} for key in ended}
    marks |= {id(fact): {"trouble": "stopped"} for fact in idle if is_missed(fact)}
    return [replace(f, attrs={**f.attrs, **marks[id(f)]}) if id(f) in marks else f for f in facts] if marks else facts


def _name_gpus(facts: Sequence[Fact]) -> list[Fact]:
    """Replace a PCI address by gpuN where a fact of the host names it."""
    names = {(f.host, str(f.value).lower()): f.device for f in facts if f.key == "gpu.bdf" and f.device}
    return [replace(f, device=names[(f.host, f.device.lower())]) if f.device and (f.host, f.device.lower()) in names else f for f in facts]


def _name_hcas(facts: Sequence[Fact]) -> list[Fact]:
    """Name an HCA that the kernel knows by address: by the name all hosts use there, else the only missing name."""
    listed: dict[str, set[str]] = defaultdict(set)
    for fact in facts:
        if fact.key == "ib.state" and fact.device and fact.host:
            listed[fact.host].add(fact.device)
    everywhere = set().union(*listed.values())
    missing = {host: everywhere - names for host, names in listed.items()}
    lone = {host: next(iter(names)) for host, names in missing.items() if len(names) == 1}
    names = _find_names_by_address(facts)

    def name(fact: Fact) -> str:
        return (names.get(fact.device or "") or lone.get(fact.host, "")) if normalize_bdf(fact.device or "") is not None else ""

    return [
        replace(f, device=called, attrs={**f.attrs, "bdf": f.device})
        if f.key.startswith(HCA_EVENT_KEY_PREFIXES) and (called := name(f))
        else f
        for f in facts
    ]


def _find_names_by_address(facts: Sequence[Fact]) -> dict[str, str]:
    names: dict[str, set[str]] = defaultdict(set)
    for fact in facts:
        if fact.key == "ib.bdf" and fact.status is Status.OK and fact.device:
            names[str(fact.value)].add(fact.device)
    return {address: next(iter(called)) for address, called in names.items() if len(called) == 1}


def _mark_other_networks(facts: Sequence[Fact]) -> list[Fact]:
    """Mark the minority link layer: its ports say nothing of the network that jobs compute over."""
    layers: dict[str, dict[str, str]] = defaultdict(dict)
    for fact in facts:
        if fact.key == "ib.link_layer" and fact.host and fact.device and fact.status is Status.OK:
            layers[fact.host][fact.device] = str(fact.value)
    other = {
        (host, device)
        for host, rows in layers.items()
        for device, layer in rows.items()
        if len(rows) >= MIN_ADAPTERS and 2 * list(rows.values()).count(layer) < len(rows)
    }
    return [
        replace(f, attrs={**f.attrs, "elsewhere": True}) if f.key in PORT_KEYS and (f.host, f.device or "") in other else f for f in facts
    ]


def _mark_shared_events(facts: Sequence[Fact]) -> list[Fact]:
    hosts: dict[tuple[str, str], set[str]] = defaultdict(set)
    devices: dict[tuple[str, str], set[tuple[str, str | None]]] = defaultdict(set)
    kinds = [_get_event_key(fact) if _is_shareable(fact) else None for fact in facts]
    for fact, kind in zip(facts, kinds, strict=True):
        if kind:
            hosts[kind].add(fact.host)
            devices[kind].add((fact.host, fact.device))
    return [
        replace(f, attrs={**f.attrs, "hosts_with_same": len(hosts[kind]), "devices_with_same": len(devices[kind])}) if kind else f
        for f, kind in zip(facts, kinds, strict=True)
    ]


def _is_shareable(fact: Fact) -> bool:
    return fact.key.startswith(EVENT_KEY_PREFIXES) and fact.status is Status.OK and not fact.stale and not fact.attrs.get("elsewhere")


def _get_event_key(fact: Fact) -> tuple[str, str]:
    return fact.key, repr(fact.value)
