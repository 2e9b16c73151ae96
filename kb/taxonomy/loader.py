"""Load taxonomy files and report all their problems at once."""

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainValidator, Strict, model_validator

from kb import fact_keys
from kb.fact_text import SLOT_PATTERN, SLOTS
from kb.schema import Flag, Number, SomeTexts, StrictModel, Text, Texts, squash_blanks
from kb.taxonomy.customer_fix import CustomerFixRow
from kb.taxonomy.expressions import BadExpression, Expression
from kb.taxonomy.taxonomy import CATEGORIES, SYMPTOMS, Clue, Leaf, Owner, Scope, Taxonomy
from kb.yaml_files import Document, FilePosition, Problems, list_yaml_files, read_document, validate_document

BUILT_IN_FOLDER = Path(__file__).parent

_STEP = r"[a-z][a-z0-9_]*(?:\([A-Za-z0-9_.,:= -]*\))?"
_MIN_SHARE = 0.002  # calibration limits: a decisive clue must lift any leaf to 0.95
_MAX_SHARE = 0.05  # without clues a leaf must stay near zero
_MIN_DECISIVE_WEIGHT = 4.0  # lighter evidence is not specific enough to confirm
_NotEmpty = Field(min_length=1)
# fields of causes that a check can decide
_DIAGNOSED_FIELDS = frozenset(
    {"evidence", "checks", "confirms", "remedies", "suppresses", "customer_words", "customer_fix", "min_hosts", "transient"}
)
_REQUIRED_DIAGNOSED_FIELDS = frozenset({"evidence", "checks", "remedies", "customer_words"})


