"""Kubernetes remedies, run by kubectl on the group's controller."""

from collections.abc import Mapping

from tools.remedies import scripts
from tools.remedies.conditions import KUBE_IN_SERVICE, KUBE_OURS, KUBE_STILL_IN_SERVICE, KUBE_STILL_OURS
from tools.remedies.remedy import Remedy

MISSING_RIGHT_HINT = "the kubeconfig of root on the controller lacks that right: apply the role `rackmedic-acts` (docs/rollout.md)"
# kubectl refusals common to all commands (1.20 to 1.32)
COMMON_REFUSALS: Mapping[str, str] = {
    "(NotFound)": "Kubernetes does not know this node by that name: compare `kubectl get nodes` with `node:` in the inventory",
    "(Forbidden)": MISSING_RIGHT_HINT,
    "must be logged in to the server": "the API server does not know the account of root's kubeconfig on the controller: renew its token",
    "Unable to connect to the server": "the API server cannot be reached from the controller: look there with `kubectl get --raw /readyz`",
    "The connection to the server": "the API server cannot be reached from the controller: look there with `kubectl get --raw /readyz`",
    "kubectl: not found": "kubectl is not installed on the controller",
}

# `tools.remedies.scheduler` offers these two as Kubernetes' way to drain and to return a node, so they are no rows of their own and undo each other
# by the remedies' common ids.
CORDON = Remedy(
    id="cordon_node",
    does="Cordon {node}",
    at="controller",
    args={"node": "kube_node", "approval": "approval"},
    command=("sh", "-c", scripts.CORDON, "cordon", "{node}", "{approval}"),
    risk="disruptive",
    limit_seconds=60,
    proof=("sched",),
    blast="one node: running pods go on, no new one is put there",
    outage="none for running pods; the node takes no new ones until it is returned",
    waiting="the scheduler can start new pods on a node with a proven fault",
    files="none on the node; its cordon and an annotation in Kubernetes",
    ends="nothing",
    names_jobs=True,
    conditions=(KUBE_IN_SERVICE, KUBE_STILL_IN_SERVICE),
    undo="resume_node",
    refusals={"already cordoned": "somebody else cordoned the node at the same moment; it is theirs to return", **COMMON_REFUSALS},
)

UNCORDON = Remedy(
    id="uncordon_node",
    does="Return {node} to service",
    at="controller",
    args={"node": "kube_node"},
    command=("sh", "-c", scripts.UNCORDON, "uncordon", "{node}"),
    risk="disruptive",
    limit_seconds=60,
    proof=("sched",),
    blast="one node takes pods again",
    outage="none",
    waiting="a node that passed its checks stays idle",
    files="none on the node; its cordon and an annotation in Kubernetes",
    ends="nothing",
    conditions=(KUBE_OURS, KUBE_STILL_OURS),
    undo="drain_node",
    refusals={"already uncordoned": "the node is in service already; nothing to return", **COMMON_REFUSALS},
)

ROWS: tuple[Remedy, ...] = (
    Remedy(
        id="evict_pods",
        does="Evict the pods of {node}",
        at="controller",
        args={"node": "kube_node"},
        command=("sh", "-c", scripts.EVICT, "evict", "{node}"),
        risk="destructive",
        limit_seconds=600,
        proof=("sched",),
        blast="every pod of one node but those of DaemonSets ends and is started elsewhere; what it did since its last checkpoint is lost",
        outage="each pod stops within 9 min (the timeout of kubectl drain) and is away until its controller starts it elsewhere",
        waiting="the node cannot be repaired while pods run on it",
        files="what the pods keep in their own containers goes with them; pods with data on the node (emptyDir) are not evicted",
        ends="every pod of the node but those of DaemonSets; what they did since their last checkpoint is lost",
        names_jobs=True,
        conditions=(KUBE_OURS, KUBE_STILL_OURS),
        refusals={
            "disruption budget": "a PodDisruptionBudget lets no more of those pods go now: ask its owner for room, or wait, then ask again",
            "declare no controller": "nobody would start those pods again, so no pod was evicted: their owner ends them, then ask again",
            "not managed by ReplicationController": "nobody would start those pods again, so no pod was evicted: their owner ends them, then ask again",
            "local storage": "those pods keep data on the node (emptyDir), so no pod was evicted: their owner ends them, then ask again",
            "global timeout reached": "some pods have not ended within nine minutes: `kubectl get pods -A --field-selector spec.nodeName=…` shows them",
            **COMMON_REFUSALS,
        },
        back="nothing: their controllers have started them elsewhere",
        only="kubernetes",
    ),
)
