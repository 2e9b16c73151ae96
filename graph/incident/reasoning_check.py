"""Store a diagnosis with its reasoning and verify every invariant; if one is broken, abstain and say so."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from typing import Any

import structlog

from graph.context import GraphContext
from graph.engine.assessment import Assessment
from graph.incident.context import MAX_BLOCKING_FACTS, IncidentContext, build_reference_data
from graph.incident.lifecycle import TurnEvent, get_next_lifecycle
from graph.incident.turn_result import TurnResult
from graph.provenance.belief_shifts import parse_shifts
from graph.provenance.build import TurnReasoning, build_reason_graph
from graph.provenance.invariants import (
    InvariantInputs,
    InvariantViolation,
    VerificationResult,
    compute_catalogue_digest,
    is_quoted_in,
    list_output_digests,
    verify_reasoning,
)
from graph.provenance.reason_graph import ReasonGraph
from graph.provenance.receipts import Receipts
from graph.report import Report
from graph.state import Hypothesis, IncidentState
from tools.evidence import EvidenceStore
from tools.fact import Fact
from tools.inventory.host_ranges import expand_host_range

log = structlog.get_logger()
MAX_OUTPUTS = 8  # cited outputs re-read per turn; `rackmedic explain --verify` reads them all
MAX_OUTPUT_CHARS = 1 << 20  # characters of each
MAX_SHOWN_VIOLATIONS = 3


@dataclass(frozen=True, slots=True)
class ReasoningInputs:
    """Inputs of a stored reasoning: digests of facts and receipts, and the turn."""

    facts: str = ""
    receipts: str = ""
    hosts: str = ""
    priors: Mapping[str, float] = field(default_factory=dict)
    moves: str = ""
    asked: Mapping[str, int] = field(default_factory=dict)
    opened: str = ""


async def verify_conclusion(
    result: TurnResult, context: IncidentContext, assessment: Assessment, graph_context: GraphContext
) -> tuple[TurnResult, dict[str, Any]]:
    """Store the reasoning; return the conclusion, or an abstention if it is broken, and the state update."""
    turn, brought = context.turn, await _merge_action_receipts(context, graph_context)
    receipts, asked_counts = brought.get("receipts", context.stored.get("receipts", "")), dict(Counter(turn.asked_model))
    reasoning_inputs = ReasoningInputs(
        context.snapshot, receipts, turn.hosts, dict(turn.priors), turn.moves, asked_counts, context.onset.isoformat()
    )
    graph = build_reason_graph(
        TurnReasoning(
            incident=context.id,
            report=result.report,
            assessment=assessment,
            taxonomy=graph_context.taxonomy,
            moves=parse_shifts(turn.moves, turn.priors),
            catalogue=_get_catalogue_digest(graph_context),
            ground=asdict(reasoning_inputs),
            earlier={(remediation.label, remediation.target) for remediation in context.remediations},
        )
    )
    invariant_inputs = await _build_invariant_inputs(graph, reasoning_inputs, context.facts, result.report.root_causes, graph_context)
    large = len(context.facts) > MAX_BLOCKING_FACTS or any(invariant_inputs.outputs.values())
    verification = (
        await asyncio.to_thread(verify_reasoning, graph, invariant_inputs) if large else verify_reasoning(graph, invariant_inputs)
    )
    stored_values = {"reasoning": await graph_context.evidence.put_text(context.id, graph.serialize()), **brought}
    if not verification.broken:
        return result, stored_values
    log.error(
        "reasoning.broken",
        incident=context.id,
        contracts=[str(violation)[:200] for violation in verification.broken[:MAX_SHOWN_VIOLATIONS]],
    )
    return abstain_for_violations(result, context, verification.broken), stored_values


def _get_catalogue_digest(graph_context: GraphContext) -> str:
    name = ("catalogue", id(graph_context.taxonomy))
    if name not in graph_context.recent:
        graph_context.recent[name] = compute_catalogue_digest(graph_context.taxonomy)
    return str(graph_context.recent[name])


async def _merge_action_receipts(context: IncidentContext, graph_context: GraphContext) -> dict[str, str]:
    """Add the receipts of an approved check and return their new digest."""
    brought = str(context.item.data.get("facts") or "") if context.item.kind == "action_result" else ""
    if not brought:
        return {}
    try:
        receipts = (await _load_receipts(context.stored.get("receipts", ""), graph_context)).with_facts(
            await graph_context.evidence.get_facts(brought)
        )
    except KeyError:
        return {}
    return {"receipts": await graph_context.evidence.put_text(context.id, receipts.serialize())}


async def _load_receipts(sha256: str, graph_context: GraphContext) -> Receipts:
    return Receipts.parse((await graph_context.evidence.get_text(sha256) if sha256 else None) or "")


async def _build_invariant_inputs(
    graph: ReasonGraph,
    reasoning_inputs: ReasoningInputs,
    facts: Sequence[Fact],
    causes: Sequence[Hypothesis] | None,
    graph_context: GraphContext,
    *,
    whole: bool = False,
) -> InvariantInputs:
    """Build the verifier's inputs; `whole` includes every cited output of any length."""
    reference = build_reference_data(graph_context, facts)

    def read_again(check: str, texts: Sequence[str]) -> Sequence[Fact]:
        known_check = reference.checks.get(check)
        read = [fact for text in texts for fact in known_check.parse_output(text)] if known_check else []
        return known_check.settle(read) if known_check and known_check.settle else read

    return InvariantInputs(
        facts=facts,
        reference=reference,
        taxonomy=graph_context.taxonomy,
        hosts=expand_host_range(reasoning_inputs.hosts),
        causes=causes,
        moves=parse_shifts(reasoning_inputs.moves, reasoning_inputs.priors),
        priors=reasoning_inputs.priors,
        receipts=await _load_receipts(reasoning_inputs.receipts, graph_context),
        outputs=await _load_cited_outputs(graph, facts, graph_context, whole=whole),
        read_again=read_again,
        asked=reasoning_inputs.asked,
        opened=datetime.fromisoformat(reasoning_inputs.opened) if reasoning_inputs.opened else None,
    )


