"""What facts are read against: the taxonomy, the catalogue of checks, what each host should look like, and where it stands."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from kb.keys import find
from kb.taxonomy.labels import Leaf, Taxonomy
from tools.checks.row import Check
from tools.fact import Fact, Value
from tools.inventory.hosts import Inventory
from tools.inventory.sku import Sku, guess, product_of

Place = Literal["leaf", "rack"]
"""What hosts share: a leaf switch or a rack."""


def no_expectation(host: str, key: str, device: str | None) -> Value:
    """A host of no known SKU."""
    return None


def no_place(host: str, place: Place) -> str:
    """Nobody told where the hosts stand."""
    return ""


def no_bus(host: str) -> tuple[str, ...]:
    """Nobody told where the GPUs sit."""
    return ()


def one_kind(host: str) -> str:
    """All hosts are alike."""
    return ""


def every_host(host: str) -> bool:
    """Jobs run on every host."""
    return True


def no_stranger(host: str) -> str:
    """Every host has a profile."""
    return ""


@dataclass(frozen=True)
class Lens:
    """`expected(host, key, device)` is the SKU's value or None; `bus(host)` its bus table; `place(host, "rack")` the name of what
    hosts share, "" when unknown; `stranger(host)` the GPU model of a host that no profile fits, which its peers alone can speak for.
    """

    taxonomy: Taxonomy
    checks: Mapping[str, Check]
    expected: Callable[[str, str, str | None], Value] = no_expectation
    place: Callable[[str, Place], str] = no_place
    bus: Callable[[str], tuple[str, ...]] = no_bus
    stranger: Callable[[str], str] = no_stranger
    kind: Callable[[str], str] = one_kind
    """Hosts of which it says the same should be alike in all that is compared."""
    runs_jobs: Callable[[str], bool] = every_host
    """Whether jobs run on a host: a scheduler's controller needs no GPU."""

    def passive(self) -> list[Check]:
        """Checks that disturb nobody, cheapest first."""
        return list(self._passive)

    def establishing(self, key: str) -> list[Check]:
        """Checks that can set a key; a row `env.*` sets every `env.X`."""
        return [self.checks[name] for name in self._setters(key)]

    def decisive_keys(self, leaf: Leaf) -> list[str]:
        """Keys that can decide for a leaf, or where none proves it those that show it. What a tenant can write decides nothing about a machine, so
        it is left out there."""
        keys = dict.fromkeys(clue.key for clue in leaf.evidence if clue.decisive and clue.weight > 0)
        keys = keys or dict.fromkeys(clue.key for clue in leaf.evidence if clue.weight > 0)
        return [key for key in keys if may_be_text(leaf) or not is_text(key)]

    def deciding(self, leaf: Leaf) -> list[Check]:
        """Passive checks that can decide for a leaf."""
        names = {name for key in self.decisive_keys(leaf) for name in self._setters(key)}
        return [check for check in self._passive if check.id in names]

    @cached_property
    def _passive(self) -> list[Check]:
        return sorted((c for c in self.checks.values() if not c.exclusive and c.scope == "host"), key=lambda c: (c.seconds, c.id))

    @cached_property
    def _setters(self) -> Callable[[str], tuple[str, ...]]:
        return _setters(tuple((name, check.establishes) for name, check in self.checks.items()))


@lru_cache(maxsize=8)
def _setters(catalogue: tuple[tuple[str, tuple[str, ...]], ...]) -> Callable[[str], tuple[str, ...]]:
    """Key → the checks of a catalogue that can set it. There are few keys and fewer catalogues, and every assessment asks for all."""

    @lru_cache(maxsize=1 << 12)
    def setters(key: str) -> tuple[str, ...]:
        return tuple(name for name, haves in catalogue if any(_covers(have, key) for have in haves))

    return setters


def _covers(have: str, key: str) -> bool:
    return have == key or (have.endswith(".*") and key.startswith(have[:-1])) or (key.endswith(".*") and have.startswith(key[:-1]))


def is_text(key: str) -> bool:
    """Whether a tenant can write the value: log text, environment, process names. Unknown keys are not trusted."""
    row = find(key)
    return row is None or row.text


def may_be_text(leaf: Leaf) -> bool:
    """Labels that what the tenant wrote may prove: they accuse no machine."""
    if leaf.category == "OTHER":
        return leaf.scope in ("job", "cluster") and leaf.label.startswith(("OTHER.SERVICE.", "OTHER.SCHED."))
    return leaf.category in ("USER", "FRAMEWORK") or leaf.scope == "job"


def strangers(profile: Callable[[str], Sku | None], facts: Iterable[Fact]) -> Callable[[str], str]:
    """The model that a host names where there is no profile of it."""
    by_host: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        if fact.host and fact.key == "gpu.product":
            by_host[fact.host].append(fact)

    def stranger(host: str) -> str:
        return "" if profile(host) else product_of(by_host[host])

    return stranger


def profiles(inventory: Inventory, skus: Mapping[str, Sku], facts: Iterable[Fact]) -> Callable[[str], Sku | None]:
    """The SKU of each host: the inventory's word first, else the profile that fits what the host shows."""
    by_host: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        if fact.host and fact.key in ("gpu.product", "gpu.bdf"):
            by_host[fact.host].append(fact)
    found: dict[str, Sku | None] = {}

    def profile(host: str) -> Sku | None:
        if host not in found:
            row = inventory.hosts.get(host)
            found[host] = skus.get(row.sku if row else "") or guess(by_host[host], skus)
        return found[host]

    return profile
