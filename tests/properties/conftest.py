"""Which properties are tier 2. Tier 1 has the state machines, the ledger's and the actions' mutants, and what is cheap."""

from pathlib import Path

import pytest

TIER_2 = frozenset(
    {
        "test_canaries.py",
        "test_canaries_seen.py",
        "test_customer_mutants.py",
        "test_customers_own_faults.py",
        "test_door_mutants.py",
        "test_growth.py",
        "test_ledger_processes.py",
        "test_reasoning_mutants.py",
        "test_wider_look.py",
    }
)
INCIDENT_MUTANTS = (
    "test_incident_machine.py::test_is_killed",
    "test_incident_machine.py::test_the_product_without_a_bug",
)
"""Tests of the seeded bugs, in the module of the machine that finds them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder that are named above."""
    for item in items:
        name = item.nodeid.rpartition("/")[2]
        if item.path.parent == Path(__file__).parent and (item.path.name in TIER_2 or name.startswith(INCIDENT_MUTANTS)):
            item.add_marker(pytest.mark.tier2)
