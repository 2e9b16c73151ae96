"""Build a turn's reason graph. The same facts, shifts and report always give the same bytes."""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graph.engine.assessment import Assessment
from graph.engine.belief import Belief, ClueMatch
from graph.provenance.belief_shifts import MODEL_SOURCES, BeliefShift
from graph.provenance.reason_graph import EdgeKind, ReasonEdge, ReasonGraph, ReasonNode, deduplicate_nodes, shorten_text
from graph.report import Report
from graph.state import Hypothesis
from kb.taxonomy.taxonomy import Taxonomy

CHECK_REMEDY = "run_check"  # runs an exclusive check, which needs approval but no confirmed cause
MAX_BELIEFS = 8  # locations per cause
MAX_SUPPORTING_FACTS = 4  # per location
MAX_OPPOSING_FACTS = 2  # per location
MAX_OTHER_CAUSES = 8  # besides the proven ones
MAX_UNOBSERVED_CHECKS = 12  # per cause


@dataclass(frozen=True, slots=True)
class TurnReasoning:
    """Everything that a turn concluded."""

    incident: str
    report: Report
    assessment: Assessment
    taxonomy: Taxonomy
    moves: Sequence[BeliefShift] = ()
    catalogue: str = ""
    ground: Mapping[str, Any] = field(default_factory=dict)
    earlier: Collection[tuple[str, str]] = ()  # causes and targets of remediations that existed before this turn


@dataclass(slots=True)
class ReasonGraphBuilder:
    nodes: list[ReasonNode] = field(default_factory=list)
    edges: list[ReasonEdge] = field(default_factory=list)

    def add_node(self, node: ReasonNode, target: str, kind: EdgeKind, weight: float = 0.0) -> None:
        self.nodes.append(node)
        self.edges.append(ReasonEdge(node.id, target, kind, round(weight, 2)))


def build_reason_graph(reasoning: TurnReasoning) -> ReasonGraph:
    builder = ReasonGraphBuilder()
    for cause in list_propositions(reasoning):
        builder.nodes.append(_build_proposition(cause))
        _add_verifications(cause, reasoning.assessment, builder)
        _add_unobserved(cause, reasoning, builder)
        _add_critiques(cause, reasoning, builder)
        _add_refinements(cause, reasoning, builder)
    _add_conjectures(reasoning.report, builder)
    _add_remedies(reasoning, builder)
    nodes = deduplicate_nodes(builder.nodes)
    edges = tuple(dict.fromkeys(builder.edges))
    return ReasonGraph(
        reasoning.incident, reasoning.report.item, reasoning.report.outcome, reasoning.catalogue, nodes, edges, reasoning.ground
    )


def list_propositions(reasoning: TurnReasoning) -> list[Hypothesis]:
    """Return the root causes, then at most `MAX_OTHER_CAUSES` causes that are likely, hidden, ruled out or shifted."""
    report, assessment = reasoning.report, reasoning.assessment
    causes = [*report.root_causes, *assessment.list_root_causes()]
    root_cause_count = len(causes)
    causes += [assessment.build_hypothesis(belief.label) for belief in assessment.suspects[:3]]
    if report.likely and report.likely.label in assessment.label_verdicts:
        causes.append(assessment.build_hypothesis(report.likely.label))
    elif report.likely:
        causes.append(Hypothesis(label=report.likely.label, verdict="inconclusive", because=report.likely.because))
    causes += [assessment.build_hypothesis(hidden_cause.leaf.label) for hidden_cause in assessment.open_hidden_causes]
    causes += report.ruled_out
    shifted_labels = dict.fromkeys(shift.label for shift in reasoning.moves if shift.label in assessment.label_verdicts)
    causes += [assessment.build_hypothesis(label) for label in shifted_labels]
    causes_by_label: dict[str, Hypothesis] = {}
    for cause in causes:
        causes_by_label.setdefault(cause.label, cause)
    return list(causes_by_label.values())[: root_cause_count + MAX_OTHER_CAUSES]


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
    roots = [belief for belief in assessment.roots if belief.label == cause.label]
    return roots[:MAX_BELIEFS] or assessment.by_label.get(cause.label, [])[:1]


