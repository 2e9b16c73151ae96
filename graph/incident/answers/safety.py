"""Answer whether hosts may be used or changed now: no, cannot tell, or yes as far as was read. Pure."""

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
    get_check_name,
    render_citation,
    render_coverage,
    render_recheck_offer,
    render_unknown_names,
    resolve_target_hosts,
)
from graph.incident.answers.unproven import CLEARED, told, unproven
from graph.incident.turn_result import TurnResult
from graph.remediation.outcomes import describe_remediation
from graph.state import Remediation
from tools.inventory.host_ranges import fold_host_names
from tools.remedies import REMEDIES
from tools.remedies.remedy import Remedy

# beginnings of answers
SAFE_PREFIX, NOT_SAFE_PREFIX, UNSURE_PREFIX, FAILS_AGAIN_PREFIX = (
    "Yes, no blocker found.",
    "No, not on",
    "I cannot tell",
    "No, it would fail again:",
)
# beginning of an answer to a question that was not fully understood
NO_VERDICT_PREFIX = "I cannot say yes or no to that. What I know:"
MAX_TEXT_CHARS = 400  # characters of a message searched for a job
_JOB_PATTERN = re.compile(r"\b(?:jobs?|runs?|rerun|restart\w*|resubmit\w*|submit|launch|relaunch|start|resume|train\w*)\b", re.IGNORECASE)
MAX_READING_AGE_SECONDS = 1800.0  # an older reading does not show that something is safe


async def answer_is_safe(asked: AnswerContext) -> TurnResult:
    """Answer whether to use the hosts, or to change them by the remedy named."""
    named = resolve_target_hosts(asked)
    if asked.message.remedy in REMEDIES:
        return _answer_change(asked, REMEDIES[asked.message.remedy], named.hosts)
    hosts = named.hosts if named.named else asked.case.hosts or asked.observed_hosts
    if not hosts:
        return build_answer(
            asked, [*render_unknown_names(asked), f"{UNSURE_PREFIX}: I have checked no host yet. Name hosts, or say `recheck HOSTS`."]
        )
    return build_answer(asked, [*render_unknown_names(asked), *_assess_use(asked, hosts), render_recheck_offer(asked, hosts)])


def _assess_use(asked: AnswerContext, hosts: Sequence[str]) -> list[str]:
    known = [build_host_knowledge(asked, host) for host in hosts]
    bad = {row.host: why for row in known if (why := _get_fault_reason(asked, row))}
    job = [row for row in unproven(asked.case, asked.now) if row.of_job] if _of_the_job(asked) else []
    doubt = {row.host: why for row in known if row.host not in bad and (why := _get_doubt_reason(asked, row))}
    well = [row.host for row in known if row.host not in bad and row.host not in doubt]
    first = next((row for row in known if row.host in well), known[0])
    nothing = f"{fold_host_names(well)}: nothing abnormal in {render_coverage(asked, first)}." if well else ""
    if asked.message.predicate != "usable":
        about = f"• The job: {told(job) or unsure}." if job or (unsure := _undecided(asked)) else ""
        lines = [*(f"• {host}: {why}" for host, why in list((bad | doubt).items())[:3]), about, nothing, *_list_job_causes(asked)]
        return [NO_VERDICT_PREFIX, *lines]
    if bad:
        return [f"{NOT_SAFE_PREFIX} {fold_host_names(bad)}:", *(f"• {host}: {why}" for host, why in list(bad.items())[:3]), nothing]
    if doubt:
        reported = any(one.reported for row in known for one in (*row.unproven, *row.unplaced))
        return [
            f"{UNSURE_PREFIX} for {fold_host_names(doubt)}: {next(iter(doubt.values()))}",
            *_more_doubts(doubt),
            nothing,
            CLEARED if reported else "",
        ]
    mended = [fix for row in known for fix in _passed(asked, row.host)]
    unsure = "" if mended else _undecided(asked)  # the job's old log shows the fault that was remediated since
    if job or unsure:
        return [f"{UNSURE_PREFIX}: {told(job) or unsure}.", nothing]
    again = [f"Fixed: {describe_remediation(fix, asked.get_title(fix.label))}." for fix in mended[:3]]
    return [
        *_render_job_cause(asked, nothing),
        *again,
        "" if _is_repeatable_failure(asked) else "I cannot judge what was not checked; the decision is yours.",
    ]


