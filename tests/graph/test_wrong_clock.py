"""A clock that its own time source calls wrong is the cause, even while chrony follows that source."""

from dataclasses import replace

import pytest

from graph.engine.assessment import assess_facts
from kb.taxonomy.loader import load_taxonomy
from tests.support.clock import T0
from tests.support.fakes_graph import fact, lens
from tools.checks import CHECKS
from tools.fact import Fact

WHOLE = replace(lens(load_taxonomy()), checks=CHECKS)
SKEW = "SYSTEM_SOFTWARE.TIME.Clock_Skew"
FOLLOWS = (
    fact("n3", "time", "time.synchronised", True),
    fact("n3", "sysd", "service.state", "active", "chrony"),
    fact("n3", "sysd", "service.state", "active", "chronyd"),
)


def causes(*facts: Fact) -> list[tuple[str, tuple[str, ...]]]:
    return [(row.label, row.hosts) for row in assess_facts(facts, WHOLE, ("n1", "n2", "n3"), {}, T0).list_root_causes()]


@pytest.mark.parametrize("seconds", [600.0, -600.0])
def test_a_clock_that_is_off_while_chrony_follows_its_source_is_the_cause(seconds: float) -> None:
    assert causes(*FOLLOWS, fact("n3", "time", "time.offset", seconds)) == [(SKEW, ("n3",))]


def test_a_clock_that_is_off_by_a_few_seconds_is_not() -> None:
    assert causes(*FOLLOWS, fact("n3", "time", "time.offset", 12.0)) == []