def _add_verifications(cause: Hypothesis, assessment: Assessment, builder: ReasonGraphBuilder) -> None:
    for belief in _list_beliefs(cause, assessment):
        deciding = {id(match.fact) for match in belief.deciding}
        for match in belief.support[:MAX_SUPPORTING_FACTS]:
            kind: EdgeKind = "decides" if id(match.fact) in deciding else "supports"
            builder.add_node(_build_verification(match), _build_proposition_id(cause.label), kind, match.weight)
        for match in belief.against[:MAX_OPPOSING_FACTS]:
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
    """Add the failed checks that could have decided the cause. The assessment lists more of them than the report shows."""
    leaf = reasoning.taxonomy.leaves.get(cause.label)
    relevant_checks = {"all"}
    if leaf:
        relevant_checks |= {check.id for check in reasoning.assessment.reference.list_deciding_checks(leaf)}
    unobserved_checks = [unobserved for unobserved in reasoning.assessment.list_unobserved() if unobserved.check in relevant_checks]
    for unobserved_check in unobserved_checks[:MAX_UNOBSERVED_CHECKS]:
        node = ReasonNode(
            _build_id("b", unobserved_check.host, unobserved_check.check, unobserved_check.why),
            "verification",
            shorten_text(unobserved_check.why),
            by="facts",
            verdict="could not look",
            host=unobserved_check.host,
            check=unobserved_check.check,
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
    """Yield each objection to a cause with its source."""
    selection, title = reasoning.assessment.selection, reasoning.taxonomy.get_title(cause.label)
    for set_aside in selection.aside:
        if set_aside.belief.label == cause.label:
            yield set_aside.because, "engine"
    for contradiction in selection.contradictions:
        if title in contradiction:
            yield contradiction, "engine"
    for doubt in reasoning.report.doubts:
        if doubt.startswith(f"{title}: "):
            yield doubt.removeprefix(f"{title}: "), "model:critique"


def _add_refinements(cause: Hypothesis, reasoning: TurnReasoning, builder: ReasonGraphBuilder) -> None:
    for number, shift in enumerate(reasoning.moves):
        if shift.label != cause.label:
            continue
        source = f"model:{shift.source}" if shift.source in MODEL_SOURCES else shift.source
        effect = f"{shift.source} {'for' if shift.weight > 0 else 'against'} it"
        node_id = _build_id("r", str(number), shift.source, shift.label)
        node = ReasonNode(node_id, "refinement", effect, by=source, weight=round(shift.weight, 2))
        builder.add_node(node, _build_proposition_id(cause.label), "moves", shift.weight)


def _add_conjectures(report: Report, builder: ReasonGraphBuilder) -> None:
    for idea in report.ideas:
        idea_id = _build_id("i", idea.title, idea.cause)
        builder.nodes.append(
            ReasonNode(idea_id, "proposition", shorten_text(f"{idea.title}: {idea.cause}"), by="model:explore", verdict=idea.standing)
        )
        for line in idea.rests:
            builder.add_node(
                ReasonNode(_build_id("q", idea.title, line), "refinement", shorten_text(line), by="model:explore", line=line[:400]),
                idea_id,
                "moves",
            )
        if idea.doubt:
            builder.add_node(
                ReasonNode(_build_id("c", idea.title, idea.doubt), "critique", shorten_text(idea.doubt), by="model:critique"),
                idea_id,
                "objects to",
            )


def _add_remedies(reasoning: TurnReasoning, builder: ReasonGraphBuilder) -> None:
    for action in reasoning.report.actions:
        origin = "earlier" if (action.label, action.target) in reasoning.earlier else "new"
        node = ReasonNode(
            _build_id("a", action.label, action.remedy, action.target, str(action.rung)),
            "remedy",
            shorten_text(f"{action.remedy} on {action.target}"),
            label=action.label,
            verdict="look" if action.remedy == CHECK_REMEDY else origin,
            host=action.target,
        )
        builder.nodes.append(node)
        if _build_proposition_id(action.label) in {node.id for node in builder.nodes}:
            builder.edges.append(ReasonEdge(_build_proposition_id(action.label), node.id, "calls for"))
