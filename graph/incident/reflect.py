"""Fourth node: a verdict for every hypothesis from its facts.

The engine decides. A model is asked only to criticize weak causes; its opinion lowers a belief by a bounded amount.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langgraph.runtime import Runtime

from graph.context import GraphContext, Progress
from graph.engine.assessment import Assessment
from graph.engine.priors import OBJECTION_LOG_ODDS, sum_priors
from graph.extraction.report_texts import format_confidence_percent
from graph.incident.context import IncidentContext, TurnState, assess_incident, load_incident_context
from graph.incident.exploration import CRITIQUE_QUESTION
from graph.incident.prompt_material import list_finding_lines
from graph.incident_view import serialize_hypotheses
from graph.model.reasoner import DeclinedAnswer
from graph.provenance.belief_shifts import ShiftSource, build_shifts, parse_shifts, serialize_shifts
from graph.state import Hypothesis, IncidentState, Tier

MAX_HYPOTHESES = 6
MAX_DOUBTS = 2


async def reflect(state: IncidentState, runtime: Runtime[GraphContext]) -> dict[str, Any]:
    graph_context = runtime.context
    context = await load_incident_context(state, graph_context)
    assessment = await assess_incident(context, graph_context)
    if assessment.is_narrow and not context.turn.cut:
        context, assessment = await _critique_causes(context, assessment, graph_context)
    causes = list_hypotheses(assessment, context.turn.past, context.tier)
    await graph_context.progress(
        Progress(
            context.id,
            "reflect",
            _render_verdict_counts(causes),
            hypotheses=tuple(_render_hypothesis(cause, graph_context) for cause in causes[:4]),
        )
    )
    return {"hypotheses": serialize_hypotheses(causes), "turn": context.turn.to_json()}


def _shift_beliefs(turn: TurnState, source: ShiftSource, sway: Mapping[str, float]) -> TurnState:
    priors = sum_priors(turn.priors, sway)
    return replace(
        turn, priors=priors, moves=serialize_shifts([*parse_shifts(turn.moves, turn.priors), *build_shifts(source, sway)], priors)
    )


async def _critique_causes(
    context: IncidentContext, assessment: Assessment, graph_context: GraphContext
) -> tuple[IncidentContext, Assessment]:
    """Let a second reading attack weak causes, once a turn; contradictions lower the belief by a bounded amount."""
    if graph_context.model is None or CRITIQUE_QUESTION in context.turn.asked_model:
        return context, assessment
    causes, turn = assessment.list_root_causes(), replace(context.turn, asked_model=(*context.turn.asked_model, CRITIQUE_QUESTION))
    claims = [
        f"{graph_context.taxonomy.get_title(cause.label)} ({', '.join(cause.devices or cause.hosts) or 'the job'})" for cause in causes
    ]
    answer = await graph_context.model.critique_claims(context.id, claims, list_finding_lines(assessment))
    if isinstance(answer, DeclinedAnswer):
        return replace(context, turn=turn.with_model_declined(answer.reason)), assessment
    against = {cause.label: objection for cause, objection in zip(causes, answer, strict=True) if objection.verdict != "holds"}
    sway = {label: -OBJECTION_LOG_ODDS for label, objection in against.items() if objection.verdict == "contradicted"}
    doubts = tuple(f"{graph_context.taxonomy.get_title(label)}: {objection.because}" for label, objection in against.items())[:MAX_DOUBTS]
    context = replace(context, turn=replace(_shift_beliefs(turn, "critique", sway), doubts=doubts))
    return context, await assess_incident(context, graph_context)


def list_hypotheses(assessment: Assessment, past: Sequence[str], tier: Tier) -> list[Hypothesis]:
    """Return hypotheses: causes found, similar incidents' causes, supported, hidden and open ones."""
    root_labels = [belief.label for belief in assessment.roots]
    spoken = [s.label for s in assessment.label_verdicts.values() if s.best.support]
    likely = [s.label for s in assessment.label_verdicts.values() if s.verdict == "open"][:2]
    hidden = [hidden_cause.leaf.label for hidden_cause in assessment.open_hidden_causes]
    labels = list(
        dict.fromkeys((*root_labels, *(label for label in past if label in assessment.label_verdicts), *spoken, *hidden, *likely))
    )
    return [assessment.build_hypothesis(label, "history" if label in past else tier) for label in labels[:MAX_HYPOTHESES]]


def _render_verdict_counts(causes: list[Hypothesis]) -> str:
    count = {verdict: sum(cause.verdict == verdict for cause in causes) for verdict in ("confirmed", "open", "rejected", "inconclusive")}
    return ", ".join(f"{n} {verdict}" for verdict, n in count.items() if n) or "no hypothesis yet"


def _render_hypothesis(cause: Hypothesis, graph_context: GraphContext) -> str:
    return f"{graph_context.taxonomy.get_title(cause.label)}: {cause.verdict} {format_confidence_percent(cause.confidence)}"


def route_after_reflect(state: IncidentState) -> str:
    """Continue with `plan`; a turn that was cut short ends."""
    return "conclude" if state.get("turn", {}).get("cut") else "plan"
