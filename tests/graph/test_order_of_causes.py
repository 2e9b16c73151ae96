"""Order of causes: one shared by all hosts leads, then the reported hosts' faults, then faults elsewhere."""

from dataclasses import replace

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from graph.incident.incident_graph import build_incident_graph, run_turn
from graph.report import Report
from tests.support.fakes_graph import LOST, NO_SM, OOM, RACK, FakeFleet, World, fact, healthy, instead, item
from tests.support.inventories import inventory
from tools.fact import Fact

HOSTS = ("n1", "n2", "n3", "n4")
LOST_ON_N3, KILLED_ON_N2 = fact("n3", "dmesg", "kernel.xid", 79, "gpu3"), fact("n2", "dmesg", "kernel.oom_kill", "python3")
NO_SM_BUT_ON_N2 = [fact(host, "ibstat", "ib.sm_lid", 0, "mlx5_0") for host in HOSTS if host != "n2"]

ONE_HOST = ("n2 is slow", "is n2 healthy?", "@rackmedic how is n2 doing", "n2 looks odd since noon")
SEVERAL_HOSTS = (
    "n1 and n2 are slow",
    "are n[1-2] ok?",
    "job 4711 hangs on n[1-2]",
    "NCCL timeout on n1, n2",
    "the training on n1 and n2 crashed",
)
OF_A_JOB = ("job 4711 hangs on n2", "the training on n2 is slow", "NCCL timeout on n2")


async def run(text: str, *sick: Fact) -> Report:
    world = World(fleet=FakeFleet(instead(healthy(*HOSTS), *sick)))
    return await run_turn(build_incident_graph(InMemorySaver()), world.ports(), item(text))


def labels(report: Report) -> list[str]:
    return [row.label for row in report.root_causes]


@pytest.mark.parametrize("text", [*ONE_HOST, *SEVERAL_HOSTS, *OF_A_JOB])
async def test_a_cause_of_all_hosts_leads_though_the_host_asked_about_does_not_show_it(text: str) -> None:
    report = await run(text, *NO_SM_BUT_ON_N2)
    assert (labels(report), report.also_seen) == ([NO_SM], ())
    assert report.headline.startswith("No Sm")


@pytest.mark.parametrize("text", [*ONE_HOST, *SEVERAL_HOSTS, *OF_A_JOB])
async def test_a_cause_of_all_hosts_leads_over_a_fault_of_the_host_asked_about(text: str) -> None:
    report = await run(text, KILLED_ON_N2, *NO_SM_BUT_ON_N2)
    assert (labels(report), report.also_seen) == ([NO_SM, OOM], ())


@pytest.mark.parametrize("text", [*ONE_HOST, *SEVERAL_HOSTS, *OF_A_JOB])
async def test_a_fault_of_the_hosts_asked_about_leads_and_another_one_is_also_seen(text: str) -> None:
    report = await run(text, KILLED_ON_N2, LOST_ON_N3)
    assert (labels(report), report.also_seen) == ([OOM, LOST], (LOST,))
    assert report.headline == "Oom (n2)"


@pytest.mark.parametrize("text", [*ONE_HOST, *SEVERAL_HOSTS])
async def test_healthy_hosts_asked_about_are_answered_before_a_fault_elsewhere(text: str) -> None:
    report = await run(text, LOST_ON_N3)
    assert (labels(report), report.also_seen) == ([LOST], (LOST,))
    assert report.about is not None
    assert (report.about.found, "n2" in report.about.hosts) == ("nothing", True)
    assert "LOST" not in report.headline.upper()


@pytest.mark.parametrize("text", OF_A_JOB)
async def test_the_guilty_host_of_a_job_leads_where_one_host_without_a_fault_is_named(text: str) -> None:
    report = await run(text, LOST_ON_N3)
    assert (labels(report), report.also_seen, report.about) == ([LOST], (), None)


HOT_RACK = [fact(host, "smi", "gpu.throttle.hw_thermal", True, f"gpu{n}") for host in ("n1", "n3") for n in range(4)]


@pytest.mark.parametrize("text", ["n2 is slow", "is n2 healthy?"])
@pytest.mark.parametrize(("rack_of_n2", "also_seen"), [("r1", ()), ("r2", (RACK,))])
async def test_a_cause_of_a_rack_concerns_all_hosts_in_it(text: str, rack_of_n2: str, also_seen: tuple[str, ...]) -> None:
    world = World(fleet=FakeFleet(instead(healthy(*HOSTS), *HOT_RACK)))
    racks = {"n1": "r1", "n2": rack_of_n2, "n3": "r1", "n4": "r2"}
    rows = {host: {"rack": rack} for host, rack in racks.items()}
    site = inventory(defaults={"sku": "small"}, groups={"g": {"hosts": "n[1-4]"}}, hosts=rows, channels=[])
    ports = replace(world.ports(), inventory=site)
    report = await run_turn(build_incident_graph(InMemorySaver()), ports, item(text))
    assert (labels(report), report.also_seen) == ([RACK], also_seen)
