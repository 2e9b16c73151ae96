"""A fault in a node never becomes a false claim: a reasoning contract names it, or the turn abstains."""

from typing import get_args

import pytest

from graph.provenance.invariants import INVARIANTS
from tests.properties import reasoning_stories
from tests.properties.mutants_reasoning import ABSTAINS, REASONING_MUTANTS, FaultKind, ReasoningMutant, ending, endings_without_fault

pytestmark = pytest.mark.tier2

PROMISES = {row.id: row.promise for row in INVARIANTS}


@pytest.mark.parametrize("story", reasoning_stories.STORIES)
def test_without_a_fault_a_story_ends_in_the_truth_or_an_abstention(story: str) -> None:
    assert reasoning_stories.tell(story).how in ("true", "abstained")


def test_recompiled_nodes_end_as_the_nodes_themselves_do() -> None:
    assert set(endings_without_fault().splitlines()) <= {"true", "abstained"}


@pytest.mark.parametrize("mutant", REASONING_MUTANTS, ids=lambda row: row.name)
def test_no_fault_becomes_a_lie(mutant: ReasoningMutant) -> None:
    how = ending(mutant)
    if mutant.ends == ABSTAINS:
        assert how == "abstained"
    elif mutant.ends in PROMISES:
        assert how == f"broken: {PROMISES[mutant.ends]}"
    else:
        assert how == "true", f"{mutant.ends}, and it ended so: {how}"


def test_every_kind_of_fault_is_tried() -> None:
    assert {row.breaks for row in REASONING_MUTANTS} == set(get_args(FaultKind))
