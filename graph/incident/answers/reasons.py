"""Answer why a cause is believed or not, and how large the numbers behind it are. Pure."""

import re
from collections.abc import Sequence
from datetime import datetime

from graph.engine.belief import ClueMatch
from graph.engine.verdict import LabelVerdict
from graph.incident.answers.answer_context import (
    AnswerContext,
    build_answer,
    build_host_knowledge,
    clean_text,
    find_common_branch,
    format_age,
    format_confidence,
    format_location,
    get_check_name,
    render_basis,
    render_citation,
    render_counter_evidence,
    render_coverage,
    render_evidence,
    render_recheck_offer,
    render_source,
    render_unknown_names,
    resolve_target_hosts,
)
from graph.incident.reasoning_check import load_reasoning
from graph.incident.turn_result import TurnResult
from graph.provenance.tree_rendering import list_other_influences
from graph.remediation.outcomes import describe_remediation
from graph.state import Hypothesis, Remediation
from tools.fact import Fact, Status
from tools.inventory.host_ranges import fold_host_names

# Answer why a cause is believed or not: verdicts with their evidence.

MAX_QUOTES = 3
MAX_OTHER_INFLUENCES = 5


async def explain_cause(context: AnswerContext) -> TurnResult:
    """Answer with the evidence of the findings, or of the cause named."""
    labels = _list_named_labels(context)
    if labels:
        rows = [context.now.build_hypothesis(label) for label in labels if label in context.now.label_verdicts]
        proven = [row for row in rows if row.verdict == "confirmed"]
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
    hosts = fold_host_names(context.now.hosts)
    if not hosts:
        return build_answer(context, ["I have checked no host yet, so there is nothing to explain."])
    coverage = render_coverage(context, build_host_knowledge(context, context.now.hosts[0]))
    return build_answer(
        context,
        [
            f"I found nothing abnormal on {hosts} ({coverage}), so there is no cause to explain.",
            render_recheck_offer(context, context.now.hosts),
        ],
    )


def list_doubts(context: AnswerContext) -> list[str]:
    """Return why no cause is proven, with the basis of each suspect."""
    likely = {f"{row.leaf.title} is likely and unproven": render_basis(match.fact for match in row.support) for row in context.now.suspects}
    return [f"{line} ({likely[line]})" if line in likely else line for line in context.now.why_unsure]


def _filter_by_named_hosts(context: AnswerContext, roots: Sequence[Hypothesis]) -> list[Hypothesis]:
    hosts = set(context.message.hosts)
    return [row for row in roots if not hosts or hosts & {*row.hosts, *(line.host for line in row.evidence)}]


async def _render_other_influences(context: AnswerContext, rows: Sequence[Hypothesis]) -> list[str]:
    """Return other influences from the stored reasoning; hidden from tenants."""
    graph = await load_reasoning(context.case.stored, context.ports.evidence) if context.case.audience_tenant is None else None
    lines = list_other_influences(graph, rows[0].label)[:MAX_OTHER_INFLUENCES] if graph and rows else []
    return ["What else went into it:", *(f"  {line}" for line in lines)] if lines else []


def _build_explanation(context: AnswerContext, rows: Sequence[Hypothesis], more: Sequence[str] = ()) -> TurnResult:
    lines = render_unknown_names(context)
    for row in rows[:2]:
        lines.append(f"{context.get_title(row.label)} ({format_location(row)}), {format_confidence(row)}: {row.because}.")
        lines += [render_evidence(context, line) for line in row.evidence[:MAX_QUOTES]]
    lines += [f"… and {len(rows) - 2} more causes; ask “why” with a name."] if len(rows) > 2 else []
    out = [f"{context.get_title(row.label)} ({render_counter_evidence(context, row.label)})" for row in context.now.list_ruled_out(2)]
    lines += [f"Ruled out: {', '.join(out)}."] if out and len(rows) == 1 else []
    return build_answer(context, [*lines, *more, render_recheck_offer(context, context.faulty_hosts)])


async def explain_why_not(context: AnswerContext) -> TurnResult:
    """Answer what contradicts a cause or category, or that it is not ruled out or unobserved."""
    labels, name = _list_named_labels(context), _format_subject(context)
    if not labels:
        return build_answer(context, ["Which cause do you mean? For example “why not the network?” or “why not ECC?”."])
    verdicts = [context.now.label_verdicts[label] for label in labels if label in context.now.label_verdicts]
    confirmed = [row for row in verdicts if row.verdict == "confirmed"]
    if confirmed:
        causes = [context.now.build_hypothesis(row.label) for row in confirmed]
        rows = [
            f"{context.get_title(row.label)} ({format_location(row)}), {format_confidence(row)}{render_citation(row)}."
            for row in causes[:3]
        ]
        return build_answer(context, [f"Cause: {name}.", *rows])
    if not context.now.hosts:
        return build_answer(context, [f"{name}: nothing was looked at that could tell. Name hosts, or say `recheck HOSTS`."])
    return build_answer(
        context,
        [
            _render_verdict(context, verdicts, name),
            *_render_contradictions(context, verdicts),
            *_render_doubts(verdicts),
            render_recheck_offer(context, context.now.hosts),
        ],
    )


def _render_verdict(context: AnswerContext, rows: Sequence[LabelVerdict], name: str) -> str:
    out = [row for row in rows if row.verdict == "rejected"]
    if len(out) == len(rows):
        return f"{name}: ruled out."
    if not out and not any(row.best.support or row.best.against for row in rows):
        return f"{name}: not ruled out; nothing was looked at that could tell."
    some = f" ({len(out)} of its {len(rows)} causes {'are' if len(out) != 1 else 'is'})" if out else ""
    return f"{name}: not ruled out{some}."


