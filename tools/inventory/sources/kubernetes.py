"""Kubernetes' view: `kubectl get nodes -o json` → GPU nodes by pool and product. Pure."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tools.inventory.sources.rows import HOST_NAME, BadSource, Rows

NODES = ("kubectl", "get", "nodes", "-o", "json", "--request-timeout=20s")
GPUS = "nvidia.com/gpu"
POOLS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "node.coreweave.cloud/class",
    "nvidia.com/gpu.product",
)
"""Labels that name what a node is one of."""
EVERY = "kubernetes"


def read_nodes(text: str) -> Rows:
    """GPU nodes with their internal addresses, all in one group and in those their labels name. Raises BadSource."""
    rows = Rows()
    problems = []
    for place, node in enumerate(_items(text)):
        name = _of(node, "metadata").get("name")
        if not isinstance(name, str) or not re.fullmatch(HOST_NAME, name):
            problems.append(f"kubectl get nodes: items[{place}].metadata.name {name!r} is no host name")
            continue
        labels = _of(_of(node, "metadata"), "labels")
        if not _has_gpus(node, labels):
            continue
        for group in (EVERY, *(str(labels[pool]) for pool in POOLS if labels.get(pool))):
            rows.put(group, name)
        if address := _address(node):
            rows.hosts[name] = {"address": address}
    if not rows.groups and not problems:
        problems.append(f"kubectl get nodes: no node has {GPUS} or the label {GPUS}.present")
    if problems:
        raise BadSource(problems)
    return rows


def _items(text: str) -> list[Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as why:
        raise BadSource([f"kubectl get nodes -o json: is no JSON: {why}"]) from why
    items = document.get("items") if isinstance(document, dict) else None
    if not isinstance(items, list):
        raise BadSource(["kubectl get nodes -o json: `items` is missing or no list"])
    return items


def _of(value: Any, name: str) -> Mapping[str, Any]:
    found = value.get(name) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _has_gpus(node: Any, labels: Mapping[str, Any]) -> bool:
    """A node whose GPUs are all gone still names the resource."""
    status = _of(node, "status")
    return any(GPUS in _of(status, part) for part in ("capacity", "allocatable")) or labels.get(f"{GPUS}.present") == "true"


def _address(node: Any) -> str:
    return next((address for kind in ("InternalIP", "Hostname") for found, address in _addresses(node) if found == kind), "")


def _addresses(node: Any) -> Iterator[tuple[str, str]]:
    rows = _of(node, "status").get("addresses")
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, Mapping):
            yield str(row.get("type", "")), str(row.get("address", ""))
