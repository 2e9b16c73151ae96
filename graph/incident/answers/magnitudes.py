"""Answer how large the numbers behind a cause are, and whether it was remediated."""

from datetime import datetime

from graph.incident.answers.answer_context import (
    AnswerContext,
    build_answer,
    clean_text,
    format_age,
    get_check_name,
    render_recheck_offer,
    render_unknown_names,
    resolve_target_hosts,
)
from graph.incident.turn_result import TurnResult
from graph.remediation.outcomes import describe_remediation
from graph.state import Remediation
from tools.fact import Fact, Status

MAX_NUMBERS = 4


def asks_about_remediated_cause(context: AnswerContext) -> bool:
    """Return whether a named cause was remediated on a host the message may mean."""
    return bool(context.message.labels) and not context.message.unknown_hosts and bool(list_proven_remediations(context))


def list_proven_remediations(context: AnswerContext) -> list[Remediation]:
    """Return the proven remediations of the causes named, unless the cause shows again."""
    shown_labels = {cause.label for cause in context.root_causes}
    remediations = [
        remediation
        for remediation in context.incident.remediations
        if remediation.proven and remediation.label in context.message.labels and remediation.label not in shown_labels
    ]
    return [remediation for remediation in remediations if not context.message.hosts or remediation.target in context.message.hosts]


async def answer_how_much(context: AnswerContext) -> TurnResult:
    """Answer with the numbers of the named causes, and with proven remediations."""
    remediations, measurements = list_proven_remediations(context), _list_measurements(context)
    lines = [f"{describe_remediation(remediation, context.get_title(remediation.label))}." for remediation in remediations[:2]]
    lines += [_render_measurement(context, fact) for fact in measurements[:MAX_NUMBERS]]
    measured_hosts = tuple(dict.fromkeys(fact.host for fact in measurements if fact.host))
    unmeasured_hosts = [remediation.target for remediation in remediations if remediation.target not in measured_hosts]
    lines += [f"No number was read on {host} since then. Say `recheck {host}` and I look." for host in unmeasured_hosts[:2]]
    return build_answer(context, [*render_unknown_names(context), *lines, render_recheck_offer(context, measured_hosts)])


def _render_measurement(context: AnswerContext, fact: Fact) -> str:
    source = f"{get_check_name(fact.check)}, read {format_age(fact.time, context.current_time)}"
    return f"{fact.host or 'handed in'}: {clean_text(fact.format_sentence())} ({source})."


def _list_target_hosts(context: AnswerContext) -> tuple[str, ...]:
    target_hosts = resolve_target_hosts(context)
    if target_hosts.named:
        return target_hosts.hosts
    faulty_hosts = [host for cause in context.root_causes if cause.label in context.message.labels for host in cause.hosts]
    remediated_hosts = [remediation.target for remediation in list_proven_remediations(context)]
    return tuple(dict.fromkeys(faulty_hosts or remediated_hosts or target_hosts.hosts))


def _list_measurements(context: AnswerContext) -> list[Fact]:
    """Return one measurement per device and key of the named causes, largest first.

    Measurements from before a host's remediation are left out.
    """
    taxonomy, labels = context.assessment.reference.taxonomy, context.message.labels
    keys = {clue.key for label in labels if label in taxonomy.leaves for clue in taxonomy.get_leaf(label).evidence}
    cited_facts = [
        match.fact
        for label in labels
        for belief in context.assessment.by_label.get(label, ())
        for match in (*belief.support, *belief.against)
    ]
    hosts = _list_target_hosts(context)
    remediated_since = {remediation.target: remediation.since for remediation in list_proven_remediations(context)}
    fact_by_source: dict[tuple[str, str, str], Fact] = {}
    for fact in (*cited_facts, *context.incident.facts):
        is_wanted = fact.key in keys and fact.host in hosts and _is_number(fact)
        if is_wanted and _is_measured_after(fact, remediated_since.get(fact.host)):
            fact_by_source.setdefault((fact.host, fact.key, fact.device or ""), fact)
    return sorted(fact_by_source.values(), key=_get_magnitude, reverse=True)


def _is_number(fact: Fact) -> bool:
    return fact.status is Status.OK and isinstance(fact.value, (int, float)) and not isinstance(fact.value, bool) and not fact.stale


def _is_measured_after(fact: Fact, since: datetime | None) -> bool:
    return since is None or (fact.time is not None and fact.time >= since)


def _get_magnitude(fact: Fact) -> float:
    return abs(fact.value) if isinstance(fact.value, (int, float)) else 0.0
