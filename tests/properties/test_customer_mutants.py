"""Every bug that is seeded into scope and identity is caught by the story that goes straight to it, and without a bug all stories are content."""

import pytest

from tests.properties import customer_stories, customer_threads
from tests.properties.mutants_customers import CUSTOMER_MUTANTS, IN_SLACK, CustomerMutant, killed, unmoved


def test_the_product_without_a_bug_pleases_every_story_when_it_is_loaded_anew() -> None:
    assert unmoved() == []


@pytest.mark.parametrize("mutant", CUSTOMER_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_bug_of_scope_or_identity_is_killed(mutant: CustomerMutant) -> None:
    assert killed(mutant), f"survived: {mutant.name}"


def test_each_story_has_a_bug_that_it_catches() -> None:
    assert {mutant.story for mutant in CUSTOMER_MUTANTS} == {*customer_stories.STORIES, *customer_threads.STORIES}
    assert set(customer_threads.STORIES) == IN_SLACK
