"""Nodes and pods as the API returns them, and the effect of patches and evictions. No I/O."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


class ApiRefusal(Exception):
    """The API's own refusal: its code, reason and words."""

    def __init__(self, code: int, reason: str, message: str, causes: tuple[Json, ...] = ()) -> None:
        super().__init__(message)
        self.code, self.reason, self.causes = code, reason, causes

    @property
    def status(self) -> Json:
        """Return the refusal as the API's `Status` object."""
        details = {"details": {"causes": list(self.causes)}} if self.causes else {}
        head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        return {**head, "message": str(self), "reason": self.reason, "code": self.code, **details}


@dataclass(slots=True)
class DisruptionBudget:
    """A PodDisruptionBudget for pods labelled `app`. `refusals`: number of evictions refused before one is allowed."""

    name: str
    app: str
    allowed: int = 0
    refusals: int | None = None


@dataclass(slots=True)
class Objects:
    """The stored objects. Each change gives the object a new resourceVersion."""

    nodes: dict[str, Json] = field(default_factory=dict)
    pods: dict[tuple[str, str], Json] = field(default_factory=dict)
    budgets: list[DisruptionBudget] = field(default_factory=list)
    stuck: set[str] = field(default_factory=set)  # names of pods that never terminate after an eviction
    version: int = 1000

    def node(self, name: str, *, gpus: int = 8, allocatable: int | None = None, ready: str = "True", reason: str = "KubeletReady") -> Json:
        kinds = ("MemoryPressure", "DiskPressure", "PIDPressure")
        conditions = [{"type": kind, "status": "False", "reason": "KubeletHasNo", "message": "kubelet has enough"} for kind in kinds]
        conditions.append({"type": "Ready", "status": ready, "reason": reason, "message": "kubelet is posting ready status"})
        made = {
            "kind": "Node",
            "apiVersion": "v1",
            "metadata": {"name": name, "uid": f"node-{name}", "annotations": {"node.alpha.kubernetes.io/ttl": "0"}},
            "spec": {"podCIDR": "10.244.1.0/24"},
            "status": {
                "capacity": {"cpu": "128", "nvidia.com/gpu": str(gpus)},
                "allocatable": {"cpu": "127", "nvidia.com/gpu": str(gpus if allocatable is None else allocatable)},
                "conditions": conditions,
            },
        }
        self.nodes[name] = self._next(made)
        return made

    def pod(
        self, name: str, node: str, *, owner: str = "ReplicaSet", namespace: str = "default", gpus: int = 0, empty_dir: bool = False
    ) -> Json:
        """Add a running pod. Without an owner, no controller would recreate it. The label `app` is its name up to the
        last dash.
        """
        owners = [{"apiVersion": "apps/v1", "kind": owner, "name": name.rpartition("-")[0] or name, "uid": "o", "controller": True}]
        volumes = [{"name": "scratch", "emptyDir": {}}] if empty_dir else []
        limits = {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}} if gpus else {"resources": {}}
        labels = {"app": name.rpartition("-")[0] or name}
        self.version += 1
        meta = {"name": name, "namespace": namespace, "uid": f"pod-{self.version}", "labels": labels}
        made = {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": meta | ({"ownerReferences": owners} if owner else {}),
            "spec": {"nodeName": node, "containers": [{"name": "c", **limits}], "volumes": volumes},
            "status": {"phase": "Running"},
        }
        self.pods[namespace, name] = self._next(made)
        return made

    def patched(self, name: str, patch: Mapping[str, Any]) -> Json:
        """Apply a merge patch to a node. For the fields that kubectl changes here, a strategic merge patch gives the
        same result.
        """
        old = self.nodes.get(name)
        if old is None:
            raise not_found("nodes", name)
        wanted = patch.get("metadata", {}).get("resourceVersion")
        if wanted not in (None, old["metadata"]["resourceVersion"]):
            message = f'Operation cannot be fulfilled on nodes "{name}": the object has been modified; please apply your changes to the latest version'
            raise ApiRefusal(409, "Conflict", message)
        self.nodes[name] = self._next(merged(old, patch))
        return self.nodes[name]

    def evict(self, namespace: str, name: str) -> None:
        pod = self.pods.get((namespace, name))
        if pod is None:
            raise not_found("pods", name)
        for budget in self.budgets:
            if budget.app == pod["metadata"]["labels"]["app"]:
                self._spend(budget)
        if name not in self.stuck:
            del self.pods[namespace, name]

    def _spend(self, budget: DisruptionBudget) -> None:
        if budget.refusals is not None and budget.refusals > 0:
            budget.refusals -= 1
        elif budget.refusals is not None or budget.allowed > 0:
            budget.allowed = max(0, budget.allowed - 1)
            return
        cause = {"reason": "DisruptionBudget", "message": f"The disruption budget {budget.name} needs 1 healthy pods and has 1 currently"}
        raise ApiRefusal(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.", (cause,))

    def _next(self, made: Json) -> Json:
        self.version += 1
        made["metadata"]["resourceVersion"] = str(self.version)
        return made

    def selected(self, fields: str) -> list[Json]:
        """Return the pods that match a field selector such as `spec.nodeName=n1,status.phase!=Failed`."""
        found = list(self.pods.values())
        for term in filter(None, fields.split(",")):
            path, _, value = term.partition("!=") if "!=" in term else term.partition("=")
            unequal = "!=" in term
            found = [pod for pod in found if (_at(pod, path) != value) is unequal]
        return found


def merged(old: Json, patch: Mapping[str, Any]) -> Json:
    """Apply an RFC 7386 merge patch; null removes a key."""
    new = deepcopy(old)
    for key, value in patch.items():
        if value is None:
            new.pop(key, None)
        elif isinstance(value, Mapping):
            below = new.get(key)
            new[key] = merged(below if isinstance(below, dict) else {}, value)
        else:
            new[key] = deepcopy(value)
    return new


def not_found(resource: str, name: str) -> ApiRefusal:
    return ApiRefusal(404, "NotFound", f'{resource} "{name}" not found')


def _at(row: Json, path: str) -> Any:
    for step in path.split("."):
        row = row.get(step, {}) if isinstance(row, dict) else {}
    return row
