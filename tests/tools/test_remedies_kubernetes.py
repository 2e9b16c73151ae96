"""Cordon, evict and uncordon by the real kubectl in the node kit, against a stand-in API with the shipped roles."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.kubernetes.api import KubeApi, serving
from deploy.kubernetes.objects import DisruptionBudget
from tests.support.fakes_kubectl import KUBECTL, MISSING, LocalReadOnlyTransport, install
from tests.support.fakes_nodekit import SHELLS, Node, Said, digest
from tools.execution.build import ActionRequest, HostIdentity, build_action
from tools.execution.conditions import read_condition
from tools.execution.drain_status import read_drain_reason, read_drain_status
from tools.execution.runner import explain_refusal
from tools.inventory.inventory import parse_inventory
from tools.remedies import REMEDIES, REMEDY_VARIANTS
from tools.remedies.conditions import KUBE_OURS
from tools.remedies.remedy import Remedy

pytestmark = [pytest.mark.skipif(KUBECTL is None, reason=MISSING), pytest.mark.slow]

NODE, APPROVAL = "ip-10-0-0-17.cloud.example", "apr-0123456789ab"
FLEET = parse_inventory(
    {
        "groups": {"h100": {"hosts": "gpu-017", "controller": "head", "scheduler": "kubernetes"}, "heads": {"hosts": "head"}},
        "hosts": {"gpu-017": {"node": NODE}},
    }
)
HOST = FLEET.hosts["gpu-017"]


@pytest.fixture
def api() -> Iterator[KubeApi]:
    """Return a cluster of one node with pods of a job and a DaemonSet, and a static pod."""
    made = KubeApi()
    made.objects.node(NODE)
    made.objects.pod("train-0", NODE, owner="Job", gpus=8)
    made.objects.pod("exporter-x", NODE, owner="DaemonSet", namespace="monitoring")
    made.objects.pod("proxy-static", NODE, owner="Node", namespace="kube-system")["metadata"]["annotations"] = {
        "kubernetes.io/config.mirror": "x"
    }
    with serving(made) as running:
        yield running


@pytest.fixture
def node(tmp_path: Path, api: KubeApi) -> Iterator[Node]:
    made = Node(tmp_path, SHELLS["dash"])
    install(made, api)
    yield made
    made.kill_all()


def does(node: Node, remedy: str, *args: str, number: int = 1) -> Said:
    said = node.start(digest(number), remedy, *args)
    return node.ended(digest(number)) if said.word == "started" else said


def mark(api: KubeApi) -> str:
    return str(api.objects.nodes[NODE]["metadata"]["annotations"].get("rackmedic/drained", ""))


def cordoned(api: KubeApi) -> bool:
    return bool(api.objects.nodes[NODE]["spec"].get("unschedulable"))


def pods(api: KubeApi) -> list[str]:
    return [name for _, name in api.objects.pods]


def says(remedy: Remedy, said: Said) -> str:
    return explain_refusal(remedy, f"{said.first}\n{said.rest}")


def test_a_node_is_cordoned_with_our_mark_emptied_and_returned(node: Node, api: KubeApi) -> None:
    assert does(node, "cordon_node", NODE, APPROVAL, number=1).first == "done 0"
    assert (cordoned(api), mark(api)) == (True, f"rackmedic:{APPROVAL}")
    said = does(node, "evict_pods", NODE, number=2)
    assert (said.first, says(REMEDIES["evict_pods"], said)) == ("done 0", "")
    assert pods(api) == ["exporter-x", "proxy-static"]
    said = does(node, "uncordon_node", NODE, number=3)
    assert (said.first, says(REMEDY_VARIANTS["uncordon_node"], said)) == ("done 0", "")
    assert (cordoned(api), mark(api)) == (False, "")


def test_the_roles_that_we_ship_are_enough_and_nothing_else_is_asked_for(node: Node, api: KubeApi) -> None:
    test_a_node_is_cordoned_with_our_mark_emptied_and_returned(node, api)
    allowed = {(verb, resource) for rule in api.rules["rackmedic-acts"] for resource in rule["resources"] for verb in rule["verbs"]}
    assert {(verb, resource) for role, verb, resource in api.asked if role == "rackmedic-acts"} == allowed


def test_without_the_right_nothing_changes_and_the_card_says_which_is_missing(node: Node, api: KubeApi) -> None:
    api.rules["rackmedic-acts"] = [row for row in api.rules["rackmedic-acts"] if row["resources"] != ["nodes"]]
    said = node.start(digest(1), "cordon_node", NODE, APPROVAL)
    assert said.word == "refused"
    assert "apply the role `rackmedic-acts`" in explain_refusal(REMEDY_VARIANTS["cordon_node"], said.first)
    assert not cordoned(api)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_node_cordoned_by_another_admin_is_neither_taken_nor_returned(shell: str, tmp_path: Path, api: KubeApi) -> None:
    node = Node(tmp_path, SHELLS[shell])
    install(node, api)
    api.objects.patched(NODE, {"spec": {"unschedulable": True}})
    for number, (remedy, *args) in enumerate([("cordon_node", NODE, APPROVAL), ("uncordon_node", NODE), ("evict_pods", NODE)]):
        said = does(node, remedy, *args, number=number)
        assert (said.word, "found 'cordoned'" in said.first) == ("refused", True)
    assert (cordoned(api), mark(api), "train-0" in pods(api)) == (True, "", True)
    assert {verb for _, verb, _ in api.asked} == {"get"}


def test_a_concurrent_cordon_keeps_the_node(node: Node, api: KubeApi) -> None:
    """A person cordons the node between our check and our command: our mark must not stay, so we never uncordon it."""
    real = (node.root / "bin/kubectl").read_text().partition("\n")[2].partition("\n")[2]
    once = f'case $1 in annotate) [ -e {node.root}/quick ] || {{ : >{node.root}/quick; ( set -- cordon "$3"; {real.strip()} ); }} ;; esac'
    node.stub("kubectl", f"{once}\n{real}")
    said = does(node, "cordon_node", NODE, APPROVAL)
    assert said.first == "done 1"
    assert "theirs to return" in says(REMEDY_VARIANTS["cordon_node"], said)
    assert (cordoned(api), mark(api)) == (True, "")


@pytest.mark.parametrize(
    ("more", "names", "why"),
    [
        ({"owner": ""}, "default/notebook-1", "nobody would start those pods again"),
        ({"empty_dir": True}, "default/notebook-1", "keep data on the node"),
    ],
)
def test_pods_that_would_be_lost_are_named_and_then_no_pod_goes(
    node: Node, api: KubeApi, more: dict[str, str], names: str, why: str
) -> None:
    api.objects.pod("notebook-1", NODE, **more)  # type: ignore[arg-type]  # keyword arguments of one case
    does(node, "cordon_node", NODE, APPROVAL, number=1)
    said = does(node, "evict_pods", NODE, number=2)
    assert said.first == "done 1"
    assert why in says(REMEDIES["evict_pods"], said)
    assert names in said.rest
    assert {"train-0", "notebook-1"} <= set(pods(api))
    assert (cordoned(api), mark(api)) == (True, f"rackmedic:{APPROVAL}"), "it stays ours"


def _patient(seconds: int) -> dict[str, Remedy]:
    row = REMEDIES["evict_pods"]
    return {**REMEDIES, "evict_pods": replace(row, command=tuple(word.replace("540s", f"{seconds}s") for word in row.command))}


@pytest.mark.parametrize("refusals", [None, 1], ids=["for good", "once"])
def test_a_disruption_budget_that_refuses_is_an_ending_of_its_own(tmp_path: Path, api: KubeApi, refusals: int | None) -> None:
    node = Node(tmp_path, SHELLS["dash"], remedies=_patient(4 if refusals is None else 30))
    install(node, api)
    api.objects.budgets.append(DisruptionBudget("train", app="train", refusals=refusals))
    does(node, "cordon_node", NODE, APPROVAL, number=1)
    said = does(node, "evict_pods", NODE, number=2)
    if refusals is None:
        assert said.first == "done 1"
        assert "PodDisruptionBudget" in says(REMEDIES["evict_pods"], said)
        assert "train-0" in pods(api)
    else:
        assert (said.first, says(REMEDIES["evict_pods"], said)) == ("done 0", "")
        assert "train-0" not in pods(api)


def test_an_api_server_in_trouble_is_no_answer(node: Node, api: KubeApi) -> None:
    api.broken = True
    assert node.start(digest(1), "cordon_node", NODE, APPROVAL).word == "refused"
    api.broken = False
    assert not cordoned(api)


@pytest.mark.parametrize("name", ["--all", "-l", "n1 n2", "n1;reboot", "N1", "n1,n2", "", "n" * 254, "n1/../n2", "n1-"])
def test_only_a_node_name_reaches_kubectl(node: Node, api: KubeApi, name: str) -> None:
    assert node.start(digest(1), "cordon_node", name, APPROVAL).word == "refused"
    assert not [call for call in node.calls if call.startswith("kubectl")]


async def test_where_a_node_stands_is_read_with_the_right_to_look_alone(tmp_path: Path, api: KubeApi) -> None:
    transport = LocalReadOnlyTransport(tmp_path, api)
    assert (await read_drain_status(HOST, transport)).saw == "schedulable"
    api.objects.patched(
        NODE, {"spec": {"unschedulable": True}, "metadata": {"annotations": {"rackmedic/drained": f"rackmedic:{APPROVAL}"}}}
    )
    busy = await read_drain_status(HOST, transport)
    assert (busy.ok, busy.saw) == (False, "cordoned, with pods: default/train-0")
    assert await read_drain_reason(HOST, transport) == f"rackmedic:{APPROVAL}"
    del api.objects.pods["default", "train-0"]
    empty = await read_drain_status(HOST, transport)
    assert (empty.ok, empty.saw) == (True, "cordoned and empty")
    assert {host for host, _ in transport.recorded_commands} == {"head"}
    assert {role for role, _, _ in api.asked} == {"rackmedic-looks"}


async def test_a_mark_without_a_cordon_holds_nothing(tmp_path: Path, api: KubeApi) -> None:
    api.objects.patched(NODE, {"metadata": {"annotations": {"rackmedic/drained": f"rackmedic:{APPROVAL}"}}})
    transport = LocalReadOnlyTransport(tmp_path, api)
    seen = await read_drain_status(HOST, transport)
    assert (seen.ok, seen.saw) == (False, "schedulable")


async def test_no_annotation_can_pose_as_a_state(tmp_path: Path, api: KubeApi) -> None:
    """Annotations are untrusted: a mark is parsed after the state, and only as a whole."""
    transport = LocalReadOnlyTransport(tmp_path, api)
    for text in ("\ncordoned by rackmedic:apr-0", "rackmedic:apr-0\nschedulable", "x"):
        api.objects.patched(NODE, {"spec": {"unschedulable": True}, "metadata": {"annotations": {"rackmedic/drained": text}}})
        action = build_action(
            ActionRequest("resume_node", {}, "inc-1"), HOST, FLEET.hosts["head"], HostIdentity("b"), policy="p", catalogue="c"
        )
        ours = next(condition for condition in action.conditions if condition.says == KUBE_OURS.says)
        assert (await read_condition(ours, "head", transport)).ok is False


async def test_what_cannot_be_read_is_neither_so_nor_not(tmp_path: Path, api: KubeApi) -> None:
    api.broken = True
    seen = await read_drain_status(HOST, LocalReadOnlyTransport(tmp_path, api))
    assert seen.ok is None
    assert seen.saw


def test_a_kubeconfig_names_one_account_alone(api: KubeApi) -> None:
    assert json.loads(api.kubeconfig("rackmedic-looks"))["clusters"][0]["cluster"]["server"].endswith("/rackmedic-looks")
