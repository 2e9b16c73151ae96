"""Reads taxonomy files. Everything that is wrong with them is found in one pass and refused together."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import get_args

from kb import keys
from kb.taxonomy.expressions import BadExpression, Expression
from kb.taxonomy.labels import CATEGORIES, SLOT, SYMPTOMS, Clue, Leaf, Owner, Scope, Taxonomy
from kb.yaml import Node, Problems, Row, read

BUILT_IN = Path(__file__).parent
_FILE_FIELDS = ("category", "branches", "leaves")
_LEAF_FIELDS = (
    *("title", "description", "scope", "owner", "symptoms", "words", "share", "share_from", "min_hosts", "evidence", "checks", "confirms"),
    *("remedies", "suppresses", "customer_words", "next_step", "sources"),
)
_CLUE_FIELDS = ("id", "key", "when", "weight", "decisive", "says")

_BRANCH = re.compile(r"[A-Z][A-Z0-9_]*")
_LEAF_NAME = re.compile(r"[A-Z][A-Z0-9_]*\.[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*")
_CHECK = re.compile(r"[a-z][a-z0-9_]{1,31}")
_STEP = r"[a-z][a-z0-9_]*(?:\([A-Za-z0-9_.,:= -]*\))?"
_REMEDY = re.compile(rf"{_STEP}(?: > {_STEP})*")
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
    branches = dict(CATEGORIES)
    leaves: dict[str, tuple[Leaf, Node]] = {}
    for folder in (BUILT_IN, *dirs):
        leaves |= _folder(folder, branches, problems)
    _cross_check(leaves, branches, problems)
    if problems.found:
        raise BadTaxonomy(problems.found)
    return Taxonomy({label: leaf for label, (leaf, _) in leaves.items()}, branches)


def _folder(folder: Path, branches: dict[str, str], problems: Problems) -> dict[str, tuple[Leaf, Node]]:
    leaves: dict[str, tuple[Leaf, Node]] = {}
    if not folder.is_dir():
        problems.found.append(f"{folder}:1: there is no such folder")
    for path in sorted(folder.glob("*.y*ml")):
        document = read(path, problems)
        for leaf, where in _document(document, branches, problems) if document else ():
            if leaf.label in leaves:
                problems.note(where, f"{leaf.label} stands also at {leaves[leaf.label][1].file}:{leaves[leaf.label][1].line}")
            leaves[leaf.label] = (leaf, where)
    return leaves


def _document(document: Node, branches: dict[str, str], problems: Problems) -> Iterator[tuple[Leaf, Node]]:
    row = Row(document, problems, "taxonomy file")
    if not isinstance(document.plain, dict):
        problems.note(document, f"a taxonomy file is a mapping of {', '.join(_FILE_FIELDS)}")
        return
    row.only(*_FILE_FIELDS)
    category = row.text("category")
    if category not in CATEGORIES:
        row.note("category", f"category {category!r} is none of {', '.join(CATEGORIES)}")
    _read_branches(document.get("branches"), category, branches, problems)
    leaves = document.get("leaves")
    if leaves is None or not leaves.entries:
        problems.note(leaves or document, "taxonomy file: leaves is missing or empty")
        return
    for name, body in leaves.entries:
        if not isinstance(name.plain, str) or not _LEAF_NAME.fullmatch(name.plain):
            problems.note(name, f"{name.plain!r}: a leaf is named BRANCH.Leaf_Name")
        elif not isinstance(body.plain, dict):
            problems.note(body, f"{name.plain}: a leaf is a mapping")
        else:
            yield _leaf(f"{category}.{name.plain}", name, Row(body, problems, name.plain)), name


def _read_branches(node: Node | None, category: str, branches: dict[str, str], problems: Problems) -> None:
    for name, title in node.entries if node else ():
        if isinstance(name.plain, str) and _BRANCH.fullmatch(name.plain) and isinstance(title.plain, str):
            branches[f"{category}.{name.plain}"] = title.plain
        else:
            problems.note(name, f"branch {name.plain!r}: a branch is NAME: title, the name in capitals")


def _leaf(label: str, name: Node, row: Row) -> Leaf:
    row = Row(Node(row.node.plain, name.file, name.line, entries=row.node.entries), row.problems, row.what)
    row.only(*_LEAF_FIELDS)
    leaf = Leaf(
        label=label,
        title=row.text("title"),
        description=row.text("description"),
        scope=row.text("scope"),  # type: ignore[arg-type]  # checked by _check_words
        owner=row.text("owner"),  # type: ignore[arg-type]  # checked by _check_words
        symptoms=row.texts("symptoms", needed=True),
        words=row.texts("words", needed=True),
        evidence=tuple(_clue(clue) for clue in row.rows("evidence", "clue")),
        checks=row.texts("checks", needed=True),
        confirms=row.texts("confirms"),
        remedies=row.texts("remedies", needed=True),
        suppresses=row.texts("suppresses"),
        customer_words=row.text("customer_words"),
        next_step=row.text("next_step"),
        share=_share(row),
        share_from=row.text("share_from"),
        sources=row.texts("sources", needed=True),
        min_hosts=_min_hosts(row),
    )
    _check_words(leaf, row)
    _check_evidence(leaf, row)
    return leaf


def _share(row: Row) -> float:
    share = row.number("share")
    if _SHARE_AT_LEAST <= share <= _SHARE_AT_MOST:
        return share
    row.note("share", f"share must lie between {_SHARE_AT_LEAST} and {_SHARE_AT_MOST}")
    return _SHARE_AT_LEAST


def _min_hosts(row: Row) -> int:
    if row.node.get("min_hosts") is None:
        return 1
    number = row.number("min_hosts")
    if number < 1 or number != int(number):
        row.note("min_hosts", "min_hosts must be a whole number of at least 1")
    return max(1, int(number))


def _clue(row: Row) -> Clue:
    row.only(*_CLUE_FIELDS)
    key, when, weight = row.text("key"), row.text("when"), row.number("weight")
    if key and (keys.find(key) is None or key.endswith("*")):
        row.note("key", f"unknown fact key {key}")
    try:
        expression = Expression(when or "true")
    except BadExpression as why:
        row.note("when", f"when: {why}")
        expression = Expression("false")
    if not 0 < abs(weight) <= 12:
        row.note("weight", "weight must be between -12 and 12 and not 0")
    decisive = row.flag("decisive")
    if decisive and weight < _DECISIVE_AT_LEAST:
        row.note("decisive", f"decisive evidence weighs at least {_DECISIVE_AT_LEAST}")
    says = row.text("says")
    for slot in SLOT.findall(says):
        if slot not in ("value", "device", "unit", "expected", "majority") and not re.fullmatch(r"attrs\.[a-z_]+", slot):
            row.note("says", f"says: unknown slot {{{slot}}}")
    return Clue(id=row.text("id"), key=key, when=when, weight=weight, says=says, expression=expression, decisive=decisive)


def _check_words(leaf: Leaf, row: Row) -> None:
    for name, value, known in (("scope", leaf.scope, get_args(Scope)), ("owner", leaf.owner, get_args(Owner))):
        if value not in known:
            row.note(name, f"{name} {value!r} is none of {', '.join(known)}")
    for symptom in sorted(set(leaf.symptoms) - SYMPTOMS):
        row.note("symptoms", f"unknown symptom {symptom}; there are {', '.join(sorted(SYMPTOMS))}")
    for word in leaf.words:
        if word != word.lower():
            row.note("words", f"words are lower case: {word}")
    _check_shape(row, "checks", leaf.checks, _CHECK, "a check id")
    _check_shape(row, "confirms", leaf.confirms, _CHECK, "a check id")
    _check_shape(row, "remedies", leaf.remedies, _REMEDY, "a plan (steps in snake_case joined by ' > ')")


def _check_shape(row: Row, name: str, values: Iterable[str], shape: re.Pattern[str], called: str) -> None:
    for value in values:
        if not shape.fullmatch(value):
            row.note(name, f"{value!r} is not {called}")


def _check_evidence(leaf: Leaf, row: Row) -> None:
    seen: set[str] = set()
    for clue in leaf.evidence:
        if clue.id in seen:
            row.note("evidence", f"clue {clue.id} stands twice")
        seen.add(clue.id)
    if leaf.evidence and not any(clue.weight > 0 for clue in leaf.evidence):
        row.note("evidence", "no evidence for it")


def _cross_check(leaves: dict[str, tuple[Leaf, Node]], branches: dict[str, str], problems: Problems) -> None:
    for leaf, where in leaves.values():
        branch = leaf.label.rpartition(".")[0]
        if branch not in branches:
            problems.note(where, f"{leaf.label}: branch {branch} has no title under branches")
        for other in leaf.suppresses:
            if other not in leaves or other == leaf.label:
                problems.note(where, f"{leaf.label}: suppresses {other}, which is {'itself' if other == leaf.label else 'no leaf'}")