class BadTaxonomy(Exception):
    """Taxonomy files are invalid; `problems` lists every one as `file:line: reason`."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


def load_taxonomy(*dirs: Path) -> Taxonomy:
    """Return the built-in leaves and those of `dirs`, which override built-in ones of the same label.

    Raises:
        BadTaxonomy: A file is invalid, or a leaf refers to an unknown leaf or branch.
    """
    problems = Problems()
    built_in, titles = _load_built_in()
    leaves, branches = dict(built_in), dict(titles)
    for folder in dirs:
        leaves |= _load_folder(folder, branches, problems)
    _cross_check(leaves, branches, problems)
    if problems.found:
        raise BadTaxonomy(problems.found)
    return Taxonomy({label: loaded.leaf for label, loaded in leaves.items() if loaded.leaf}, branches)


@dataclass(frozen=True, slots=True)
class _LoadedLeaf:
    """A leaf and its position; `leaf` is None if its file is invalid, so that references to its label still resolve."""

    leaf: Leaf | None
    position: FilePosition


@functools.cache
def _load_built_in() -> tuple[Mapping[str, _LoadedLeaf], Mapping[str, str]]:
    problems, branches = Problems(), dict(CATEGORIES)
    leaves = _load_folder(BUILT_IN_FOLDER, branches, problems)
    if problems.found:
        raise BadTaxonomy(problems.found)
    return leaves, branches


def _load_folder(folder: Path, branches: dict[str, str], problems: Problems) -> dict[str, _LoadedLeaf]:
    leaves: dict[str, _LoadedLeaf] = {}
    if not folder.is_dir():
        problems.add(FilePosition(folder), "there is no such folder")
    for path in list_yaml_files(folder):
        document = read_document(path, problems)
        if not document:
            continue
        file = validate_document(document, _TaxonomyFileModel, problems)
        loaded_leaves = _build_leaves(document, file, branches) if file else _list_refused_leaves(document)
        for label, loaded in loaded_leaves.items():
            if label in leaves:
                problems.add(loaded.position, f"{label} stands also at {leaves[label].position}")
            leaves[label] = loaded
    return leaves


def _build_leaves(document: Document, file: "_TaxonomyFileModel", branches: dict[str, str]) -> dict[str, _LoadedLeaf]:
    branches.update({f"{file.category}.{name}": title for name, title in file.branches.items()})
    labels = {name: f"{file.category}.{name}" for name in file.leaves}
    return {
        labels[name]: _LoadedLeaf(row.build_leaf(labels[name]), document.find_position("leaves", name)) for name, row in file.leaves.items()
    }


def _list_refused_leaves(document: Document) -> dict[str, _LoadedLeaf]:
    """Return the labels that an invalid file would define."""
    content = document.plain if isinstance(document.plain, dict) else {}
    leaves = content.get("leaves")
    if not isinstance(leaves, dict):
        return {}
    return {f"{content.get('category')}.{name}": _LoadedLeaf(None, document.find_position("leaves", name)) for name in leaves}


def _cross_check(leaves: Mapping[str, _LoadedLeaf], branches: Mapping[str, str], problems: Problems) -> None:
    for label, loaded in leaves.items():
        if loaded.leaf is None:
            continue
        branch = label.rpartition(".")[0]
        if branch not in branches:
            problems.add(loaded.position, f"{label}: branch {branch} has no title under branches")
        for suppressed in loaded.leaf.suppresses:
            if suppressed == label:
                problems.add(loaded.position, f"{label}: suppresses {suppressed}, which is itself")
            elif suppressed not in leaves:
                problems.add(loaded.position, f"{label}: suppresses {suppressed}, which is no leaf")


def _build_pattern_validator(pattern: str, format_problem: Callable[[str], str]) -> AfterValidator:

    def validate(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(format_problem(text))
        return text

    return AfterValidator(validate)


def _validate_category(category: str) -> str:
    if category not in CATEGORIES:
        raise ValueError(f"category {category!r} is none of {', '.join(CATEGORIES)}")
    return category


def _validate_key(key: str) -> str:
    if fact_keys.find_key(key) is None or key.endswith("*"):
        raise ValueError(f"unknown fact key {key}")
    return key


def _parse_when(value: Any) -> Expression:
    if not isinstance(value, str):
        raise ValueError(f"when must be text, not {value!r}")  # noqa: TRY004  # a validator's refusal is a ValueError
    try:
        return Expression(squash_blanks(value) or "true")
    except BadExpression as error:
        raise ValueError(f"when: {error}") from error


def _validate_weight(weight: float) -> float:
    if not 0 < abs(weight) <= 12:
        raise ValueError("weight must be between -12 and 12 and not 0")
    return weight


def _validate_says(says: str) -> str:
    for slot in SLOT_PATTERN.findall(says):
        if slot not in SLOTS and not re.fullmatch(r"attrs\.[a-z_]+", slot):
            raise ValueError(f"says: unknown slot {{{slot}}}")
    return says


def _validate_share(share: float) -> float:
    if not _MIN_SHARE <= share <= _MAX_SHARE:
        raise ValueError(f"share must lie between {_MIN_SHARE} and {_MAX_SHARE}")
    return share


def _validate_symptom(symptom: str) -> str:
    if symptom not in SYMPTOMS:
        raise ValueError(f"unknown symptom {symptom}; there are {', '.join(sorted(SYMPTOMS))}")
    return symptom


def _validate_lower_case(word: str) -> str:
    if word != word.lower():
        raise ValueError(f"words are lower case: {word}")
    return word


class _ClueModel(StrictModel):
    id: Text
    key: Annotated[Text, AfterValidator(_validate_key)]
    when: Annotated[Expression, PlainValidator(_parse_when)]
    weight: Annotated[Number, AfterValidator(_validate_weight)]
    says: Annotated[Text, AfterValidator(_validate_says)]
    decisive: Flag = False
    same_host: Flag = False

    @model_validator(mode="after")
    def _require_decisive_weight(self) -> "_ClueModel":
        if self.decisive and self.weight < _MIN_DECISIVE_WEIGHT:
            raise ValueError(f"decisive evidence weighs at least {_MIN_DECISIVE_WEIGHT}")
        if self.same_host and self.weight > 0:
            raise ValueError("same_host is for evidence against a cause")
        return self

    @property
    def clue(self) -> Clue:
        return Clue(self.id, self.key, self.when.source, self.weight, self.says, self.when, self.decisive, self.same_host)


def _validate_evidence(clues: tuple[_ClueModel, ...]) -> tuple[_ClueModel, ...]:
    ids = [clue.id for clue in clues]
    duplicate_ids = sorted({clue_id for clue_id in ids if ids.count(clue_id) > 1})
    if duplicate_ids:
        raise ValueError(f"clue {', '.join(duplicate_ids)} stands twice")
    if not any(clue.weight > 0 for clue in clues):
        raise ValueError("no evidence for it")
    return clues


_CheckId = Annotated[Text, _build_pattern_validator(r"[a-z][a-z0-9_]{1,31}", "{!r} is not a check id".format)]
_PlanText = Annotated[
    Text, _build_pattern_validator(rf"{_STEP}(?: > {_STEP})*", "{!r} is not a plan (steps in snake_case joined by ' > ')".format)
]
_LeafName = Annotated[
    str,
    _build_pattern_validator(r"[A-Z][A-Z0-9_]*\.[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*", "{!r}: a leaf is named BRANCH.Leaf_Name".format),
]
_BranchName = Annotated[
    str, _build_pattern_validator(r"[A-Z][A-Z0-9_]*", "branch {!r}: a branch is NAME: title, the name in capitals".format)
]


class _LeafModel(StrictModel):
    title: Text
    plain: Text = ""
    description: Text
    scope: Scope
    owner: Owner
    symptoms: Annotated[tuple[Annotated[Text, AfterValidator(_validate_symptom)], ...], _NotEmpty]
    words: Annotated[tuple[Annotated[Text, AfterValidator(_validate_lower_case)], ...], _NotEmpty]
    only_words: Flag = False
    evidence: Annotated[tuple[_ClueModel, ...], _NotEmpty, AfterValidator(_validate_evidence)] = ()
    checks: Annotated[tuple[_CheckId, ...], _NotEmpty] = ()
    confirms: tuple[_CheckId, ...] = ()
    remedies: Annotated[tuple[_PlanText, ...], _NotEmpty] = ()
    suppresses: Texts = ()
    customer_words: Text = ""
    customer_fix: CustomerFixRow | None = None
    next_step: Text
    share: Annotated[Number, AfterValidator(_validate_share)]
    share_from: Text
    sources: SomeTexts
    min_hosts: Annotated[int, Strict(), Field(ge=1)] = 1
    transient: Annotated[bool, Strict()] = False

    @model_validator(mode="after")
    def _validate_row(self) -> "_LeafModel":
        if self.only_words:
            excess_fields = self.model_fields_set & _DIAGNOSED_FIELDS
            if excess_fields:
                raise ValueError(f"no look decides what only words tell of, so it has no {', '.join(sorted(excess_fields))}")
            return self
        missing_fields = _REQUIRED_DIAGNOSED_FIELDS - self.model_fields_set
        if missing_fields:
            raise ValueError(f"{', '.join(sorted(missing_fields))} missing; a cause that no look decides says only_words: true")
        return self

    def build_leaf(self, label: str) -> Leaf:
        leaf_fields = {name: getattr(self, name) for name in type(self).model_fields if name not in ("evidence", "customer_fix")}
        fix = self.customer_fix.fix if self.customer_fix else None
        return Leaf(label=label, evidence=tuple(clue_model.clue for clue_model in self.evidence), customer_fix=fix, **leaf_fields)


class _TaxonomyFileModel(StrictModel):
    category: Annotated[Text, AfterValidator(_validate_category)]
    branches: dict[_BranchName, Text] = Field(default_factory=dict)
    leaves: Annotated[dict[_LeafName, _LeafModel], _NotEmpty]
