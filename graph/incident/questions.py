"""Questions about missing data when checks did not decide, and reminders to a tenant who does not answer."""

import re
from collections.abc import Iterable
from datetime import datetime

from graph.engine.assessment import Assessment
from graph.engine.belief import Belief
from graph.extraction.log_digests import build_job_log_digest
from graph.incident.context import IncidentContext, TurnState
from graph.incident_view import IncidentView
from graph.report import Report
from graph.state import REMINDER_DUE, REMINDER_UNANSWERED, REPORT_WITHDRAWN, SIDE_KEY, TENANT_SIDE, Lifecycle, LogDigest, TenantSilence
from tools.inventory.host_ranges import fold_host_names

MAX_QUESTIONS = 3
LOG_QUESTION = "Can you attach the log of the first rank that failed, from its start to the error?"


def list_questions(context: IncidentContext, assessment: Assessment) -> list[str]:
    """Return questions that were not asked before, the most helpful first."""
    questions = dict.fromkeys(_iter_candidate_questions(context, assessment))
    new_questions = [question for question in questions if question not in context.turn.asked]
    return new_questions[:MAX_QUESTIONS]


def _iter_candidate_questions(context: IncidentContext, assessment: Assessment) -> Iterable[str]:
    brief = context.brief
    if brief.unknown_hosts:
        yield build_hosts_question(TurnState(unknown=brief.unknown_hosts))
    elif not context.hosts:
        yield "Which hosts does the job run on? I check no machine that nobody named."
    for hidden in assessment.open_hidden_causes[:1]:
        yield f"When can {fold_host_names(hidden.hosts)} be without jobs for a while? {hidden.leaf.title} would show in {hidden.check_names} alone."
    unreached = sorted({host for host, check, _ in assessment.coverage.list_unobserved_checks() if check == "smi"})
    if unreached:
        yield f"I could not look at {fold_host_names(unreached)}. Can you reach it, and what does `nvidia-smi` print there?"
    if not any(fact.key.startswith("job.") for fact in context.facts):
        yield LOG_QUESTION
    for suspect in assessment.suspects[:1]:
        location = _format_location(context, suspect)
        yield f"Did you see “{suspect.leaf.title}” before{f' on {location}' if location else ''}, or did another job hit it?"
    if brief.since is None:
        yield "When did it last work, and what changed since (image, driver, configuration, number of nodes)?"
    yield "Does it happen again on other hosts, or only on these?"


def _format_location(context: IncidentContext, suspect: Belief) -> str:
    hosts = _list_hosts_in_lines(context, suspect)
    return ", ".join(hosts or suspect.subject.named_devices or suspect.subject.hosts)


def _list_suspect_hosts(context: IncidentContext, suspect: Belief) -> tuple[str, ...]:
    return _list_hosts_in_lines(context, suspect) or suspect.subject.hosts


def _list_hosts_in_lines(context: IncidentContext, suspect: Belief) -> tuple[str, ...]:
    """Return the hosts that uploaded lines name, if only such lines show the cause."""
    if any(match.fact.host for match in suspect.support):
        return ()
    lines = " ".join(match.fact.line for match in suspect.support)
    return tuple(host for host in context.visible if re.search(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", lines))


def build_hosts_question(turn: TurnState) -> str:
    """Ask about unknown names, else about an unknown job."""
    unknown = turn.unknown
    if not unknown:
        return f"Which hosts does job {turn.unknown_job} run on?"
    return f"Which hosts of the inventory are meant by {', '.join(unknown[:4])}{' …' if len(unknown) > 4 else ''}?"


def list_suggestions(context: IncidentContext, assessment: Assessment) -> list[str]:
    """Return what a person may try. RackMedic never runs these itself."""
    steps: dict[tuple[str, str], list[str]] = {}
    for belief in assessment.suspects:
        steps.setdefault((belief.leaf.title, belief.leaf.next_step), []).extend(_list_suspect_hosts(context, belief))
    suggestions = [
        f"If it is {title}{f' on {fold_host_names(dict.fromkeys(hosts))}' if hosts else ''}: {step}"
        for (title, step), hosts in list(steps.items())[:2]
    ]
    leaves = [suspect.leaf for suspect in assessment.suspects] + [hidden_cause.leaf for hidden_cause in assessment.open_hidden_causes]
    exclusive = sorted({check for leaf in leaves for check in leaf.confirms if check in assessment.reference.checks})
    if exclusive:
        suggestions.append(f"Run {', '.join(exclusive)} once the machines are idle")
    if len(assessment.hosts) > 1:
        suggestions.append("Run the job again without one half of the hosts, then without the other, to see which half it follows")
    return suggestions[:MAX_QUESTIONS]


def list_logs(context: IncidentContext) -> tuple[LogDigest, ...]:
    """Return uploaded logs, and the job's logs on the hosts."""
    jobs = build_job_log_digest(context.facts)
    return (*context.logs, jobs) if jobs else context.logs


def list_tenant_question_ids(incident_view: IncidentView, report: Report) -> tuple[str, ...]:
    """Return phrase ids of what a tenant is asked; questions about machines are not theirs to answer."""
    if not report.questions:
        return ()
    brief, attached = incident_view.brief, any(message.get("attachments") for message in incident_view.messages)
    missing = {"q_which": not (brief.hosts or brief.job), "q_log": not attached, "q_since": brief.since is None}
    return tuple(id_ for id_, is_ in missing.items() if is_)


def update_tenant_silence(incident_view: IncidentView, report: Report, lifecycle: Lifecycle, at: datetime) -> TenantSilence:
    """Return the tenant's silence after this turn.

    A tenant's message restarts it, a withdrawal ends it, operators do neither. A timer that an answer overtook reminds
    of nothing.
    """
    item, previous_silence = incident_view.item, incident_view.tenant_silence
    if incident_view.origin is None or incident_view.origin.customer is None:
        return TenantSilence()
    is_tenant_side, reason = item.data.get(SIDE_KEY) == TENANT_SIDE, item.data.get("why") if item.kind == "timer" else ""
    if reason == REPORT_WITHDRAWN or (previous_silence.withdrawn and not is_tenant_side):
        return TenantSilence(withdrawn=True)
    if reason == REMINDER_UNANSWERED and is_unanswered(incident_view):
        return previous_silence.model_copy(update={"handed": at})
    if previous_silence.handed and lifecycle == "handed_off" and not is_tenant_side:
        return previous_silence
    if lifecycle != "waiting" or not list_tenant_question_ids(incident_view, report):
        return TenantSilence()
    if is_tenant_side or previous_silence.since is None:
        return TenantSilence(since=at)
    return (
        previous_silence.model_copy(update={"reminded": at})
        if reason == REMINDER_DUE and previous_silence.since < item.at and not previous_silence.reminded
        else previous_silence
    )


def is_unanswered(incident_view: IncidentView) -> bool:
    """Return whether the tenant was reminded and did not answer before this item."""
    reminded = incident_view.tenant_silence.reminded
    return reminded is not None and reminded < incident_view.item.at and incident_view.lifecycle == "waiting"
