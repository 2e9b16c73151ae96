"""The host asked about is answered first; a fault elsewhere is mentioned, but never the headline."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from graph.extraction.incident_scope import find_asked_hosts, is_host_health_question
from graph.extraction.reports import parse_report
from graph.incident.host_findings import partition_causes_by_hosts, render_hosts_summary
from graph.incident.incident_graph import build_incident_graph, run_turn
from graph.report import HostsSummary, Report
from graph.state import Evidence, Hypothesis
from tests.support.clock import T0
from tests.support.fakes_graph import HOT, LOST, OOM, TAXONOMY, FakeFleet, World, fact, healthy, instead, item
from tests.support.inventories import inventory
from tools.fact import Fact

HOSTS = ("n1", "n2", "n3", "n4")
LOST_ON_N3, KILLED_ON_N1 = fact("n3", "dmesg", "kernel.xid", 79, "gpu3"), fact("n1", "dmesg", "kernel.oom_kill", "python3")


MENDED = replace(
    TAXONOMY, leaves={label: replace(row, remedies=("reboot",) if label in (LOST, HOT) else ()) for label, row in TAXONOMY.leaves.items()}
)


WITH_KIT = inventory(groups={"g": {"hosts": "n[1-4]"}}, channels=[])


async def run(text: str, *sick: Fact, dark: dict[str, str] | None = None) -> Report:
    world = World(fleet=FakeFleet(instead(healthy(*HOSTS), *sick), dark=dark or {}))
    return await run_turn(build_incident_graph(InMemorySaver()), world.ports(), item(text))


@pytest.mark.parametrize(
    "text",
    [
        "is n2 healthy?",
        "@rackmedic how is n2 doing",
        "Job 4711 hangs. Is node n2 ok?",
        "what about n2?",
        "can you check n2",
        "anything wrong with `n2`?",
        "what's the state of n2",
        "could you tell me whether n2 is fine, thanks",
        "Is the node n2.cluster.local broken?",
        "n2 ok?",
    ],
)
def test_a_question_about_a_host_is_one(text: str) -> None:
    assert is_host_health_question(text)
    assert find_asked_hosts(text, parse_report(text, HOSTS, T0)) == ("n2",)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n2 is slow", ("n2",)),
        ("n2 and n3 hang", ("n2", "n3")),
        ("n2 killed my job", ()),
        ("job 4711 hangs on n2", ()),
        ("NCCL timeout on n[1-4]", ()),
        ("the training on n2 crashed", ()),
        ("everything is slow", ()),
        ("what is wrong with our jobs on n2", ()),
    ],
)
def test_a_report_is_about_its_hosts_unless_it_is_about_a_job(text: str, hosts: tuple[str, ...]) -> None:
    assert not is_host_health_question(text)
    assert find_asked_hosts(text, parse_report(text, HOSTS, T0)) == hosts


def test_causes_on_the_hosts_asked_about_come_first() -> None:
    here = Hypothesis(label="A", hosts=("n2", "n4"))
    shown = Hypothesis(label="B", evidence=(Evidence(host="n2", check="joblog", line="x"),))
    told = Hypothesis(label="C", evidence=(Evidence(check="joblog", line="x"),))
    there, foreign = Hypothesis(label="D", hosts=("n3",)), Hypothesis(label="E", evidence=(Evidence(host="n3", check="joblog", line="x"),))
    assert partition_causes_by_hosts((there, here, foreign, shown, told), ("n2",)) == ([here, shown, told], [there, foreign])
    assert partition_causes_by_hosts((there, here), ()) == ([there, here], [])
    assert partition_causes_by_hosts((foreign,), ("n2",), {"E": ("n2", "n3")}) == ([foreign], []), "n2 shows it too, though it is not cited"


async def test_a_healthy_host_is_answered_first_and_the_sick_one_is_also_seen() -> None:
    report = await run("is n2 healthy?", LOST_ON_N3)
    assert report.headline == "n2: 7 checks, read 03:01, nothing abnormal."
    assert (report.outcome, [row.label for row in report.root_causes], report.also_seen) == ("diagnosed", [LOST], (LOST,))
    assert report.about
    assert (report.about.hosts, report.about.found) == (("n2",), "nothing")
    assert report.next_step == f"For Lost (n3/gpu3): mend {LOST}"


async def test_the_fault_of_the_host_asked_about_comes_before_others() -> None:
    report = await run("is n1 healthy?", LOST_ON_N3, KILLED_ON_N1)
    assert (report.headline, report.also_seen) == ("Oom (n1)", (LOST,))
    assert [row.label for row in report.root_causes] == [OOM, LOST]
    assert report.next_step == f"mend {OOM}"


async def test_a_healthy_fleet_still_answers_about_the_host() -> None:
    report = await run("is n2 healthy?")
    assert (report.outcome, report.headline) == ("no_fault", "n2: 7 checks, read 03:01, nothing abnormal.")


async def test_what_could_not_be_seen_of_the_host_is_never_called_well() -> None:
    report = await run("is n2 healthy?", LOST_ON_N3, dark={"n2/smi": "no answer within 20 s"})
    assert report.headline == "n2: 6 checks, read 03:01, nothing abnormal; could not look with smi."
    assert report.about
    assert report.about.found == "blind"
    report = await run("is n2 healthy?", dark={"n2": "connection timed out"})
    assert report.headline == "n2: could not be looked at (connection timed out)."


async def test_what_is_abnormal_and_unexplained_there_is_said() -> None:
    report = await run("is n2 healthy?", LOST_ON_N3, fact("n2", "dmesg", "kernel.xid", 167, "gpu0"))
    assert report.headline == "n2: 7 checks, read 03:01, abnormal: Xid 167 on gpu0."
    assert report.about
    assert report.about.found == "odd"


async def test_what_all_hosts_share_is_not_told_as_the_hosts_own() -> None:
    shared = [fact(host, "dmesg", "kernel.xid", 167, "gpu0") for host in HOSTS]
    report = await run("is n2 healthy?", *shared)
    assert report.headline == "n2: 7 checks, read 03:01, abnormal: as on all 4 hosts that were looked at: Xid 167 on gpu0."
    report = await run("is n2 healthy?", *shared[:3])
    assert report.headline == "n2: 7 checks, read 03:01, abnormal: Xid 167 on gpu0."
    report = await run("job 4711 hangs on n2", *shared)
    assert "unexplained on all 4 hosts that were looked at: Xid 167" in report.headline


async def test_a_report_of_trouble_on_a_healthy_host_does_not_blame_it_on_another() -> None:
    report = await run("n2 is slow", LOST_ON_N3)
    assert (report.headline, report.also_seen) == ("n2: 7 checks, read 03:01, nothing abnormal.", (LOST,))


async def test_in_a_jobs_report_the_guilty_host_comes_first() -> None:
    report = await run("job 4711 hangs on n2", LOST_ON_N3)
    assert (report.headline, report.also_seen, report.about) == ("Lost (n3/gpu3)", (), None)


def fixes(report: Report) -> set[str]:
    return {row.target for row in report.actions}


async def test_a_fault_elsewhere_is_repaired_only_on_request() -> None:
    world = World(fleet=FakeFleet(instead(healthy(*HOSTS), LOST_ON_N3)), taxonomy=MENDED)
    ports = replace(world.ports(), inventory=WITH_KIT)
    graph = build_incident_graph(InMemorySaver())
    report = await run_turn(graph, ports, item("is n2 healthy?"))
    assert (report.also_seen, fixes(report), report.by_hand) == ((LOST,), set(), ())
    await run_turn(graph, ports, item("status", "status", id="s1"))
    again = await run_turn(graph, ports, item("recheck", "recheck", id="i2"))
    assert (again.headline.partition(":")[0], again.also_seen, fixes(again)) == ("n2", (LOST,), set())
    asked = await run_turn(graph, ports, item("recheck n3", "recheck", id="i3", data={"hosts": "n3"}))
    assert (asked.also_seen, fixes(asked)) == ((), {"n3"})
    still = await run_turn(graph, ports, item("is n2 healthy?", "reply", id="i4"))
    assert (still.also_seen, fixes(still)) == ((LOST,), {"n3"})


@pytest.mark.parametrize("text", ["n2 is odd", "job 4711 hangs, is n2 ok?"])
async def test_in_trouble_the_fixes_of_what_was_asked_about_come_first_and_the_others_after_them(text: str) -> None:
    low = fact("n2", "smi", "gpu.throttle.hw_thermal", True, "gpu0")
    world = World(fleet=FakeFleet(instead(healthy(*HOSTS), LOST_ON_N3, low)), taxonomy=MENDED)
    ports = replace(world.ports(), inventory=WITH_KIT)
    report = await run_turn(build_incident_graph(InMemorySaver()), ports, item(text))
    targets = [row.target for row in report.actions]
    assert LOST in report.also_seen or "job" in text
    assert "n3" in targets
    assert targets == sorted(targets)


def test_the_time_of_another_day_has_its_date() -> None:
    about = HostsSummary(hosts=("n2",), found="nothing", checks=1, read=datetime(2026, 5, 19, 8, 17, tzinfo=UTC))
    assert render_hosts_summary(about, T0) == "n2: 1 check, read 05-19 08:17, nothing abnormal."


def state(host: str, key: str, value: str, device: str = "", **attrs: str) -> Fact:
    return replace(fact(host, "dmesg", key, value, device or None), attrs=attrs)


@pytest.mark.parametrize("text", ["is n[1-3] healthy? just checking before I start a job", "are n1, n2 and n3 ok?", "is n2 healthy?"])
@pytest.mark.parametrize(
    ("key", "value", "attrs", "word"),
    [
        ("service.state", "inactive", {"trouble": "stopped"}, "slurmd"),
        ("service.state", "active", {"trouble": "frozen"}, "slurmd"),
        ("service.state", "failed", {"trouble": "failed"}, "slurmd"),
        ("sched.state", "IDLE+DRAIN", {"reason": "swap PSU", "why": "by priya since yesterday: swap PSU"}, "priya"),
        ("sched.state", "DOWN", {}, "DOWN"),
        ("sched.state", "IDLE+MAINT", {"reason": "window", "why": "by root: window"}, "window"),
        ("proc.stopped", "slurmd", {"pid": "812", "unit": "slurmd"}, "slurmd"),
    ],
)
async def test_what_stops_jobs_everywhere_is_never_nothing_abnormal(
    text: str, key: str, value: str, attrs: dict[str, str], word: str
) -> None:
    report = await run(text, *(state(host, key, value, "slurmd" if key == "service.state" else "", **attrs) for host in HOSTS))
    assert report.outcome == "abstained"
    assert report.about is not None
    assert (report.about.found, word in report.headline) == ("odd", True)
