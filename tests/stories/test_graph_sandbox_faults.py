"""Every fault and look-alike of the simulated cluster through the real checks, fleet, taxonomy and graph, without a
model.

`-s` prints the table. A fault outside the taxonomy must accuse no host.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.access.in_process import InProcessTransport
from deploy.sandbox.cluster.cases.case import T0
from deploy.sandbox.cluster.cases.controls import CONTROLS
from deploy.sandbox.cluster.faults import FAULTS
from deploy.sandbox.cluster.grammar import SITE_SERVICES
from deploy.sandbox.cluster.plan import InjectedFault, MachineAction, Modifier, Plan
from graph.context import GraphContext
from graph.incident.incident_graph import build_incident_graph, run_turn
from graph.report import Report
from graph.state import InboxItem
from kb.history.index import PastIncidentIndex
from kb.taxonomy.loader import load_taxonomy
from kb.taxonomy.taxonomy import Taxonomy
from tests.support.clock import SetClock
from tools.checks import CHECKS
from tools.evidence import MemoryEvidence
from tools.fleet.fleet import Fleet
from tools.inventory.inventory import parse_inventory
from tools.inventory.sku import Sku, load_skus

HOSTS = ("gpu-017", "gpu-018", "gpu-019")
SICK = "gpu-018"

UNSEEN = {"O07"}  # a fault without a leaf

TEXT = {
    "gpu": "training on gpu-[017-019] broke",
    "node": "training on gpu-[017-019] broke",
    "job": "job on gpu-[017-019] fails",
    "cluster": "nothing runs on gpu-[017-019]",
    "switch": "gpu-[017-019] are slow",
    "rack": "gpu-[017-019] are slow",
}


@dataclass(frozen=True)
class Outcome:
    report: Report
    unsafe: int
    stored: int  # characters of the stored state


@cache
def taxonomy() -> Taxonomy:
    return load_taxonomy()


@cache
def profiles() -> Mapping[str, Sku]:
    return load_skus()


def diagnose(plan: Plan, text: str, known: Mapping[str, Sku] | None = None, targets: Mapping[str, str] = SITE_SERVICES) -> Outcome:
    """Run one incident from ticket to report. `known`: machine profiles, default all."""
    cluster = Cluster(plan)
    inventory = parse_inventory({"defaults": {"kit": True, **targets}, "groups": {"g": {"hosts": ",".join(plan.names)}}})
    evidence, skus = MemoryEvidence(), profiles() if known is None else known
    fleet = Fleet(InProcessTransport(cluster), inventory, CHECKS, evidence, SetClock(T0), skus)
    ports = GraphContext(fleet, inventory, taxonomy(), PastIncidentIndex(), evidence, SetClock(T0), skus=skus)
    item = InboxItem(id="1", kind="mention", incident="inc-1", at=T0, text=text)
    graph = build_incident_graph(InMemorySaver())

    async def turn() -> tuple[Report, object]:
        report = await run_turn(graph, ports, item)
        return report, (await graph.aget_state({"configurable": {"thread_id": "inc-1"}})).values

    report, state = asyncio.run(turn())
    return Outcome(report, len(cluster.unsafe_commands), len(json.dumps(state)))


def plan_of(fault: str) -> tuple[Plan, set[str]]:
    """Return a cluster with this fault, and the faulty hosts."""
    row = FAULTS[fault]
    nodes = {"gpu": (SICK,), "node": (SICK,), "switch": HOSTS[:2], "rack": HOSTS[:2]}.get(row.scope, HOSTS)
    gpus = (5,) if row.scope == "gpu" else ()
    guilty = set() if row.scope in ("job", "cluster", "switch") else set(nodes)
    return Plan("dgx-h100-8", HOSTS, 7, (InjectedFault(fault, nodes, -620.0, gpus),)), guilty


@pytest.mark.parametrize("fault", sorted(set(FAULTS) - UNSEEN))
def test_a_fault_is_found_where_it_is_and_nothing_else_is(fault: str) -> None:
    plan, guilty = plan_of(fault)
    outcome = diagnose(plan, TEXT[FAULTS[fault].scope])
    causes = outcome.report.root_causes
    print(f"{fault:4} {outcome.report.headline}")
    assert [row.label for row in causes] == [FAULTS[fault].label]
    assert set(causes[0].hosts) == guilty
    assert causes[0].confidence >= 0.95
    if FAULTS[fault].scope == "gpu" and causes[0].devices:
        assert causes[0].devices == (f"{SICK}/gpu5",)
    assert causes[0].evidence
    assert outcome.unsafe == 0
    assert outcome.stored < 9216


@pytest.mark.parametrize("fault", sorted(UNSEEN))
def test_a_fault_that_no_check_sees_accuses_no_host(fault: str) -> None:
    plan, _ = plan_of(fault)
    outcome = diagnose(plan, TEXT[FAULTS[fault].scope])
    print(f"{fault:4} {outcome.report.headline}")
    assert outcome.report.root_causes == ()


@pytest.mark.parametrize("control", sorted(CONTROLS))
def test_a_healthy_cluster_is_left_alone_however_odd_it_looks(control: str) -> None:
    outcome = diagnose(Plan("dgx-h100-8", HOSTS, 7, (), (Modifier(control),)), "the GPUs of gpu-[017-019] are broken")
    print(f"{control:4} {outcome.report.headline}")
    assert outcome.report.root_causes == ()
    assert outcome.report.outcome == "no_fault"


@pytest.mark.parametrize(
    ("fault", "text"), [("O04", "traceback in the log on gpu-[017-019]"), ("O05", "reading shards is slow on gpu-[017-019]")]
)
def test_a_service_in_trouble_is_found_where_no_log_of_the_job_can_be_read(fault: str, text: str) -> None:
    plan, _ = plan_of(fault)
    blind = replace(plan, modifiers=(Modifier("R6", {"check": "joblog", "how": "denied"}, "*"),))
    assert [row.label for row in diagnose(blind, text).report.root_causes] == [FAULTS[fault].label]
    unset = diagnose(blind, text, targets={}).report
    assert unset.root_causes == ()
    said = {row.check: row.why for row in unset.could_not_look}
    assert said["store"] == "could not look: no target is set (object_store in the inventory)"
    assert said["net"] == "could not look: no target is set (tracker in the inventory)"


@pytest.mark.parametrize("unread", ["sysd.journal", "sysd"])
def test_a_fabric_manager_of_another_version_is_known_by_its_version_where_its_journal_cannot_be_read(unread: str) -> None:
    plan, guilty = plan_of("S05")
    report = diagnose(replace(plan, modifiers=(Modifier("R6", {"check": unread, "how": "denied"}, "*"),)), TEXT["node"]).report
    assert [row.label for row in report.root_causes] == [FAULTS["S05"].label]
    assert set(report.root_causes[0].hosts) == guilty


def test_a_site_that_names_no_service_may_still_be_called_healthy() -> None:
    report = diagnose(Plan("dgx-h100-8", HOSTS, 7, ()), "slow", targets={}).report
    assert report.outcome == "no_fault"
    assert {(row.host, row.check) for row in report.could_not_look} == {("gpu-[017-019]", "store"), ("gpu-[017-019]", "net")}


# faults that a profile helps to see, but peers show as well
NEEDS_NO_PROFILE = ["G07", "G08", "G09", "G17", "G18", "G19", "N01", "N05", "N10", "S04", "S08", "S09", "S16", "S19"]


@pytest.mark.parametrize("fault", NEEDS_NO_PROFILE)
def test_a_machine_without_a_profile_is_compared_with_its_peers_and_the_report_says_so(fault: str) -> None:
    plan, guilty = plan_of(fault)
    report = diagnose(plan, TEXT[FAULTS[fault].scope], {}).report
    assert [row.label for row in report.root_causes] == [FAULTS[fault].label]
    assert set(report.root_causes[0].hosts) == guilty
    said = {row.host: row.why for row in report.could_not_look if row.check == "profile"}
    assert set(said) == set(HOSTS)
    assert "no profile of NVIDIA H100 80GB HBM3" in said[SICK]
    assert "peers" in said[SICK]


def test_healthy_machines_without_a_profile_are_healthy_and_compared_with_peers_only() -> None:
    report = diagnose(Plan("dgx-h100-8", HOSTS, 7, ()), "the GPUs of gpu-[017-019] are slow", {}).report
    assert report.outcome == "no_fault"
    assert {row.check for row in report.could_not_look} == {"profile"}
    assert not [row for row in diagnose(Plan("dgx-h100-8", HOSTS, 7, ()), "slow", None).report.could_not_look if row.check == "profile"]


NO_LOG = Modifier("R6", {"check": "joblog", "how": "missing"}, "*")
STARTED_AGAIN = MachineAction("job", HOSTS[0], -300.0)  # the job's next run is on the GPUs
WRONG_NUMBERS = "the loss goes to nan on gpu-[017-019]"


def test_what_no_passive_look_can_show_is_looked_at_with_an_exclusive_one_where_the_gpus_are_idle() -> None:
    plan, guilty = plan_of("G14")
    report = diagnose(replace(plan, modifiers=(NO_LOG,)), WRONG_NUMBERS).report
    assert [(row.label, set(row.hosts)) for row in report.root_causes] == [(FAULTS["G14"].label, guilty)]


def test_what_no_passive_look_can_show_is_not_called_healthy_but_offered_where_the_gpus_are_busy() -> None:
    plan, _ = plan_of("G14")
    report = diagnose(replace(plan, modifiers=(NO_LOG,), actions=(STARTED_AGAIN,)), WRONG_NUMBERS).report
    assert (report.outcome, report.root_causes) == ("abstained", ())
    assert "Silent data corruption (SDC) on a GPU" in report.headline
    assert [(row.remedy, row.args, row.target) for row in report.actions] == [("run_check", {"check": "nccl1"}, ",".join(HOSTS))]
    assert "nccl1" in report.next_step
    assert "gpu-[017-019]" in report.questions[0]


def test_an_exclusive_check_without_findings_accuses_no_host_and_is_not_offered_again() -> None:
    plan, _ = plan_of("U12")
    report = diagnose(replace(plan, modifiers=(NO_LOG,)), WRONG_NUMBERS).report
    assert (report.outcome, report.root_causes, report.actions) == ("no_fault", (), ())
