"""Answer why a cause is believed or not: verdicts with their evidence."""

from collections.abc import Sequence

from graph.engine.belief import ClueMatch
from graph.engine.verdict import LabelVerdict
from graph.incident.answers.answer_context import (
    AnswerContext,
    build_answer,
    build_host_knowledge,
    find_common_branch,
    format_confidence,
    format_location,
    render_basis,
    render_citation,
    render_counter_evidence,
    render_coverage,
    render_evidence,
    render_recheck_offer,
    render_source,
    render_unknown_names,
)
from graph.incident.reasoning_check import load_reasoning
from graph.incident.turn_result import TurnResult
from graph.provenance.tree_rendering import list_other_influences
from graph.state import Hypothesis
from tools.inventory.host_ranges import fold_host_names

MAX_QUOTES = 3
MAX_OTHER_INFLUENCES = 5


async def explain_cause(context: AnswerContext) -> TurnResult:
    """Answer with the evidence of the findings, or of the cause named."""
    labels = _list_named_labels(context)
    if labels:
        causes = [context.assessment.build_hypothesis(label) for label in labels if label in context.assessment.label_verdicts]
        proven = [cause for cause in causes if cause.verdict == "confirmed"]
        return (
            _build_explanation(context, proven, await _render_other_influences(context, proven))
            if proven
            else await explain_why_not(context)
        )
    roots = _filter_by_named_hosts(context, context.root_causes)
    if roots:
        return _build_explanation(context, roots, await _render_other_influences(context, roots))
    unsure = [f"• {line[:160]}" for line in list_doubts(context)[:4]]
    if unsure:
        return build_answer(context, ["The cause is not proven, because:", *unsure, "Tell me anything new, or say `recheck`."])
    hosts = fold_host_names(context.assessment.hosts)
    if not hosts:
        return build_answer(context, ["I have checked no host yet, so there is nothing to explain."])
    coverage = render_coverage(context, build_host_knowledge(context, context.assessment.hosts[0]))
    return build_answer(
        context,
        [
            f"I found nothing abnormal on {hosts} ({coverage}), so there is no cause to explain.",
            render_recheck_offer(context, context.assessment.hosts),
        ],
    )


def list_doubts(context: AnswerContext) -> list[str]:
    """Return why no cause is proven, with the basis of each suspect."""
    basis_by_doubt = {
        f"{belief.leaf.title} is likely and unproven": render_basis([match.fact for match in belief.support])
        for belief in context.assessment.suspects
    }
    return [f"{doubt} ({basis_by_doubt[doubt]})" if doubt in basis_by_doubt else doubt for doubt in context.assessment.why_unsure]


def _filter_by_named_hosts(context: AnswerContext, roots: Sequence[Hypothesis]) -> list[Hypothesis]:
    hosts = set(context.message.hosts)
    return [cause for cause in roots if not hosts or hosts & {*cause.hosts, *(line.host for line in cause.evidence)}]


async def _render_other_influences(context: AnswerContext, causes: Sequence[Hypothesis]) -> list[str]:
    """Return other influences from the stored reasoning; hidden from tenants."""
    graph = (
        await load_reasoning(context.incident.stored, context.graph_context.evidence) if context.incident.audience_tenant is None else None
    )
    lines = list_other_influences(graph, causes[0].label)[:MAX_OTHER_INFLUENCES] if graph and causes else []
    return ["What else went into it:", *(f"  {line}" for line in lines)] if lines else []


def _build_explanation(context: AnswerContext, causes: Sequence[Hypothesis], more: Sequence[str] = ()) -> TurnResult:
    lines = render_unknown_names(context)
    for cause in causes[:2]:
        lines.append(f"{context.get_title(cause.label)} ({format_location(cause)}), {format_confidence(cause)}: {cause.because}.")
        lines += [render_evidence(context, line) for line in cause.evidence[:MAX_QUOTES]]
    if len(causes) > 2:
        lines.append(f"… and {len(causes) - 2} more causes; ask “why” with a name.")
    out = [
        f"{context.get_title(hypothesis.label)} ({render_counter_evidence(context, hypothesis.label)})"
        for hypothesis in context.assessment.list_ruled_out(2)
    ]
    if out and len(causes) == 1:
        lines.append(f"Ruled out: {', '.join(out)}.")
    return build_answer(context, [*lines, *more, render_recheck_offer(context, context.faulty_hosts)])


