"""Stories start whole bots, so they are tier 2. Tier 1 has one of each kind."""

from pathlib import Path

import pytest

TIER_1 = frozenset(
    {
        "test_crash.py::test_kill_nine_between_click_and_proof_runs_nothing_twice[running]",
        "test_remedies.py::test_a_fault_is_mended_by_its_remedies_and_each_runs_once[S18]",
        "test_repair.py::test_one_click_mends_what_the_diagnosis_found",
    }
)
"""One kill -9, one repair over real sshd, and one repair in a browser from the fault to its proof."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the stories of this folder that are not named above."""
    for item in items:
        if item.path.parent == Path(__file__).parent and item.nodeid.rpartition("/")[2] not in TIER_1:
            item.add_marker(pytest.mark.tier2)
