"""The doors keep their invariants, and every bug seeded into them is caught by the story of the invariant that it breaks."""

import pytest

from tests.properties import door_stories
from tests.properties.mutants_doors import DOOR_MUTANTS, STORIES, DoorMutant, killed
from tests.properties.second_world import second_world


@pytest.mark.parametrize("story", door_stories.STORIES)
def test_holds(story: str) -> None:
    assert door_stories.tell(story) == ""


def test_the_product_without_a_bug_pleases_the_stories_when_it_is_loaded_anew() -> None:
    with second_world(()) as world:
        again = world(STORIES)
        assert again is not door_stories
        assert [again.tell(story) for story in again.STORIES] == [""] * len(door_stories.STORIES)


@pytest.mark.parametrize("mutant", DOOR_MUTANTS, ids=lambda mutant: mutant.name)
def test_is_killed(mutant: DoorMutant) -> None:
    said = killed(mutant)
    assert f"{mutant.breaks}: " in said, f"survived: {mutant.name} ({mutant.breaks}) {said}"
