"""Every seeded safety bug is caught, by the killer that the table names; and SECURITY.md shows the same table."""

import re
from pathlib import Path

import pytest

from graph.actions import carry_out
from tests.properties.mutants_actions import ACTION_MUTANTS, steps_of, table, tell
from tests.properties.mutants_ledger import MUTANTS, Mutant, changed, control, kill

BEGIN, END = "<!-- mutants: begin -->", "<!-- mutants: end -->"
SECURITY = Path(__file__).parents[2] / "SECURITY.md"


def test_the_ledger_itself_pleases_every_killer() -> None:
    assert control() == ""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_is_killed(mutant: Mutant) -> None:
    assert kill(mutant).killed_by, f"survived: {mutant.name} ({mutant.breaks})"


@pytest.mark.parametrize("mutant", ACTION_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_bug_in_the_steps_of_an_action_is_killed(mutant: Mutant) -> None:
    assert tell(carry_out, mutant.killer) == ""
    with steps_of(mutant) as steps:
        assert tell(steps, mutant.killer), f"survived: {mutant.name} ({mutant.breaks})"


def test_an_edit_that_fits_nowhere_any_more_is_an_error() -> None:
    stale = Mutant("stale", "I2", (("ledger.ledger", "no such line", ""),))
    with pytest.raises(ValueError, match="0 times"):
        changed(stale)


def test_security_md_shows_the_table_of_the_code() -> None:
    text = SECURITY.read_text()
    shown = text[text.index(BEGIN) + len(BEGIN) : text.index(END)].strip()
    assert shown == table(), "`python -m tests.properties.mutants_actions` prints it"


def test_security_md_names_only_tests_that_exist() -> None:
    named = set(re.findall(r"`(tests/[^`]+\.py)`", SECURITY.read_text()))
    assert len(named) >= 6
    assert not [path for path in named if not (SECURITY.parent / path).exists()]
