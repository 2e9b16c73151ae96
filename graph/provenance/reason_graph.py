"""A turn's reasoning as nodes and edges, and its serialized text; the same reasoning gives the same bytes."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any, Final, Literal

# A candidate cause; an observed fact or a failed check; an objection; a belief shift not caused by facts; a remediation
# step.
NodeKind = Literal["proposition", "verification", "critique", "refinement", "remedy"]
EdgeKind = Literal["supports", "decides", "contradicts", "leaves open", "objects to", "moves", "calls for"]
MAX_TEXT_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class ReasonNode:
    """One node.

    `by` is its source: `facts`, `engine`, a shift source (`graph.provenance.belief_shifts`) or `model:QUESTION`. A
    proposition has `label`, `hosts` and `verdict`; a verification its place and line; `weight` is in log-odds.
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
    """`source` does `kind` to `target`; both are node ids."""

    source: str
    target: str
    kind: EdgeKind
    weight: float = 0.0


@dataclass(frozen=True)
class ReasonGraph:
    """What a turn concluded and why. `catalogue` is the digest of the causes used: others may give another result."""

    incident: str
    item: str
    outcome: str
    catalogue: str
    nodes: tuple[ReasonNode, ...] = ()
    edges: tuple[ReasonEdge, ...] = ()
    # Its inputs as plain JSON (`graph.incident.reasoning_check`), so that it can be checked after the incident
    # has changed.
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
        head |= {"ground": dict(self.ground)} if self.ground else {}
        return "\n".join(
            json.dumps(row, ensure_ascii=False) for row in (head, *map(_to_plain_dict, self.nodes), *map(_to_plain_dict, self.edges))
        )

    @classmethod
    def parse(cls, text: str) -> "ReasonGraph":
        """Parse serialized text. Raises ValueError for anything else."""
        try:
            head, *rows = [json.loads(line) for line in text.split("\n") if line]
            nodes = tuple(ReasonNode(**_freeze_lists(row)) for row in rows if "id" in row)
            edges = tuple(ReasonEdge(**row) for row in rows if "source" in row)
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
    first: dict[str, ReasonNode] = {}
    for node in nodes:
        first.setdefault(node.id, node)
    return tuple(first.values())


def _to_plain_dict(item: ReasonNode | ReasonEdge) -> dict[str, Any]:
    usual = {field.name: field.default for field in fields(item)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(item).items() if value != usual[name]}


def _freeze_lists(row: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}


def shorten_text(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_TEXT_CHARS else f"{line[: MAX_TEXT_CHARS - 1]}…"
