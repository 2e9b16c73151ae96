"""Which hosts are checked besides the named ones: all of a small fleet; in a large one, the job's and those named in
errors.
"""

from dataclasses import replace

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from graph.incident.incident_graph import build_incident_graph, run_turn
from graph.report import Report
from tests.support.fakes_graph import LOST, OOM, FakeFleet, World, fact, healthy, instead, item
from tests.support.inventories import inventory
from tools.fact import Fact
from tools.inventory.job_lookup import JobHosts

SMALL, LARGE = tuple(f"n{i}" for i in range(1, 5)), tuple(f"n{i}" for i in range(1, 81))
LOST_ON_N3, KILLED_ON_N1 = fact("n3", "dmesg", "kernel.xid", 79, "gpu3"), fact("n1", "dmesg", "kernel.oom_kill", "python3")
KILLED_ON_N12 = fact("n12", "dmesg", "kernel.oom_kill", "python3")


def world(hosts: tuple[str, ...], *sick: Fact) -> World:
    return World(fleet=FakeFleet(instead(healthy(*hosts), *sick)), hosts=f"n[1-{len(hosts)}]")


async def run(of: World, text: str, jobs: dict[str, tuple[str, ...]] | None = None) -> Report:
    async def job_place(job: str) -> JobHosts:
        return JobHosts((jobs or {}).get(job, ()))

    return await run_turn(build_incident_graph(InMemorySaver()), replace(of.ports(), job_place=job_place), item(text))


def looked_at(of: World) -> set[str]:
    return {ask.host for ask in of.fleet.asked}


async def test_one_cause_does_not_hide_another_on_an_unnamed_host() -> None:
    of = world(SMALL, KILLED_ON_N1, LOST_ON_N3)
    assert {row.label for row in (await run(of, "n1 was killed")).root_causes} == {OOM, LOST}


async def test_in_a_large_fleet_a_known_cause_ends_the_search() -> None:
    of = world(LARGE, KILLED_ON_N1, LOST_ON_N3)
    assert [row.label for row in (await run(of, "n1 was killed")).root_causes] == [OOM]
    assert looked_at(of) == {"n1"}


async def test_in_a_large_fleet_the_host_that_an_error_names_is_looked_at() -> None:
    told = replace(fact("n1", "joblog", "job.error", "nccl_remote_exited"), line="Connection closed by remote peer n3<41000>")
    of = world(LARGE, told, LOST_ON_N3)
    report = await run(of, "n1 reports errors")
    assert [(row.label, row.hosts) for row in report.root_causes] == [(LOST, ("n3",))]
    assert looked_at(of) == {"n1", "n3"}


async def test_in_a_large_fleet_the_hosts_of_the_same_job_are_looked_at() -> None:
    holds = replace(fact("n1", "smi", "proc.gpu_memory", 61000, "gpu0"), attrs={"job": "4711"})
    of = world(LARGE, holds, LOST_ON_N3)
    report = await run(of, "n1 is slow", {"4711": ("n1", "n2", "n3", "elsewhere")})
    assert [(row.label, row.hosts) for row in report.root_causes] == [(LOST, ("n3",))]
    assert looked_at(of) == {"n1", "n2", "n3"}


async def test_hosts_of_other_groups_are_no_part_of_what_names_some() -> None:
    of = world(SMALL, KILLED_ON_N1, LOST_ON_N3)
    groups = {"train": {"hosts": "n[1-2]"}, "infer": {"hosts": "n[3-4]"}}
    ports = replace(of.ports(), inventory=inventory(defaults={"sku": "small"}, groups=groups, channels=[]))
    graph = build_incident_graph(InMemorySaver())
    report = await run_turn(graph, ports, item("the job was killed\nhosts: n1"))
    assert [row.label for row in report.root_causes] == [OOM]
    assert looked_at(of) == {"n1", "n2"}
    await run_turn(graph, ports, item("something is slow").model_copy(update={"incident": "inc-2"}))
    assert looked_at(of) == set(SMALL), "who names none means all that may be seen"


FLEET = tuple(f"n{i}" for i in range(1, 25))


@pytest.mark.parametrize(
    ("sick", "hosts"),
    [
        ((KILLED_ON_N12,), {"n12"}),
        ((), {"n12", "n13", "n14", "n15"}),
        ((LOST_ON_N3,), {"n12", "n13", "n14", "n15"}),
    ],
)
@pytest.mark.parametrize("option", [True, False])
async def test_in_a_fleet_of_24_a_named_host_is_compared_with_a_few_peers(sick: tuple[Fact, ...], hosts: set[str], option: bool) -> None:
    of = world(FLEET, *sick)
    given = item("it is slow", data={"hosts": "n12"}) if option else item("it is slow on n12")
    report = await run_turn(build_incident_graph(InMemorySaver()), of.ports(), given)
    assert looked_at(of) == hosts
    assert {host for row in report.root_causes for host in row.hosts} <= {"n12"}


async def test_in_a_fleet_of_24_without_a_name_all_are_looked_at() -> None:
    of = world(FLEET, LOST_ON_N3)
    await run(of, "it is slow")
    assert looked_at(of) == set(FLEET)


async def test_beside_hosts_of_an_option_a_few_peers_are_looked_at_in_a_small_fleet_too() -> None:
    of = world(tuple(f"n{i}" for i in range(1, 9)))
    await run_turn(build_incident_graph(InMemorySaver()), of.ports(), item("it is slow", data={"hosts": "n7"}))
    assert looked_at(of) == {"n7", "n8", "n1", "n2"}


async def test_what_the_errors_of_an_options_host_name_is_looked_at_and_told_as_seen_elsewhere() -> None:
    told = replace(fact("n12", "joblog", "job.error", "nccl_remote_exited"), line="Connection closed by remote peer n3<41000>")
    of = world(FLEET, told, LOST_ON_N3)
    report = await run_turn(build_incident_graph(InMemorySaver()), of.ports(), item("job 4711 hangs", data={"hosts": "n12"}))
    assert looked_at(of) == {"n12", "n3"}
    assert (report.also_seen, report.about.hosts if report.about else ()) == ((LOST,), ("n12",))
