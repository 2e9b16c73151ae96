"""State of a Kubernetes node and its pods from kubectl (1.20 to 1.32). Untrusted text: types are checked, lengths cut.

Job   default   train-0   8
DaemonSet   monitoring   exporter-x   <none>
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kb.needle_search import split_lines
from tools.checks.check_types import Command, Format, Unreadable
from tools.fact import Fact, Status, build_unobserved_fact

CHECK = "sched"
GPU_RESOURCE = "nvidia.com/gpu"
DRAIN_MARK = "rackmedic/drained"
MAX_PODS = 64
MAX_TAINTS = 8
STAYING_POD_OWNERS = ("DaemonSet", "Node")  # owners of pods that a drain leaves running

_POD_PATTERN = re.compile(r"(\S{1,64}) {3,}([a-z0-9-]{1,63}) {3,}([a-z0-9.-]{1,253}) {3,}([0-9,]{1,64}|<none>)\s*$")
_NOT_FOUND_PATTERN = re.compile(r'\(NotFound\): nodes "[^"\n]{1,253}" not found')

# Why Kubernetes could not be queried, worded alike on every host. The first match counts.
KUBECTL_ERRORS: Mapping[str, str] = {
    r"RackMedic cannot ask (\S+ .*)": "{0}",
    r"Unable to connect to the server|The connection to the server|etcdserver|InternalError|i/o timeout": "the API server does not answer",
    r"must be logged in|Unauthorized": "the API server does not know the account (is its token valid?)",
    r"\(Forbidden\)": "its account lacks the right (role `rackmedic-looks`)",
    r"no configuration has been provided|invalid configuration|error loading config": "its kubectl has no usable kubeconfig",
}

# Messages of the kubelet or the controller about a NotReady node: never planned maintenance.
NOT_READY_CAUSES: Mapping[str, str] = {
    r"[Kk]ubelet stopped posting node status": "not_responding",
    r"container runtime|PLEG is not healthy|network plugin|cni": "runtime_down",
}


def format_unasked_controller(controller: str, why: str) -> str:
    """Return the text that replaces the output of an unreachable controller."""
    return f"RackMedic cannot ask {controller} about it: {why}"


def is_node(text: str) -> bool:
    head = text[:8192].lstrip()
    return (
        (head.startswith("{") and bool(re.search(r'"kind": ?"Node"', head)))
        or bool(_NOT_FOUND_PATTERN.search(head))
        or bool(_explain_kubectl_error(head))
    )


def parse_node(text: str) -> Sequence[Fact]:
    """Return the node's state, its reason and its GPUs. A node that Kubernetes does not know is absent."""
    if not text.lstrip().startswith("{"):
        if not_found := _NOT_FOUND_PATTERN.search(text):
            return [Fact(CHECK, "sched.state", status=Status.ABSENT, line=not_found[0][:200])]
        return [build_unobserved_fact(CHECK, Status.UNREACHABLE, f"Kubernetes could not be asked: {_explain_kubectl_error(text)}")]
    try:
        tree = json.loads(text[: text.rfind("}") + 1])
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"expected JSON: {error}") from error
    ready = _parse_conditions(tree).get("Ready")
    if ready is None:
        raise Unreadable("expected a node with its Ready condition")
    return [*_build_state_facts(tree, ready), *_build_gpu_facts(tree)]


def _explain_kubectl_error(text: str) -> str:
    for pattern, meaning in KUBECTL_ERRORS.items():
        if match := re.search(pattern, text[:8192]):
            return meaning.format(*(part[:200] for part in match.groups()))
    return ""


def _parse_conditions(tree: Any) -> dict[str, Mapping[str, Any]]:
    """Return the node's conditions by type; skip malformed ones."""
    conditions = _list_mappings(_get_item(_get_item(tree, "status"), "conditions"), 64)
    return {
        condition["type"]: condition
        for condition in conditions
        if isinstance(condition.get("type"), str) and condition.get("status") in ("True", "False", "Unknown")
    }


def _list_mappings(items: Any, max_items: int) -> list[Mapping[str, Any]]:
    """Return the objects among the first `max_items` of a JSON list; nothing if it is no list."""
    return [item for item in items[:max_items] if isinstance(item, Mapping)] if isinstance(items, list) else []


def _build_state_facts(tree: Any, ready: Mapping[str, Any]) -> Iterator[Fact]:
    is_ready = ready["status"] == "True"
    is_cordoned = _get_item(_get_item(tree, "spec"), "unschedulable") is True
    pressures = [
        name
        for name, condition in _parse_conditions(tree).items()
        if condition["status"] == "True" and re.fullmatch(r"[A-Za-z]{1,32}Pressure", name)
    ]
    words = ["Ready" if is_ready else "NotReady", *(["SchedulingDisabled"] if is_cordoned else []), *pressures]
    state = "+".join(words)[:120]
    reason = _find_state_reason(tree, ready, is_ready, is_cordoned)
    line = f"{state} {reason}".strip()
    yield Fact(CHECK, "sched.state", state, line=line, attrs={"reason": reason, "why": format_out_of_service(reason)} if reason else {})
    if reason:
        cause = "" if is_ready else _classify_not_ready_reason(reason)
        yield Fact(CHECK, "sched.reason", reason, line=line, attrs={"told": cause} if cause else {})


