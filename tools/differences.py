"""Settings compared across hosts, for `rackmedic look` and for threads."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from kb.fact_keys import find_key
from tools.fact import Fact

HOST_SPECIFIC_KEYS: Final = frozenset(
    {
        "host.boot_id",
        "host.booted_at",
        "host.uptime",
        "gpu.uuid",
        "gpu.serial",
        "gpu.module",
        "ib.guid",
        "ib.lid",
        "job.log",
        "time.clock",
        "proc.listed",
        "fabric.leaf",
    }
)
SettingKey = tuple[str, str, str]  # group of comparable hosts, key, device


def is_comparable(fact: Fact) -> bool:
    """Return whether healthy hosts report the same: no measurement, host-specific name or tenant text."""
    fact_key = find_key(fact.key)
    if fact.key in HOST_SPECIFIC_KEYS or fact_key is None or fact_key.text:
        return False
    return not (fact_key.unit or fact.unit or fact_key.kind == "float" or isinstance(fact.value, float))


@dataclass(slots=True)
class ValuesByHost:
    """Each setting's values with their hosts. A set of hosts is a bit mask, so a thousand hosts stay cheap.

    `index` numbers the hosts; tables that share it share masks.
    """

    index: dict[str, int] = field(default_factory=dict)
    answered: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # mask of the hosts that answered, by group
    _reported: dict[SettingKey, dict[frozenset[str], int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))

    def get_mask(self, host: str) -> int:
        return 1 << self.index.setdefault(host, len(self.index))

    def add_host(self, group: str, host: str, values: Mapping[tuple[str, str], Collection[str]]) -> None:
        """Add one host's values by key and device; pass none if it answered without settings."""
        bit = self.get_mask(host)
        self.answered[group] |= bit
        for (key, device), value in values.items():
            self._reported[group, key, device][frozenset(value)] |= bit

    def iter_settings(self) -> Iterator[tuple[SettingKey, dict[frozenset[str], int]]]:
        """Yield each setting with its mask per value; hosts without it have the empty value."""
        for setting, values in self._reported.items():
            absent = self.answered[setting[0]]
            for mask in values.values():
                absent &= ~mask
            yield setting, {**values, frozenset(): absent} if absent else dict(values)

    def list_hosts(self, mask: int) -> list[str]:
        """Return the mask's hosts in the order in which they were added."""
        names = list(self.index)
        return [names[number] for number in iter_mask_bits(mask)]


def iter_mask_bits(mask: int) -> Iterator[int]:
    while mask:
        lowest_bit = mask & -mask
        yield lowest_bit.bit_length() - 1
        mask ^= lowest_bit