async def _load_cited_outputs(
    graph: ReasonGraph, facts: Sequence[Fact], graph_context: GraphContext, *, whole: bool
) -> Mapping[str, str | None]:
    """Load cited outputs; if a line is not in its own, also the other outputs of that check."""
    decides = {edge.source for edge in graph.edges if edge.kind == "decides" or whole}
    cited_nodes = [node for node in graph.list_nodes("verification") if node.sha256 and node.id in decides]
    cited_nodes = cited_nodes if whole else cited_nodes[:MAX_OUTPUTS]
    texts = {sha256: await _load_text(sha256, graph_context, whole=whole) for sha256 in dict.fromkeys(node.sha256 for node in cited_nodes)}
    apart = [node for node in cited_nodes if (text := texts[node.sha256]) is not None and not is_quoted_in(node.line, text)]
    for sha256 in dict.fromkeys(digest for node in apart for digest in list_output_digests(facts, node.host, node.check)):
        if sha256 not in texts:
            texts[sha256] = await _load_text(sha256, graph_context, whole=whole)
    return texts


async def _load_text(sha256: str, graph_context: GraphContext, *, whole: bool) -> str | None:
    text = await graph_context.evidence.get_text(sha256)
    return text if whole or text is None or len(text) <= MAX_OUTPUT_CHARS else None


def abstain_for_violations(result: TurnResult, context: IncidentContext, broken: Sequence[InvariantViolation]) -> TurnResult:
    """Return an abstention: nothing is claimed or proposed, earlier remediations stay."""
    violations = tuple(str(violation) for violation in broken[:MAX_SHOWN_VIOLATIONS])
    report = Report(
        item=result.report.item,
        outcome="abstained",
        headline=f"I do not trust what I concluded and claim nothing: {violations[0]}.",
        could_not_look=result.report.could_not_look,
        without_model=result.report.without_model,
        broken=violations,
        next_step="This is a fault of mine, not of your machines: say recheck, or hand the incident over.",
    )
    unsure = [cause.model_copy(update={"verdict": "inconclusive"}) for cause in result.hypotheses or ()]
    return replace(
        result,
        report=report,
        hypotheses=unsure,
        ladders=None,
        ticket=None,
        lifecycle=get_next_lifecycle(context.lifecycle, TurnEvent.QUESTION),
    )


async def load_reasoning(state: IncidentState, evidence: EvidenceStore) -> ReasonGraph | None:
    """Return the latest diagnosis' reasoning; None if there is none or it expired."""
    sha256 = state.get("reasoning", "")
    text = await evidence.get_text(sha256) if sha256 else None
    try:
        return ReasonGraph.parse(text) if text else None
    except ValueError:
        return None


async def verify_stored_reasoning(graph: ReasonGraph, graph_context: GraphContext) -> VerificationResult:
    """Verify every invariant of a stored reasoning; unchecked if its facts expired."""
    field_names = {input_field.name for input_field in fields(ReasoningInputs)}
    reasoning_inputs = ReasoningInputs(**{name: value for name, value in graph.ground.items() if name in field_names})
    try:
        facts = await graph_context.evidence.get_facts(reasoning_inputs.facts)
    except KeyError:
        return VerificationResult(unchecked=("the facts behind it are no longer stored, or not on this machine",))
    return await asyncio.to_thread(
        verify_reasoning, graph, await _build_invariant_inputs(graph, reasoning_inputs, facts, None, graph_context, whole=True)
    )
