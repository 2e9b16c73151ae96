"""The verdict on a remedy with the real taxonomy and checks, from one host's facts."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from graph.engine.reference_data import ReferenceData
from graph.execution.verification import Proof, judge_outcome
from kb.taxonomy.loader import load_taxonomy
from tests.support.clock import T0
from tests.support.fakes_graph import fact
from tools.action import Action
from tools.checks import CHECKS
from tools.fact import Fact

RUNTIME = "SYSTEM_SOFTWARE.CONTAINER.NVIDIA_Runtime_Missing"
SERVICE = fact("n1", "sysd", "service.state", "active", "docker")


def proved(remedy: str, *after: Fact, **more: Any) -> Proof:
    action = Action(
        approval="apr-1", incident="inc-1", remedy=remedy, args={}, argv=(), command=(), limit_seconds=1, risk="disruptive", target="n1",
        via="n1", proof=("docker",), proves=RUNTIME, **more,
    )  # fmt: skip
    looked = [replace(row, time=T0 + timedelta(minutes=2)) for row in after]
    before = [fact(host, "docker", "docker.nvidia_runtime", host != "n1") for host in ("n1", "n2", "n3")]
    return judge_outcome(action, before, looked, ReferenceData(load_taxonomy(), CHECKS), T0)


def test_what_a_host_still_says_is_no_pass_however_rare_the_fault() -> None:
    proof = proved("restart_service", fact("n1", "docker", "docker.nvidia_runtime", False), SERVICE)
    assert (proof.outcome, proof.says) == ("unchanged", "still there: the container engine knows no NVIDIA runtime")


def test_a_container_that_does_not_answer_is_no_container_that_has_its_gpus() -> None:
    one, other = (fact("n1", "docker", "container.nvml", "ok", name * 6) for name in ("3f", "77"))
    knows = fact("n1", "docker", "docker.nvidia_runtime", True)
    silent = proved("restart_container", knows, other, devices=("n1/3f3f3f3f3f3f",))
    assert (silent.outcome, silent.looked) == ("unchanged", False)
    assert silent.says == "could not be proved: n1/3f3f3f3f3f3f gave no answer"
    assert proved("restart_container", knows, one, devices=("n1/3f3f3f3f3f3f",)).outcome == "passes_now"


def test_what_counts_only_later_is_said_so() -> None:
    proof = proved("configure_runtime", fact("n1", "docker", "docker.nvidia_runtime", False), SERVICE)
    assert (proof.outcome, proof.says) == ("unchanged", "as expected, it counts from restart_service on")


def test_what_decides_and_shows_no_more_passes() -> None:
    proof = proved("restart_service", fact("n1", "docker", "docker.nvidia_runtime", True), SERVICE)
    assert proof.outcome == "passes_now"


def test_what_no_remedy_of_a_host_can_cause_is_not_made_worse_by_one() -> None:
    well = fact("n1", "docker", "docker.nvidia_runtime", True)
    proof = proved("restart_service", well, SERVICE, fact("n1", "store", "store.mount", "timeout", "/data"))
    assert proof.outcome == "passes_now", "the file server fails every host, and the job that runs again meets it"
    harmed = proved("restart_service", well, SERVICE, fact("n1", "smi", "gpu.remap.failure", True, "gpu3"))
    assert harmed.outcome == "worse"
