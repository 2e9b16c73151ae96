"""Build a turn's reason graph. Pure and deterministic: the same facts, shifts and report give the same bytes."""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graph.engine.assessment import Assessment
from graph.engine.belief import Belief, ClueMatch
from graph.provenance.reason_graph import (
    MODEL_SOURCES,
    BeliefShift,
    EdgeKind,
    ReasonEdge,
    ReasonGraph,
    ReasonNode,
    deduplicate_nodes,
    shorten_text,
)
from graph.report import Report
from graph.state import Hypothesis
from kb.taxonomy.taxonomy import Taxonomy

CHECK_REMEDY = "run_check"  # The remedy that only looks: an exclusive check needs approval but no cause.
# Per cause: places, and facts for and against at each; causes besides the proven ones; failed checks.
MAX_BELIEFS = 8
MAX_SUPPORTING_FACTS = 4
MAX_OPPOSING_FACTS = 2
MAX_OTHER_CAUSES = 8
MAX_UNOBSERVED_CHECKS = 12


@dataclass(frozen=True, slots=True)
class TurnReasoning:
    """Everything that a turn concluded."""

    incident: str
    report: Report
    now: Assessment
    taxonomy: Taxonomy
    moves: Sequence[BeliefShift] = ()
    catalogue: str = ""
    ground: Mapping[str, Any] = field(default_factory=dict)
    earlier: Collection[tuple[str, str]] = ()  # Causes and targets of remediations that existed before this turn.


@dataclass(slots=True)
class ReasonGraphBuilder:
    nodes: list[ReasonNode] = field(default_factory=list)
    edges: list[ReasonEdge] = field(default_factory=list)

    def add_node(self, node: ReasonNode, target: str, kind: EdgeKind, weight: float = 0.0) -> None:
        self.nodes.append(node)
        self.edges.append(ReasonEdge(node.id, target, kind, round(weight, 2)))


def build_reason_graph(reasoning: TurnReasoning) -> ReasonGraph:
    sketch = ReasonGraphBuilder()
    for cause in list_propositions(reasoning):
        sketch.nodes.append(_build_proposition(cause))
        _add_verifications(cause, reasoning.now, sketch)
        _add_unobserved(cause, reasoning, sketch)
        _add_critiques(cause, reasoning, sketch)
        _add_refinements(cause, reasoning, sketch)
    _add_conjectures(reasoning.report, sketch)
    _add_remedies(reasoning, sketch)
    known_nodes = deduplicate_nodes(sketch.nodes)
    edges = tuple(dict.fromkeys(sketch.edges))
    return ReasonGraph(
        reasoning.incident, reasoning.report.item, reasoning.report.outcome, reasoning.catalogue, known_nodes, edges, reasoning.ground
    )


def list_propositions(reasoning: TurnReasoning) -> list[Hypothesis]:
    """Return the causes found, then at most `MAX_OTHER_CAUSES` candidates: likely, hidden, ruled out, shifted."""
    report, now = reasoning.report, reasoning.now
    rows = [*report.root_causes, *now.list_root_causes(), *(now.build_hypothesis(row.label) for row in now.suspects[:3])]
    if report.likely and report.likely.label in now.label_verdicts:
        rows.append(now.build_hypothesis(report.likely.label))
    elif report.likely:
        rows.append(Hypothesis(label=report.likely.label, verdict="inconclusive", because=report.likely.because))
    rows += [*(now.build_hypothesis(row.leaf.label) for row in now.open_hidden_causes), *report.ruled_out]
    moved = dict.fromkeys(move.label for move in reasoning.moves if move.label in now.label_verdicts)
    rows += [now.build_hypothesis(label) for label in moved]
    cause_count = len(report.root_causes) + len(now.list_root_causes())
    first: dict[str, Hypothesis] = {}
    for row in rows:
        first.setdefault(row.label, row)
    return list(first.values())[: cause_count + MAX_OTHER_CAUSES]


def _build_id(prefix: str, *parts: str) -> str:
    return f"{prefix}:{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:10]}"


def _build_proposition_id(label: str) -> str:
    return f"p:{label}"


def _build_proposition(cause: Hypothesis) -> ReasonNode:
    return ReasonNode(
        _build_proposition_id(cause.label),
        "proposition",
        shorten_text(cause.because),
        label=cause.label,
        verdict=cause.verdict,
        confidence=round(cause.confidence, 3),
        hosts=cause.hosts,
        devices=cause.devices,
    )


def _list_beliefs(cause: Hypothesis, assessment: Assessment) -> Sequence[Belief]:
    roots = [row for row in assessment.roots if row.label == cause.label]
    return roots[:MAX_BELIEFS] or assessment.by_label.get(cause.label, [])[:1]