def _render_contradictions(context: AnswerContext, rows: Sequence[LabelVerdict]) -> list[str]:
    matches: dict[str, ClueMatch] = {}
    for row in rows:
        for match in row.best.against:
            matches.setdefault(match.says, match)
    lines = [
        f"• {match.says} ({render_source(context, match.fact.host, match.fact.check)})" for match in list(matches.values())[:MAX_QUOTES]
    ]
    if lines:
        return lines
    reasons = dict.fromkeys(row.because for row in rows if row.verdict == "rejected")
    return [f"• {because}" for because in list(reasons)[:2]]


def _render_doubts(rows: Sequence[LabelVerdict]) -> list[str]:
    doubtful = [row for row in rows if row.verdict != "rejected"]
    return [f"• {row.best.leaf.title}: {row.because}" for row in doubtful[:2]]


def _list_named_labels(context: AnswerContext) -> list[str]:
    named_labels = [label for label in context.message.labels if label in context.now.label_verdicts]
    if named_labels or not context.message.category:
        return named_labels
    return [label for label in context.now.label_verdicts if label.startswith(f"{context.message.category}.")]


def _format_subject(context: AnswerContext) -> str:
    message = context.message
    if not message.labels:
        return context.get_title(message.category)
    branch = find_common_branch(message.labels)
    if len(message.labels) > 1 and branch:
        return context.get_title(branch)
    titles = [context.get_title(label) for label in message.labels[:2]]
    return " / ".join(titles) + (f" and {len(message.labels) - 2} more" if len(message.labels) > 2 else "")


# Answer how large the numbers behind a cause are, and whether it was remediated.

MAX_CHARACTERS = 400
MAX_NUMBERS = 4
_HOW_MUCH = re.compile(
    r"\bhow (?:far|much|many|big|large|wide|hot|warm|full|high|low|fast|slow|long|strong|bad)\b|\bby how\b"
    r"|\bwhat (?:is|was)\b[^?]{0,40}\b(?:offset|skew|count|rate)\b",
    re.IGNORECASE,
)


def asks_how_much(context: AnswerContext) -> bool:
    """Return whether the message asks for a known number behind a cause."""
    return bool(_HOW_MUCH.search(context.message.text[:MAX_CHARACTERS])) and bool(_list_measurements(context))


def asks_about_remediated_cause(context: AnswerContext) -> bool:
    """Return whether a named cause was remediated on a host the message may mean."""
    return bool(context.message.labels) and not context.message.unknown_hosts and bool(list_proven_remediations(context))


def list_proven_remediations(context: AnswerContext) -> list[Remediation]:
    """Return the proven remediations of the causes named, unless the cause shows again."""
    shown_labels = {row.label for row in context.root_causes}
    rows = [
        row for row in context.case.remediations if row.proven and row.label in context.message.labels and row.label not in shown_labels
    ]
    return [row for row in rows if not context.message.hosts or row.target in context.message.hosts]


async def answer_how_much(context: AnswerContext) -> TurnResult:
    """Answer with the numbers of the named causes, and with proven remediations."""
    fixes, numbers = list_proven_remediations(context), _list_measurements(context)
    lines = [f"{describe_remediation(row, context.get_title(row.label))}." for row in fixes[:2]]
    lines += [_in_words(context, fact) for fact in numbers[:MAX_NUMBERS]]
    old = [row.target for row in fixes if row.target not in {fact.host for fact in numbers}]
    lines += [f"No number was read on {host} since then. Say `recheck {host}` and I look." for host in old[:2]]
    return build_answer(
        context,
        [
            *render_unknown_names(context),
            *lines,
            render_recheck_offer(context, tuple(dict.fromkeys(fact.host for fact in numbers if fact.host))),
        ],
    )


def _in_words(context: AnswerContext, fact: Fact) -> str:
    return f"{fact.host or 'handed in'}: {clean_text(fact.format_sentence())} ({get_check_name(fact.check)}, read {format_age(fact.time, context.current_time)})."


def _list_target_hosts(context: AnswerContext) -> tuple[str, ...]:
    target_hosts = resolve_target_hosts(context)
    if target_hosts.named:
        return target_hosts.hosts
    at_fault = [host for row in context.root_causes if row.label in context.message.labels for host in row.hosts]
    return tuple(dict.fromkeys(at_fault or [row.target for row in list_proven_remediations(context)] or target_hosts.hosts))


def _list_measurements(context: AnswerContext) -> list[Fact]:
    """Return measurements of the named causes, one per device, largest first, none from before a remediation."""
    taxonomy, labels = context.now.reference.taxonomy, context.message.labels
    keys = {clue.key for label in labels if label in taxonomy.leaves for clue in taxonomy.get_leaf(label).evidence}
    rows = [match.fact for label in labels for row in context.now.by_label.get(label, ()) for match in (*row.support, *row.against)]
    hosts, fixed = _list_target_hosts(context), {row.target: row.since for row in list_proven_remediations(context)}
    fact_by_source: dict[tuple[str, str, str], Fact] = {}
    for fact in (*rows, *context.case.facts):
        if fact.key in keys and fact.host in hosts and _is_number(fact) and _is_measured_after(fact, fixed.get(fact.host)):
            fact_by_source.setdefault((fact.host, fact.key, fact.device or ""), fact)
    return sorted(fact_by_source.values(), key=_size, reverse=True)


def _is_number(fact: Fact) -> bool:
    return fact.status is Status.OK and isinstance(fact.value, (int, float)) and not isinstance(fact.value, bool) and not fact.stale


def _is_measured_after(fact: Fact, since: datetime | None) -> bool:
    return since is None or (fact.time is not None and fact.time >= since)


def _size(fact: Fact) -> float:
    return abs(fact.value) if isinstance(fact.value, (int, float)) else 0.0
