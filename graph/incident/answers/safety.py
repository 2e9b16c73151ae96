"""Answer whether hosts may be used or changed now: no, cannot tell, or yes as far as was read."""

import re
from collections.abc import Mapping, Sequence

from graph.incident.answers.answer_context import (
    AnswerContext,
    HostKnowledge,
    build_answer,
    build_host_knowledge,
    clean_text,
    format_age,
    format_location,
    format_read_at,
    get_check_name,
    get_read_time,
    render_citation,
    render_coverage,
    render_recheck_offer,
    render_unknown_names,
    resolve_target_hosts,
)
from graph.incident.answers.unproven import CLEARED, format_unproven, list_unproven
from graph.incident.turn_result import TurnResult
from graph.remediation.outcomes import describe_remediation
from graph.state import Remediation
from tools.inventory.host_ranges import fold_host_names
from tools.remedies import REMEDIES
from tools.remedies.remedy import Remedy

# beginnings of answers
SAFE_PREFIX = "Yes, no blocker found."
NOT_SAFE_PREFIX = "No, not on"
UNSURE_PREFIX = "I cannot tell"
FAILS_AGAIN_PREFIX = "No, it would fail again:"
# beginning of an answer to a question that was not fully understood
NO_VERDICT_PREFIX = "I cannot say yes or no to that. What I know:"
RETURN_REMEDY = "resume_node"  # returning a node is asked as its use is
MAX_TEXT_CHARS = 400  # characters of a message searched for a job
_JOB_PATTERN = re.compile(r"\b(?:jobs?|runs?|rerun|restart\w*|resubmit\w*|submit|launch|relaunch|start|resume|train\w*)\b", re.IGNORECASE)
MAX_READING_AGE_SECONDS = 1800.0  # an older reading does not show that something is safe


async def answer_is_safe(context: AnswerContext) -> TurnResult:
    """Answer whether to use the hosts, or to change them by the remedy named."""
    target_hosts = resolve_target_hosts(context)
    if context.message.remedy in REMEDIES and context.message.remedy != RETURN_REMEDY:
        return _answer_change(context, REMEDIES[context.message.remedy], target_hosts.hosts)
    hosts = target_hosts.hosts if target_hosts.named else context.incident.hosts or context.observed_hosts
    if not hosts:
        return build_answer(
            context,
            [*render_unknown_names(context), f"{UNSURE_PREFIX}: I have checked no host yet. Name hosts, or say `recheck HOSTS`."],
        )
    return build_answer(context, [*render_unknown_names(context), *_assess_use(context, hosts), render_recheck_offer(context, hosts)])


def _assess_use(context: AnswerContext, hosts: Sequence[str]) -> list[str]:
    """Return the answer's lines: unsafe before unsure before safe."""
    host_knowledge = [build_host_knowledge(context, host) for host in hosts]
    faults = {knowledge.host: reason for knowledge in host_knowledge if (reason := _get_fault_reason(context, knowledge))}
    doubts = {
        knowledge.host: reason
        for knowledge in host_knowledge
        if knowledge.host not in faults and (reason := _get_doubt_reason(context, knowledge))
    }
    clean = [knowledge for knowledge in host_knowledge if knowledge.host not in faults and knowledge.host not in doubts]
    clean_line = (
        f"{fold_host_names(knowledge.host for knowledge in clean)}: nothing abnormal in {render_coverage(context, clean[0])}."
        if clean
        else ""
    )
    unproven_of_job = (
        [unproven for unproven in list_unproven(context.incident, context.assessment) if unproven.of_job]
        if _asks_about_job(context)
        else []
    )
    job_doubt = (format_unproven(unproven_of_job) if unproven_of_job else "") or _find_undecided_reason(context)
    if context.message.predicate != "usable":
        job_line = f"• The job: {job_doubt}." if job_doubt else ""
        reasons = list((faults | doubts).items())[:3]
        return [NO_VERDICT_PREFIX, *(f"• {host}: {reason}" for host, reason in reasons), job_line, clean_line, *_list_job_causes(context)]
    if faults:
        fault_lines = (f"• {host}: {reason}" for host, reason in list(faults.items())[:3])
        return [f"{NOT_SAFE_PREFIX} {fold_host_names(faults)}:", *fault_lines, clean_line]
    if doubts:
        has_report = any(unproven.reported for knowledge in host_knowledge for unproven in (*knowledge.unproven, *knowledge.unlocated))
        head = f"{UNSURE_PREFIX} for {fold_host_names(doubts)}: {next(iter(doubts.values()))}"
        return [head, *_format_more_doubts(doubts), clean_line, CLEARED if has_report else ""]
    repairs = [fix for knowledge in host_knowledge for fix in _list_awaiting_second_proof(context, knowledge.host)]
    if unproven_of_job or (job_doubt and not repairs):  # after a repair the job's old log still shows the fault
        return [f"{UNSURE_PREFIX}: {job_doubt}.", clean_line]
    return [
        *_render_job_cause(context, clean_line),
        *(f"Fixed: {describe_remediation(fix, context.get_title(fix.label))}." for fix in repairs[:3]),
        "" if _is_repeatable_failure(context) else "I cannot judge what was not checked; the decision is yours.",
    ]


