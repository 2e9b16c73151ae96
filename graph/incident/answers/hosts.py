"""Answer how hosts are, with the checks that ran and their age. Hosts that were not observed are named."""

from collections.abc import Sequence

from graph.incident.answers.answer_context import (
    AnswerContext,
    HostKnowledge,
    build_answer,
    build_host_knowledge,
    clean_text,
    format_age,
    format_confidence,
    format_location,
    render_basis,
    render_citation,
    render_coverage,
    render_evidence,
    render_fact,
    render_recheck_offer,
    render_unknown_names,
    resolve_target_hosts,
)
from graph.incident.answers.unproven import CLEARED, format_unproven
from graph.incident.turn_result import TurnResult
from graph.state import Hypothesis
from tools.inventory.host_ranges import fold_host_names

MAX_CAUSES = 2
MAX_QUOTES = 3
MAX_SEPARATE_HOSTS = 5
NOTHING_READ = "nothing abnormal in what I read"
PARTLY_CHECKED_TEXT = "nothing abnormal in the checks that ran, but some could not run"


async def answer_host_state(context: AnswerContext) -> TurnResult:
    """Answer for one host in detail, or for several hosts in one line each."""
    hosts = resolve_target_hosts(context).hosts
    if len(hosts) != 1:
        return _answer_hosts(context, hosts)
    host_knowledge = build_host_knowledge(context, hosts[0])
    if host_knowledge.is_unobserved:
        unproven_text = format_unproven((*host_knowledge.unproven, *host_knowledge.unlocated))
        return build_answer(
            context,
            [
                *render_unknown_names(context),
                render_not_checked(context, host_knowledge),
                f"{host_knowledge.host}: {unproven_text}." if unproven_text else "",
            ],
        )
    return build_answer(
        context, [*render_unknown_names(context), *_render_host_details(context, host_knowledge), render_recheck_offer(context, hosts)]
    )


async def answer_group_state(context: AnswerContext) -> TurnResult:
    """Answer for several hosts, those with findings first."""
    return _answer_hosts(context, resolve_target_hosts(context).hosts)


def render_not_checked(context: AnswerContext, knowledge: HostKnowledge) -> str:
    """Say that a host was not observed and why, and offer a check."""
    if knowledge.failed_checks:
        reason = knowledge.failed_checks[0][1]
        cause_text = ""
        if knowledge.causes:
            cause_text = f"{context.get_title(knowledge.causes[0].label)}, {format_confidence(knowledge.causes[0])}; "
        failure = f"could not be looked at ({clean_text(reason, 80)}), tried {format_age(knowledge.read_time, context.current_time)}"
        return f"{knowledge.host}: {cause_text}{failure}. Say `recheck {knowledge.host}` to try again."
    return f"{knowledge.host}: not looked at. Say `recheck {knowledge.host}` and I look."


def _render_host_details(context: AnswerContext, knowledge: HostKnowledge) -> list[str]:
    lines = [f"{knowledge.host}: {render_host_summary(context, knowledge, quoted_below=True)}."]
    causes = (*knowledge.causes, *knowledge.visible_causes)
    unproven = (*knowledge.unproven, *knowledge.unlocated)
    if unproven and causes:
        lines.append(f"Also {format_unproven(unproven)}.")
    if any(finding.reported for finding in unproven):
        lines.append(CLEARED)
    for cause in causes[:MAX_CAUSES]:
        host_evidence = [evidence for evidence in cause.evidence if evidence.host in (knowledge.host, "")]
        lines += [render_evidence(context, evidence) for evidence in host_evidence[:MAX_QUOTES]]
    if not causes:
        device = context.message.device
        device_facts = [fact for fact in knowledge.abnormal_facts if not device or fact.device in (device, None, "")]
        lines += [render_fact(context, fact) for fact in (device_facts or knowledge.abnormal_facts)[:MAX_QUOTES]]
    if knowledge.failed_checks:
        check_names = ", ".join(check for check, _ in knowledge.failed_checks[:6])
        lines.append(f"Could not look with {check_names}: {clean_text(knowledge.failed_checks[0][1], 80)}.")
    return lines


