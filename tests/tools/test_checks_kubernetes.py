"""kubectl's output on a node and its pods, by the real kubectl against the stand-in API, and hostile output."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.kubernetes.api import KubeApi, serving
from graph.engine.abnormal_facts import ABNORMAL_RULES
from tests.support.clock import WallClock
from tests.support.fakes_kubectl import KUBECTL, MISSING, LocalReadOnlyTransport
from tools.checks import CHECKS
from tools.checks.check_types import Unreadable
from tools.checks.kubernetes import format_unasked_controller, parse_node, parse_pods
from tools.evidence import MemoryEvidence
from tools.fact import Fact, Status
from tools.fleet.answers import CheckAnswer, CheckRequest
from tools.fleet.fleet import Fleet
from tools.inventory.inventory import parse_inventory
from tools.transport import CommandResult, Unreachable

NODE = "ip-10-0-0-17.cloud.example"
FLEET = parse_inventory(
    {
        "groups": {
            "h100": {"hosts": "gpu-017", "controller": "head", "scheduler": "kubernetes"},
            "a100": {"hosts": "gpu-001", "controller": "head"},
            "heads": {"hosts": "head"},
        },
        "hosts": {"gpu-017": {"node": NODE}},
    }
)


@pytest.fixture
def api() -> Iterator[KubeApi]:
    made = KubeApi()
    made.objects.node(NODE)
    with serving(made) as running:
        yield running


async def looked(transport: Any, host: str = "gpu-017") -> CheckAnswer:
    fleet = Fleet(transport, FLEET, CHECKS, MemoryEvidence(), WallClock())
    (answer,) = (await fleet.run_checks("inc-1", [CheckRequest(host, "sched")])).answers
    return answer


def facts(answer: CheckAnswer) -> dict[str, object]:
    return {fact.key: fact.value for fact in answer.facts if fact.status is Status.OK}


def test_the_check_asks_slurm_on_the_node_and_kubernetes_on_the_controller() -> None:
    assert [(command.name, command.scheduler) for command in CHECKS["sched"].commands] == [
        *((name, "slurm") for name in ("shown", "ended", "running")),
        *((name, "kubernetes") for name in ("kubenode", "kubepods")),
    ]


@pytest.mark.skipif(KUBECTL is None, reason=MISSING)
class TestByTheRealKubectl:
    """With the reading role's rights."""

    async def test_a_node_in_service_says_its_pods_and_gpus(self, tmp_path: Path, api: KubeApi) -> None:
        api.objects.pod("train-0", NODE, owner="Job", gpus=8)
        api.objects.pod("notebook-1", NODE, owner="", gpus=0)
        api.objects.pod("exporter-x", NODE, owner="DaemonSet", namespace="monitoring")
        api.objects.pod("train-1", "another", owner="Job", gpus=8)
        transport = LocalReadOnlyTransport(tmp_path, api)
        answer = await looked(transport)
        assert facts(answer) == {"sched.state": "Ready", "sched.gpus": 8, "sched.pods": ["default/train-0", "default/notebook-1"]}
        pods = next(fact for fact in answer.facts if fact.key == "sched.pods")
        assert (pods.attrs["gpus"], pods.attrs["count"]) == (8, 2)
        assert (answer.could_not, {host for host, _ in transport.recorded_commands}) == ("", {"head"})
        assert {(role, verb, what) for role, verb, what in api.asked} == {
            ("rackmedic-looks", "get", "nodes"),
            ("rackmedic-looks", "list", "pods"),
        }

    async def test_what_stands_behind_a_cordon_or_an_end_is_the_reason(self, tmp_path: Path, api: KubeApi) -> None:
        transport = LocalReadOnlyTransport(tmp_path, api)
        api.objects.patched(
            NODE, {"spec": {"unschedulable": True, "taints": [{"key": "maintenance", "value": "CHG-204", "effect": "NoSchedule"}]}}
        )
        seen = facts(await looked(transport))
        assert (seen["sched.state"], seen["sched.reason"], seen["sched.pods"]) == (
            "Ready+SchedulingDisabled",
            "maintenance=CHG-204:NoSchedule",
            [],
        )
        api.objects.patched(NODE, {"metadata": {"annotations": {"rackmedic/drained": "rackmedic:apr-0123456789ab"}}})
        assert facts(await looked(transport))["sched.reason"] == "rackmedic:apr-0123456789ab"
        api.objects.node(NODE, allocatable=7, ready="Unknown", reason="NodeStatusUnknown")["status"]["conditions"][-1]["message"] = (
            "Kubelet stopped posting node status."
        )
        answer = await looked(transport)
        reason = next(fact for fact in answer.facts if fact.key == "sched.reason")
        assert (facts(answer)["sched.state"], reason.attrs["told"]) == ("NotReady", "not_responding")
        assert [fact.key for fact in answer.facts if fact.key in ABNORMAL_RULES and ABNORMAL_RULES[fact.key](fact, None)] == [
            "sched.state",
            "sched.reason",
            "sched.gpus",
        ]

    async def test_a_node_it_does_not_know_an_api_in_trouble_and_a_missing_right_are_three_answers(
        self, tmp_path: Path, api: KubeApi
    ) -> None:
        transport = LocalReadOnlyTransport(tmp_path, api)
        del api.objects.nodes[NODE]
        answer = await looked(transport)
        assert [(fact.key, fact.status) for fact in answer.facts if fact.key == "sched.state"] == [("sched.state", Status.ABSENT)]
        api.rules["rackmedic-looks"] = []
        assert "lacks the right (role `rackmedic-looks`)" in (await looked(transport)).could_not
        api.broken = True
        answer = await looked(transport)
        assert answer.could_not
        assert not facts(answer)