async def explain_why_not(context: AnswerContext) -> TurnResult:
    """Answer what contradicts a cause or category, or that it is not ruled out or unobserved."""
    labels, name = _list_named_labels(context), _format_subject(context)
    if not labels:
        return build_answer(context, ["Which cause do you mean? For example “why not the network?” or “why not ECC?”."])
    verdicts = [context.assessment.label_verdicts[label] for label in labels if label in context.assessment.label_verdicts]
    confirmed = [verdict for verdict in verdicts if verdict.verdict == "confirmed"]
    if confirmed:
        causes = [context.assessment.build_hypothesis(verdict.label) for verdict in confirmed]
        lines = [
            f"{context.get_title(cause.label)} ({format_location(cause)}), {format_confidence(cause)}{render_citation(cause)}."
            for cause in causes[:3]
        ]
        return build_answer(context, [f"Cause: {name}.", *lines])
    if not context.assessment.hosts:
        return build_answer(context, [f"{name}: nothing was looked at that could tell. Name hosts, or say `recheck HOSTS`."])
    return build_answer(
        context,
        [
            _render_verdict(context, verdicts, name),
            *_render_contradictions(context, verdicts),
            *_render_doubts(verdicts),
            render_recheck_offer(context, context.assessment.hosts),
        ],
    )


def _render_verdict(context: AnswerContext, verdicts: Sequence[LabelVerdict], name: str) -> str:
    out = [verdict for verdict in verdicts if verdict.verdict == "rejected"]
    if len(out) == len(verdicts):
        return f"{name}: ruled out."
    if not out and not any(verdict.best.support or verdict.best.against for verdict in verdicts):
        return f"{name}: not ruled out; nothing was looked at that could tell."
    if not out:
        return f"{name}: not ruled out."
    return f"{name}: not ruled out ({len(out)} of its {len(verdicts)} causes {'are' if len(out) != 1 else 'is'})."


def _render_contradictions(context: AnswerContext, verdicts: Sequence[LabelVerdict]) -> list[str]:
    matches: dict[str, ClueMatch] = {}
    for verdict in verdicts:
        for match in verdict.best.against:
            matches.setdefault(match.says, match)
    lines = [
        f"• {match.says} ({render_source(context, match.fact.host, match.fact.check)})" for match in list(matches.values())[:MAX_QUOTES]
    ]
    if lines:
        return lines
    reasons = dict.fromkeys(label_verdict.because for label_verdict in verdicts if label_verdict.verdict == "rejected")
    return [f"• {because}" for because in list(reasons)[:2]]


def _render_doubts(verdicts: Sequence[LabelVerdict]) -> list[str]:
    doubtful = [verdict for verdict in verdicts if verdict.verdict != "rejected"]
    return [f"• {verdict.best.leaf.title}: {verdict.because}" for verdict in doubtful[:2]]


def _list_named_labels(context: AnswerContext) -> list[str]:
    named_labels = [label for label in context.message.labels if label in context.assessment.label_verdicts]
    if named_labels or not context.message.category:
        return named_labels
    return [label for label in context.assessment.label_verdicts if label.startswith(f"{context.message.category}.")]


def _format_subject(context: AnswerContext) -> str:
    message = context.message
    if not message.labels:
        return context.get_title(message.category)
    branch = find_common_branch(message.labels)
    if len(message.labels) > 1 and branch:
        return context.get_title(branch)
    titles = [context.get_title(label) for label in message.labels[:2]]
    return " / ".join(titles) + (f" and {len(message.labels) - 2} more" if len(message.labels) > 2 else "")