def _asks_about_job(context: AnswerContext) -> bool:
    return not resolve_target_hosts(context).named or bool(_JOB_PATTERN.search(context.message.text[:MAX_TEXT_CHARS]))


def _find_undecided_reason(context: AnswerContext) -> str:
    reasons = context.assessment.why_unsure if not context.root_causes and _asks_about_job(context) else ()
    return reasons[0] if reasons else ""


def _format_more_doubts(doubt: Mapping[str, str]) -> list[str]:
    first, *remaining_doubts = doubt.items()
    return [f"• {host}: {reason}" for host, reason in remaining_doubts if reason != first[1]][:2]


def _render_job_cause(context: AnswerContext, nothing: str) -> list[str]:
    """Return what ended the job; called once nothing speaks against the machines."""
    roots = [cause for cause in context.root_causes if not cause.hosts]
    ended = [context.assessment.reference.taxonomy.get_leaf(cause.label) for cause in roots]
    if not ended:
        return [f"{SAFE_PREFIX} {nothing}"]
    if _is_repeatable_failure(context):
        return [
            f"{FAILS_AGAIN_PREFIX} {ended[0].title}{render_citation(roots[0])}, which is not a host fault. {ended[0].next_step}",
            nothing,
        ]
    return [
        f"{SAFE_PREFIX} {nothing}",
        f"What ended the job is not a host fault: {ended[0].title}{render_citation(roots[0])}. {ended[0].next_step}",
    ]


def _list_job_causes(context: AnswerContext) -> list[str]:
    return [
        f"• {context.get_title(cause.label)}{render_citation(cause)}, which is not a host fault."
        for cause in context.root_causes
        if not cause.hosts
    ][:2]


def _is_repeatable_failure(context: AnswerContext) -> bool:
    """Return whether the job would fail again. Hosts named without a job may serve others."""
    lasts = any(
        not context.assessment.reference.taxonomy.get_leaf(cause.label).transient for cause in context.root_causes if not cause.hosts
    )
    return lasts and not (resolve_target_hosts(context).named and not _JOB_PATTERN.search(context.message.text[:MAX_TEXT_CHARS]))


def _get_fault_reason(context: AnswerContext, knowledge: HostKnowledge) -> str:
    own_remediations = [remediation for remediation in context.incident.remediations if remediation.target == knowledge.host]
    blocking_remediations = [
        remediation
        for remediation in own_remediations
        if remediation.drained or (remediation.is_open and remediation not in _list_awaiting_second_proof(context, knowledge.host))
    ]
    causes = [cause for cause in knowledge.causes if knowledge.host in cause.hosts]
    against = f". Also {format_unproven(knowledge.unproven)}" if knowledge.unproven else ""
    if causes:
        drained = "; it is drained" if any(remediation.drained for remediation in blocking_remediations) else ""
        age = format_age(knowledge.read_time, context.current_time)
        return (
            f"{context.get_title(causes[0].label)} ({format_location(causes[0])}){render_citation(causes[0])}, read {age}{drained}{against}"
        )
    return (
        f"{describe_remediation(blocking_remediations[0], context.get_title(blocking_remediations[0].label))}{against}"
        if blocking_remediations
        else ""
    )


def _list_awaiting_second_proof(context: AnswerContext, host: str) -> list[Remediation]:
    """Return remediations of hosts in service that passed one proof and await the second."""
    remediations = [
        remediation for remediation in context.incident.remediations if host in remediation.target.split(",") and remediation.is_open
    ]
    return [
        remediation for remediation in remediations if remediation.waiting_for == "proof" and remediation.proven and not remediation.drained
    ]


def _get_doubt_reason(context: AnswerContext, knowledge: HostKnowledge) -> str:
    if unread := [
        fix
        for fix in _list_awaiting_second_proof(context, knowledge.host)
        if fix.since and (knowledge.read_time is None or knowledge.read_time < fix.since)
    ]:
        return f"{context.get_title(unread[0].label)} was fixed on {knowledge.host}, but not checked since. Say `recheck {knowledge.host}`."
    if knowledge.is_unobserved:
        return _format_unobserved(knowledge)
    if knowledge.unproven:
        return f"{format_unproven(knowledge.unproven)}. No check has shown its cause on {knowledge.host}."
    if knowledge.unlocated:
        return f"{format_unproven(knowledge.unlocated)}. I do not know which host it belongs to."
    if knowledge.abnormal_facts:
        fact = knowledge.abnormal_facts[0]
        line = clean_text(fact.line or fact.key, 100)
        return f"{knowledge.host} shows something that no cause explains: {line} ({get_check_name(fact.check)})."
    if not knowledge.is_complete:
        check, reason = knowledge.failed_checks[0] if knowledge.failed_checks else ("some checks", "were not asked")
        return f"not all of {knowledge.host} could be looked at ({get_check_name(check)}: {clean_text(reason, 60)})."
    if knowledge.read_time is None or (context.current_time - knowledge.read_time).total_seconds() > MAX_READING_AGE_SECONDS:
        return f"{knowledge.host} was read {format_age(knowledge.read_time, context.current_time)}, which is too old. Say `recheck {knowledge.host}`."
    return ""