class Away:
    """A controller that does not answer."""

    async def run(self, host: str, argv: object, *, timeout: float, cap: int) -> CommandResult:
        raise Unreachable(host, "no route to host")

    async def aclose(self) -> None: ...


async def test_a_controller_that_is_away_is_no_host_that_is_away() -> None:
    answer = await looked(Away())
    assert not facts(answer)
    assert "Kubernetes could not be asked: head about it: no route to host" in answer.could_not


def _node(**parts: Any) -> str:
    tree = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    return json.dumps({**tree, **parts}, indent=4)


@pytest.mark.parametrize(
    "text",
    [
        '{"kind": "Node"',
        _node(status=None),
        _node(status={"conditions": "x"}),
        _node(status={"conditions": [{"type": "Ready", "status": 1}]}),
        _node()[:-9],
    ],
)
def test_a_node_without_its_condition_is_unreadable_and_never_ready(text: str) -> None:
    with pytest.raises(Unreadable):
        parse_node(text)


def test_without_a_device_plugin_no_gpu_is_offered_and_mig_is_not_counted() -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    (gpus,) = [fact for fact in parse_node(_node(status=ready)) if fact.key == "sched.gpus"]
    assert (gpus.value, gpus.attrs["capacity"], "device plugin" in gpus.line) == (0, 0, True)
    cut = {**ready, "allocatable": {"nvidia.com/mig-1g.10gb": "7"}}
    assert not [fact for fact in parse_node(_node(status=cut)) if fact.key == "sched.gpus"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(st.sampled_from(["status", "conditions", "spec", "taints", "type", "key"]), below, max_size=3)
    ),
    max_leaves=12,
)


@given(JSON, JSON, JSON)
def test_nothing_that_a_stranger_writes_into_a_node_breaks_the_reading(spec: Any, status: Any, metadata: Any) -> None:
    for fact in CHECKS["sched"].parse_output(_node(spec=spec, status=status, metadata=metadata)):
        assert isinstance(fact, Fact)
        assert len(fact.line) <= 600


def test_a_flood_of_pods_is_counted_and_cut() -> None:
    text = "".join(f"Job   default   train-{n}   1,1\n" for n in range(5000))
    (fact,) = parse_pods(text)
    assert (len(fact.value) if isinstance(fact.value, list) else 0, fact.attrs["count"], fact.attrs["gpus"]) == (64, 5000, 10_000)
    assert len(fact.line) <= 300


def test_what_stands_for_a_silent_controller_is_read_as_that() -> None:
    (fact,) = parse_node(format_unasked_controller("head", "login refused"))
    assert (fact.status, "login refused" in fact.line) == (Status.UNREACHABLE, True)
