"""Shared by all tests: where captures lie, that nothing skips silently in CI, which tests start processes and may try twice, and Hypothesis without
a clock."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.processes import starts_processes

CAPTURES = Path(os.environ.get("RACKMEDIC_CAPTURES", Path(__file__).parents[2] / "shared" / "captures"))
MAY_SKIP = ("captures", "incidents", "no real rack can stand here")
"""Published outputs and incidents may be absent from a checkout, and what a rack of containers needs from a machine; every other skip fails a
run with RACKMEDIC_NO_SKIPS=1."""

ONCE = ("crash", "killed", "remed", "twice", "attack", "mutant")
"""Of tests of the promises of safety, named so in file or function, each failure counts."""

EVERYWHERE = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("rackmedic", EVERYWHERE, derandomize=True)
settings.register_profile("explore", EVERYWHERE, max_examples=2000)
settings.load_profile(
    "rackmedic"
)  # a loaded machine is no finding, and the same code is judged the same way twice; `make explore` looks elsewhere


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts processes. Their timing is not ours: what fails on a machine that others load is tried once more, and named in the summary
    as RERUN, so that it is mended and does not hold up everybody."""
    for item in items:
        if isinstance(item, pytest.Function) and starts_processes(item):
            item.add_marker("processes")
            if not any(word in item.nodeid for word in ONCE):
                item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]  # a generator of pytest's own shape
    """Turn a skip into a failure where nothing may skip."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("RACKMEDIC_NO_SKIPS"):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        if not any(word in reason for word in MAY_SKIP):
            report.outcome, report.longrepr = "failed", f"skipped where nothing may skip: {reason}"
    return report
