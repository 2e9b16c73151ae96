"""The reasoning of one turn as rows: nodes, edges, and the text that is kept of them. Pure; the same reasoning gives the same bytes."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any, Final, Literal

NodeKind = Literal["proposition", "verification", "critique", "refinement", "remedy"]
"""A cause on the table; a fact that was looked at, or a look that failed; an objection; what moved a belief beside facts; a step of a fix."""
EdgeKind = Literal["supports", "decides", "contradicts", "leaves open", "objects to", "moves", "calls for"]
MAX_TEXT_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class ReasonNode:
    """One step. `by` is who made it: `facts`, `engine`, or a mover (`graph.provenance.belief_shifts`), `model:QUESTION` where it was one. A proposition has a
    `label`, `hosts` and `verdict`; a verification where it looked and the line; `weight` is in log-odds."""

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
    """`source` does `kind` to `target`; both are ids of nodes."""

    source: str
    target: str
    kind: EdgeKind
    weight: float = 0.0


@dataclass(frozen=True)
class ReasonGraph:
    """What a turn came to and why. `catalogue` is a digest of the causes that it was reasoned with: with others it comes out otherwise."""

    incident: str
    item: str
    outcome: str
    catalogue: str
    nodes: tuple[ReasonNode, ...] = ()
    edges: tuple[ReasonEdge, ...] = ()
    ground: Mapping[str, Any] = field(default_factory=dict)
    """What it stands on, as plain JSON (`graph.incident.thinking.verification`): so it can be checked whatever the incident has become since."""

    @cached_property
    def by_id(self) -> dict[str, ReasonNode]:
        return {node.id: node for node in self.nodes}

    def list_nodes(self, *kinds: NodeKind) -> list[ReasonNode]:
        """Those nodes, in their order."""
        return [node for node in self.nodes if node.kind in kinds]

    def list_incoming(self, node: ReasonNode, *kinds: EdgeKind) -> list[tuple[ReasonEdge, ReasonNode]]:
        """The edges that end at a node, each with where it begins."""
        return [(edge, self.by_id[edge.source]) for edge in self.edges if edge.target == node.id and (not kinds or edge.kind in kinds)]

    def serialize(self) -> str:
        """As it is kept: JSON, defaults left out, a node or an edge a line."""
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
        """The inverse of `text`. ValueError where it is none."""
        try:
            head, *rows = [json.loads(line) for line in text.split("\n") if line]
            nodes = tuple(ReasonNode(**_freeze_lists(row)) for row in rows if "id" in row)
            edges = tuple(ReasonEdge(**row) for row in rows if "source" in row)
            return cls(head["incident"], head["item"], head["outcome"], head["catalogue"], nodes, edges, head.get("ground") or {})
        except (KeyError, TypeError, AttributeError) as why:
            raise ValueError(f"not a kept reasoning: {why}") from why

    def to_json_document(self) -> dict[str, Any]:
        """As `rackmedic explain --json` prints it."""
        return {
            "schema": 1,
            "incident": self.incident,
            "item": self.item,
            "outcome": self.outcome,
            "nodes": [_to_plain_dict(node) for node in self.nodes],
            "edges": [_to_plain_dict(edge) for edge in self.edges],
        }


def deduplicate_nodes(rows: Iterable[ReasonNode]) -> tuple[ReasonNode, ...]:
    """Each once: of several with one id the first."""
    first: dict[str, ReasonNode] = {}
    for row in rows:
        first.setdefault(row.id, row)
    return tuple(first.values())


def _to_plain_dict(row: ReasonNode | ReasonEdge) -> dict[str, Any]:
    usual = {one.name: one.default for one in fields(row)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(row).items() if value != usual[name]}


def _freeze_lists(row: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}


def shorten_text(text: str) -> str:
    """One line, of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_TEXT_CHARS else f"{line[: MAX_TEXT_CHARS - 1]}…"
