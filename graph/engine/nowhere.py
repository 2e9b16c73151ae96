"""Events of devices that a machine does not have: they speak for nothing, and are told as a note. Pure.

Which devices there are, nvidia-smi, lspci and ibstat say, and the profile of a machine that fits what they list: a GPU that fell off the bus is
one that it has. A line that names any other address, whoever wrote it, must not convict a healthy machine.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kb.address import bdf
from kb.keys import find
from tools.fact import Fact, Status

KERNEL = "kernel."
ELSEWHERE = "elsewhere"
"""The attribute of facts that say nothing of this machine's part in the incident."""


LISTS = ("gpu.bdf", "pcie.rev_ff", "ib.bdf")
"""Keys of what tools list."""


@dataclass(slots=True)
class Listed:
    """What one host's tools list, by address."""

    smi: set[str] = field(default_factory=set)
    pci: set[str] = field(default_factory=set)
    hcas: set[str] = field(default_factory=set)

    def gpus(self, table: frozenset[str], everywhere: frozenset[str]) -> frozenset[str] | None:
        """All addresses at which it may have GPUs; None where that is not known: a GPU that is gone is listed by no tool."""
        seen = self.smi | self.pci
        if seen and table and seen <= table:
            return table
        return frozenset(seen | table | everywhere) if self.pci else None


@dataclass(frozen=True, slots=True)
class Devices:
    """What there is, host by host. `bus(host)` is the SKU's bus table, `adapters(host)` how many its SKU has."""

    hosts: Mapping[str, Listed]
    bus: Callable[[str], Sequence[str]]
    adapters: Callable[[str], object]

    @classmethod
    def of(cls, facts: Iterable[Fact], bus: Callable[[str], Sequence[str]], adapters: Callable[[str], object]) -> "Devices":
        hosts: dict[str, Listed] = defaultdict(Listed)
        for fact in facts:
            if fact.key in LISTS and fact.host and fact.status is Status.OK:
                _list(hosts[fact.host], fact)
        return cls(dict(hosts), bus, adapters)

    def unknown_at(self, fact: Fact) -> bool:
        """Whether the fact is of a device, known by its address alone, that its host does not have; of no host: that none of them has."""
        row = find(fact.key)
        if row is None or row.scope not in ("gpu", "hca") or not fact.device:
            return False
        address = bdf(fact.device)
        if address is None or not self.hosts:
            return False
        places = [self._places(host, row.scope) for host in ([fact.host] if fact.host else self.hosts)]
        return all(known is not None and address not in known for known in places)

    def _places(self, host: str, scope: str) -> frozenset[str] | None:
        listed = self.hosts.get(host)
        if listed is None:
            return None
        if scope == "hca":
            whole = bool(listed.hcas) and self.adapters(host) == len(listed.hcas)
            return frozenset(listed.hcas) if whole else None
        return listed.gpus(frozenset(filter(None, map(bdf, self.bus(host)))), self._everywhere())

    def _everywhere(self) -> frozenset[str]:
        return frozenset().union(*(row.smi | row.pci for row in self.hosts.values()))


def _list(listed: Listed, fact: Fact) -> None:
    match fact.key:
        case "gpu.bdf":
            listed.smi.add(str(fact.value))
        case "ib.bdf":
            listed.hcas.add(str(fact.value))
        case _:
            listed.pci.add(str(fact.attrs.get("bdf", fact.device)))


def mark_nowhere(facts: Sequence[Fact], devices: Devices) -> list[Fact]:
    """Events of devices that no such machine has, marked."""
    return [
        replace(fact, attrs={**fact.attrs, ELSEWHERE: True}) if fact.key.startswith(KERNEL) and devices.unknown_at(fact) else fact
        for fact in facts
    ]


def notes(facts: Iterable[Fact]) -> list[tuple[str, str, str]]:
    """(host, check, what was not counted), one a host and check."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for fact in facts:
        if fact.host and fact.key.startswith(KERNEL) and fact.attrs.get(ELSEWHERE):
            found[fact.host, fact.check].add(fact.device or "")
    return [(host, check, f"events at {_some(names)} count for nothing: it has no such device") for (host, check), names in found.items()]


def _some(names: set[str]) -> str:
    first = sorted(names)[:2]
    return f"{', '.join(first)}{f' and {len(names) - 2} other addresses' if len(names) > 2 else ''}"