def _of_the_job(asked: AnswerContext) -> bool:
    return not resolve_target_hosts(asked).named or bool(_JOB_PATTERN.search(asked.message.text[:MAX_TEXT_CHARS]))


def _undecided(asked: AnswerContext) -> str:
    reasons = asked.now.why_unsure if not asked.root_causes and _of_the_job(asked) else ()
    return reasons[0] if reasons else ""


def _more_doubts(doubt: Mapping[str, str]) -> list[str]:
    first, *others = doubt.items()
    return [f"• {host}: {why}" for host, why in others if why != first[1]][:2]


def _render_job_cause(asked: AnswerContext, nothing: str) -> list[str]:
    """Return what ended the job; called once nothing speaks against the machines."""
    roots = [row for row in asked.root_causes if not row.hosts]
    ended = [asked.now.lens.taxonomy.get_leaf(row.label) for row in roots]
    if not ended:
        return [f"{SAFE_PREFIX} {nothing}"]
    if _is_repeatable_failure(asked):
        return [
            f"{FAILS_AGAIN_PREFIX} {ended[0].title}{render_citation(roots[0])}, which is not a host fault. {ended[0].next_step}",
            nothing,
        ]
    return [
        f"{SAFE_PREFIX} {nothing}",
        f"What ended the job is not a host fault: {ended[0].title}{render_citation(roots[0])}. {ended[0].next_step}",
    ]


def _list_job_causes(asked: AnswerContext) -> list[str]:
    return [
        f"• {asked.get_title(row.label)}{render_citation(row)}, which is not a host fault." for row in asked.root_causes if not row.hosts
    ][:2]


def _is_repeatable_failure(asked: AnswerContext) -> bool:
    """Return whether the job would fail again. Hosts named without a job may serve others."""
    lasts = any(not asked.now.lens.taxonomy.get_leaf(row.label).transient for row in asked.root_causes if not row.hosts)
    return lasts and not (resolve_target_hosts(asked).named and not _JOB_PATTERN.search(asked.message.text[:MAX_TEXT_CHARS]))


def _get_fault_reason(asked: AnswerContext, row: HostKnowledge) -> str:
    own = [ladder for ladder in asked.case.remediations if ladder.target == row.host]
    held = [ladder for ladder in own if ladder.drained or (ladder.is_open and ladder not in _passed(asked, row.host))]
    causes = [cause for cause in row.causes if row.host in cause.hosts]
    against = f". Also {told(row.unproven)}" if row.unproven else ""
    if causes:
        drained = "; it is drained" if any(ladder.drained for ladder in held) else ""
        return f"{asked.get_title(causes[0].label)} ({format_location(causes[0])}){render_citation(causes[0])}, read {format_age(row.read, asked.current_time)}{drained}{against}"
    return f"{describe_remediation(held[0], asked.get_title(held[0].label))}{against}" if held else ""


def _passed(asked: AnswerContext, host: str) -> list[Remediation]:
    """Return remediations of hosts in service that passed one proof and await the second."""
    rows = [row for row in asked.case.remediations if host in row.target.split(",") and row.is_open]
    return [row for row in rows if row.waiting_for == "proof" and row.proven and not row.drained]


def _get_doubt_reason(asked: AnswerContext, row: HostKnowledge) -> str:
    if unread := [fix for fix in _passed(asked, row.host) if fix.since and (row.read is None or row.read < fix.since)]:
        return f"{asked.get_title(unread[0].label)} was fixed on {row.host}, but not checked since. Say `recheck {row.host}`."
    if row.is_unobserved:
        return _not_seen(row)
    if row.unproven:
        return f"{told(row.unproven)}. No check has shown its cause on {row.host}."
    if row.unplaced:
        return f"{told(row.unplaced)}. I do not know which host it belongs to."
    if row.odd:
        return f"{row.host} shows something that no cause explains: {clean_text(row.odd[0].line or row.odd[0].key, 100)} ({get_check_name(row.odd[0].check)})."
    if not row.whole:
        check, why = row.blind[0] if row.blind else ("some checks", "were not asked")
        return f"not all of {row.host} could be looked at ({get_check_name(check)}: {clean_text(why, 60)})."
    if row.read is None or (asked.current_time - row.read).total_seconds() > MAX_READING_AGE_SECONDS:
        return f"{row.host} was read {format_age(row.read, asked.current_time)}, which is too old. Say `recheck {row.host}`."
    return ""


