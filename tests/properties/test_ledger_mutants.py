"""Every bug in the ledger and the action steps is caught by its killer."""

import pytest

from tests.properties import mutants_actions, mutants_ledger
from tests.properties.mutants_actions import ACTION_MUTANTS
from tests.properties.mutants_ledger import MUTANTS
from tests.properties.mutation import Mutant


def test_ledger_without_bug_pleases_every_killer() -> None:
    assert mutants_ledger.control() == ""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_is_killed(mutant: Mutant) -> None:
    assert mutants_ledger.kill(mutant), f"survived: {mutant.name} ({mutant.breaks})"


@pytest.mark.parametrize("mutant", ACTION_MUTANTS, ids=lambda mutant: mutant.name)
def test_bug_in_steps_of_action_is_killed(mutant: Mutant) -> None:
    assert mutants_actions.control(mutant) == ""
    assert mutants_actions.kill(mutant), f"survived: {mutant.name} ({mutant.breaks})"
