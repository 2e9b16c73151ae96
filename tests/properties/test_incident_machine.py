"""Incidents keep their invariants in any order of events, the runs met each situation, and every seeded bug is caught."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.properties.incident_machine import SITUATIONS, live
from tests.properties.invariants import INVARIANTS, Invariant
from tests.properties.mutants_incident import INCIDENT_MUTANTS, control, kill
from tests.properties.mutation import Mutant

ROOT = Path(__file__).parents[2]
RUNS = settings(
    max_examples=3,
    stateful_step_count=4,
    derandomize=True,
    deadline=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def counts() -> Counter[str]:
    return live(RUNS)


def test_the_invariants_hold_in_any_order_of_events(counts: Counter[str]) -> None:
    assert counts["runs"] >= 24


@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_runs_came_across(situation: str, counts: Counter[str]) -> None:
    assert counts[situation] > 0, f"no run ever came to: {situation}"


@pytest.mark.tier2
def test_product_without_bug_pleases_the_machine() -> None:
    assert control() == ""


@pytest.mark.tier2
@pytest.mark.parametrize("mutant", INCIDENT_MUTANTS, ids=lambda mutant: mutant.name)
def test_is_killed(mutant: Mutant) -> None:
    assert kill(mutant), f"survived: {mutant.name} ({mutant.breaks})"


@pytest.mark.parametrize("invariant", INVARIANTS, ids=lambda row: row.name)
def test_each_invariant_has_a_rule_of_its_own_and_a_bug_that_breaks_it(invariant: Invariant) -> None:
    assert invariant.rules
    assert invariant.bugs
    assert not [path for path in invariant.tests if not (ROOT / path).exists()]


def test_the_invariants_are_all_there() -> None:
    assert [row.name for row in INVARIANTS] == [
        f"I{n}" for n in range(1, 32) if n != 28
    ]  # I28 belonged to a removed feature; numbers are not reused
