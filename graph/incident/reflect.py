"""Fourth node: a verdict for every hypothesis from its facts.

The engine decides. A model is asked only about two unsure hypotheses or to criticize weak causes; its opinion shifts a
belief by a bounded amount and never proves one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langgraph.runtime import Runtime

from graph.context import GraphContext, Progress
from graph.engine.assessment import Assessment
from graph.engine.priors import MODEL_LOG_ODDS, OBJECTION_LOG_ODDS, sum_priors
from graph.extraction.report_texts import format_confidence_percent
from graph.incident.context import IncidentContext, TurnState, assess_incident, load_incident_context
from graph.incident.model_hypotheses import CRITIQUE_QUESTION, list_finding_lines
from graph.incident.questions import render_findings
from graph.incident_view import serialize_hypotheses
from graph.model.reasoner import DeclinedAnswer, Judgement
from graph.provenance.reason_graph import ShiftSource, build_shifts, parse_shifts, serialize_shifts
from graph.state import Hypothesis, IncidentState, Tier
from kb.needle_search import split_lines

MAX_HYPOTHESES = 6
MAX_JUDGED_SUSPECTS = 2
MAX_DOUBTS = 2


async def reflect(state: IncidentState, runtime: Runtime[GraphContext]) -> dict[str, Any]:
    ports = runtime.context
    case = await load_incident_context(state, ports)
    now = await assess_incident(case, ports)
    if _is_unsure(now) and not case.turn.cut:
        case, now = await _judge_suspects(case, now, ports)
    if now.is_narrow and not case.turn.cut:
        case, now = await _critique_causes(case, now, ports)
    rows = list_hypotheses(now, case.turn.past, case.tier)
    await ports.progress(
        Progress(case.id, "reflect", _render_verdict_counts(rows), hypotheses=tuple(_render_hypothesis(row, ports) for row in rows[:4]))
    )
    return {"hypotheses": serialize_hypotheses(rows), "turn": case.turn.to_json()}


def _is_unsure(assessment: Assessment) -> bool:
    return not assessment.roots and bool(assessment.suspects or assessment.selection.contradictions)


async def _judge_suspects(context: IncidentContext, assessment: Assessment, ports: GraphContext) -> tuple[IncidentContext, Assessment]:
    if ports.model is None or "judge" in context.turn.asked_model:
        return context, assessment
    turn = replace(context.turn, asked_model=(*context.turn.asked_model, "judge"))
    lines = split_lines(render_findings(assessment))
    sway: dict[str, float] = {}
    for row in assessment.suspects[:MAX_JUDGED_SUSPECTS]:
        answer = await ports.model.judge_hypothesis(context.id, assessment.build_hypothesis(row.label), lines)
        if isinstance(answer, DeclinedAnswer):
            turn = turn.with_model_declined(answer.reason)
            break
        sway[row.label] = _compute_shift(answer, len(lines))
    context = replace(context, turn=_shift_beliefs(turn, "judge", sway))
    return context, await assess_incident(context, ports)


def _shift_beliefs(turn: TurnState, by: ShiftSource, sway: Mapping[str, float]) -> TurnState:
    priors = sum_priors(turn.priors, sway)
    return replace(turn, priors=priors, moves=serialize_shifts([*parse_shifts(turn.moves, turn.priors), *build_shifts(by, sway)], priors))


async def _critique_causes(context: IncidentContext, assessment: Assessment, ports: GraphContext) -> tuple[IncidentContext, Assessment]:
    """Let a second reading attack weak causes, once a turn; contradictions lower the belief by a bounded amount."""
    if ports.model is None or CRITIQUE_QUESTION in context.turn.asked_model:
        return context, assessment
    causes, turn = assessment.list_root_causes(), replace(context.turn, asked_model=(*context.turn.asked_model, CRITIQUE_QUESTION))
    claims = [f"{ports.taxonomy.get_title(row.label)} ({', '.join(row.devices or row.hosts) or 'the job'})" for row in causes]
    answer = await ports.model.critique_claims(context.id, claims, list_finding_lines(assessment))
    if isinstance(answer, DeclinedAnswer):
        return replace(context, turn=turn.with_model_declined(answer.reason)), assessment
    against = {row.label: objection for row, objection in zip(causes, answer, strict=True) if objection.verdict != "holds"}
    sway = {label: -OBJECTION_LOG_ODDS for label, objection in against.items() if objection.verdict == "contradicted"}
    doubts = tuple(f"{ports.taxonomy.get_title(label)}: {objection.because}" for label, objection in against.items())[:MAX_DOUBTS]
    context = replace(context, turn=replace(_shift_beliefs(turn, "critique", sway), doubts=doubts))
    return context, await assess_incident(context, ports)


def _compute_shift(answer: Judgement, lines: int) -> float:
    """Ignore a verdict that cites no line shown."""
    if not any(0 <= n < lines for n in answer.cites):
        return 0.0
    return {"confirmed": MODEL_LOG_ODDS, "rejected": -MODEL_LOG_ODDS, "inconclusive": 0.0}[answer.verdict]


def list_hypotheses(assessment: Assessment, past: Sequence[str], tier: Tier) -> list[Hypothesis]:
    """Return hypotheses: causes found, similar incidents' causes, supported, hidden and open ones."""
    root_labels = [row.label for row in assessment.roots]
    spoken = [s.label for s in assessment.label_verdicts.values() if s.best.support]
    likely = [s.label for s in assessment.label_verdicts.values() if s.verdict == "open"][:2]
    hidden = [row.leaf.label for row in assessment.open_hidden_causes]
    labels = list(
        dict.fromkeys((*root_labels, *(label for label in past if label in assessment.label_verdicts), *spoken, *hidden, *likely))
    )
    return [assessment.build_hypothesis(label, "history" if label in past else tier) for label in labels[:MAX_HYPOTHESES]]


def _render_verdict_counts(rows: list[Hypothesis]) -> str:
    count = {verdict: sum(row.verdict == verdict for row in rows) for verdict in ("confirmed", "open", "rejected", "inconclusive")}
    return ", ".join(f"{n} {verdict}" for verdict, n in count.items() if n) or "no hypothesis yet"


def _render_hypothesis(row: Hypothesis, ports: GraphContext) -> str:
    return f"{ports.taxonomy.get_title(row.label)}: {row.verdict} {format_confidence_percent(row.confidence)}"


def route_after_reflect(state: IncidentState) -> str:
    """Continue with `plan`; a turn that was cut short ends."""
    return "conclude" if state.get("turn", {}).get("cut") else "plan"
