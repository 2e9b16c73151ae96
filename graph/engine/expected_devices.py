"""Find events of devices that a machine does not have, and hosts that are not meant to have GPUs.

An event of an unknown device supports no cause and is reported as a note: anyone can write a log line with an unknown
address, and it must not make a healthy machine look faulty. Known devices are those that tools list and those of a
fitting profile, so a GPU that fell off the bus is still known.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from kb.fact_keys import find_key
from kb.pci_address import normalize_bdf
from tools.fact import Fact, Status, Value

# facts that a host without GPUs and a host with lost GPUs both show
NO_GPU_VALUES = {"pcie.gpu_count": 0, "kernel.nvidia_absent": True}
# keys whose values show GPUs, or a driver for them
GPU_SIGN_KEYS = ("gpu.bdf", "gpu.count", "pcie.gpu_count", "driver.module_version", "driver.installed_version", "smi.error")
KERNEL_KEY_PREFIX = "kernel."
ELSEWHERE_ATTRIBUTE = "elsewhere"  # marks facts that do not count for this machine
UNLISTED: Final = "unlisted"
DEVICE_LIST_KEYS = ("gpu.bdf", "pcie.rev_ff", "ib.bdf")  # keys with one fact per listed device
WHOLE_LIST_KEYS = ("pcie.nvswitches", "pcie.buses")  # keys with one lspci list per host


def drop_absence_of_gpus(
    facts: Sequence[Fact], expected: Callable[[str], Value], runs_jobs: Callable[[str], bool], kind: Callable[[str], str]
) -> list[Fact]:
    """Drop facts that say "no GPU here" of hosts that are not meant to have any.

    Such a host has no GPU, no driver and no profile with GPUs. It runs no jobs, or no host of its kind has GPUs while
    hosts of other kinds have them.
    """
    hosts_without_signs = {fact.host for fact in facts if _says_no_gpu(fact) and fact.status is Status.OK}
    hosts_with_signs = {fact.host for fact in facts if fact.key in GPU_SIGN_KEYS and fact.status is Status.OK and fact.value}
    gpu_kinds = {kind(host) for host in hosts_with_signs}
    hosts_without_gpus: set[str] = set()
    for host in hosts_without_signs - hosts_with_signs:
        is_other_kind = bool(gpu_kinds) and kind(host) not in gpu_kinds
        if host and expected(host) is None and (is_other_kind or not runs_jobs(host)):
            hosts_without_gpus.add(host)
    return [fact for fact in facts if not (fact.host in hosts_without_gpus and _says_no_gpu(fact))]


def _says_no_gpu(fact: Fact) -> bool:
    return fact.key in NO_GPU_VALUES and fact.value == NO_GPU_VALUES[fact.key]


@dataclass(slots=True)
class ListedDevices:
    """The addresses that one host's tools list: GPUs by nvidia-smi and by lspci, HCAs, and lspci's lists by key."""

    smi: set[str] = field(default_factory=set)
    pci: set[str] = field(default_factory=set)
    hcas: set[str] = field(default_factory=set)
    lists: dict[str, frozenset[str]] = field(default_factory=dict)

    def list_gpu_addresses(self, sku_addresses: frozenset[str], fleet_addresses: frozenset[str]) -> frozenset[str] | None:
        """Return all possible GPU addresses, or None if they are unknown.

        No tool lists a lost GPU, so those of the SKU and of other hosts are possible, too.
        """
        gpu_addresses = self.smi | self.pci
        if gpu_addresses and sku_addresses and gpu_addresses <= sku_addresses:
            return sku_addresses
        return frozenset(gpu_addresses | sku_addresses | fleet_addresses) if self.pci else None


KnownAddresses = frozenset[str] | None  # None: not known


@dataclass(frozen=True, slots=True)
class KnownDevices:
    """The known addresses of each host, and under "" those of all hosts together.

    Attributes:
        fully_listed_hosts: Hosts whose profile lists every possible GPU. On other hosts an unlisted GPU may be a lost one.
        complete_lists: Each (host, key) whose list lacks no device that another host's list has.
    """

    gpus: Mapping[str, KnownAddresses]
    hcas: Mapping[str, KnownAddresses]
    fully_listed_hosts: frozenset[str]
    switches: Mapping[str, KnownAddresses] = field(default_factory=dict)
    buses: Mapping[str, KnownAddresses] = field(default_factory=dict)
    complete_lists: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def from_facts(cls, facts: Iterable[Fact], bus: Callable[[str], Sequence[str]], adapters: Callable[[str], object]) -> "KnownDevices":
        """Collect addresses. `bus(host)` is the SKU's bus table, `adapters(host)` its number of adapters."""
        hosts: dict[str, ListedDevices] = defaultdict(ListedDevices)
        for fact in facts:
            if fact.host and fact.status is Status.OK:
                _collect_addresses(hosts[fact.host], fact)
        fleet_addresses = frozenset().union(*(listed_devices.smi | listed_devices.pci for listed_devices in hosts.values()))
        sku_addresses = {host: frozenset(filter(None, map(normalize_bdf, bus(host)))) for host in hosts}
        gpus = {host: listed_devices.list_gpu_addresses(sku_addresses[host], fleet_addresses) for host, listed_devices in hosts.items()}
        hcas = {
            host: frozenset(listed_devices.hcas) if listed_devices.hcas and adapters(host) == len(listed_devices.hcas) else None
            for host, listed_devices in hosts.items()
        }
        fully_listed_hosts = frozenset(host for host, addresses in gpus.items() if addresses == sku_addresses[host])
        switches, buses = (_list_addresses_by_host(hosts, key) for key in WHOLE_LIST_KEYS)
        complete_lists = frozenset((host, key) for key in WHOLE_LIST_KEYS for host in _find_complete_lists(hosts, key))
        return cls(
            {**gpus, "": _merge_addresses(gpus.values())},
            {**hcas, "": _merge_addresses(hcas.values())},
            fully_listed_hosts,
            switches,
            buses,
            complete_lists,
        )

    def is_unknown_device(self, fact: Fact) -> bool:
        """Return whether the fact's address belongs to no device of its host (of any host, for a fact without one)."""
        fact_key = find_key(fact.key)
        if fact_key is None or not fact.device:
            return False
        known_addresses = self._get_known_addresses(fact_key.scope).get(fact.host)
        if known_addresses is None:
            return False
        address = normalize_bdf(_get_address(fact))
        if address is None:
            return False
        return address not in known_addresses and address.rpartition(":")[0] not in known_addresses

    def _get_known_addresses(self, scope: str) -> Mapping[str, KnownAddresses]:
        return {"gpu": self.gpus, "hca": self.hcas, "nvswitch": self.switches, "bridge": self.buses}.get(scope, {})

    def get_certainty(self, fact: Fact) -> Literal[True, "unlisted"]:
        """Return True if the device cannot exist, and UNLISTED if no tool lists it, which is abnormal but no proof."""
        fact_key = find_key(fact.key)
        key = {"nvswitch": "pcie.nvswitches", "bridge": "pcie.buses"}.get(fact_key.scope if fact_key else "")
        is_complete = (fact.host, key) in self.complete_lists if key else fact.host in self.fully_listed_hosts
        return True if is_complete or not fact.host else UNLISTED


