"""Kubernetes as kubectl reads and changes it, for the same nodes and job as Slurm. The inventory chooses which one a
site uses.
"""

import json
from collections.abc import Callable, Mapping

from deploy.sandbox.cluster.answer import ShellAnswer, said
from deploy.sandbox.cluster.machines.state import ClusterState, NodeState
from deploy.sandbox.cluster.plan import Deed

MARK = "rackmedic/drained"


def _unknown(name: str) -> ShellAnswer:
    return said("", 1, f'Error from server (NotFound): nodes "{name}" not found\n')


def standing(world: ClusterState, at: float, slots: Mapping[str, str]) -> ShellAnswer:
    """Answer the preconditions' template: `schedulable` or `cordoned`, and the mark."""
    node = world.nodes.get(slots["node"])
    if node is None:
        return _unknown(slots["node"])
    return said(("cordoned" if node.drain else "schedulable") + (f" by {node.mark}" if node.mark else ""))


def mark(world: ClusterState, at: float, slots: Mapping[str, str]) -> ShellAnswer:
    """Return the node's drain mark alone."""
    node = world.nodes.get(slots["node"])
    return said(node.mark) if node else _unknown(slots["node"])


def shown(world: ClusterState, at: float, slots: Mapping[str, str]) -> ShellAnswer:
    """`kubectl get node NODE -o json`, with the fields that are read."""
    node = world.nodes.get(slots["node"])
    if node is None:
        return _unknown(slots["node"])
    lost = {"status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
    well = {"status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
    tree = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"annotations": {MARK: node.mark} if node.mark else {}, "name": node.name},
        "spec": {"unschedulable": True} if node.drain else {},
        "status": {
            "allocatable": {"nvidia.com/gpu": str(sum(gpu.answers for gpu in node.gpus))},
            "capacity": {"nvidia.com/gpu": str(len(node.gpus))},
            "conditions": [{"type": "Ready", **(well if node.reachable else lost)}],
        },
    }
    return said(json.dumps(tree, indent=4) + "\n")


def _pods(node: NodeState, world: ClusterState) -> list[tuple[str, str, str, str]]:
    """Return (owner, namespace, name, GPUs) of each pod."""
    rows = [("DaemonSet", "gpu-operator", f"nvidia-device-plugin-{node.name}", "<none>")]
    return [*rows, *([("Job", "default", f"pretrain-{node.name}", str(len(node.gpus)))] if world.job.ended is None else [])]


def owners(world: ClusterState, at: float, slots: Mapping[str, str]) -> ShellAnswer:
    """Answer the precondition's columns: owner, namespace and name of each pod."""
    node = world.nodes.get(slots["node"])
    return said("".join("   ".join(row[:3]) + "\n" for row in _pods(node, world)) if node else "")


def pods(world: ClusterState, at: float, slots: Mapping[str, str]) -> ShellAnswer:
    """Answer the check's columns."""
    node = world.nodes.get(slots["node"])
    return said("".join("   ".join(row) + "\n" for row in _pods(node, world)) if node else "")


READS: Mapping[str, Callable[[ClusterState, float, Mapping[str, str]], ShellAnswer]] = {
    "sched.kubenode": shown,
    "sched.kubepods": pods,
    "sched.kube_standing": standing,
    "sched.kube_mark": mark,
    "sched.kube_owners": owners,
}

Reply = tuple[ShellAnswer, Deed | None]


def annotate(world: ClusterState, at: float, slots: Mapping[str, str], refuses: str) -> Reply:
    """`kubectl annotate node NODE rackmedic/drained=… --overwrite`, or `rackmedic/drained-`."""
    name = slots["node"]
    return _refusal(world, name, refuses) or (said(f"node/{name} annotated\n"), Deed("mark", name, at, {"reason": slots.get("reason", "")}))


def cordon(world: ClusterState, at: float, slots: Mapping[str, str], refuses: str) -> Reply:
    """`kubectl cordon NODE`."""
    name = slots["node"]
    if refused := _refusal(world, name, refuses):
        return refused
    if world.nodes[name].drain:
        return said(f"node/{name} already cordoned\n"), None
    return said(f"node/{name} cordoned\n"), Deed("drain", name, at, {"reason": "cordoned"})


def uncordon(world: ClusterState, at: float, slots: Mapping[str, str], refuses: str) -> Reply:
    """`kubectl uncordon NODE`."""
    name = slots["node"]
    if refused := _refusal(world, name, refuses):
        return refused
    if not world.nodes[name].drain:
        return said(f"node/{name} already uncordoned\n"), None
    return said(f"node/{name} uncordoned\n"), Deed("resume", name, at)


def drain(world: ClusterState, at: float, slots: Mapping[str, str], refuses: str) -> Reply:
    """`kubectl drain NODE …` of a cordoned node: evicting the job's pods ends the job."""
    name = slots["node"]
    if refused := _refusal(world, name, refuses):
        return refused
    own = [row for row in _pods(world.nodes[name], world) if row[0] != "DaemonSet"]
    lines = [f"node/{name} already cordoned", *(f"pod/{row[2]} evicted" for row in own), f"node/{name} drained"]
    return said("\n".join(lines) + "\n"), Deed("cancel", "", at) if own else None


def _refusal(world: ClusterState, name: str, refuses: str) -> Reply | None:
    if refuses:
        return said("", 1, f'Error from server (Forbidden): nodes "{name}" is forbidden: {refuses}\n'), None
    return None if name in world.nodes else (_unknown(name), None)


# commands that the kit's scripts call
CHANGES: Mapping[str, Callable[[ClusterState, float, Mapping[str, str], str], Reply]] = {
    f"kubectl annotate node <node> {MARK}=<reason> --overwrite": annotate,
    f"kubectl annotate node <node> {MARK}-": annotate,
    "kubectl cordon <node>": cordon,
    "kubectl uncordon <node>": uncordon,
    "kubectl drain <node> --ignore-daemonsets --timeout=540s": drain,
}
