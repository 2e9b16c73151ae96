"""The inbound and outbound interfaces keep their invariants, and every bug seeded into them is caught by the broken
invariant's story.
"""

import pytest

from tests.properties import door_stories
from tests.properties.mutants_doors import DOOR_MUTANTS, control, kill
from tests.properties.mutation import Mutant

pytestmark = pytest.mark.tier2


@pytest.mark.parametrize("story", door_stories.STORIES)
def test_holds(story: str) -> None:
    assert door_stories.tell(story) == ""


def test_doors_without_bug_please_every_story() -> None:
    assert control() == ""


@pytest.mark.parametrize("mutant", DOOR_MUTANTS, ids=lambda mutant: mutant.name)
def test_is_killed(mutant: Mutant) -> None:
    said = kill(mutant)
    assert f"{mutant.breaks}: " in said, f"survived: {mutant.name} ({mutant.breaks}) {said}"
