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

# unplanned causes by the kubelet's or controller's message, of any author
# messages of the kubelet or the controller about a NotReady node: never planned maintenance
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
    """Return state, reason and GPUs. A node unknown to Kubernetes is absent."""
    if not text.lstrip().startswith("{"):
        if unknown := _NOT_FOUND_PATTERN.search(text):
            return [Fact(CHECK, "sched.state", status=Status.ABSENT, line=unknown[0][:200])]
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
    rows = _get_item(_get_item(tree, "status"), "conditions")
    conditions = [row for row in rows[:64] if isinstance(row, Mapping)] if isinstance(rows, list) else []
    return {
        row["type"]: row for row in conditions if isinstance(row.get("type"), str) and row.get("status") in ("True", "False", "Unknown")
    }


def _build_state_facts(tree: Any, ready: Mapping[str, Any]) -> Iterator[Fact]:
    well, cordoned = ready["status"] == "True", _get_item(_get_item(tree, "spec"), "unschedulable") is True
    pressing = [
        kind for kind, row in _parse_conditions(tree).items() if row["status"] == "True" and re.fullmatch(r"[A-Za-z]{1,32}Pressure", kind)
    ]
    words = ["Ready" if well else "NotReady", *(["SchedulingDisabled"] if cordoned else []), *pressing]
    state, reason = "+".join(words)[:120], ""
    if not well:
        reason = _clean_text(f"{ready.get('reason') or ''}: {ready.get('message') or ''}")
    elif cordoned or _list_taints(tree):
        reason = _clean_text(
            _get_item(_get_item(_get_item(tree, "metadata"), "annotations"), DRAIN_MARK) or "; ".join(_list_taints(tree)) or "cordoned"
        )
    line = f"{state} {reason}".strip()
    yield Fact(CHECK, "sched.state", state, line=line, attrs={"reason": reason, "why": format_out_of_service(reason)} if reason else {})
    if reason:
        cause = "" if well else next((name for pattern, name in NOT_READY_CAUSES.items() if re.search(pattern, reason)), "")
        yield Fact(CHECK, "sched.reason", reason, line=line, attrs={"told": cause} if cause else {})


def format_out_of_service(reason: str, by: str = "", since: str = "") -> str:
    """Return who took a node out of service, since when and why."""
    return f"{f'by {by} ' if by else ''}{f'since {since}' if since else ''}{': ' if by or since else ''}{reason}"


def _list_taints(tree: Any) -> list[str]:
    """Skip the node's own taints: its state reports those."""
    rows = _get_item(_get_item(tree, "spec"), "taints")
    taints = [row for row in rows[:MAX_TAINTS] if isinstance(row, Mapping)] if isinstance(rows, list) else []
    texts = (f"{row.get('key') or ''}={row.get('value') or ''}:{row.get('effect') or ''}" for row in taints)
    return [text for text in texts if not text.startswith(("node.kubernetes.io/", GPU_RESOURCE))]


def _build_gpu_facts(tree: Any) -> list[Fact]:
    """Count the device plugin's GPUs; nothing on a node with MIG devices."""
    offered, has = (_get_item(_get_item(tree, "status"), name) for name in ("allocatable", "capacity"))
    if isinstance(offered, Mapping) and any(str(name).startswith("nvidia.com/mig-") for name in offered):
        return []
    count, capacity = (
        int(text) if re.fullmatch(r"\d{1,3}", text := str(_get_item(rows, GPU_RESOURCE) or "")) else 0 for rows in (offered, has)
    )
    line = (
        f"{GPU_RESOURCE}: {count} of {capacity} allocatable"
        if capacity
        else f"no {GPU_RESOURCE} is offered: the device plugin does not run there"
    )
    return [Fact(CHECK, "sched.gpus", count, line=line, attrs={"capacity": capacity})]


def is_pods(text: str) -> bool:
    return text[:64].startswith("No resources found") or any(_POD_PATTERN.match(line) for line in split_lines(text[:2048])[:5])


def parse_pods(text: str) -> Sequence[Fact]:
    """Return the pods that a drain would end, and their GPUs."""
    rows = [row for row in map(_POD_PATTERN.match, split_lines(text)) if row and row[1] not in STAYING_POD_OWNERS]
    gpus = sum(int(part) for row in rows for part in row[4].split(",") if part.isdigit() and len(part) <= 3)
    names = [f"{row[2]}/{row[3]}" for row in rows]
    line = (
        f"{len(names)} pods, {gpus} GPUs: {', '.join(names[:4])}{' …' if len(names) > 4 else ''}"
        if names
        else "no pods but those of DaemonSets"
    )
    owners = sorted({row[1] for row in rows if row[1] != "<none>"})
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
