"""Ordinary breakages on the simulated cluster, from a plain report to the answer, without a model."""

import asyncio
from collections.abc import Mapping

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.access.in_process import InProcessTransport
from deploy.sandbox.cluster.cases.case import T0, Output
from deploy.sandbox.cluster.plan import Plan
from graph.context import GraphContext
from graph.engine.peer_differences import HostBaseline
from graph.incident.incident_graph import build_incident_graph, run_turn
from graph.report import Report
from graph.state import InboxItem
from kb.history.index import PastIncidentIndex
from kb.taxonomy.loader import load_taxonomy
from tests.support.clock import SetClock
from tools.checks import CHECKS
from tools.evidence import MemoryEvidence
from tools.fleet.fleet import Fleet
from tools.inventory.inventory import parse_inventory
from tools.inventory.sku import load_skus

HOSTS = ("gpu-017", "gpu-018", "gpu-019", "gpu-020")
SICK = "gpu-018"
TAXONOMY, SKUS = load_taxonomy(), load_skus()
S, I = "SYSTEM_SOFTWARE.", "INTERCONNECT."  # noqa: E741


class Remembered:
    """Host baselines kept between incidents."""

    def __init__(self) -> None:
        self.rows: dict[str, HostBaseline] = {}

    async def keep(self, rows: Mapping[str, HostBaseline]) -> None:
        self.rows |= rows

    async def recall(self, hosts: object) -> Mapping[str, HostBaseline]:
        return self.rows


def changed(text: str, changes: str) -> str:
    """Return the probe's output with rows replaced, added, or removed where the value is `=`."""
    rows = {tuple(line.split("\t")[:2]): line for line in text.split("\n") if "\t" in line}
    for kind, name, value in (row.split("|") for row in changes.split("; ")):
        rows[kind, name] = f"{kind}\t{name}\t{value}"
        if value == "=":
            del rows[kind, name]
    return "\n".join(("== baseline 1", *rows.values(), "== end", ""))


def diagnose(changes: str, text: str, memory: Remembered | None = None, hosts: tuple[str, ...] = HOSTS) -> Report:
    plan = Plan("dgx-h100-8", hosts, 7, ())
    argv = CHECKS["base"].commands[0].argv
    usual = Cluster(plan).answer(SICK, argv).stdout.decode()
    cluster = Cluster(plan, outputs={SICK: {"base.host": Output(changed(usual, changes))}} if changes else {})
    inventory = parse_inventory({"defaults": {"kit": True}, "groups": {"g": {"hosts": ",".join(plan.names)}}})
    evidence, clock = MemoryEvidence(), SetClock(T0)
    fleet = Fleet(InProcessTransport(cluster), inventory, CHECKS, evidence, clock, SKUS)
    ports = GraphContext(fleet, inventory, TAXONOMY, PastIncidentIndex(), evidence, clock, skus=SKUS)
    if memory is not None:
        ports = GraphContext(
            fleet, inventory, TAXONOMY, PastIncidentIndex(), evidence, clock, skus=SKUS, remembered=memory.recall, remember=memory.keep
        )
    item = InboxItem(id="1", kind="mention", incident="inc-1", at=T0, text=text)
    return asyncio.run(run_turn(build_incident_graph(InMemorySaver()), ports, item))


@pytest.mark.parametrize(
    ("changes", "text", "label"),
    [
        ("broken|daemon slurmd|frozen", "is gpu-018 healthy? just checking before I start a job", S + "SERVICE.Slurmd_Stopped"),
        ("count|zombie|240 240 python3 below slurmstepd", "gpu-018 feels odd, jobs do not start there", S + "PROCESS.Zombies"),
        ("broken|/usr/lib/x86_64-linux-gnu/libcuda.so.1|empty", "no CUDA on gpu-018", S + "DRIVER.Library_Damaged"),
        ("broken|route 10.20.0.0/16|blackhole", "gpu-018 cannot reach the others", I + "ETH.Route_Blackholed"),
        (
            "hog|stress-ng|200.0 of 224 cores, 200 processes of uid 1002",
            "training on gpu-[017-020] is slow",
            S + "PROCESS.CPU_Hog_Beside_Job",
        ),
        ("answer|nameserver 10.20.9.1|timeout", "jobs on gpu-018 die at start", I + "ETH.DNS_Failure"),
    ],
)
def test_what_does_not_work_on_a_host_is_the_cause_and_only_there(changes: str, text: str, label: str) -> None:
    report = diagnose(changes, text)
    assert [row.label for row in report.root_causes] == [label]
    assert report.root_causes[0].hosts == (SICK,)


@pytest.mark.parametrize(
    ("changes", "text", "said"),
    [
        ("system|time zone|Asia/Tokyo +0900", "the logs of gpu-018 do not fit the others", "Asia/Tokyo"),
        ("service|sssd|inactive", "is gpu-018 healthy?", "sssd"),
        ("mount|/scratch|=", "my data is gone on gpu-018", "/scratch"),
    ],
)
def test_what_only_differs_is_told_with_both_values_and_never_called_healthy(changes: str, text: str, said: str) -> None:
    report = diagnose(changes, text)
    assert report.root_causes == ()
    assert report.outcome == "abstained"
    (line, *_) = report.differs
    assert SICK in line
    assert said in line
    assert "of 4 hosts" in line


def test_a_difference_that_accuses_no_host_is_still_in_the_answer() -> None:
    report = diagnose("system|time zone|Asia/Tokyo +0900", "is gpu-018 healthy?")
    assert report.root_causes == ()
    assert "Asia/Tokyo" in report.headline
    assert report.about is not None
    assert "Etc/UTC" in report.about.differs


def test_a_well_cluster_is_called_well_and_remembered() -> None:
    memory = Remembered()
    report = diagnose("", "are gpu-[017-020] healthy?", memory)
    assert report.outcome == "no_fault"
    assert report.differs == ()
    assert set(memory.rows) == set(HOSTS)


def test_a_change_since_an_earlier_incident_is_told_where_there_are_no_peers() -> None:
    memory = Remembered()
    diagnose("", "is gpu-018 healthy?", memory, hosts=(SICK,))
    report = diagnose("sysctl|vm.swappiness|100", "gpu-018 is slow", memory, hosts=(SICK,))
    assert any("vm.swappiness" in line and "100" in line and "60" in line for line in report.differs)
