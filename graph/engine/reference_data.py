"""The reference against which facts are judged: taxonomy, check catalogue, and each host's expected values and location."""

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

PlaceKind = Literal["leaf", "rack"]  # what hosts share: a leaf switch or a rack


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
    """The taxonomy, the checks, and lookups by host. The default lookups return nothing.

    Attributes:
        expected: Return the value that the host's SKU gives a key of a device, or None.
        place: Return the host's leaf switch or rack, or an empty string.
        bus: Return the PCI addresses of the SKU's bus table.
        stranger: Return the GPU model of a host without a SKU, which only peers can judge; else an empty string.
        kind: Return the host's kind. Hosts of one kind should be alike in all that is compared.
        runs_jobs: Return whether jobs run on the host. A scheduler's controller needs no GPU.
    """

    taxonomy: Taxonomy
    checks: Mapping[str, Check]
    expected: Callable[[str, str, str | None], Value] = no_expectation
    place: Callable[[str, PlaceKind], str] = no_place
    bus: Callable[[str], tuple[str, ...]] = no_bus
    stranger: Callable[[str], str] = no_unprofiled_model
    kind: Callable[[str], str] = no_kind
    runs_jobs: Callable[[str], bool] = no_job_restriction

    def list_passive_checks(self) -> list[Check]:
        """Return single-host checks that disturb no job, cheapest first."""
        return list(self._passive_checks)

    def list_establishing_checks(self, key: str) -> list[Check]:
        """Return checks that can set a key; `env.*` sets every `env.X`."""
        return [self.checks[name] for name in self._find_setters(key)]

    def list_decisive_keys(self, leaf: Leaf) -> list[str]:
        """Return the keys that can decide for a leaf. If none can, return those that support it.

        Tenant-writable keys decide nothing about a machine, so they are left out unless text may prove the leaf.
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
        return sorted(
            (check for check in self.checks.values() if not check.exclusive and check.scope == "host"),
            key=lambda check: (check.seconds, check.id),
        )

    @cached_property
    def _find_setters(self) -> Callable[[str], tuple[str, ...]]:
        return _index_setters(tuple((name, check.establishes) for name, check in self.checks.items()))


@lru_cache(maxsize=8)
def _index_setters(catalogue: tuple[tuple[str, tuple[str, ...]], ...]) -> Callable[[str], tuple[str, ...]]:
    """Return a cached lookup of key → checks; every assessment asks for all keys."""

    @lru_cache(maxsize=1 << 12)
    def find_setters(key: str) -> tuple[str, ...]:
        return tuple(name for name, patterns in catalogue if any(_do_keys_overlap(pattern, key) for pattern in patterns))

    return find_setters


def _do_keys_overlap(one_key: str, other_key: str) -> bool:
    """Return whether two keys are equal or one is a prefix pattern, such as `env.*`, that the other matches."""
    if one_key.endswith(".*") and other_key.startswith(one_key[:-1]):
        return True
    if other_key.endswith(".*") and one_key.startswith(other_key[:-1]):
        return True
    return one_key == other_key


def is_tenant_writable(key: str) -> bool:
    """Return whether a tenant can write the value (logs, environment, process names). Unknown keys are untrusted."""
    fact_key = find_key(key)
    return fact_key is None or fact_key.text


def can_be_proven_by_text(leaf: Leaf) -> bool:
    """Return whether tenant-writable text may prove the label: only if it accuses no machine."""
    if leaf.category == "OTHER":
        return leaf.scope in ("job", "cluster") and leaf.label.startswith(("OTHER.SERVICE.", "OTHER.SCHED."))
    return leaf.category in ("USER", "FRAMEWORK") or leaf.scope == "job"


def build_unprofiled_lookup(profile: Callable[[str], Sku | None], facts: Iterable[Fact]) -> Callable[[str], str]:
    """Return a lookup of the GPU model of hosts without a profile."""
    facts_by_host: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        if fact.host and fact.key == "gpu.product":
            facts_by_host[fact.host].append(fact)

    def find_unprofiled_model(host: str) -> str:
        return "" if profile(host) else find_product(facts_by_host[host])

    return find_unprofiled_model


def build_profile_lookup(inventory: Inventory, skus: Mapping[str, Sku], facts: Iterable[Fact]) -> Callable[[str], Sku | None]:
    """Return a lookup of each host's SKU: from the inventory, else guessed from its facts."""
    facts_by_host: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        if fact.host and fact.key in ("gpu.product", "gpu.bdf"):
            facts_by_host[fact.host].append(fact)
    sku_by_host: dict[str, Sku | None] = {}

    def find_profile(host: str) -> Sku | None:
        if host not in sku_by_host:
            inventory_host = inventory.hosts.get(host)
            sku_by_host[host] = skus.get(inventory_host.sku if inventory_host else "") or guess_sku(facts_by_host[host], skus)
        return sku_by_host[host]

    return find_profile
