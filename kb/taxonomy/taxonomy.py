"""Taxonomy of root causes: category, branch and leaf, and for each leaf its evidence as log-odds over single facts.

A leaf's score is its prior plus the weights of the clues that match. Without clues it lies far below zero; one decisive
clue lifts it to a probability of 0.95.
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
# symptom classes of reports
SYMPTOMS = frozenset(
    {
        *("cuda_error", "cuda_oom", "conn_refused", "ecc_text", "hang", "ib_err12", "init_fail", "invalid_ordinal", "killed"),
        *("loss_nan", "nccl_timeout", "no_device", "py_exception", "slow", "unreachable", "vague"),
    }
)


class FactLike(Protocol):
    """The part of `tools.fact.Fact` that clues read; this layer may not import it."""

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
    """Evidence: facts of `key` for which `when` holds shift the leaf by `weight` log-odds; a negative weight is against it.

    `decisive` evidence is specific enough to confirm the leaf.
    """

    id: str
    key: str
    when: str
    weight: float
    says: str
    expression: Expression = field(repr=False, compare=False)
    decisive: bool = False
    same_host: bool = False  # contradicts a job's log only on the host of that log

    @property
    def low_trust(self) -> bool:
        """Whether a tenant can write what the clue reads."""
        fact_key = fact_keys.find_key(self.key)
        return fact_key is not None and fact_key.text

    def matches(self, fact: FactLike, expected: Any = None, majority: Any = None) -> bool:
        """Return whether a fact matches; one from before the last boot does so only if `when` reads `stale`."""
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
        """Fill the slots of `says`; a missing attribute becomes `?`."""
        return fill_slots(self.says, fact.value, fact.device, fact.unit, fact.attrs, expected, majority)


@dataclass(frozen=True, slots=True)
class Leaf:
    """One root cause.

    `share` is its frequency among incidents, according to `share_from`. `checks` lists passive checks and `confirms`
    exclusive ones. `remedies` lists plans in order; the steps of a plan are joined by ` > `. `suppresses` lists leaves
    whose evidence this cause explains. At least `min_hosts` hosts must show a cause that lies above the node. A job may
    be restarted unchanged after a `transient` cause.
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
    customer_fix: CustomerFix | None = None  # set for every built-in leaf that customers own and a check can decide
    plain: str = ""  # the title without jargon; reports are matched with it
    only_words: bool = False  # no check shows it: used to file texts and past incidents, never diagnosed

    @property
    def prior(self) -> float:
        """Log-odds without evidence."""
        return math.log(self.share / (1 - self.share))

    @property
    def category(self) -> str:
        return self.label.partition(".")[0]


@dataclass(frozen=True)
class Taxonomy:
    """All leaves by label, and titles of branches (`GPU`, `GPU.MEMORY`)."""

    leaves: Mapping[str, Leaf]
    branches: Mapping[str, str]

    def get_leaf(self, label: str) -> Leaf:
        return self.leaves[label]

    def list_children(self, path: str) -> list[str]:
        """List the paths one level below `path`; an empty path lists the categories."""
        depth = path.count(".") + 2 if path else 1
        prefix = f"{path}." if path else ""
        children = [".".join(label.split(".")[:depth]) for label in self.leaves if label.startswith(prefix)]
        return list(dict.fromkeys(children))

    def get_title(self, path: str) -> str:
        """Return the title of a category, branch or leaf; of an unknown path the path itself."""
        leaf = self.leaves.get(path)
        return leaf.title if leaf else self.branches.get(path, path)

    @property
    def titles(self) -> dict[str, str]:
        return {**self.branches, **{label: leaf.title for label, leaf in self.leaves.items()}}

    def list_clues(self, key: str) -> tuple[tuple[Leaf, Clue], ...]:
        return self._clues_by_key.get(key, ())

    def without_labels(self, *labels: str) -> "Taxonomy":
        """Return the taxonomy without these leaves and without references to them."""
        kept_labels = self.leaves.keys() - set(labels)
        leaves: dict[str, Leaf] = {}
        for label, leaf in self.leaves.items():
            if label in kept_labels:
                suppressed_labels = tuple(suppressed for suppressed in leaf.suppresses if suppressed in kept_labels)
                leaves[label] = replace(leaf, suppresses=suppressed_labels)
        return Taxonomy(leaves, self.branches)

    @cached_property
    def decidable(self) -> "Taxonomy":
        """The taxonomy of the leaves that can be diagnosed; of the others only the titles remain."""
        leaves: dict[str, Leaf] = {}
        titles = dict(self.branches)
        for label, leaf in self.leaves.items():
            if leaf.only_words:
                titles[label] = leaf.title
            else:
                leaves[label] = leaf
        return Taxonomy(leaves, titles)

    @cached_property
    def _clues_by_key(self) -> Mapping[str, tuple[tuple[Leaf, Clue], ...]]:
        clues_by_key: dict[str, list[tuple[Leaf, Clue]]] = {}
        for leaf in self.leaves.values():
            for clue in leaf.evidence:
                clues_by_key.setdefault(clue.key, []).append((leaf, clue))
        return {key: tuple(clues) for key, clues in clues_by_key.items()}
