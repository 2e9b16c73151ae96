"""Which devices a machine has: hosts that are not meant to have GPUs, and events of devices that a machine does not have. Pure."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from kb.fact_keys import find_key
from kb.pci_address import normalize_bdf
from tools.fact import Fact, Status, Value

# Hosts that are not meant to have GPUs: controllers, login nodes, storage.

# facts that a host without GPUs and a host with lost GPUs both show
NO_GPU_VALUES = {"pcie.gpu_count": 0, "kernel.nvidia_absent": True}
# a value of one of these shows GPUs, or a driver for them
GPU_SIGN_KEYS = ("gpu.bdf", "gpu.count", "pcie.gpu_count", "driver.module_version", "driver.installed_version", "smi.error")


def drop_absence_of_gpus(
    facts: Sequence[Fact], expected: Callable[[str], Value], runs_jobs: Callable[[str], bool], kind: Callable[[str], str]
) -> list[Fact]:
    """Drop "no GPU here" facts of hosts not meant to have any.

    These have no driver, no GPU and no profile with GPUs, and run no jobs or are of a kind without GPUs while other
    kinds have them.
    """
    absent = {
        fact.host for fact in facts if fact.key in NO_GPU_VALUES and fact.status is Status.OK and fact.value == NO_GPU_VALUES[fact.key]
    }
    signs = {fact.host for fact in facts if fact.key in GPU_SIGN_KEYS and fact.status is Status.OK and fact.value}
    kinds = {kind(host) for host in signs}
    hosts_without_gpus = {
        host
        for host in absent - signs
        if host and expected(host) is None and (not runs_jobs(host) or (bool(kinds) and kind(host) not in kinds))
    }
    return [
        fact
        for fact in facts
        if not (fact.host in hosts_without_gpus and fact.key in NO_GPU_VALUES and fact.value == NO_GPU_VALUES[fact.key])
    ]


# Events of devices that a machine does not have: they support nothing and are reported as a note. Pure.
#
# A line with an unknown address, by any author, must not convict a healthy machine. Known are devices that tools list,
# and those of a fitting profile: a GPU that fell off the bus is still known.

KERNEL_KEY_PREFIX = "kernel."
ELSEWHERE_ATTRIBUTE = "elsewhere"  # marks facts that do not count for this machine
UNLISTED: Final = "unlisted"
DEVICE_LIST_KEYS = ("gpu.bdf", "pcie.rev_ff", "ib.bdf")  # keys with one fact per listed device
WHOLE_LIST_KEYS = ("pcie.nvswitches", "pcie.buses")  # keys with one lspci list per host


@dataclass(slots=True)
class ListedDevices:
    """Addresses that one host's tools list."""

    smi: set[str] = field(default_factory=set)
    pci: set[str] = field(default_factory=set)
    hcas: set[str] = field(default_factory=set)
    whole: dict[str, frozenset[str]] = field(default_factory=dict)

    def list_gpu_addresses(self, table: frozenset[str], everywhere: frozenset[str]) -> frozenset[str] | None:
        """Return all possible GPU addresses, or None if unknown: no tool lists a lost GPU."""
        gpu_addresses = self.smi | self.pci
        if gpu_addresses and table and gpu_addresses <= table:
            return table
        return frozenset(gpu_addresses | table | everywhere) if self.pci else None


KnownAddresses = frozenset[str] | None  # None: not known