def _add_verifications(cause: Hypothesis, assessment: Assessment, builder: ReasonGraphBuilder) -> None:
    for row in _list_beliefs(cause, assessment):
        deciding = {id(match.fact) for match in row.deciding}
        for match in row.support[:MAX_SUPPORTING_FACTS]:
            kind: EdgeKind = "decides" if id(match.fact) in deciding else "supports"
            builder.add_node(_build_verification(match), _build_proposition_id(cause.label), kind, match.weight)
        for match in row.against[:MAX_OPPOSING_FACTS]:
            builder.add_node(_build_verification(match), _build_proposition_id(cause.label), "contradicts", match.weight)


def _build_verification(match: ClueMatch) -> ReasonNode:
    fact = match.fact
    line = fact.line or match.says
    return ReasonNode(
        _build_id("v", fact.host, fact.check, fact.key, fact.device or "", line),
        "verification",
        shorten_text(match.says),
        by="facts",
        verdict="seen",
        host=fact.host,
        device=fact.device or "",
        check=fact.check,
        key=fact.key,
        line=line[:400],
        sha256=fact.sha256,
    )


def _add_unobserved(cause: Hypothesis, reasoning: TurnReasoning, builder: ReasonGraphBuilder) -> None:
    """Read the assessment's failed checks, because the report may show fewer."""
    leaf = reasoning.taxonomy.leaves.get(cause.label)
    deciding = {check.id for check in reasoning.now.reference.list_deciding_checks(leaf)} if leaf else set()
    for row in [unobserved for unobserved in reasoning.now.list_unobserved() if unobserved.check in deciding or unobserved.check == "all"][
        :MAX_UNOBSERVED_CHECKS
    ]:
        node = ReasonNode(
            _build_id("b", row.host, row.check, row.why),
            "verification",
            shorten_text(row.why),
            by="facts",
            verdict="could not look",
            host=row.host,
            check=row.check,
        )
        builder.add_node(node, _build_proposition_id(cause.label), "leaves open")


def _add_critiques(cause: Hypothesis, reasoning: TurnReasoning, builder: ReasonGraphBuilder) -> None:
    for objection, source in _iter_objections(cause, reasoning):
        builder.add_node(
            ReasonNode(_build_id("c", cause.label, objection), "critique", shorten_text(objection), by=source),
            _build_proposition_id(cause.label),
            "objects to",
        )


def _iter_objections(cause: Hypothesis, reasoning: TurnReasoning) -> Iterator[tuple[str, str]]:
    now, title = reasoning.now, reasoning.taxonomy.get_title(cause.label)
    yield from ((row.because, "engine") for row in now.selection.aside if row.belief.label == cause.label)
    yield from ((contradiction, "engine") for contradiction in now.selection.contradictions if title in contradiction)
    yield from ((doubt.removeprefix(f"{title}: "), "model:critique") for doubt in reasoning.report.doubts if doubt.startswith(f"{title}: "))


def _add_refinements(cause: Hypothesis, reasoning: TurnReasoning, builder: ReasonGraphBuilder) -> None:
    for number, move in enumerate(reasoning.moves):
        if move.label == cause.label:
            source = f"model:{move.by}" if move.by in MODEL_SOURCES else move.by
            effect = f"{move.by} {'for' if move.weight > 0 else 'against'} it"
            node = ReasonNode(
                _build_id("r", str(number), move.by, move.label), "refinement", effect, by=source, weight=round(move.weight, 2)
            )
            builder.add_node(node, _build_proposition_id(cause.label), "moves", move.weight)


def _add_conjectures(report: Report, builder: ReasonGraphBuilder) -> None:
    for idea in report.ideas:
        place = _build_id("i", idea.title, idea.cause)
        builder.nodes.append(
            ReasonNode(place, "proposition", shorten_text(f"{idea.title}: {idea.cause}"), by="model:explore", verdict=idea.standing)
        )
        for line in idea.rests:
            builder.add_node(
                ReasonNode(_build_id("q", idea.title, line), "refinement", shorten_text(line), by="model:explore", line=line[:400]),
                place,
                "moves",
            )
        if idea.doubt:
            builder.add_node(
                ReasonNode(_build_id("c", idea.title, idea.doubt), "critique", shorten_text(idea.doubt), by="model:critique"),
                place,
                "objects to",
            )


def _add_remedies(reasoning: TurnReasoning, builder: ReasonGraphBuilder) -> None:
    for row in reasoning.report.actions:
        origin = "earlier" if (row.label, row.target) in reasoning.earlier else "new"
        node = ReasonNode(
            _build_id("a", row.label, row.remedy, row.target, str(row.rung)),
            "remedy",
            shorten_text(f"{row.remedy} on {row.target}"),
            label=row.label,
            verdict="look" if row.remedy == CHECK_REMEDY else origin,
            host=row.target,
        )
        builder.nodes.append(node)
        if _build_proposition_id(row.label) in {one.id for one in builder.nodes}:
            builder.edges.append(ReasonEdge(_build_proposition_id(row.label), node.id, "calls for"))
