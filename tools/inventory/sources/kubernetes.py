"""Parse `kubectl get nodes -o json` into GPU nodes by pool and product."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tools.inventory.sources.source import HOST_NAME, BadSource, SourceRows

NODES_COMMAND = ("kubectl", "get", "nodes", "-o", "json", "--request-timeout=20s")
GPU_RESOURCE = "nvidia.com/gpu"
# labels that name a node's pool or product
POOL_LABELS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "node.coreweave.cloud/class",
    "nvidia.com/gpu.product",
)
ALL_NODES_GROUP = "kubernetes"


def parse_nodes(text: str) -> SourceRows:
    """Return GPU nodes with internal addresses, in one common group and in their labels' groups. Raises BadSource for other text."""
    source_rows = SourceRows()
    problems = []
    for index, node in enumerate(_parse_items(text)):
        name = _get_mapping(node, "metadata").get("name")
        if not isinstance(name, str) or not re.fullmatch(HOST_NAME, name):
            problems.append(f"kubectl get nodes: items[{index}].metadata.name {name!r} is no host name")
            continue
        labels = _get_mapping(_get_mapping(node, "metadata"), "labels")
        if not _has_gpus(node, labels):
            continue
        for group in (ALL_NODES_GROUP, *(str(labels[pool]) for pool in POOL_LABELS if labels.get(pool))):
            source_rows.add_host(group, name)
        if address := _find_address(node):
            source_rows.hosts[name] = {"address": address}
    if not source_rows.groups and not problems:
        problems.append(f"kubectl get nodes: no node has {GPU_RESOURCE} or the label {GPU_RESOURCE}.present")
    if problems:
        raise BadSource(problems)
    return source_rows


def _parse_items(text: str) -> list[Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadSource([f"kubectl get nodes -o json: is no JSON: {error}"]) from error
    items = document.get("items") if isinstance(document, dict) else None
    if not isinstance(items, list):
        raise BadSource(["kubectl get nodes -o json: `items` is missing or no list"])
    return items


def _get_mapping(value: Any, name: str) -> Mapping[str, Any]:
    child = value.get(name) if isinstance(value, Mapping) else None
    return child if isinstance(child, Mapping) else {}


def _has_gpus(node: Any, labels: Mapping[str, Any]) -> bool:
    """Return whether the node has GPUs. It lists the resource even if all of them have failed."""
    status = _get_mapping(node, "status")
    if any(GPU_RESOURCE in _get_mapping(status, part) for part in ("capacity", "allocatable")):
        return True
    return labels.get(f"{GPU_RESOURCE}.present") == "true"


def _find_address(node: Any) -> str:
    for kind in ("InternalIP", "Hostname"):
        for address_kind, address in _iter_addresses(node):
            if address_kind == kind:
                return address
    return ""


def _iter_addresses(node: Any) -> Iterator[tuple[str, str]]:
    """Yield the kind and the address of each entry."""
    addresses = _get_mapping(node, "status").get("addresses")
    for entry in addresses if isinstance(addresses, list) else ():
        if isinstance(entry, Mapping):
            yield str(entry.get("type", "")), str(entry.get("address", ""))