@dataclass(frozen=True, slots=True)
class KnownDevices:
    """Known addresses by host, and under "" for all hosts together."""

    gpus: Mapping[str, KnownAddresses]
    hcas: Mapping[str, KnownAddresses]
    whole: frozenset[str]  # hosts whose profile lists every possible GPU; on others an unlisted one may be lost
    switches: Mapping[str, KnownAddresses] = field(default_factory=dict)
    buses: Mapping[str, KnownAddresses] = field(default_factory=dict)
    complete: frozenset[tuple[str, str]] = frozenset()  # (host, key) of lists that lack nothing another host's list has

    @classmethod
    def from_facts(cls, facts: Iterable[Fact], bus: Callable[[str], Sequence[str]], adapters: Callable[[str], object]) -> "KnownDevices":
        """Collect addresses. `bus(host)` is the SKU's bus table, `adapters(host)` its number of adapters."""
        hosts: dict[str, ListedDevices] = defaultdict(ListedDevices)
        for fact in facts:
            if fact.host and fact.status is Status.OK:
                _collect_addresses(hosts[fact.host], fact)
        everywhere = frozenset().union(*(row.smi | row.pci for row in hosts.values()))
        tables = {host: frozenset(filter(None, map(normalize_bdf, bus(host)))) for host in hosts}
        gpus = {host: row.list_gpu_addresses(tables[host], everywhere) for host, row in hosts.items()}
        hcas = {host: frozenset(row.hcas) if row.hcas and adapters(host) == len(row.hcas) else None for host, row in hosts.items()}
        completely_listed_hosts = frozenset(host for host, places in gpus.items() if places is not None and places == tables[host])
        switches, buses = (_list_addresses_by_host(hosts, key) for key in WHOLE_LIST_KEYS)
        complete = frozenset((host, key) for key in WHOLE_LIST_KEYS for host in _find_complete_lists(hosts, key))
        return cls(
            {**gpus, "": _merge_addresses(gpus.values())},
            {**hcas, "": _merge_addresses(hcas.values())},
            completely_listed_hosts,
            switches,
            buses,
            complete,
        )

    def is_unknown_device(self, fact: Fact) -> bool:
        """Return whether the fact's address belongs to no device of its host (of any host, for a fact without one)."""
        row = find_key(fact.key)
        known_addresses = self._get_known_addresses(row.scope).get(fact.host) if row is not None and fact.device else None
        address = normalize_bdf(_get_address(fact)) if known_addresses is not None else None
        if known_addresses is None or address is None:
            return False
        return address not in known_addresses and address.rpartition(":")[0] not in known_addresses

    def _get_known_addresses(self, scope: str) -> Mapping[str, KnownAddresses]:
        return {"gpu": self.gpus, "hca": self.hcas, "nvswitch": self.switches, "bridge": self.buses}.get(scope, {})

    def get_certainty(self, fact: Fact) -> Literal[True, "unlisted"]:
        """Return True if the device cannot exist; UNLISTED if no tool lists it: abnormal, but no proof."""
        row = find_key(fact.key)
        key = {"nvswitch": "pcie.nvswitches", "bridge": "pcie.buses"}.get(row.scope if row else "")
        sure = (fact.host, key) in self.complete if key else fact.host in self.whole
        return True if sure or not fact.host else UNLISTED


def _get_address(fact: Fact) -> str:
    """Return the address; an NVSwitch event carries it in `attrs`."""
    return str(fact.attrs.get("bdf", "")) if fact.key == "kernel.sxid" else fact.device or ""


def _list_addresses_by_host(hosts: Mapping[str, ListedDevices], key: str) -> dict[str, KnownAddresses]:
    """Return the union of all lists per host, as others still list what one lost; None for a host without a list."""
    all_addresses = frozenset().union(*(row.whole.get(key, frozenset()) for row in hosts.values()))
    addresses_by_host: dict[str, KnownAddresses] = {host: all_addresses if key in row.whole else None for host, row in hosts.items()}
    return {**addresses_by_host, "": _merge_addresses(addresses_by_host.values())}


def _find_complete_lists(hosts: Mapping[str, ListedDevices], key: str) -> list[str]:
    lists = {host: row.whole[key] for host, row in hosts.items() if key in row.whole}
    all_addresses = frozenset().union(*lists.values())
    return [host for host, own in lists.items() if own == all_addresses] if len(lists) > 1 else []


def _merge_addresses(places: Collection[KnownAddresses]) -> KnownAddresses:
    known_places = [one for one in places if one is not None]
    return frozenset().union(*known_places) if known_places and len(known_places) == len(places) else None


def _collect_addresses(listed: ListedDevices, fact: Fact) -> None:
    if fact.key in WHOLE_LIST_KEYS and isinstance(fact.value, list | tuple):
        listed.whole[fact.key] = listed.whole.get(fact.key, frozenset()) | frozenset(map(str, fact.value))
    elif fact.key in DEVICE_LIST_KEYS:
        addresses_by_host = {"gpu.bdf": listed.smi, "ib.bdf": listed.hcas, "pcie.rev_ff": listed.pci}[fact.key]
        address = normalize_bdf(str(fact.attrs.get("bdf", fact.device) if fact.key == "pcie.rev_ff" else fact.value))
        if address is not None:
            addresses_by_host.add(address)


def mark_unlisted_devices(facts: Sequence[Fact], devices: KnownDevices) -> list[Fact]:
    """Return the facts, events of unknown devices marked."""
    return [
        replace(fact, attrs={**fact.attrs, ELSEWHERE_ATTRIBUTE: devices.get_certainty(fact)})
        if fact.key.startswith(KERNEL_KEY_PREFIX) and devices.is_unknown_device(fact)
        else fact
        for fact in facts
    ]


def list_uncounted_events(facts: Iterable[Fact]) -> list[tuple[str, str, str]]:
    """Return one (host, check, text) per host and check with marked events."""
    events_by_host: dict[tuple[str, str], set[str]] = defaultdict(set)
    for fact in facts:
        if fact.host and fact.key.startswith(KERNEL_KEY_PREFIX) and fact.attrs.get(ELSEWHERE_ATTRIBUTE):
            events_by_host[fact.host, fact.check].add(_get_address(fact))
    return [
        (host, check, f"events at {_format_addresses(names)} count for nothing: it has no such device")
        for (host, check), names in events_by_host.items()
    ]


def _format_addresses(names: set[str]) -> str:
    first = sorted(names)[:2]
    return f"{', '.join(first)}{f' and {len(names) - 2} other addresses' if len(names) > 2 else ''}"
