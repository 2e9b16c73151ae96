"""Shared by all tests: tiers, retries, skips, and Hypothesis profiles."""

import gc
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.processes import starts_processes

TESTS = Path(__file__).parent
CAPTURES = Path(os.environ.get("RACKMEDIC_CAPTURES", TESTS.parents[1] / "shared" / "captures"))
MAY_SKIP = ("captures", "incidents", "no real rack can stand here")
"""Reasons for which a test may skip although RACKMEDIC_NO_SKIPS=1 is set: published material and the kernel features of a rack may be absent."""

TIER_OF_FOLDER = {
    "bench_itself": "tier2",
    "conversations": "tier2",
    "model_server": "tier2",
    "real": "tier2",
    "stories": "tier2",
}
"""The tier of a folder's tests. A mark on a module or a test (`tier1`, `tier2`, `tier3`) takes precedence; without either a test is tier 1."""
TIERS = frozenset({"tier1", "tier2", "tier3"})
MAX_RETRIES = 3
"""Retries in one run above which the run fails: so many timeouts are a defect, or the machine is unfit."""

DETERMINISTIC = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("rackmedic", DETERMINISTIC, derandomize=True)
settings.register_profile("explore", DETERMINISTIC, max_examples=2000)
settings.register_profile("explore_slice", DETERMINISTIC, max_examples=300)
settings.load_profile("rackmedic")  # the same code passes or fails the same way each time; `make explore` tries new examples


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test's tier, the tests that start processes, and those that are retried after a timeout."""
    for item in items:
        if not TIERS.intersection(mark.name for mark in item.iter_markers()):
            item.add_marker(TIER_OF_FOLDER.get(item.path.relative_to(TESTS).parts[0], "tier1"))
        if isinstance(item, pytest.Function) and starts_processes(item):
            item.add_marker("processes")
            if not item.get_closest_marker("liveness"):
                item.add_marker(pytest.mark.flaky(reruns=1, condition=timed_out))


def pytest_collection_finish() -> None:
    """Keep the garbage collector from visiting all imported modules and collected tests again and again."""
    gc.collect()
    gc.freeze()


def timed_out(error: BaseException | None) -> bool:
    """Return whether a wait ended without what it waited for: a TimeoutError of Python's or of Playwright's, and no broken assertion."""
    return type(error).__name__ == "TimeoutError"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]  # a generator of pytest's own shape
    """Turn a skip into a failure where nothing may skip."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("RACKMEDIC_NO_SKIPS"):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        if not any(word in reason for word in MAY_SKIP):
            report.outcome, report.longrepr = "failed", f"skipped where nothing may skip: {reason}"
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that needed more than MAX_RETRIES retries. `-r R` lists each of them."""
    if (reporter := session.config.pluginmanager.get_plugin("terminalreporter")) is None:  # a worker: the controller counts
        return
    retries = len(reporter.stats.get("rerun", ()))
    if retries > MAX_RETRIES and session.exitstatus == pytest.ExitCode.OK:
        reporter.write_line(f"FAILED: {retries} retries, at most {MAX_RETRIES} are allowed")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
