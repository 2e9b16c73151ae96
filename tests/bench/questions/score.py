"""Mark answers to the questions. Pure except for loading a draft as a site file; no model judges anything.

A: each field, and all four. B: a check is right with its hosts and device; a draft if it validates, has the given
command, and finds exactly the facts of every hidden output. C: the choice among four, and the open ranking's first by
level and first three.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.bench.questions.catalogue import Attribution, Extraction, Hidden, Need, Sentence
from tests.bench.score import at_level, mean
from tools.checks import CHECKS
from tools.checks.check_types import Check, Unreadable
from tools.checks.site.loader import BadChecks, load_site_checks
from tools.fact import Status

Shares = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Extracted:
    """An answer of metric A."""

    hosts: frozenset[str] = frozenset()
    port: str = ""
    job: str = ""
    act: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """An answer to a described need."""

    check: str = ""
    hosts: frozenset[str] = frozenset()
    device: str = ""


@dataclass(frozen=True, slots=True)
class Attributed:
    """An answer of metric C: a ranking, best first, and the choice among four; empty if missing."""

    ranked: tuple[str, ...] = ()
    choice: str = ""


@dataclass(slots=True)
class Answers:
    """An arm's answers by question. Missing ones are not counted."""

    extracted: dict[str, Extracted] = field(default_factory=dict)
    looks: dict[str, Look] = field(default_factory=dict)
    drafts: dict[str, str] = field(default_factory=dict)  # YAML as answered
    attributed: dict[str, Attributed] = field(default_factory=dict)


def metric_a(questions: Sequence[Extraction], answers: Mapping[str, Extracted]) -> Shares:
    """Return exact matches by field and overall."""
    rows = [
        {
            "hosts": answers[one.id].hosts == one.truth.names,
            "port": answers[one.id].port.lower() == one.truth.port.lower(),
            "job": answers[one.id].job == one.truth.job,
            "act": answers[one.id].act == one.truth.act,
        }
        for one in questions
        if one.id in answers
    ]
    return _shares([{"all": all(row.values()), **row} for row in rows])


def metric_b(needs: Sequence[Need], sentences: Sequence[Sentence], answers: Answers) -> Shares:
    """Return shares of checks, of drafts, and of both."""
    looks = [_look(one, answers.looks[one.id]) for one in needs if one.id in answers.looks]
    drafts = [_draft(one, answers.drafts[one.id]) for one in sentences if one.id in answers.drafts]
    both = [{"all": row["look"]} for row in looks] + [{"all": row["draft"]} for row in drafts]
    return {**_shares(both if looks and drafts else []), **_shares(looks), **_shares(drafts)}


def metric_c(questions: Sequence[Attribution], answers: Mapping[str, Attributed]) -> Shares:
    """Return shares of the choice and of the ranking at levels 1 and 3."""
    chosen = [one for one in questions if one.id in answers and answers[one.id].choice]
    ranked = [_ranked(one, answers[one.id].ranked) for one in questions if one.id in answers and answers[one.id].ranked]
    right = [{"choice": answers[one.id].choice == one.truth.label} for one in chosen]
    plain = [{"choice_plain": row["choice"]} for one, row in zip(chosen, right, strict=True) if not one.given.quotes]
    return {**_shares(right), **_shares(plain), **_shares(ranked)}


def drafted(question: Sentence, text: str) -> Check | str:
    """Return a draft's check as the product loads it, or the refusal's reason."""
    with tempfile.TemporaryDirectory(prefix="rackmedic-bench-") as folder:
        (Path(folder) / "draft.yaml").write_text(text)
        try:
            found = load_site_checks(Path(folder), known=CHECKS)
        except BadChecks as error:
            return str(error).replace(f"{folder}/", "")
    if len(found) != 1:
        return f"{len(found)} checks where one was asked for"
    [check] = found.values()
    return check if check.commands[0].argv == question.given.command else f"another command: {' '.join(check.commands[0].argv)}"


def finds(question: Sentence, check: Check, hidden: Hidden) -> bool:
    """Return whether the check finds exactly the facts of an output."""
    try:
        facts = list(check.formats[0].parse(hidden.output))
    except Unreadable:
        return False
    own = len(check.establishes) == 1
    found = [
        (repr(fact.value), fact.device or "", "wrong" in fact.attrs)
        for fact in facts
        if fact.status is Status.OK and (own or fact.key == question.given.key)
    ]
    return sorted(found) == sorted((repr(one.value), one.device, one.wrong) for one in hidden.facts)


def as_text(question: Sentence, facts: Mapping[str, Any]) -> str:
    return yaml.safe_dump(question.whole(facts), sort_keys=False, allow_unicode=True)


def _look(one: Need, answer: Look) -> dict[str, bool]:
    row = {
        "look_check": answer.check in one.truth.checks,
        "look_hosts": answer.hosts == one.truth.names,
        "look_device": not one.truth.device or answer.device == one.truth.device,
    }
    return {"look": all(row.values()), **row}


def _draft(one: Sentence, text: str) -> dict[str, bool]:
    check = drafted(one, text)
    valid = not isinstance(check, str)
    right = not isinstance(check, str) and all(finds(one, check, hidden) for hidden in one.truth.hidden)
    return {"draft": right, "draft_valid": valid}


def _ranked(one: Attribution, ranked: Sequence[str]) -> dict[str, bool]:
    right = {one.truth.label, *one.truth.also}
    return {
        "level_1": at_level(ranked[0], 1) in {at_level(label, 1) for label in right},
        "level_3": ranked[0] in right,
        "level_3_in_first_3": bool(right & set(ranked[:3])),
    }


def _shares(rows: Sequence[Mapping[str, bool]]) -> Shares:
    """Return each column's share with its interval."""
    names = list(rows[0]) if rows else []
    return {name: {"right": sum(row[name] for row in rows), "of": len(rows), **(mean([row[name] for row in rows]) or {})} for name in names}
