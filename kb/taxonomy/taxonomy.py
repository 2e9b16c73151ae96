"""What can be wrong with a GPU cluster: three levels, and for each leaf the evidence for and against it as log-odds over single facts.

The built-in files and a site's own are read by the same loader; a file with any problem is refused with all of its problems.
A leaf's score is its prior plus the weights of the clues that match: no clue stays far below zero, one decisive clue reaches 0.95.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol

from kb import fact_keys
from kb.fact_text import fill_slots
from kb.taxonomy.customer_fix import CustomerFix
from kb.taxonomy.expressions import Expression

Scope = Literal["job", "node", "gpu", "hca", "switch", "rack", "cluster"]
Owner = Literal["customer", "provider", "vendor"]

CATEGORIES: Mapping[str, str] = {
    "GPU": "GPU hardware and its settings",
    "SYSTEM_SOFTWARE": "Operating system, drivers and node services",
    "INTERCONNECT": "NVLink, InfiniBand, Ethernet and switches",
    "FRAMEWORK": "Frameworks and libraries of the job's image",
    "USER": "The user's code, data and settings",
    "OTHER": "Site, scheduler and outside services",
}
SYMPTOMS = frozenset(
    {
        *("cuda_error", "cuda_oom", "conn_refused", "ecc_text", "hang", "ib_err12", "init_fail", "invalid_ordinal", "killed"),
        *("loss_nan", "nccl_timeout", "no_device", "py_exception", "slow", "unreachable", "vague"),
    }
)
"""What a reporter can complain about: the classes a ticket is sorted into."""


class FactLike(Protocol):
    """What a clue reads of a fact (tools.fact.Fact has it)."""

    @property
    def key(self) -> str: ...
    @property
    def value(self) -> Any: ...
    @property
    def device(self) -> str | None: ...
    @property
    def attrs(self) -> Mapping[str, Any]: ...
    @property
    def stale(self) -> bool: ...
    @property
    def unit(self) -> str: ...
    @property
    def status(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Clue:
    """One piece of evidence: facts of `key` for which `when` holds move the leaf by `weight` (log-odds, negative = against).

    `decisive` marks evidence so specific that it may confirm the leaf; the others only make it more or less likely.
    """

    id: str
    key: str
    when: str
    weight: float
    says: str
    expression: Expression = field(repr=False, compare=False)
    decisive: bool = False
    same_host: bool = False
    """Contradicts a job's log only on a host where that log was read. Facts of other hosts say nothing about it."""

    @property
    def low_trust(self) -> bool:
        """True where a tenant can write what the clue reads."""
        row = fact_keys.find_key(self.key)
        return row is not None and row.text

    def matches(self, fact: FactLike, expected: Any = None, majority: Any = None) -> bool:
        """Whether this fact is this clue. A fact from before the last boot never is, unless `when` asks about `stale`."""
        if fact.key != self.key or fact.status != "ok" or (fact.stale and "stale" not in self.expression.mentions):
            return False
        return self.expression.is_true_for(
            {
                "value": fact.value,
                "device": fact.device or "",
                "attrs": dict(fact.attrs),
                "stale": fact.stale,
                "unit": fact.unit,
                "expected": expected,
                "majority": majority,
            }
        )

    def format_sentence(self, fact: FactLike, expected: Any = None, majority: Any = None) -> str:
        """`says` with the fact filled in; an attribute the fact lacks reads `?`."""
        return fill_slots(self.says, fact.value, fact.device, fact.unit, fact.attrs, expected, majority)


@dataclass(frozen=True, slots=True)
class Leaf:
    """One root cause. `share` is how often it is the cause of an incident, `share_from` who says so.

    `checks` can look for it passively, `confirms` are exclusive tests. `remedies` is a ladder: plans in the order to try,
    steps of a plan joined by ` > `. `suppresses` names leaves whose evidence this one explains away.
    `min_hosts` is how many hosts must show it before it may be confirmed: causes above the node show on several at once.
    `transient` ended with the job that it ended: the same job may be started again as it is.
    """

    label: str
    title: str
    description: str
    scope: Scope
    owner: Owner
    symptoms: tuple[str, ...]
    words: tuple[str, ...]
    evidence: tuple[Clue, ...]
    checks: tuple[str, ...]
    confirms: tuple[str, ...]
    remedies: tuple[str, ...]
    suppresses: tuple[str, ...]
    customer_words: str
    next_step: str
    share: float
    share_from: str
    sources: tuple[str, ...]
    min_hosts: int = 1
    transient: bool = False
    customer_fix: CustomerFix | None = None
    """Every leaf of ours that the customer owns, and that a look decides, has one."""
    plain: str = ""
    """The title in plain words, where the title is a term of the field. Reports are matched with these words."""
    only_words: bool = False
    """No check shows it: people name it, and texts and past incidents are filed under it. It is never diagnosed."""

    @property
    def prior(self) -> float:
        """Log-odds before any evidence."""
        return math.log(self.share / (1 - self.share))

    @property
    def category(self) -> str:
        return self.label.partition(".")[0]


@dataclass(frozen=True)
class Taxonomy:
    """All leaves by label, and the titles of the branches above them (`GPU`, `GPU.MEMORY`)."""

    leaves: Mapping[str, Leaf]
    branches: Mapping[str, str]

    def get_leaf(self, label: str) -> Leaf:
        return self.leaves[label]

    def list_children(self, path: str) -> list[str]:
        """The next level under a path: categories under "", then branches, then leaves; nothing under a leaf."""
        depth = path.count(".") + 2 if path else 1
        prefix = f"{path}." if path else ""
        return list(dict.fromkeys(".".join(label.split(".")[:depth]) for label in self.leaves if label.startswith(prefix)))

    def get_title(self, path: str) -> str:
        """What people read for a category, a branch or a leaf; the path itself where there is no better."""
        leaf = self.leaves.get(path)
        return leaf.title if leaf else self.branches.get(path, path)

    @property
    def titles(self) -> dict[str, str]:
        """What people read for every path that has a title."""
        return {**self.branches, **{label: leaf.title for label, leaf in self.leaves.items()}}

    def list_clues(self, key: str) -> tuple[tuple[Leaf, Clue], ...]:
        """Every clue that reads a key, with its leaf."""
        return self._by_key.get(key, ())

    def without_labels(self, *labels: str) -> "Taxonomy":
        """The same taxonomy, ignorant of some leaves."""
        kept = {label: leaf for label, leaf in self.leaves.items() if label not in labels}
        trimmed = {
            label: replace(leaf, suppresses=tuple(other for other in leaf.suppresses if other in kept)) for label, leaf in kept.items()
        }
        return Taxonomy(trimmed, self.branches)

    @cached_property
    def decidable(self) -> "Taxonomy":
        """The leaves that a look can decide: all that is diagnosed. Titles of the others are known still."""
        kept = {label: leaf for label, leaf in self.leaves.items() if not leaf.only_words}
        return Taxonomy(kept, {**self.branches, **{label: leaf.title for label, leaf in self.leaves.items() if leaf.only_words}})

    @cached_property
    def _by_key(self) -> Mapping[str, tuple[tuple[Leaf, Clue], ...]]:
        index: dict[str, list[tuple[Leaf, Clue]]] = {}
        for leaf in self.leaves.values():
            for clue in leaf.evidence:
                index.setdefault(clue.key, []).append((leaf, clue))
        return {key: tuple(pairs) for key, pairs in index.items()}
