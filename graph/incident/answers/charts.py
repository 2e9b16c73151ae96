"""Charts on request: timeline, search tree, bandwidth by message size; each with its rows as text."""

from collections.abc import Callable, Mapping
from typing import Final

from graph.incident.answers.answer_context import (
    AnswerContext,
    build_answer,
    clean_text,
    format_age,
    get_check_name,
    render_citation,
    render_counter_evidence,
    render_recheck_offer,
    render_unknown_names,
    resolve_target_hosts,
)
from graph.incident.turn_result import TurnResult
from graph.report import AttachedChart
from graph.search_trace import SearchBranch, build_search_tree, summarize_search_tree
from graph.timeline import build_timeline
from tools.bandwidth import Bandwidths, collect_bandwidths, format_size, summarize_bandwidths
from tools.fact import Value
from tools.inventory.host_ranges import fold_host_names

MAX_LATEST_EVENTS = 5
MAX_RULED_OUT = 6
CHART_INTRO: Final = "As a picture and as text:"


async def show_chart(context: AnswerContext) -> TurnResult:
    """Answer with the chart named, else the search tree."""
    return HANDLERS_BY_CHART.get(context.message.picture, _answer_search_tree)(context)


def _answer_timeline(context: AnswerContext) -> TurnResult:
    """Answer with the last events; approvals, known to the ledger, are on the chart only."""
    events = build_timeline(context.incident).events
    last = [
        f"{event.at:%H:%M:%S} {event.kind}: {clean_text(event.says, 120)}{_render_event_basis(context, event.says)}"
        for event in events
        if event.kind not in ("logged", "said")
    ][-MAX_LATEST_EVENTS:]
    if not events:
        return build_answer(context, ["No moment of this incident is known yet, so there is nothing to draw."])
    head = f"{len(events)} moments since {events[0].at:%Y-%m-%d %H:%M} UTC. {CHART_INTRO}"
    return build_answer(context, [head, *last], pictures=(AttachedChart(kind="timeline"),))


def _render_event_basis(context: AnswerContext, says: str) -> str:
    return next((render_citation(cause) for cause in context.root_causes if context.get_title(cause.label) in says), "")


def _render_counter_evidence(context: AnswerContext, branch: SearchBranch) -> str:
    return (
        render_counter_evidence(context, branch.path) if branch.path in context.assessment.label_verdicts else clean_text(branch.reason, 60)
    )


def _answer_search_tree(context: AnswerContext) -> TurnResult:
    tree = build_search_tree(context.incident, context.assessment.reference.taxonomy.titles)
    if not (context.incident.search_steps or context.incident.report):
        return build_answer(context, ["I have looked into nothing yet, so nothing is ruled out."])
    out = [f"{branch.title} ({_render_counter_evidence(context, branch)})" for branch in tree.find_leaves("ruled out")]
    unobserved_titles = [branch.title for branch in tree.find_leaves("could not look")]
    lines = [
        f"{summarize_search_tree(tree)} {CHART_INTRO}",
        *(f"{context.get_title(cause.label)}{render_citation(cause)}." for cause in context.root_causes[:3]),
        f"Ruled out: {_join_titles(out)}." if out else "Nothing of what I went into is ruled out.",
        f"Could not look: {_join_titles(unobserved_titles)}." if unobserved_titles else "",
    ]
    return build_answer(context, lines, pictures=(AttachedChart(kind="walk"),))


def _join_titles(titles: list[str]) -> str:
    rest = len(titles) - MAX_RULED_OUT
    return ", ".join(titles[:MAX_RULED_OUT]) + (f" and {rest} more" if rest > 0 else "")


def answer_bandwidth(context: AnswerContext) -> TurnResult:
    """Answer with the hosts' bandwidth by message size."""
    target_hosts = resolve_target_hosts(context)
    hosts = target_hosts.hosts if target_hosts.named else context.incident.visible
    measurements = measured(context, hosts)
    if not measurements.curves:
        instruction = f"Say `run nccl1 on {fold_host_names(hosts[:1])}` to propose the test for approval." if hosts else ""
        return build_answer(
            context,
            [
                *render_unknown_names(context),
                f"No bandwidth by message size was measured on {fold_host_names(hosts) or 'any host'}.",
                instruction,
            ],
        )
    span = f"{format_size(measurements.sizes[0])} to {format_size(measurements.sizes[-1])}"
    lines = [
        *render_unknown_names(context),
        f"{clean_text(summarize_bandwidths(measurements), 400)} · {_format_bandwidth_checks(context)} · messages of {span}. {CHART_INTRO}",
        render_recheck_offer(context, [curve.host for curve in measurements.curves]),
    ]
    return build_answer(context, lines, pictures=(AttachedChart(kind="bandwidth", hosts=tuple(hosts) if target_hosts.named else ()),))


def _format_bandwidth_checks(context: AnswerContext) -> str:
    facts = [fact for fact in context.incident.facts if fact.key.startswith("nccl.") and fact.check]
    latest = max((fact.time for fact in facts if fact.time), default=None)
    return f"{', '.join(dict.fromkeys(get_check_name(fact.check) for fact in facts))} · read {format_age(latest, context.current_time)}"


def measured(context: AnswerContext, hosts: tuple[str, ...]) -> Bandwidths:
    """Return the known curves; hosts not named are not reported missing."""

    def expected(host: str) -> Value:
        return context.assessment.reference.expected(host, "nccl.busbw_max", None) if host else None

    measured_bandwidths = collect_bandwidths(hosts, context.incident.facts, expected)
    return measured_bandwidths if context.message.hosts else Bandwidths(measured_bandwidths.curves)


HANDLERS_BY_CHART: Final[Mapping[str, Callable[[AnswerContext], TurnResult]]] = {
    "timeline": _answer_timeline,
    "walk": _answer_search_tree,
    "bandwidth": answer_bandwidth,
}