def render_host_summary(context: AnswerContext, knowledge: HostKnowledge, *, quoted_below: bool = False) -> str:
    """Summarize a host in one clause. Cite the evidence unless it is quoted below."""
    coverage = render_coverage(context, knowledge)
    if knowledge.causes:
        causes = "; ".join(
            f"{context.get_title(cause.label)} ({format_location(cause)}), {_render_confidence(cause, quoted_below)}"
            for cause in knowledge.causes[:MAX_CAUSES]
        )
        return f"{causes}; {coverage}"
    if knowledge.visible_causes:
        cause = knowledge.visible_causes[0]
        cause_text = f"{context.get_title(cause.label)}, {_render_confidence(cause, quoted_below)}"
        return f"{coverage}, nothing wrong with the machine itself; it shows {cause_text}"
    unproven = (*knowledge.unproven, *knowledge.unlocated)
    unproven_text = f"; but {format_unproven(unproven)}" if unproven else ""
    if knowledge.abnormal_facts:
        basis = "" if quoted_below else f" ({render_basis(knowledge.abnormal_facts)})"
        return f"{coverage}: something is abnormal and no cause is proven {basis}{unproven_text}"
    if not knowledge.is_complete:
        return f"{coverage}: {PARTLY_CHECKED_TEXT}{unproven_text}"
    return f"{coverage}, {NOTHING_READ}{unproven_text}" if unproven_text else f"{coverage}, nothing abnormal"


def _render_confidence(cause: Hypothesis, quoted_below: bool) -> str:
    return f"{format_confidence(cause)}{'' if quoted_below else render_citation(cause)}"


def _count_healthy_hosts(healthy: Sequence[HostKnowledge]) -> str:
    return f"{len(healthy)} {'without a finding of their own' if healthy[0].unlocated else 'well'}"


def _answer_hosts(context: AnswerContext, hosts: Sequence[str]) -> TurnResult:
    if not hosts:
        text = "I have checked no host yet. Name hosts, for example `recheck gpu-[001-004]`."
        if context.message.unknown_hosts:
            text = "I looked at nothing."
        return build_answer(context, [*render_unknown_names(context), text])
    host_knowledge = [build_host_knowledge(context, host) for host in hosts]
    observed = [knowledge for knowledge in host_knowledge if not knowledge.is_unobserved]
    faulty = [knowledge for knowledge in observed if knowledge.causes]
    abnormal = [knowledge for knowledge in observed if not knowledge.causes and _has_finding(knowledge)]
    normal = [knowledge for knowledge in observed if knowledge not in faulty and knowledge not in abnormal]
    partly_checked = [knowledge for knowledge in normal if not knowledge.is_complete]
    healthy = [knowledge for knowledge in normal if knowledge.is_complete]
    failed = [knowledge for knowledge in host_knowledge if knowledge.is_unobserved and knowledge.failed_checks]
    unchecked = [knowledge for knowledge in host_knowledge if knowledge.is_unobserved and not knowledge.failed_checks]
    counts = [
        f"{len(faulty)} with a fault" if faulty else "",
        f"{len(abnormal)} with something to say" if abnormal else "",
        _count_healthy_hosts(healthy) if healthy else "",
        f"{len(partly_checked)} not wholly looked at" if partly_checked else "",
        f"{len(failed)} that could not be looked at" if failed else "",
        f"{len(unchecked)} not looked at" if unchecked else "",
    ]
    counts = [count for count in counts if count]
    lines = render_unknown_names(context)
    if len(counts) > 1:
        host_count = f"{len(hosts)} hosts: " if len(hosts) > 1 else ""
        lines.append(f"{host_count}{', '.join(counts)}.")
    separate = [*faulty, *abnormal]
    lines += [f"{knowledge.host}: {render_host_summary(context, knowledge)}." for knowledge in separate[:MAX_SEPARATE_HOSTS]]
    lines += [render_not_checked(context, knowledge) for knowledge in failed[:MAX_SEPARATE_HOSTS]]
    if len(failed) > MAX_SEPARATE_HOSTS:
        lines.append(f"{_fold_hosts(failed[MAX_SEPARATE_HOSTS:])}: could not be looked at either.")
    if len(separate) > MAX_SEPARATE_HOSTS:
        lines.append(f"… and {len(separate) - MAX_SEPARATE_HOSTS} more.")
    lines += [f"{_fold_hosts(group)}: {render_host_summary(context, group[0])}." for group in (healthy, partly_checked) if group]
    if unchecked:
        lines.append(f"{_fold_hosts(unchecked)}: not looked at. Say `recheck {_fold_hosts(unchecked)}`.")
    suspect = [knowledge for knowledge in unchecked if knowledge.unproven]
    lines += [f"{knowledge.host}: {format_unproven(knowledge.unproven)}." for knowledge in suspect[:MAX_SEPARATE_HOSTS]]
    return build_answer(context, [*lines, render_recheck_offer(context, [knowledge.host for knowledge in observed])])


def _has_finding(knowledge: HostKnowledge) -> bool:
    return bool(knowledge.abnormal_facts or knowledge.visible_causes or knowledge.unproven)


def _fold_hosts(host_knowledge: Sequence[HostKnowledge]) -> str:
    return fold_host_names([knowledge.host for knowledge in host_knowledge])
