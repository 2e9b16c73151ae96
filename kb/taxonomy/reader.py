"""Reads taxonomy files. Everything that is wrong with them is found in one pass and refused together."""

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainValidator, Strict, model_validator

from kb import keys
from kb.readable import SLOT, SLOTS
from kb.shapes import Flag, Number, SomeTexts, StrictModel, Text, Texts, squashed
from kb.taxonomy.customer_fix import CustomerFixRow
from kb.taxonomy.expressions import BadExpression, Expression
from kb.taxonomy.labels import CATEGORIES, SYMPTOMS, Clue, Leaf, Owner, Scope, Taxonomy
from kb.yaml import Document, Problems, Spot, files_of, read, validated

BUILT_IN = Path(__file__).parent

_STEP = r"[a-z][a-z0-9_]*(?:\([A-Za-z0-9_.,:= -]*\))?"
_SHARE_AT_LEAST, _SHARE_AT_MOST = 0.002, 0.05
"""Shares outside would break the calibration: a decisive clue must lift any leaf to 0.95 and no clue must leave it near zero."""
_DECISIVE_AT_LEAST = 4.0
"""Evidence lighter than this is not specific enough to confirm anything."""


class BadTaxonomy(Exception):
    """Files that are refused; `problems` are `file:line: reason`, all of them."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


def load_taxonomy(*dirs: Path) -> Taxonomy:
    """The built-in leaves with those of `dirs` added, later directories overriding leaves of the same label. Raises BadTaxonomy."""
    problems = Problems()
    built_in, titles = _built_in()
    leaves, branches = dict(built_in), dict(titles)
    for folder in dirs:
        leaves |= _folder(folder, branches, problems)
    _cross_check(leaves, branches, problems)
    if problems.found:
        raise BadTaxonomy(problems.found)
    return Taxonomy({label: found.leaf for label, found in leaves.items() if found.leaf}, branches)


@dataclass(frozen=True, slots=True)
class _Found:
    """A leaf and where it stands; None for one of a file that is refused, which other leaves may name all the same."""

    leaf: Leaf | None
    where: Spot


@functools.cache
def _built_in() -> tuple[Mapping[str, _Found], Mapping[str, str]]:
    """Read the shipped leaves and branch titles, once per process: they do not change while it runs."""
    problems, branches = Problems(), dict(CATEGORIES)
    leaves = _folder(BUILT_IN, branches, problems)
    if problems.found:
        raise BadTaxonomy(problems.found)
    return leaves, branches


def _folder(folder: Path, branches: dict[str, str], problems: Problems) -> dict[str, _Found]:
    leaves: dict[str, _Found] = {}
    if not folder.is_dir():
        problems.note(Spot(folder), "there is no such folder")
    for document in filter(None, (read(path, problems) for path in files_of(folder))):
        file = validated(document, _File, problems)
        for label, found in (_leaves_of(document, file, branches) if file else _names_in(document)).items():
            if label in leaves:
                problems.note(found.where, f"{label} stands also at {leaves[label].where}")
            leaves[label] = found
    return leaves


def _leaves_of(document: Document, file: "_File", branches: dict[str, str]) -> dict[str, _Found]:
    branches.update({f"{file.category}.{name}": title for name, title in file.branches.items()})
    labels = {name: f"{file.category}.{name}" for name in file.leaves}
    return {labels[name]: _Found(row.leaf(labels[name]), document.place("leaves", name)) for name, row in file.leaves.items()}


def _names_in(document: Document) -> dict[str, _Found]:
    """The leaves that a refused file has by name."""
    plain = document.plain if isinstance(document.plain, dict) else {}
    names = plain.get("leaves") if isinstance(plain.get("leaves"), dict) else {}
    return {f"{plain.get('category')}.{name}": _Found(None, document.place("leaves", name)) for name in names or {}}


def _cross_check(leaves: Mapping[str, _Found], branches: Mapping[str, str], problems: Problems) -> None:
    for label, found in leaves.items():
        branch = label.rpartition(".")[0]
        if found.leaf and branch not in branches:
            problems.note(found.where, f"{label}: branch {branch} has no title under branches")
        for other in found.leaf.suppresses if found.leaf else ():
            if other not in leaves or other == label:
                problems.note(found.where, f"{label}: suppresses {other}, which is {'itself' if other == label else 'no leaf'}")


def _like(shape: str, says: Callable[[str], str]) -> AfterValidator:
    """Text of a shape; `says` makes the sentence about one that has another."""

    def check(text: str) -> str:
        if not re.fullmatch(shape, text):
            raise ValueError(says(text))
        return text

    return AfterValidator(check)


def _category(category: str) -> str:
    if category not in CATEGORIES:
        raise ValueError(f"category {category!r} is none of {', '.join(CATEGORIES)}")
    return category


def _key(key: str) -> str:
    if keys.find(key) is None or key.endswith("*"):
        raise ValueError(f"unknown fact key {key}")
    return key


def _when(given: Any) -> Expression:
    if not isinstance(given, str):
        raise ValueError(f"when must be text, not {given!r}")  # noqa: TRY004  # a validator's refusal is a ValueError
    try:
        return Expression(squashed(given) or "true")
    except BadExpression as why:
        raise ValueError(f"when: {why}") from why


def _weight(weight: float) -> float:
    if not 0 < abs(weight) <= 12:
        raise ValueError("weight must be between -12 and 12 and not 0")
    return weight


def _says(says: str) -> str:
    for slot in SLOT.findall(says):
        if slot not in SLOTS and not re.fullmatch(r"attrs\.[a-z_]+", slot):
            raise ValueError(f"says: unknown slot {{{slot}}}")
    return says


def _share(share: float) -> float:
    if not _SHARE_AT_LEAST <= share <= _SHARE_AT_MOST:
        raise ValueError(f"share must lie between {_SHARE_AT_LEAST} and {_SHARE_AT_MOST}")
    return share


def _symptom(symptom: str) -> str:
    if symptom not in SYMPTOMS:
        raise ValueError(f"unknown symptom {symptom}; there are {', '.join(sorted(SYMPTOMS))}")
    return symptom


def _lower(word: str) -> str:
    if word != word.lower():
        raise ValueError(f"words are lower case: {word}")
    return word


class _Clue(StrictModel):
    id: Text
    key: Annotated[Text, AfterValidator(_key)]
    when: Annotated[Expression, PlainValidator(_when)]
    weight: Annotated[Number, AfterValidator(_weight)]
    says: Annotated[Text, AfterValidator(_says)]
    decisive: Flag = False
    same_host: Flag = False

    @model_validator(mode="after")
    def _heavy(self) -> "_Clue":
        if self.decisive and self.weight < _DECISIVE_AT_LEAST:
            raise ValueError(f"decisive evidence weighs at least {_DECISIVE_AT_LEAST}")
        if self.same_host and self.weight > 0:
            raise ValueError("same_host is for evidence against a cause")
        return self

    @property
    def clue(self) -> Clue:
        """As the engine weighs it."""
        return Clue(self.id, self.key, self.when.source, self.weight, self.says, self.when, self.decisive, self.same_host)


def _evidence(clues: tuple[_Clue, ...]) -> tuple[_Clue, ...]:
    names = [clue.id for clue in clues]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"clue {', '.join(twice)} stands twice")
    if not any(clue.weight > 0 for clue in clues):
        raise ValueError("no evidence for it")
    return clues


_Check = Annotated[Text, _like(r"[a-z][a-z0-9_]{1,31}", "{!r} is not a check id".format)]
_Plan = Annotated[Text, _like(rf"{_STEP}(?: > {_STEP})*", "{!r} is not a plan (steps in snake_case joined by ' > ')".format)]
_LeafName = Annotated[
    str, _like(r"[A-Z][A-Z0-9_]*\.[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*", "{!r}: a leaf is named BRANCH.Leaf_Name".format)
]
_BranchName = Annotated[str, _like(r"[A-Z][A-Z0-9_]*", "branch {!r}: a branch is NAME: title, the name in capitals".format)]
_Some = Field(min_length=1)


_LOOKED_FOR = frozenset(
    {"evidence", "checks", "confirms", "remedies", "suppresses", "customer_words", "customer_fix", "min_hosts", "transient"}
)
"""What only a cause has that a look can decide."""


class _Leaf(StrictModel):
    title: Text
    plain: Text = ""
    description: Text
    scope: Scope
    owner: Owner
    symptoms: Annotated[tuple[Annotated[Text, AfterValidator(_symptom)], ...], _Some]
    words: Annotated[tuple[Annotated[Text, AfterValidator(_lower)], ...], _Some]
    only_words: Flag = False
    evidence: Annotated[tuple[_Clue, ...], _Some, AfterValidator(_evidence)] = ()
    checks: Annotated[tuple[_Check, ...], _Some] = ()
    confirms: tuple[_Check, ...] = ()
    remedies: Annotated[tuple[_Plan, ...], _Some] = ()
    suppresses: Texts = ()
    customer_words: Text = ""
    customer_fix: CustomerFixRow | None = None
    next_step: Text
    share: Annotated[Number, AfterValidator(_share)]
    share_from: Text
    sources: SomeTexts
    min_hosts: Annotated[int, Strict(), Field(ge=1)] = 1
    transient: Annotated[bool, Strict()] = False

    @model_validator(mode="after")
    def _whole(self) -> "_Leaf":
        if self.only_words and (had := self.model_fields_set & _LOOKED_FOR):
            raise ValueError(f"no look decides what only words tell of, so it has no {', '.join(sorted(had))}")
        if not self.only_words and (lacks := {"evidence", "checks", "remedies", "customer_words"} - self.model_fields_set):
            raise ValueError(f"{', '.join(sorted(lacks))} missing; a cause that no look decides says only_words: true")
        return self

    def leaf(self, label: str) -> Leaf:
        """As the engine knows it."""
        given = {name: getattr(self, name) for name in type(self).model_fields if name not in ("evidence", "customer_fix")}
        fix = self.customer_fix.fix if self.customer_fix else None
        return Leaf(label=label, evidence=tuple(row.clue for row in self.evidence), customer_fix=fix, **given)


class _File(StrictModel):
    category: Annotated[Text, AfterValidator(_category)]
    branches: dict[_BranchName, Text] = Field(default_factory=dict)
    leaves: Annotated[dict[_LeafName, _Leaf], _Some]
