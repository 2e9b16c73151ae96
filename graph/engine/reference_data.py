"""What facts are read against: the taxonomy, the catalogue of checks, what each host should look like, and where it stands."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from kb.fact_keys import find_key
from kb.taxonomy.taxonomy import Leaf, Taxonomy
from tools.checks.check import Check
from tools.fact import Fact, Value
from tools.inventory.inventory import Inventory
from tools.inventory.sku import Sku, find_product, guess_sku

PlaceKind = Literal["leaf", "rack"]
"""What hosts share: a leaf switch or a rack."""


def no_expectation(host: str, key: str, device: str | None) -> Value:
    """A host of no known SKU."""
    return None


def no_place(host: str, place: PlaceKind) -> str:
    """Nobody told where the hosts stand."""
    return ""


def no_bus(host: str) -> tuple[str, ...]:
    """Nobody told where the GPUs sit."""
    return ()


def no_kind(host: str) -> str:
    """All hosts are alike."""
    return ""


def no_job_restriction(host: str) -> bool:
    """Jobs run on every host."""
    return True


def no_unprofiled_model(host: str) -> str:
    """Every host has a profile."""
    return ""


@dataclass(frozen=True)
class ReferenceData:
    """`expected(host, key, device)` is the SKU's value or None; `bus(host)` its bus table; `place(host, "rack")` the name of what
    hosts share, "" when unknown; `stranger(host)` the GPU model of a host that no profile fits, which its peers alone can speak for.
    """

    taxonomy: Taxonomy
    checks: Mapping[str, Check]
    expected: Callable[[str, str, str | None], Value] = no_expectation
    place: Callable[[str, PlaceKind], str] = no_place
    bus: Callable[[str], tuple[str, ...]] = no_bus
    stranger: Callable[[str], str] = no_unprofiled_model
    kind: Callable[[str], str] = no_kind
    """Hosts of which it says the same should be alike in all that is compared."""
    runs_jobs: Callable[[str], bool] = no_job_restriction
    """Whether jobs run on a host: a scheduler's controller needs no GPU."""

    def list_passive_checks(self) -> list[Check]:
        """Checks that disturb nobody, cheapest first."""
        return list(self._passive_checks)

    def list_establishing_checks(self, key: str) -> list[Check]:
        """Checks that can set a key; a row `env.*` sets every `env.X`."""
        return [self.checks[name] for name in self._find_setters(key)]

    def list_decisive_keys(self, leaf: Leaf) -> list[str]:
        """Keys that can decide for a leaf, or where none proves it those that show it. What a tenant can write decides nothing about a machine, so
        it is left out there."""
        keys = dict.fromkeys(clue.key for clue in leaf.evidence if clue.decisive and clue.weight > 0)
        keys = keys or dict.fromkeys(clue.key for clue in leaf.evidence if clue.weight > 0)
        return [key for key in keys if can_be_proven_by_text(leaf) or not is_tenant_writable(key)]

    def list_deciding_checks(self, leaf: Leaf) -> list[Check]:
        """Passive checks that can decide for a leaf."""
        names = {name for key in self.list_decisive_keys(leaf) for name in self._find_setters(key)}
        return [check for check in self._passive_checks if check.id in names]

    @cached_property
    def _passive_checks(self) -> list[Check]:
        return sorted((c for c in self.checks.values() if not c.exclusive and c.scope == "host"), key=lambda c: (c.seconds, c.id))

    @cached_property
    def _find_setters(self) -> Callable[[str], tuple[str, ...]]:
        return _index_setters(tuple((name, check.establishes) for name, check in self.checks.items()))


@lru_cache(maxsize=8)
def _index_setters(catalogue: tuple[tuple[str, tuple[str, ...]], ...]) -> Callable[[str], tuple[str, ...]]:
    """Key → the checks of a catalogue that can set it. There are few keys and fewer catalogues, and every assessment asks for all."""

    @lru_cache(maxsize=1 << 12)
    def setters(key: str) -> tuple[str, ...]:
        return tuple(name for name, haves in catalogue if any(_covers_key(have, key) for have in haves))

    return setters


def _covers_key(have: str, key: str) -> bool:
    return have == key or (have.endswith(".*") and key.startswith(have[:-1])) or (key.endswith(".*") and have.startswith(key[:-1]))


def is_tenant_writable(key: str) -> bool:
    """Whether a tenant can write the value: log text, environment, process names. Unknown keys are not trusted."""
    row = find_key(key)
    return row is None or row.text


def can_be_proven_by_text(leaf: Leaf) -> bool:
    """Labels that what the tenant wrote may prove: they accuse no machine."""
    if leaf.category == "OTHER":
        return leaf.scope in ("job", "cluster") and leaf.label.startswith(("OTHER.SERVICE.", "OTHER.SCHED."))
    return leaf.category in ("USER", "FRAMEWORK") or leaf.scope == "job"


def build_unprofiled_lookup(profile: Callable[[str], Sku | None], facts: Iterable[Fact]) -> Callable[[str], str]:
    """The model that a host names where there is no profile of it."""
    by_host: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        if fact.host and fact.key == "gpu.product":
            by_host[fact.host].append(fact)

    def stranger(host: str) -> str:
        return "" if profile(host) else find_product(by_host[host])

    return stranger


def build_profile_lookup(inventory: Inventory, skus: Mapping[str, Sku], facts: Iterable[Fact]) -> Callable[[str], Sku | None]:
    """The SKU of each host: the inventory's word first, else the profile that fits what the host shows."""
    by_host: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        if fact.host and fact.key in ("gpu.product", "gpu.bdf"):
            by_host[fact.host].append(fact)
    found: dict[str, Sku | None] = {}

    def profile(host: str) -> Sku | None:
        if host not in found:
            row = inventory.hosts.get(host)
            found[host] = skus.get(row.sku if row else "") or guess_sku(by_host[host], skus)
        return found[host]

    return profile
