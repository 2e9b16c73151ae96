"""Every bug in scope and identity is caught by its story, and without a bug no story complains."""

import pytest

from tests.properties.mutants_customers import CUSTOMER_MUTANTS, STORIES, control, kill
from tests.properties.mutation import Mutant

pytestmark = pytest.mark.tier2


def test_product_without_bug_pleases_every_story() -> None:
    assert control() == ""


@pytest.mark.parametrize("mutant", CUSTOMER_MUTANTS, ids=lambda mutant: mutant.name)
def test_bug_of_scope_or_identity_is_killed(mutant: Mutant) -> None:
    assert kill(mutant), f"survived: {mutant.name}"


def test_each_story_has_a_bug_that_it_catches() -> None:
    assert {mutant.story for mutant in CUSTOMER_MUTANTS} == set(STORIES)
