"""A turn's reasoning as nodes and edges, and what it rests on: belief shifts and receipts of checks. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any, Final, Literal, get_args

from graph.engine.priors import MAX_WORDS_LOG_ODDS, MODEL_LOG_ODDS, OBJECTION_LOG_ODDS, SIMILAR_INCIDENT_LOG_ODDS
from kb.history.lessons import NOTE_WEIGHT
from tools.fact import Fact
from tools.fleet.answers import FleetAnswers

# A turn's reasoning as nodes and edges, and its serialized text. Pure; the same reasoning gives the same bytes.

# A candidate cause; an observed fact or a failed check; an objection; a belief shift not caused by facts; a remediation
# step.
NodeKind = Literal["proposition", "verification", "critique", "refinement", "remedy"]
EdgeKind = Literal["supports", "decides", "contradicts", "leaves open", "objects to", "moves", "calls for"]
MAX_TEXT_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class ReasonNode:
    """One node.

    `by` is its source: `facts`, `engine`, a shift source (`graph.provenance.reason_graph`) or `model:QUESTION`. A
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


def deduplicate_nodes(rows: Iterable[ReasonNode]) -> tuple[ReasonNode, ...]:
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
    line = " ".join(text.split())
    return line if len(line) <= MAX_TEXT_CHARS else f"{line[: MAX_TEXT_CHARS - 1]}…"


# Belief shifts not caused by facts: words, history, notes and the model, each bounded and recorded.

# The source: the report's words, past incidents and pages, corrected diagnoses, and the model by the question asked.
ShiftSource = Literal["words", "history", "mistakes", "read", "judge", "critique"]
# Bound per source, label and turn, in log-odds, either way.
MAX_SHIFT_LOG_ODDS: Final[Mapping[ShiftSource, float]] = {
    "words": MAX_WORDS_LOG_ODDS,
    "history": SIMILAR_INCIDENT_LOG_ODDS,
    "mistakes": NOTE_WEIGHT,
    "read": MODEL_LOG_ODDS,
    "judge": MODEL_LOG_ODDS,
    "critique": OBJECTION_LOG_ODDS,
}
# Stored form: the first letter.
SOURCE_CODES: Final[Mapping[ShiftSource, str]] = {"words": "w", "history": "h", "mistakes": "m", "read": "r", "judge": "j", "critique": "c"}
MODEL_SOURCES: Final[frozenset[ShiftSource]] = frozenset({"read", "judge", "critique"})
ROUNDING_TOLERANCE = 0.02  # Largest difference between a stored and the true weight.


@dataclass(frozen=True, slots=True)
class BeliefShift:
    """One source's shift of one label, in log-odds."""

    by: ShiftSource
    label: str
    weight: float


def build_shifts(by: ShiftSource, weights: Mapping[str, float]) -> list[BeliefShift]:
    """Return one source's shifts, without those that round to 0."""
    return [BeliefShift(by, label, weight) for label, weight in weights.items() if round(weight, 2)]


def parse_shifts(kept: str, labels: Mapping[str, float]) -> tuple[BeliefShift, ...]:
    """Parse stored shifts. `labels` are the beliefs stored beside them, in order. Unknown entries are ignored."""
    names, movers = list(labels), {by[0]: by for by in get_args(ShiftSource)}
    rows = (row.split(":") for row in kept.split())
    return tuple(
        BeliefShift(movers[row[0]], names[int(row[1])], float(row[2]))
        for row in rows
        if len(row) == 3 and row[0] in movers and int(row[1]) < len(names)
    )


def serialize_shifts(moves: Sequence[BeliefShift], labels: Mapping[str, float]) -> str:
    """Serialize the shifts of known labels briefly, as state is written at every step: `w:0:0.6` is the words' 0.6 for
    the first label.
    """
    places = {label: number for number, label in enumerate(labels)}
    return " ".join(f"{SOURCE_CODES[move.by]}:{places[move.label]}:{round(move.weight, 2):g}" for move in moves if move.label in places)


# Receipts: the output digests of each check as the fleet delivered them.
#
# Stored beside the facts, they reveal an answer that was filed under another host, lost or added later.

DIGEST_PREFIX_CHARS = 12  # Characters kept of a digest.
HostCheck = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Receipts:
    """(host, check) → outputs of its last answer; empty where the check could not look."""

    rows: Mapping[HostCheck, frozenset[str]] = field(default_factory=dict)

    def with_wave(self, answers: FleetAnswers) -> "Receipts":
        """Replace earlier answers by a wave's."""
        new = {(answer.host, answer.check): _collect_output_digests(answer.facts) for answer in answers.answers}
        return Receipts({**self.rows, **new})

    def with_facts(self, facts: Iterable[Fact]) -> "Receipts":
        """Add facts from outside a turn, such as an approved check."""
        by_look: dict[HostCheck, list[Fact]] = {}
        for fact in facts:
            if fact.host:
                by_look.setdefault((fact.host, fact.check), []).append(fact)
        return Receipts({**self.rows, **{look: _collect_output_digests(rows) for look, rows in by_look.items()}})

    def serialize(self) -> str:
        return "\n".join(f"{host} {check} {','.join(sorted(outputs)) or '-'}" for (host, check), outputs in sorted(self.rows.items()))

    @classmethod
    def parse(cls, text: str) -> "Receipts":
        """Parse, ignoring malformed lines."""
        rows = [line.split(" ") for line in text.split("\n")]
        return cls({(row[0], row[1]): frozenset(row[2].split(",")) - {"-"} for row in rows if len(row) == 3})

    def list_misattributed(self, facts: Iterable[Fact]) -> list[str]:
        """Describe checks whose facts cite an output that the host never delivered."""
        misattributed: dict[str, None] = {}
        for fact in facts:
            outputs = self.rows.get((fact.host, fact.check))
            if fact.host and fact.sha256 and outputs is not None and fact.sha256[:DIGEST_PREFIX_CHARS] not in outputs:
                misattributed[f"{fact.host} never answered {fact.check} with this output"] = None
        return list(misattributed)

    def list_dropped(self, facts: Iterable[Fact]) -> list[HostCheck]:
        """Return answered checks without a fact left."""
        fact_sources = {(fact.host, fact.check) for fact in facts}
        return [look for look, outputs in self.rows.items() if outputs and look not in fact_sources]


def _collect_output_digests(facts: Iterable[Fact]) -> frozenset[str]:
    return frozenset(fact.sha256[:DIGEST_PREFIX_CHARS] for fact in facts if fact.sha256)
