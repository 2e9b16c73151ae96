"""Read the answers of `aidai_cases` for counting; shares with intervals valid for few cases. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, Final

import numpy as np

from tests.bench.arms.arm import Account, Answer, Cost
from tests.bench.case_files.truth import Culprit, Truth
from tests.bench.score import Marked

Z95: Final = 1.959964
COSTS: Final = ("makespan", "check_seconds", "gpu_seconds", "calls", "tokens_in", "tokens_out", "usd")
Kept = Mapping[str, Any]
Wanted = Callable[[Marked], bool]


@dataclass(frozen=True, slots=True)
class Answers:
    """One set of cases with each arm's answers."""

    held: Kept

    @property
    def arms(self) -> tuple[str, ...]:
        """Return the arms with answers."""
        return tuple(name for name, said in self.held.get("arms", {}).items() if said)

    def has(self, *arms: str) -> bool:
        return all(arm in self.arms for arm in arms)

    def rows(self, arm: str, wanted: Wanted | None = None, among: Iterable[str] | None = None) -> list[Marked]:
        """Return an arm's answers for all or some cases; empty if it was not run."""
        some = None if among is None else frozenset(among)
        said = self.held.get("arms", {}).get(arm, {})
        found = [_marked(name, self.held["cases"][name], row) for name, row in said.items() if some is None or name in some]
        return [row for row in found if wanted is None or wanted(row)]

    def answered_by(self, arm: str) -> frozenset[str]:
        """Return the cases that the arm answered."""
        return frozenset(self.held.get("arms", {}).get(arm, {}))

    def pipeline(self, arm: str, row: Marked) -> int:
        """Return the number of the AidAI pipeline that gave the answer."""
        return int(self.held["arms"][arm][row.case]["pipeline"])

    def pipelines(self, arm: str, wanted: Wanted) -> list[int]:
        """Return the pipeline of each right answer."""
        return [self.pipeline(arm, row) for row in self.rows(arm, wanted) if row.right]


def of(kept: Kept, name: str) -> Answers:
    """Return a set by name, empty if not measured."""
    return Answers(kept.get("sets", {}).get(name, {}))


def known(row: Marked) -> bool:
    """Return whether the solver could know the label."""
    return not row.truth.removed


def _marked(name: str, case: Kept, row: Kept) -> Marked:
    causes = tuple(Culprit(label) for label in case["causes"])
    blind = tuple(case.get("blind", ()))
    removed = tuple(case["causes"]) if case.get("removed") else ()
    truth = Truth(causes[0], causes[1:], tuple(case.get("secondary_ok", ())), removed=removed, blind=blind)
    account = Account(could_not_look=tuple(f"{check} " for check in blind)) if row.get("names_blind_look") else None
    cost = Cost(**{name: row.get(name, 0) for name in COSTS})
    answer = Answer(tuple(row.get("said", truth.labels)), cost=cost, account=account)
    return Marked(name, str(case["layer"]), truth, answer)


def wilson(hits: float, of_all: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share."""
    share, z2 = hits / of_all, Z95**2
    middle, half = share + z2 / (2 * of_all), Z95 * sqrt(share * (1 - share) / of_all + z2 / (4 * of_all**2))
    low, high = ((middle + sign * half) / (1 + z2 / of_all) for sign in (-1, 1))
    return max(0.0, low), min(1.0, high)


def share(hits: float, of_all: int) -> str:
    """Format `15/20 = 0.75 [0.53, 0.89]`, or a dash for zero cases."""
    if not of_all:
        return "–"
    low, high = wilson(hits, of_all)
    return f"{hits:g}/{of_all} = {hits / of_all:.2f} [{low:.2f}, {high:.2f}]"


def mean_of(rows: Sequence[Marked], cost: str) -> float:
    """Return the mean cost of an answer."""
    return float(np.mean([getattr(row.answer.cost, cost) for row in rows]))


def in_category(rows: Sequence[Marked], category: str) -> tuple[int, int, int]:
    """Return true positives, false positives and false negatives at the leaf, over labels of the category. A wrong
    label counts in its own category.
    """
    right = wrong = missed = 0
    for row in rows:
        true = frozenset(row.truth.labels)
        named = true if row.names_blind_look else row.named
        ours, theirs = ({label for label in labels if label.startswith(f"{category}.")} for labels in (true, named))
        right, wrong, missed = right + len(ours & theirs), wrong + len(theirs - true), missed + len(ours - named)
    return right, wrong, missed
