"""Changes since a host was last healthy are reported with both values and accuse no host."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from graph.engine.peer_differences import PAST_DIFFERS_KEY, HostBaseline
from graph.incident.incident_graph import build_incident_graph, run_turn
from graph.report import Report
from tests.support.clock import T0
from tests.support.fakes_graph import CHECKS, FakeFleet, World, check, fact, healthy, item

HOSTS = ("n1", "n2", "n3", "n4")


async def run(text: str, kind: str, now: list[str], before: list[str]) -> Report:
    """Report on four hosts; n2 has rows `now` and the stored baseline `before`."""

    async def remembered(hosts: Collection[str]) -> Mapping[str, HostBaseline]:
        return {host: HostBaseline(T0 - timedelta(days=3), {kind: tuple(before)}) for host in hosts if host == "n2"}

    base = {**CHECKS, "base": check("base", "base.rows", PAST_DIFFERS_KEY)}
    world = World(fleet=FakeFleet([*healthy(*HOSTS), fact("n2", "base", "base.rows", now, kind)], checks=base))
    return await run_turn(build_incident_graph(InMemorySaver()), replace(world.ports(), remembered=remembered), item(text))


CHANGES: tuple[tuple[str, list[str], list[str], tuple[str, str, str]], ...] = (
    ("service", ["sssd = active"], ["sssd = inactive"], ("service sssd", "inactive", "active")),
    ("package", ["libfoo = 1.2"], ["libfoo = 1.3"], ("package libfoo", "1.3", "1.2")),
    ("sysctl", ["vm.swappiness = 60"], ["vm.swappiness = 1"], ("sysctl vm.swappiness", "1", "60")),
    ("mount", ["/data = nfs4"], [], ("mount /data", "absent", "nfs4")),
    ("mount", [], ["/scratch = xfs"], ("mount /scratch", "xfs", "absent")),
    ("system", ["kernel = 5.15"], ["kernel = 6.8"], ("system kernel", "6.8", "5.15")),
)


@pytest.mark.parametrize("text", ["n2 is slow", "is n2 healthy?", "job 4711 hangs on n2"])
@pytest.mark.parametrize(("kind", "before", "now", "told"), CHANGES)
async def test_a_change_since_a_host_was_last_well_is_told_with_both_values(
    text: str, kind: str, before: list[str], now: list[str], told: tuple[str, str, str]
) -> None:
    report = await run(text, kind, now, before)
    (said,) = report.differs
    assert said.startswith("n2: ")
    assert all(part in said for part in told)
    assert report.root_causes == ()


async def test_a_host_that_is_as_it_was_differs_in_nothing() -> None:
    report = await run("n2 is slow", "service", ["sssd = active"], ["sssd = active"])
    assert (report.differs, report.outcome) == ((), "no_fault")
