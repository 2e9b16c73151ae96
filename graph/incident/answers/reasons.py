"""Answer why a cause is believed or not: verdicts with their evidence. Pure."""

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
from graph.incident.thinking.verification import load_reasoning
from graph.incident.turn_result import TurnResult
from graph.provenance.tree_rendering import list_other_influences
from graph.state import Hypothesis
from tools.inventory.host_ranges import fold_host_names

MAX_QUOTES, MAX_OTHER_INFLUENCES = 3, 5


async def explain_cause(asked: AnswerContext) -> TurnResult:
    """Answer with the evidence of the findings, or of the cause named."""
    wanted = _list_named_labels(asked)
    if wanted:
        rows = [asked.now.build_hypothesis(label) for label in wanted if label in asked.now.label_verdicts]
        proven = [row for row in rows if row.verdict == "confirmed"]
        return _build_explanation(asked, proven, await _render_other_influences(asked, proven)) if proven else await explain_why_not(asked)
    roots = _filter_by_named_hosts(asked, asked.root_causes)
    if roots:
        return _build_explanation(asked, roots, await _render_other_influences(asked, roots))
    unsure = [f"• {line[:160]}" for line in list_doubts(asked)[:4]]
    if unsure:
        return build_answer(asked, ["The cause is not proven, because:", *unsure, "Tell me anything new, or say `recheck`."])
    hosts = fold_host_names(asked.now.hosts)
    if not hosts:
        return build_answer(asked, ["I have checked no host yet, so there is nothing to explain."])
    looked = render_coverage(asked, build_host_knowledge(asked, asked.now.hosts[0]))
    return build_answer(
        asked,
        [f"I found nothing abnormal on {hosts} ({looked}), so there is no cause to explain.", render_recheck_offer(asked, asked.now.hosts)],
    )


def list_doubts(asked: AnswerContext) -> list[str]:
    """Return why no cause is proven, with the basis of each suspect."""
    likely = {f"{row.leaf.title} is likely and unproven": render_basis(match.fact for match in row.support) for row in asked.now.suspects}
    return [f"{line} ({likely[line]})" if line in likely else line for line in asked.now.why_unsure]


def _filter_by_named_hosts(asked: AnswerContext, roots: Sequence[Hypothesis]) -> list[Hypothesis]:
    hosts = set(asked.message.hosts)
    return [row for row in roots if not hosts or hosts & {*row.hosts, *(line.host for line in row.evidence)}]


async def _render_other_influences(asked: AnswerContext, rows: Sequence[Hypothesis]) -> list[str]:
    """Return other influences from the stored reasoning; hidden from tenants."""
    graph = await load_reasoning(asked.case.stored, asked.ports.evidence) if asked.case.audience_tenant is None else None
    lines = list_other_influences(graph, rows[0].label)[:MAX_OTHER_INFLUENCES] if graph and rows else []
    return ["What else went into it:", *(f"  {line}" for line in lines)] if lines else []


def _build_explanation(asked: AnswerContext, rows: Sequence[Hypothesis], more: Sequence[str] = ()) -> TurnResult:
    lines = render_unknown_names(asked)
    for row in rows[:2]:
        lines.append(f"{asked.get_title(row.label)} ({format_location(row)}), {format_confidence(row)}: {row.because}.")
        lines += [render_evidence(asked, line) for line in row.evidence[:MAX_QUOTES]]
    lines += [f"… and {len(rows) - 2} more causes; ask “why” with a name."] if len(rows) > 2 else []
    out = [f"{asked.get_title(row.label)} ({render_counter_evidence(asked, row.label)})" for row in asked.now.list_ruled_out(2)]
    lines += [f"Ruled out: {', '.join(out)}."] if out and len(rows) == 1 else []
    return build_answer(asked, [*lines, *more, render_recheck_offer(asked, asked.faulty_hosts)])


async def explain_why_not(asked: AnswerContext) -> TurnResult:
    """Answer what contradicts a cause or category, or that it is not ruled out or unobserved."""
    labels, name = _list_named_labels(asked), _format_subject(asked)
    if not labels:
        return build_answer(asked, ["Which cause do you mean? For example “why not the network?” or “why not ECC?”."])
    standing = [asked.now.label_verdicts[label] for label in labels if label in asked.now.label_verdicts]
    confirmed = [row for row in standing if row.verdict == "confirmed"]
    if confirmed:
        found = [asked.now.build_hypothesis(row.label) for row in confirmed]
        rows = [
            f"{asked.get_title(row.label)} ({format_location(row)}), {format_confidence(row)}{render_citation(row)}." for row in found[:3]
        ]
        return build_answer(asked, [f"Cause: {name}.", *rows])
    if not asked.now.hosts:
        return build_answer(asked, [f"{name}: nothing was looked at that could tell. Name hosts, or say `recheck HOSTS`."])
    return build_answer(
        asked,
        [
            _render_verdict(asked, standing, name),
            *_render_contradictions(asked, standing),
            *_render_doubts(standing),
            render_recheck_offer(asked, asked.now.hosts),
        ],
    )


def _render_verdict(asked: AnswerContext, rows: Sequence[LabelVerdict], name: str) -> str:
    out = [row for row in rows if row.verdict == "rejected"]
    if len(out) == len(rows):
        return f"{name}: ruled out."
    if not out and not any(row.best.support or row.best.against for row in rows):
        return f"{name}: not ruled out; nothing was looked at that could tell."
    some = f" ({len(out)} of its {len(rows)} causes {'are' if len(out) != 1 else 'is'})" if out else ""
    return f"{name}: not ruled out{some}."


def _render_contradictions(asked: AnswerContext, rows: Sequence[LabelVerdict]) -> list[str]:
    matches: dict[str, ClueMatch] = {}
    for row in rows:
        for match in row.best.against:
            matches.setdefault(match.says, match)
    lines = [f"• {match.says} ({render_source(asked, match.fact.host, match.fact.check)})" for match in list(matches.values())[:MAX_QUOTES]]
    if lines:
        return lines
    said = dict.fromkeys(row.because for row in rows if row.verdict == "rejected")
    return [f"• {because}" for because in list(said)[:2]]


def _render_doubts(rows: Sequence[LabelVerdict]) -> list[str]:
    doubtful = [row for row in rows if row.verdict != "rejected"]
    return [f"• {row.best.leaf.title}: {row.because}" for row in doubtful[:2]]


def _list_named_labels(asked: AnswerContext) -> list[str]:
    named = [label for label in asked.message.labels if label in asked.now.label_verdicts]
    if named or not asked.message.category:
        return named
    return [label for label in asked.now.label_verdicts if label.startswith(f"{asked.message.category}.")]


def _format_subject(asked: AnswerContext) -> str:
    said = asked.message
    if not said.labels:
        return asked.get_title(said.category)
    branch = find_common_branch(said.labels)
    if len(said.labels) > 1 and branch:
        return asked.get_title(branch)
    titles = [asked.get_title(label) for label in said.labels[:2]]
    return " / ".join(titles) + (f" and {len(said.labels) - 2} more" if len(said.labels) > 2 else "")
