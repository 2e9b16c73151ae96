"""A host with a failing service is never called healthy; one stopped where most hosts run it is reported."""

import pytest

from graph.engine.assessment import Assessment, assess_facts
from graph.engine.fact_preparation import prepare_facts
from tests.support.clock import T0
from tests.support.fakes_graph import fact, healthy, lens
from tools.fact import Fact, Status

HOSTS = ("n1", "n2", "n3")


def service(host: str, value: str = "active", device: str = "slurmd", **attrs: str) -> Fact:
    return Fact("sysd", "service.state", value, device, host=host, time=T0, attrs=attrs)


def looked(*facts: Fact) -> Assessment:
    return assess_facts([*healthy(*HOSTS), *facts], lens(), HOSTS, {}, T0)


@pytest.mark.parametrize("trouble", ["failed", "masked", "restarting", "frozen", "stopped", "broken", "starting", "stopping"])
def test_a_service_in_trouble_on_every_host_is_never_no_fault(trouble: str) -> None:
    now = looked(*(service(host, "inactive", trouble=trouble) for host in HOSTS))
    assert now.finding == "abstained"
    assert {row.host for row in now.abnormal_facts} == set(HOSTS)
    assert trouble in now.why_unsure[0]


def troubles(*facts: Fact) -> dict[str, str]:
    return {f.host: f.attrs["trouble"] for f in prepare_facts(facts) if f.key == "service.state" and f.attrs.get("trouble")}


@pytest.mark.parametrize("device", ["slurmd", "munge", "docker", "containerd", "kubelet", "sssd", "openibd"])
def test_one_that_stands_still_where_most_run_it_is_stopped(device: str) -> None:
    rows = [service(host, "inactive" if host == "n2" else "active", device) for host in HOSTS]
    assert troubles(*rows) == {"n2": "stopped"}
    assert looked(*rows).finding == "abstained"


def test_one_that_runs_nowhere_or_on_one_of_two_is_how_the_site_is() -> None:
    assert troubles(*(service(host, "inactive", "docker") for host in HOSTS)) == {}
    assert troubles(service("n1", device="docker"), service("n2", "inactive", "docker")) == {}


def test_the_daemon_of_a_scheduler_that_counts_on_the_host_is_stopped_though_it_is_so_everywhere() -> None:
    known = [fact(host, "sched", "sched.state", "IDLE") for host in HOSTS]
    assert troubles(*known, *(service(host, "inactive") for host in HOSTS)) == dict.fromkeys(HOSTS, "stopped")


def test_a_host_that_the_scheduler_does_not_know_needs_none_of_its_services() -> None:
    strange = Fact("sched", "sched.state", status=Status.ABSENT, host="n2")
    rows = [service(host, "inactive" if host == "n2" else "active") for host in ("n1", "n2", "n3", "n4")]
    assert troubles(*rows, strange) == {}


def test_a_process_that_a_signal_stopped_is_never_no_fault() -> None:
    now = looked(Fact("procs", "proc.stopped", "slurmd", host="n2", time=T0, attrs={"pid": 812, "unit": "slurmd"}))
    assert (now.finding, now.abnormal_facts[0].host) == ("abstained", "n2")
