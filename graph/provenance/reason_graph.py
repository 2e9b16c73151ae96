"""A turn's reasoning as a graph of nodes and edges. Equal graphs are serialized to the same bytes."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any, Final, Literal

# In this order: a candidate cause, an observed fact or failed check, an objection, a belief shift not caused by facts, and
# a remediation step.
NodeKind = Literal["proposition", "verification", "critique", "refinement", "remedy"]
EdgeKind = Literal["supports", "decides", "contradicts", "leaves open", "objects to", "moves", "calls for"]
MAX_TEXT_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class ReasonNode:
    """One node of the graph.

    `by` names its source: `facts`, `engine`, a shift source (`graph.provenance.belief_shifts`) or `model:QUESTION`. A
    proposition has `label`, `hosts` and `verdict`; a verification has the host, check and line that it cites. `weight` is
    in log-odds.
    """

    id: str
    kind: NodeKind
    says: str
    by: str = "engine"
    label: str = ""
    verdict: str = ""
    confidence: float = 0.0
    weight: float = 0.0
    hosts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    host: str = ""
    device: str = ""
    check: str = ""
    key: str = ""
    line: str = ""
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class ReasonEdge:
    """An edge between two node ids, read as "`source` `kind` `target`"."""

    source: str
    target: str
    kind: EdgeKind
    weight: float = 0.0


@dataclass(frozen=True)
class ReasonGraph:
    """What a turn concluded and why. `catalogue` is the digest of the taxonomy that was used."""

    incident: str
    item: str
    outcome: str
    catalogue: str
    nodes: tuple[ReasonNode, ...] = ()
    edges: tuple[ReasonEdge, ...] = ()
    # The turn's inputs as plain JSON (`graph.incident.reasoning_check`), with which the graph can be verified later.
    ground: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def by_id(self) -> dict[str, ReasonNode]:
        return {node.id: node for node in self.nodes}

    def list_nodes(self, *kinds: NodeKind) -> list[ReasonNode]:
        return [node for node in self.nodes if node.kind in kinds]

    def list_incoming(self, node: ReasonNode, *kinds: EdgeKind) -> list[tuple[ReasonEdge, ReasonNode]]:
        return [(edge, self.by_id[edge.source]) for edge in self.edges if edge.target == node.id and (not kinds or edge.kind in kinds)]

    def serialize(self) -> str:
        """Return JSON lines: head, nodes, edges, without defaults."""
        head: dict[str, Any] = {
            "schema": 1,
            "incident": self.incident,
            "item": self.item,
            "outcome": self.outcome,
            "catalogue": self.catalogue,
        }
        if self.ground:
            head["ground"] = dict(self.ground)
        objects = [head, *map(_to_plain_dict, self.nodes), *map(_to_plain_dict, self.edges)]
        return "\n".join(json.dumps(json_object, ensure_ascii=False) for json_object in objects)

    @classmethod
    def parse(cls, text: str) -> "ReasonGraph":
        """Parse serialized text.

        Raises:
            ValueError: The text is no serialized graph.
        """
        try:
            head, *objects = [json.loads(line) for line in text.split("\n") if line]
            nodes = tuple(ReasonNode(**_freeze_lists(json_object)) for json_object in objects if "id" in json_object)
            edges = tuple(ReasonEdge(**json_object) for json_object in objects if "source" in json_object)
            return cls(head["incident"], head["item"], head["outcome"], head["catalogue"], nodes, edges, head.get("ground") or {})
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a kept reasoning: {error}") from error

    def to_json_document(self) -> dict[str, Any]:
        """Return the output of `rackmedic explain --json`."""
        return {
            "schema": 1,
            "incident": self.incident,
            "item": self.item,
            "outcome": self.outcome,
            "nodes": [_to_plain_dict(node) for node in self.nodes],
            "edges": [_to_plain_dict(edge) for edge in self.edges],
        }


def deduplicate_nodes(nodes: Iterable[ReasonNode]) -> tuple[ReasonNode, ...]:
    """Keep the first node of each id."""
    nodes_by_id: dict[str, ReasonNode] = {}
    for node in nodes:
        nodes_by_id.setdefault(node.id, node)
    return tuple(nodes_by_id.values())


def _to_plain_dict(item: ReasonNode | ReasonEdge) -> dict[str, Any]:
    """Return the fields that differ from their defaults, as plain JSON values."""
    defaults = {field.name: field.default for field in fields(item)}
    changed_fields = {name: value for name, value in asdict(item).items() if value != defaults[name]}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in changed_fields.items()}


def _freeze_lists(json_object: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in json_object.items()}


def shorten_text(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_TEXT_CHARS else f"{line[: MAX_TEXT_CHARS - 1]}…"