def _find_state_reason(tree: Any, ready: Mapping[str, Any], is_ready: bool, is_cordoned: bool) -> str:
    if not is_ready:
        return _clean_text(f"{ready.get('reason') or ''}: {ready.get('message') or ''}")
    taints = _list_taints(tree)
    if not is_cordoned and not taints:
        return ""
    drain_reason = _get_item(_get_item(_get_item(tree, "metadata"), "annotations"), DRAIN_MARK)
    return _clean_text(drain_reason or "; ".join(taints) or "cordoned")


def _classify_not_ready_reason(reason: str) -> str:
    return next((cause for pattern, cause in NOT_READY_CAUSES.items() if re.search(pattern, reason)), "")


def format_out_of_service(reason: str, by: str = "", since: str = "") -> str:
    """Return who took a node out of service, since when and why."""
    return f"{f'by {by} ' if by else ''}{f'since {since}' if since else ''}{': ' if by or since else ''}{reason}"


def _list_taints(tree: Any) -> list[str]:
    """Return the taints without those that Kubernetes sets itself: the node's state reports them."""
    taints = _list_mappings(_get_item(_get_item(tree, "spec"), "taints"), MAX_TAINTS)
    texts = (f"{taint.get('key') or ''}={taint.get('value') or ''}:{taint.get('effect') or ''}" for taint in taints)
    return [text for text in texts if not text.startswith(("node.kubernetes.io/", GPU_RESOURCE))]


def _build_gpu_facts(tree: Any) -> list[Fact]:
    """Count the device plugin's GPUs. A node with MIG devices gives no fact: its GPUs are not whole."""
    allocatable, capacity = (_get_item(_get_item(tree, "status"), name) for name in ("allocatable", "capacity"))
    if isinstance(allocatable, Mapping) and any(str(name).startswith("nvidia.com/mig-") for name in allocatable):
        return []
    allocatable_gpus, capacity_gpus = _parse_gpu_count(allocatable), _parse_gpu_count(capacity)
    line = f"no {GPU_RESOURCE} is offered: the device plugin does not run there"
    if capacity_gpus:
        line = f"{GPU_RESOURCE}: {allocatable_gpus} of {capacity_gpus} allocatable"
    return [Fact(CHECK, "sched.gpus", allocatable_gpus, line=line, attrs={"capacity": capacity_gpus})]


def _parse_gpu_count(resources: Any) -> int:
    count = str(_get_item(resources, GPU_RESOURCE) or "")
    return int(count) if re.fullmatch(r"\d{1,3}", count) else 0


def is_pods(text: str) -> bool:
    return text[:64].startswith("No resources found") or any(_POD_PATTERN.match(line) for line in split_lines(text[:2048])[:5])


def parse_pods(text: str) -> Sequence[Fact]:
    """Return the pods that a drain would end, and how many GPUs they have."""
    pods = [pod for pod in map(_POD_PATTERN.match, split_lines(text)) if pod and pod[1] not in STAYING_POD_OWNERS]
    container_gpus = [count for pod in pods for count in pod[4].split(",")]
    gpus = sum(int(count) for count in container_gpus if count.isdigit() and len(count) <= 3)
    names = [f"{pod[2]}/{pod[3]}" for pod in pods]
    line = "no pods but those of DaemonSets"
    if names:
        line = f"{len(names)} pods, {gpus} GPUs: {', '.join(names[:4])}{' …' if len(names) > 4 else ''}"
    owners = sorted({pod[1] for pod in pods if pod[1] != "<none>"})
    attrs = {"gpus": gpus, "count": len(names)} | ({"owners": owners[:8]} if owners else {})
    return [Fact(CHECK, "sched.pods", names[:MAX_PODS], line=line[:300], attrs=attrs)]


def _get_item(tree: Any, name: str) -> Any:
    return tree.get(name) if isinstance(tree, Mapping) else None


def _clean_text(text: Any) -> str:
    return " ".join(str(text).split()).strip(": ")[:300]


_POD_FIELD_SELECTOR = "spec.nodeName={kube_node},status.phase!=Succeeded,status.phase!=Failed"
_POD_COLUMNS = (
    "OWNER:.metadata.ownerReferences[*].kind,NAMESPACE:.metadata.namespace,POD:.metadata.name,"
    "GPUS:.spec.containers[*].resources.limits.nvidia\\.com/gpu"
)
# Selects only the needed pod columns: a pod's environment may hold secrets.
COMMANDS = (
    Command("kubenode", ("kubectl", "get", "node", "{kube_node}", "-o", "json"), scheduler="kubernetes"),
    Command(
        "kubepods",
        (
            "kubectl",
            "get",
            "pods",
            "--all-namespaces",
            "--no-headers",
            "--field-selector",
            _POD_FIELD_SELECTOR,
            "-o",
            f"custom-columns={_POD_COLUMNS}",
        ),
        silence="No resources found",
        scheduler="kubernetes",
    ),
)

FORMATS = (Format("kubectl get node", is_node, parse_node), Format("kubectl get pods", is_pods, parse_pods))
