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
    """Store the reasoning and verify it.

    Returns the conclusion, or an abstention if an invariant is broken, and the update of the stored state.
    """
    turn = context.turn
    receipts_update = await _merge_action_receipts(context, graph_context)
    reasoning_inputs = ReasoningInputs(
        facts=context.snapshot,
        receipts=receipts_update.get("receipts", context.stored.get("receipts", "")),
        hosts=turn.hosts,
        priors=dict(turn.priors),
        moves=turn.moves,
        asked=dict(Counter(turn.asked_model)),
        opened=context.onset.isoformat(),
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
    if len(context.facts) > MAX_BLOCKING_FACTS or any(invariant_inputs.outputs.values()):
        verification = await asyncio.to_thread(verify_reasoning, graph, invariant_inputs)
    else:
        verification = verify_reasoning(graph, invariant_inputs)
    stored_values = {"reasoning": await graph_context.evidence.put_text(context.id, graph.serialize()), **receipts_update}
    if not verification.broken:
        return result, stored_values
    log.error(
        "reasoning.broken",
        incident=context.id,
        contracts=[str(violation)[:200] for violation in verification.broken[:MAX_SHOWN_VIOLATIONS]],
    )
    return abstain_for_violations(result, context, verification.broken), stored_values


def _get_catalogue_digest(graph_context: GraphContext) -> str:
    cache_key = ("catalogue", id(graph_context.taxonomy))
    if cache_key not in graph_context.recent:
        graph_context.recent[cache_key] = compute_catalogue_digest(graph_context.taxonomy)
    return str(graph_context.recent[cache_key])


async def _merge_action_receipts(context: IncidentContext, graph_context: GraphContext) -> dict[str, str]:
    """Add the receipts of an approved check and return the digest of all receipts; an empty update if there are none."""
    facts_digest = str(context.item.data.get("facts") or "")
    if context.item.kind != "action_result" or not facts_digest:
        return {}
    receipts = await _load_receipts(context.stored.get("receipts", ""), graph_context)
    try:
        facts = await graph_context.evidence.get_facts(facts_digest)
    except KeyError:
        return {}
    return {"receipts": await graph_context.evidence.put_text(context.id, receipts.with_facts(facts).serialize())}


async def _load_receipts(sha256: str, graph_context: GraphContext) -> Receipts:
    text = await graph_context.evidence.get_text(sha256) if sha256 else None
    return Receipts.parse(text or "")


async def _build_invariant_inputs(
    graph: ReasonGraph,
    reasoning_inputs: ReasoningInputs,
    facts: Sequence[Fact],
    causes: Sequence[Hypothesis] | None,
    graph_context: GraphContext,
    *,
    whole: bool = False,
) -> InvariantInputs:
    """Build the verifier's inputs. `whole` includes every cited output of any length, else some bounded ones."""
    reference = build_reference_data(graph_context, facts)

    def parse_outputs(check_id: str, texts: Sequence[str]) -> Sequence[Fact]:
        check = reference.checks.get(check_id)
        if check is None:
            return []
        parsed_facts = [fact for text in texts for fact in check.parse_output(text)]
        return check.settle(parsed_facts) if check.settle else parsed_facts

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
        read_again=parse_outputs,
        asked=reasoning_inputs.asked,
        opened=datetime.fromisoformat(reasoning_inputs.opened) if reasoning_inputs.opened else None,
    )


async def _load_cited_outputs(
    graph: ReasonGraph, facts: Sequence[Fact], graph_context: GraphContext, *, whole: bool
) -> Mapping[str, str | None]:
    """Load cited outputs; if a line is not in its own, also the other outputs of that check."""
    citing_ids = {edge.source for edge in graph.edges if edge.kind == "decides" or whole}
    cited_nodes = [node for node in graph.list_nodes("verification") if node.sha256 and node.id in citing_ids]
    if not whole:
        cited_nodes = cited_nodes[:MAX_OUTPUTS]
    texts: dict[str, str | None] = {}
    for node in cited_nodes:
        if node.sha256 not in texts:
            texts[node.sha256] = await _load_text(node.sha256, graph_context, whole=whole)
    for node in cited_nodes:
        text = texts[node.sha256]
        if text is None or is_quoted_in(node.line, text):
            continue
        for sha256 in list_output_digests(facts, node.host, node.check):
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
    undecided_causes = [cause.model_copy(update={"verdict": "inconclusive"}) for cause in result.hypotheses or ()]
    return replace(
        result,
        report=report,
        hypotheses=undecided_causes,
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
    """Verify every invariant of a stored reasoning. The result is marked unchecked if the facts have expired."""
    field_names = {input_field.name for input_field in fields(ReasoningInputs)}
    reasoning_inputs = ReasoningInputs(**{name: value for name, value in graph.ground.items() if name in field_names})
    try:
        facts = await graph_context.evidence.get_facts(reasoning_inputs.facts)
    except KeyError:
        return VerificationResult(unchecked=("the facts behind it are no longer stored, or not on this machine",))
    invariant_inputs = await _build_invariant_inputs(graph, reasoning_inputs, facts, None, graph_context, whole=True)
    return await asyncio.to_thread(verify_reasoning, graph, invariant_inputs)
