"""What facts are read against: taxonomy, check catalogue, expected values and location of each host."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from kb.fact_keys import find_key
from kb.taxonomy.taxonomy import Leaf, Taxonomy
from tools.checks.check_types import Check
from tools.fact import Fact, Value
from tools.inventory.inventory import Inventory
from tools.inventory.sku import Sku, find_product, guess_sku

PlaceKind = Literal["leaf", "rack"]  # shared place of hosts: a leaf switch or a rack


def no_expectation(host: str, key: str, device: str | None) -> Value:
    return None


def no_place(host: str, place: PlaceKind) -> str:
    return ""


def no_bus(host: str) -> tuple[str, ...]:
    return ()


def no_kind(host: str) -> str:
    return ""


def no_job_restriction(host: str) -> bool:
    return True


def no_unprofiled_model(host: str) -> str:
    return ""


@dataclass(frozen=True)
class ReferenceData:
    """Lookups by host; the defaults know nothing.

    `expected(host, key, device)` is the SKU's value or None; `bus(host)` its bus table; `place(host, "rack")` the
    shared place, "" if unknown; `stranger(host)` the GPU model of a host without a profile, which only peers can judge.
    """

    taxonomy: Taxonomy
    checks: Mapping[str, Check]
    expected: Callable[[str, str, str | None], Value] = no_expectation
    place: Callable[[str, PlaceKind], str] = no_place
    bus: Callable[[str], tuple[str, ...]] = no_bus
    stranger: Callable[[str], str] = no_unprofiled_model
    kind: Callable[[str], str] = no_kind  # hosts of one kind should be alike in all that is compared
    # whether jobs run on a host; a scheduler's controller needs no GPU
    runs_jobs: Callable[[str], bool] = no_job_restriction

    def list_passive_checks(self) -> list[Check]:
        """Return single-host checks that disturb no job, cheapest first."""
        return list(self._passive_checks)

    def list_establishing_checks(self, key: str) -> list[Check]:
        """Return checks that can set a key; `env.*` sets every `env.X`."""
        return [self.checks[name] for name in self._find_setters(key)]

    def list_decisive_keys(self, leaf: Leaf) -> list[str]:
        """Return keys that can decide for a leaf or, if none can, that support it.

        Tenant-writable keys decide nothing about a machine and are left out there.
        """
        keys = dict.fromkeys(clue.key for clue in leaf.evidence if clue.decisive and clue.weight > 0)
        keys = keys or dict.fromkeys(clue.key for clue in leaf.evidence if clue.weight > 0)
        return [key for key in keys if can_be_proven_by_text(leaf) or not is_tenant_writable(key)]

    def list_deciding_checks(self, leaf: Leaf) -> list[Check]:
        """Return passive checks that can decide for a leaf."""
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
    """Return a cached lookup of key → checks; every assessment asks for all keys."""

    @lru_cache(maxsize=1 << 12)
    def setters(key: str) -> tuple[str, ...]:
        return tuple(name for name, haves in catalogue if any(_covers_key(have, key) for have in haves))

    return setters


def _covers_key(have: str, key: str) -> bool:
    return have == key or (have.endswith(".*") and key.startswith(have[:-1])) or (key.endswith(".*") and have.startswith(key[:-1]))


def is_tenant_writable(key: str) -> bool:
    """Return whether a tenant can write the value (logs, environment, process names). Unknown keys are untrusted."""
    row = find_key(key)
    return row is None or row.text


def can_be_proven_by_text(leaf: Leaf) -> bool:
    """Return whether tenant-writable text may prove the label: only if it accuses no machine."""
    if leaf.category == "OTHER":
        return leaf.scope in ("job", "cluster") and leaf.label.startswith(("OTHER.SERVICE.", "OTHER.SCHED."))
    return leaf.category in ("USER", "FRAMEWORK") or leaf.scope == "job"


def build_unprofiled_lookup(profile: Callable[[str], Sku | None], facts: Iterable[Fact]) -> Callable[[str], str]:
    """Return a lookup of the GPU model of hosts without a profile."""
    by_host: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        if fact.host and fact.key == "gpu.product":
            by_host[fact.host].append(fact)

    def stranger(host: str) -> str:
        return "" if profile(host) else find_product(by_host[host])

    return stranger


def build_profile_lookup(inventory: Inventory, skus: Mapping[str, Sku], facts: Iterable[Fact]) -> Callable[[str], Sku | None]:
    """Return a lookup of each host's SKU: from the inventory, else guessed from its facts."""
    by_host: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        if fact.host and fact.key in ("gpu.product", "gpu.bdf"):
            by_host[fact.host].append(fact)
    profile_by_host: dict[str, Sku | None] = {}

    def profile(host: str) -> Sku | None:
        if host not in profile_by_host:
            row = inventory.hosts.get(host)
            profile_by_host[host] = skus.get(row.sku if row else "") or guess_sku(by_host[host], skus)
        return profile_by_host[host]

    return profile
