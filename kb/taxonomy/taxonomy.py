"""Taxonomy of root causes: three levels, and per leaf evidence as log-odds over single facts.

A leaf's score is its prior plus the weights of matching clues: without clues far below zero, with one decisive clue
0.95. A file with any problem is refused with all of them.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Literal, Protocol

from pydantic import AfterValidator, Field

from kb import fact_keys
from kb.fact_text import SLOT_PATTERN, fill_slots
from kb.schema import StrictModel, Text
from kb.taxonomy.expressions import Expression

# The customer's repair of a cause that they own: change, block to paste, how to verify. Pure.
#
# Customers paste into a shell, so blocks come from the catalogue, and values from the site's profile or the machine's
# driver, never from a job's output.

# the profile's expected value; the installed driver; the newest CUDA that it supports
BLOCK_SLOTS = ("expected", "driver", "cuda")
# what a thread shows without a scroll bar
MAX_BLOCK_LINES = 8
MAX_LINE_CHARS = 140
_SAFE_PATTERN = re.compile(r"[A-Za-z0-9_.,:=^-]{1,64}")


@dataclass(frozen=True)
class CustomerFix:
    """A repair. `paste`: blocks in order of preference; the last has no slots."""

    change: str
    paste: tuple[str, ...]
    works: str

    def choose_block(self, known: Mapping[str, str]) -> str:
        """Return the first block with known slots. A value that a shell could expand counts as unknown."""
        safe = {slot: value for slot, value in known.items() if slot in BLOCK_SLOTS and _SAFE_PATTERN.fullmatch(value)}
        return next(filled for text in self.paste if (filled := _fill_block(text, safe)) is not None)


def _find_slots(text: str) -> tuple[str, ...]:
    return tuple(slot for slot in SLOT_PATTERN.findall(text) if slot in BLOCK_SLOTS)


def _fill_block(text: str, known: Mapping[str, str]) -> str | None:
    for slot in _find_slots(text):
        if slot not in known:
            return None
        text = text.replace(f"{{{slot}}}", known[slot])
    return text


def _validate_block(text: str) -> str:
    lines = text.rstrip().split("\n")
    if len(lines) > MAX_BLOCK_LINES or any(len(line) > MAX_LINE_CHARS for line in lines):
        raise ValueError(f"a block has at most {MAX_BLOCK_LINES} lines of {MAX_LINE_CHARS} characters")
    if "```" in text:
        raise ValueError("a block is shown between ``` and may not hold them")
    return "\n".join(lines)


def _validate_last_block(blocks: tuple[str, ...]) -> tuple[str, ...]:
    if blocks and _find_slots(blocks[-1]):
        raise ValueError("the last block may have no slot, for where nothing is known")
    return blocks


class CustomerFixRow(StrictModel):
    """As a taxonomy's file holds it."""

    change: Text
    paste: Annotated[tuple[Annotated[str, AfterValidator(_validate_block)], ...], Field(min_length=1), AfterValidator(_validate_last_block)]
    works: Text

    @property
    def fix(self) -> CustomerFix:
        return CustomerFix(self.change, self.paste, self.works)


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
    """What clues read of tools.fact.Fact."""

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
    """Evidence: matching facts of `key` shift the leaf by `weight` (log-odds, negative = against).

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
        row = fact_keys.find_key(self.key)
        return row is not None and row.text

    def matches(self, fact: FactLike, expected: Any = None, majority: Any = None) -> bool:
        """Match a fact; one from before the last boot only if `when` reads `stale`."""
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
        """Fill `says`; missing attributes read `?`."""
        return fill_slots(self.says, fact.value, fact.device, fact.unit, fact.attrs, expected, majority)


@dataclass(frozen=True, slots=True)
class Leaf:
    """One root cause. `share`: frequency among incidents, by `share_from`.

    `checks` are passive, `confirms` exclusive. `remedies`: remediations in order, steps joined by ` > `. `suppresses`:
    leaves whose evidence this explains. `min_hosts` must show it, because causes above the node show on several.
    `transient`: the job may be restarted unchanged.
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
        """List categories under "", then branches, then leaves."""
        depth = path.count(".") + 2 if path else 1
        prefix = f"{path}." if path else ""
        return list(dict.fromkeys(".".join(label.split(".")[:depth]) for label in self.leaves if label.startswith(prefix)))

    def get_title(self, path: str) -> str:
        """Return the title of a category, branch or leaf, else the path."""
        leaf = self.leaves.get(path)
        return leaf.title if leaf else self.branches.get(path, path)

    @property
    def titles(self) -> dict[str, str]:
        return {**self.branches, **{label: leaf.title for label, leaf in self.leaves.items()}}

    def list_clues(self, key: str) -> tuple[tuple[Leaf, Clue], ...]:
        return self._by_key.get(key, ())

    def without_labels(self, *labels: str) -> "Taxonomy":
        leaves = {label: leaf for label, leaf in self.leaves.items() if label not in labels}
        trimmed = {
            label: replace(leaf, suppresses=tuple(other for other in leaf.suppresses if other in leaves)) for label, leaf in leaves.items()
        }
        return Taxonomy(trimmed, self.branches)

    @cached_property
    def decidable(self) -> "Taxonomy":
        """Leaves that can be diagnosed; the others remain as titles."""
        leaves = {label: leaf for label, leaf in self.leaves.items() if not leaf.only_words}
        return Taxonomy(leaves, {**self.branches, **{label: leaf.title for label, leaf in self.leaves.items() if leaf.only_words}})

    @cached_property
    def _by_key(self) -> Mapping[str, tuple[tuple[Leaf, Clue], ...]]:
        index: dict[str, list[tuple[Leaf, Clue]]] = {}
        for leaf in self.leaves.values():
            for clue in leaf.evidence:
                index.setdefault(clue.key, []).append((leaf, clue))
        return {key: tuple(pairs) for key, pairs in index.items()}