def _not_seen(row: HostKnowledge) -> str:
    against = f", and {told(row.unproven)}" if row.unproven else ""
    if row.blind:
        return f"{row.host} could not be looked at ({clean_text(row.blind[0][1], 80)}){against}. Say `recheck {row.host}` to try again."
    return f"{row.host} was not checked{against}. Say `recheck {row.host}`."


def _answer_change(asked: AnswerContext, remedy: Remedy, hosts: Sequence[str]) -> TurnResult:
    if not hosts:
        return build_answer(
            asked, [*render_unknown_names(asked), "I cannot tell: name the host, for example “is it safe to reboot gpu-001?”."]
        )
    wanted = [
        row
        for row in asked.case.remediations
        if row.target in hosts and row.is_open and any(rung.remedy == remedy.id for rung in row.rungs)
    ]
    asks = f"Nothing found on {fold_host_names(hosts)} needs it."
    if wanted:
        asks = f"It is part of a fix: {describe_remediation(wanted[0], asked.get_title(wanted[0].label))}."
    understood = asked.message.predicate == "changeable"
    lines = [
        *([] if understood else [NO_VERDICT_PREFIX]),
        _render_change_cost(asked, remedy, hosts) if understood else running_jobs(asked, hosts),
        f"It affects {remedy.blast}.",
        "It needs the node drained and without jobs first." if remedy.needs else "",
    ]
    return build_answer(
        asked,
        [
            *render_unknown_names(asked),
            *lines,
            asks,
            "RackMedic does it only after an approver approves its card.",
            render_recheck_offer(asked, hosts),
        ],
    )


def _render_change_cost(asked: AnswerContext, remedy: Remedy, hosts: Sequence[str]) -> str:
    jobs = {host: names for host in hosts if (names := _list_jobs(asked, host))}
    unseen = [host for host in hosts if not {"procs", "sched"} & set(build_host_knowledge(asked, host).looked)]
    if jobs and remedy.id != "drain_node" and remedy.risk != "intrusive":
        return f"No, not now: jobs hold GPUs: {'; '.join(f'{host} (job {names[0]})' for host, names in list(jobs.items())[:3])} (procs)."
    seen_by = _format_job_checks(asked, hosts)
    if unseen:
        return f"I cannot tell: I did not see whether jobs run on {fold_host_names(unseen)}. Say `recheck {fold_host_names(unseen)}`."
    return f"No blocker found on {fold_host_names(hosts)}: {'running jobs go on' if jobs else 'no job holds a GPU there'} ({seen_by})."


def running_jobs(asked: AnswerContext, hosts: Sequence[str]) -> str:
    """Return which jobs hold GPUs on each host, without a verdict."""
    unseen = [host for host in hosts if not {"procs", "sched"} & set(build_host_knowledge(asked, host).looked)]
    jobs = {host: names for host in hosts if host not in unseen and (names := _list_jobs(asked, host))}
    free = [host for host in hosts if host not in unseen and host not in jobs]
    parts = [f"{host}: job {names[0]} holds GPUs" for host, names in list(jobs.items())[:3]]
    parts += [f"{fold_host_names(free)}: no job holds a GPU"] if free else []
    parts += [f"{fold_host_names(unseen)}: not seen whether jobs run"] if unseen else []
    seen_by = _format_job_checks(asked, hosts)
    return f"• {'; '.join(parts)}{f' ({seen_by})' if seen_by else ''}."


def _format_job_checks(asked: AnswerContext, hosts: Sequence[str]) -> str:
    return ", ".join(check for check in ("procs", "sched") if any(check in build_host_knowledge(asked, host).looked for host in hosts))


def _list_jobs(asked: AnswerContext, host: str) -> list[str]:
    held = (fact for fact in asked.case.facts if fact.host == host and fact.key == "proc.gpu_memory" and not fact.stale)
    return sorted({str(fact.attrs["job"]) for fact in held if fact.attrs.get("job")})
