"""Kubernetes as kubectl reads and changes it, for the same nodes and job as Slurm. The inventory chooses which one a
site uses.
"""

import json
from collections.abc import Callable, Mapping

from deploy.sandbox.cluster.answer import ShellAnswer, text_answer
from deploy.sandbox.cluster.machines.state import ClusterState, NodeState
from deploy.sandbox.cluster.plan import MachineAction

DRAIN_ANNOTATION = "rackmedic/drained"


def _node_not_found(name: str) -> ShellAnswer:
    return text_answer("", 1, f'Error from server (NotFound): nodes "{name}" not found\n')


def show_drain_status(world: ClusterState, at: float, slots: Mapping[str, str]) -> ShellAnswer:
    """Answer the preconditions' template: `schedulable` or `cordoned`, and the mark."""
    node = world.nodes.get(slots["node"])
    if node is None:
        return _node_not_found(slots["node"])
    return text_answer(("cordoned" if node.drain else "schedulable") + (f" by {node.mark}" if node.mark else ""))


def show_drain_mark(world: ClusterState, at: float, slots: Mapping[str, str]) -> ShellAnswer:
    """Return the node's drain mark alone."""
    node = world.nodes.get(slots["node"])
    return text_answer(node.mark) if node else _node_not_found(slots["node"])


def show_node(world: ClusterState, at: float, slots: Mapping[str, str]) -> ShellAnswer:
    """`kubectl get node NODE -o json`, with the fields that are read."""
    node = world.nodes.get(slots["node"])
    if node is None:
        return _node_not_found(slots["node"])
    unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
    tree = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"annotations": {DRAIN_ANNOTATION: node.mark} if node.mark else {}, "name": node.name},
        "spec": {"unschedulable": True} if node.drain else {},
        "status": {
            "allocatable": {"nvidia.com/gpu": str(sum(gpu.answers for gpu in node.gpus))},
            "capacity": {"nvidia.com/gpu": str(len(node.gpus))},
            "conditions": [ready if node.reachable else unknown],
        },
    }
    return text_answer(json.dumps(tree, indent=4) + "\n")


def _list_pods(node: NodeState, world: ClusterState) -> list[tuple[str, str, str, str]]:
    """Return (owner, namespace, name, GPUs) of each pod."""
    pods = [("DaemonSet", "gpu-operator", f"nvidia-device-plugin-{node.name}", "<none>")]
    if world.job.ended is None:
        pods.append(("Job", "default", f"pretrain-{node.name}", str(len(node.gpus))))
    return pods


def show_pod_owners(world: ClusterState, at: float, slots: Mapping[str, str]) -> ShellAnswer:
    """Answer the precondition's columns: owner, namespace and name of each pod."""
    node = world.nodes.get(slots["node"])
    return text_answer("".join("   ".join(pod[:3]) + "\n" for pod in _list_pods(node, world)) if node else "")


def show_pods(world: ClusterState, at: float, slots: Mapping[str, str]) -> ShellAnswer:
    """Answer the columns that the check asks for: owner, namespace, name and GPUs of each pod."""
    node = world.nodes.get(slots["node"])
    return text_answer("".join("   ".join(pod) + "\n" for pod in _list_pods(node, world)) if node else "")


READ_COMMANDS: Mapping[str, Callable[[ClusterState, float, Mapping[str, str]], ShellAnswer]] = {
    "sched.kubenode": show_node,
    "sched.kubepods": show_pods,
    "sched.kube_standing": show_drain_status,
    "sched.kube_mark": show_drain_mark,
    "sched.kube_owners": show_pod_owners,
}

Reply = tuple[ShellAnswer, MachineAction | None]


def annotate_node(world: ClusterState, at: float, slots: Mapping[str, str], refuses: str) -> Reply:
    """`kubectl annotate node NODE rackmedic/drained=… --overwrite`, or `rackmedic/drained-`."""
    name = slots["node"]
    return _find_refusal(world, name, refuses) or (
        text_answer(f"node/{name} annotated\n"),
        MachineAction("mark", name, at, {"reason": slots.get("reason", "")}),
    )


def cordon_node(world: ClusterState, at: float, slots: Mapping[str, str], refuses: str) -> Reply:
    """`kubectl cordon NODE`."""
    name = slots["node"]
    if refusal := _find_refusal(world, name, refuses):
        return refusal
    if world.nodes[name].drain:
        return text_answer(f"node/{name} already cordoned\n"), None
    return text_answer(f"node/{name} cordoned\n"), MachineAction("drain", name, at, {"reason": "cordoned"})


def uncordon_node(world: ClusterState, at: float, slots: Mapping[str, str], refuses: str) -> Reply:
    """`kubectl uncordon NODE`."""
    name = slots["node"]
    if refusal := _find_refusal(world, name, refuses):
        return refusal
    if not world.nodes[name].drain:
        return text_answer(f"node/{name} already uncordoned\n"), None
    return text_answer(f"node/{name} uncordoned\n"), MachineAction("resume", name, at)


def drain_node(world: ClusterState, at: float, slots: Mapping[str, str], refuses: str) -> Reply:
    """`kubectl drain NODE …` of a cordoned node: evicting the job's pods ends the job."""
    name = slots["node"]
    if refusal := _find_refusal(world, name, refuses):
        return refusal
    evicted = [pod for pod in _list_pods(world.nodes[name], world) if pod[0] != "DaemonSet"]
    lines = [f"node/{name} already cordoned", *(f"pod/{pod[2]} evicted" for pod in evicted), f"node/{name} drained"]
    return text_answer("\n".join(lines) + "\n"), MachineAction("cancel", "", at) if evicted else None


def _find_refusal(world: ClusterState, name: str, refuses: str) -> Reply | None:
    if refuses:
        return text_answer("", 1, f'Error from server (Forbidden): nodes "{name}" is forbidden: {refuses}\n'), None
    return None if name in world.nodes else (_node_not_found(name), None)


# commands that the kit's scripts call
CHANGE_COMMANDS: Mapping[str, Callable[[ClusterState, float, Mapping[str, str], str], Reply]] = {
    f"kubectl annotate node <node> {DRAIN_ANNOTATION}=<reason> --overwrite": annotate_node,
    f"kubectl annotate node <node> {DRAIN_ANNOTATION}-": annotate_node,
    "kubectl cordon <node>": cordon_node,
    "kubectl uncordon <node>": uncordon_node,
    "kubectl drain <node> --ignore-daemonsets --timeout=540s": drain_node,
}