def _format_unobserved(knowledge: HostKnowledge) -> str:
    against = f", and {format_unproven(knowledge.unproven)}" if knowledge.unproven else ""
    if knowledge.failed_checks:
        return f"{knowledge.host} could not be looked at ({clean_text(knowledge.failed_checks[0][1], 80)}){against}. Say `recheck {knowledge.host}` to try again."
    return f"{knowledge.host} was not checked{against}. Say `recheck {knowledge.host}`."


def _answer_change(context: AnswerContext, remedy: Remedy, hosts: Sequence[str]) -> TurnResult:
    if not hosts:
        return build_answer(
            context, [*render_unknown_names(context), "I cannot tell: name the host, for example “is it safe to reboot gpu-001?”."]
        )
    matching_remediations = [
        remediation
        for remediation in context.incident.remediations
        if remediation.target in hosts and remediation.is_open and any(step.remedy == remedy.id for step in remediation.rungs)
    ]
    request_note = f"Nothing found on {fold_host_names(hosts)} needs it."
    if matching_remediations:
        request_note = (
            f"It is part of a fix: {describe_remediation(matching_remediations[0], context.get_title(matching_remediations[0].label))}."
        )
    understood = context.message.predicate == "changeable"
    lines = [
        *([] if understood else [NO_VERDICT_PREFIX]),
        _render_change_cost(context, remedy, hosts) if understood else describe_running_jobs(context, hosts),
        f"It affects {remedy.blast}.",
        "It needs the node drained and without jobs first." if remedy.needs else "",
    ]
    return build_answer(
        context,
        [
            *render_unknown_names(context),
            *lines,
            request_note,
            "RackMedic does it only after an approver approves its card.",
            render_recheck_offer(context, hosts),
        ],
    )


def _render_change_cost(context: AnswerContext, remedy: Remedy, hosts: Sequence[str]) -> str:
    jobs = {host: names for host in hosts if (names := _list_jobs(context, host))}
    unseen = [host for host in hosts if not {"procs", "sched"} & set(build_host_knowledge(context, host).observed_checks)]
    if jobs and remedy.id != "drain_node" and remedy.risk != "intrusive":
        return f"No, not now: jobs hold GPUs: {'; '.join(f'{host} (job {names[0]})' for host, names in list(jobs.items())[:3])} (procs)."
    seen_by = _format_job_checks(context, hosts)
    if unseen:
        return f"I cannot tell: I did not see whether jobs run on {fold_host_names(unseen)}. Say `recheck {fold_host_names(unseen)}`."
    return f"No blocker found on {fold_host_names(hosts)}: {'running jobs go on' if jobs else 'no job holds a GPU there'} ({seen_by})."


def describe_running_jobs(context: AnswerContext, hosts: Sequence[str], *, with_time: bool = False) -> str:
    """Return which jobs hold GPUs on each host, without a verdict."""
    unseen = [host for host in hosts if not {"procs", "sched"} & set(build_host_knowledge(context, host).observed_checks)]
    jobs = {host: names for host in hosts if host not in unseen and (names := _list_jobs(context, host))}
    free = [host for host in hosts if host not in unseen and host not in jobs]
    parts = [f"{host}: job {names[0]} holds GPUs" for host, names in list(jobs.items())[:3]]
    if free:
        parts.append(f"{fold_host_names(free)}: no job holds a GPU")
    if unseen:
        parts.append(f"{fold_host_names(unseen)}: not seen whether jobs run")
    seen_by = _format_job_checks(context, hosts)
    if seen_by and with_time:
        read_times = [read_time for host in hosts if (read_time := get_read_time(context, host))]
        seen_by += f", {format_read_at(min(read_times, default=None), context.current_time)}"
    return f"• {'; '.join(parts)}{f' ({seen_by})' if seen_by else ''}."


def _format_job_checks(context: AnswerContext, hosts: Sequence[str]) -> str:
    return ", ".join(
        check for check in ("procs", "sched") if any(check in build_host_knowledge(context, host).observed_checks for host in hosts)
    )


def _list_jobs(context: AnswerContext, host: str) -> list[str]:
    job_processes = (fact for fact in context.incident.facts if fact.host == host and fact.key == "proc.gpu_memory" and not fact.stale)
    return sorted({str(fact.attrs["job"]) for fact in job_processes if fact.attrs.get("job")})