def _get_address(fact: Fact) -> str:
    """Return the address; an NVSwitch event carries it in `attrs`."""
    return str(fact.attrs.get("bdf", "")) if fact.key == "kernel.sxid" else fact.device or ""


def _list_addresses_by_host(hosts: Mapping[str, ListedDevices], key: str) -> dict[str, KnownAddresses]:
    """Return the union of all lists for each host with a list, as other hosts still list what one lost; else None."""
    all_addresses = frozenset().union(*(listed_devices.lists.get(key, frozenset()) for listed_devices in hosts.values()))
    addresses_by_host: dict[str, KnownAddresses] = {
        host: all_addresses if key in listed_devices.lists else None for host, listed_devices in hosts.items()
    }
    return {**addresses_by_host, "": _merge_addresses(addresses_by_host.values())}


def _find_complete_lists(hosts: Mapping[str, ListedDevices], key: str) -> list[str]:
    addresses_by_host = {host: listed_devices.lists[key] for host, listed_devices in hosts.items() if key in listed_devices.lists}
    all_addresses = frozenset().union(*addresses_by_host.values())
    if len(addresses_by_host) < 2:
        return []
    return [host for host, addresses in addresses_by_host.items() if addresses == all_addresses]


def _merge_addresses(addresses_of_hosts: Collection[KnownAddresses]) -> KnownAddresses:
    """Return the union of all addresses, or None if those of a host are unknown."""
    known_addresses = [addresses for addresses in addresses_of_hosts if addresses is not None]
    if not known_addresses or len(known_addresses) < len(addresses_of_hosts):
        return None
    return frozenset().union(*known_addresses)


def _collect_addresses(listed: ListedDevices, fact: Fact) -> None:
    if fact.key in WHOLE_LIST_KEYS and isinstance(fact.value, list | tuple):
        listed.lists[fact.key] = listed.lists.get(fact.key, frozenset()) | frozenset(map(str, fact.value))
    elif fact.key in DEVICE_LIST_KEYS:
        addresses = {"gpu.bdf": listed.smi, "ib.bdf": listed.hcas, "pcie.rev_ff": listed.pci}[fact.key]
        address = normalize_bdf(str(fact.attrs.get("bdf", fact.device) if fact.key == "pcie.rev_ff" else fact.value))
        if address is not None:
            addresses.add(address)


def mark_unlisted_devices(facts: Sequence[Fact], devices: KnownDevices) -> list[Fact]:
    """Return the facts with events of unknown devices marked."""
    return [
        replace(fact, attrs={**fact.attrs, ELSEWHERE_ATTRIBUTE: devices.get_certainty(fact)})
        if fact.key.startswith(KERNEL_KEY_PREFIX) and devices.is_unknown_device(fact)
        else fact
        for fact in facts
    ]


def list_uncounted_events(facts: Iterable[Fact]) -> list[tuple[str, str, str]]:
    """Return a (host, check, text) for each host and check with marked events."""
    events_by_host: dict[tuple[str, str], set[str]] = defaultdict(set)
    for fact in facts:
        if fact.host and fact.key.startswith(KERNEL_KEY_PREFIX) and fact.attrs.get(ELSEWHERE_ATTRIBUTE):
            events_by_host[fact.host, fact.check].add(_get_address(fact))
    return [
        (host, check, f"events at {_format_addresses(names)} count for nothing: it has no such device")
        for (host, check), names in events_by_host.items()
    ]


def _format_addresses(addresses: set[str]) -> str:
    names = ", ".join(sorted(addresses)[:2])
    return f"{names} and {len(addresses) - 2} other addresses" if len(addresses) > 2 else names
