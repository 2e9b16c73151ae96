"""Ordinary breakages on the real rack: each is broken, reported plainly, answered rightly, and repaired."""

import pytest
from _pytest.mark import ParameterSet

from deploy.lab.layout import Rack
from tests.real.breakages.breakage import Breakage
from tests.real.breakages.play import play
from tests.real.breakages.table import BREAKAGES
from tools.inventory.host_ranges import expand_host_range

MIN_BREAKAGES = 48
MIN_CONTROLS = 4
TIER_2_BREAKAGES = 12


def case(row: Breakage) -> ParameterSet:
    """Return a row's test case. A row known to be wrong must fail, so that its correction is noticed."""
    marks = [getattr(pytest.mark, f"tier{row.tier}")]
    if row.known_wrong:
        marks.append(pytest.mark.xfail(reason=row.known_wrong, strict=True, raises=AssertionError))
    return pytest.param(row, id=f"{row.area}-{row.id}", marks=marks)


@pytest.mark.parametrize("row", [case(row) for row in BREAKAGES])
async def test_breakage_is_told_and_no_other_host_is_accused(rack: Rack, row: Breakage) -> None:
    judged = await play(rack, row)
    assert (judged.verdict, judged.healthy, judged.foreign) == ("right", False, ()), judged


@pytest.mark.tier1
def test_each_breakage_is_undone_and_says_whose_fault_it_is() -> None:
    broken = [row for row in BREAKAGES if not row.is_control]
    assert len({row.id for row in BREAKAGES}) == len(BREAKAGES)
    assert len(broken) >= MIN_BREAKAGES
    assert len(BREAKAGES) - len(broken) >= MIN_CONTROLS
    assert sum(row.tier == 2 for row in BREAKAGES) == TIER_2_BREAKAGES
    assert [row.id for row in broken if not (row.around or (row.do and row.undo and row.sign))] == []
    assert [row.id for row in broken if not (expand_host_range(row.at_fault) and row.right and row.report)] == []
