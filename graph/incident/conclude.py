"""Last node: conclude the turn in one report. The same checkpoint stores the report and marks the item as done."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from langgraph.runtime import Runtime

from graph.context import GraphContext, Progress
from graph.engine.assessment import Assessment, assess_facts
from graph.engine.peer_differences import HostBaseline, build_baselines
from graph.extraction.log_digests import select_telling_templates
from graph.extraction.suspected_causes import find_suspected_causes
from graph.incident.answers.routes import answer_item
from graph.incident.context import IncidentContext, assess_incident, load_incident_context
from graph.incident.exploration import has_exhausted_ideas
from graph.incident.guides import add_guide_status, answer_unknown_guide, lacks_requested_guide
from graph.incident.handoff_tickets import build_handoff_ticket
from graph.incident.headline import build_headline, render_cause
from graph.incident.host_findings import (
    partition_causes,
    render_differences,
    render_hosts_summary,
    render_old_events,
    summarize_hosts,
)
from graph.incident.lifecycle import TurnEvent, get_next_lifecycle
from graph.incident.likely_causes import find_likely_cause
from graph.incident.narrow_recheck import answer_narrow_recheck
from graph.incident.news_turns import add_change_summary
from graph.incident.questions import LOG_QUESTION, list_logs, list_suggestions, list_tenant_question_ids, update_tenant_silence
from graph.incident.reasoning_check import verify_conclusion
from graph.incident.reflect import list_hypotheses
from graph.incident.remediations import add_action_facts, add_remediations, is_check_result, is_renewed_request
from graph.incident.run_checks import TURN_ENDING_KINDS
from graph.incident.scheduled_recheck import add_recheck_result, schedule_next_recheck
from graph.incident.turn_result import TurnResult
from graph.incident.visibility import list_visible_hosts
from graph.learning.lesson_recall import add_recalled_lessons
from graph.learning.site_notes import add_site_notes
from graph.milestones import append_milestones
from graph.ownership import build_tenant_machines, is_withheld_from_tenant
from graph.report import AttachedChart, FileReadResult, Report
from graph.report_charts import select_report_charts
from graph.state import DiagnosisOutcome, Hypothesis, IncidentCosts, IncidentState, UnobservedCheck
from tools.fact import Status
from tools.inventory.host_ranges import fold_host_names
from tools.inventory.inventory import Inventory

MAX_UNOBSERVED_CHECKS = 20
MAX_DONE_ITEMS = 50
MAX_ASKED_QUESTIONS = 12
MAX_LIKELY_CAUSES = 2
MAX_REASON_CHARS = 120
ANSWER_QUESTIONS_STEP = "Answer the questions, or hand the incident over."
TELL_MORE_STEP = "I have no more questions: tell me anything new, say recheck, or hand the incident over."


async def conclude(state: IncidentState, runtime: Runtime[GraphContext]) -> dict[str, Any]:
    """Return the state update: report, lifecycle, and a ticket if a person must take over."""
    graph_context = runtime.context
    context = await add_action_facts(await load_incident_context(state, graph_context), graph_context)
    assessment = await assess_incident(context, graph_context)
    lacks_guide = lacks_requested_guide(context, graph_context)
    diagnosing = (context.looks_at_hosts or is_check_result(context.item)) and not (context.keeps_last_report or lacks_guide)
    if diagnosing:
        diagnosis = _add_site_notes(_conclude_diagnosis(context, assessment, graph_context), context, assessment, graph_context)
        result = _add_file_results(_add_charts(diagnosis, context), context)
        result = await asyncio.to_thread(_add_tenant_causes, result, context, assessment, graph_context.inventory)
    elif lacks_guide:
        result = _add_file_results(answer_unknown_guide(context, graph_context), context)
    else:
        result = _add_file_results(await answer_item(context, assessment, graph_context), context)
    result = await add_remediations(result, context, assessment, graph_context)
    update: dict[str, Any] = {}
    if diagnosing:
        result, update = await verify_conclusion(_hand_off_if_exhausted(result, context, assessment), context, assessment, graph_context)
        result = add_guide_status(result, context, assessment, graph_context)
    lifecycle, now = result.lifecycle or context.lifecycle, graph_context.clock.now()
    next_recheck = schedule_next_recheck(context, assessment, result.report, lifecycle, diagnosing, graph_context.waits, now)
    if diagnosing:
        result = add_recheck_result(result, context, assessment, next_recheck, now)
        await graph_context.remember(build_healthy_baselines(context, assessment))
    await graph_context.progress(Progress(context.id, "conclude", result.report.headline or result.report.reply))
    update = {**result.to_state_update(), **update}
    if context.is_stopped and (lifecycle == "closed" or (diagnosing and is_renewed_request(context))):
        update["stopped"] = False
    milestones = append_milestones(context, result.report, lifecycle, diagnosing, graph_context.clock.now())
    silence = update_tenant_silence(context, result.report, lifecycle, graph_context.clock.now())
    stored_values: dict[str, Any] = {
        "milestones": [milestone.to_row() for milestone in milestones],
        "second_look": next_recheck.model_dump(mode="json", exclude_defaults=True),
        "silence": silence.model_dump(mode="json", exclude_defaults=True),
    }
    for key, value in stored_values.items():
        if value != context.stored.get(key, type(value)()):
            update[key] = value
    return {
        **update,
        "facts": context.snapshot,
        "stats": _compute_costs(context, graph_context).model_dump(mode="json", exclude_defaults=True),
        "turns": context.stored.get("turns", 0) + 1,
        "done_items": [*context.done_items, context.item.id][-MAX_DONE_ITEMS:],
        "to_look": [],
        "tier": "done",
    }


def _add_file_results(result: TurnResult, context: IncidentContext) -> TurnResult:
    if not context.turn.files and not result.report.files:
        return result
    files = tuple(FileReadResult.model_validate(file_row) for file_row in context.turn.files)
    report = result.report.model_copy(update={"files": files})
    return replace(result, report=report, turn=replace(result.turn or context.turn, files=()))


def _conclude_diagnosis(context: IncidentContext, assessment: Assessment, graph_context: GraphContext) -> TurnResult:
    """Diagnose. After news or a narrow recheck, answer with what changed."""
    diagnosis = _build_diagnosis(context, assessment, graph_context)
    if context.turn.news and not context.turn.cut:
        hosts_summary = diagnosis.report.about
        causes = "; ".join(render_cause(assessment, cause) for cause in diagnosis.report.root_causes[:3])
        hosts_text = render_hosts_summary(hosts_summary, context.item.at) if hosts_summary else ""
        return add_change_summary(diagnosis, context, causes, hosts_text)
    if context.turn.narrow:
        return answer_narrow_recheck(diagnosis, context, assessment, graph_context)
    return diagnosis


def _add_site_notes(result: TurnResult, context: IncidentContext, assessment: Assessment, graph_context: GraphContext) -> TurnResult:
    """Add the site's own pages about its causes, or about the likeliest if none is found."""
    if not graph_context.pages:
        return result
    hosts = {name: graph_context.inventory.hosts[name] for name in context.hosts if name in graph_context.inventory.hosts}
    likely_labels = list(assessment.label_verdicts)[:MAX_LIKELY_CAUSES]
    return replace(result, report=add_site_notes(result.report, graph_context.pages, context.brief.text, likely_labels, hosts))


def _add_charts(result: TurnResult, context: IncidentContext) -> TurnResult:
    """Add charts that nobody asked for: bandwidth by message size if measured, and the deciding metric if it stands out."""
    sizes = {str(fact.attrs.get("size")) for fact in context.facts if fact.key == "nccl.busbw_at" and fact.status is Status.OK}
    bandwidth_charts = (AttachedChart(kind="bandwidth", asked=False),) if len(sizes) > 1 else ()
    charts = (*bandwidth_charts, *select_report_charts(result.report.root_causes, context.facts))
    return replace(result, report=result.report.model_copy(update={"pictures": charts})) if charts else result


def _add_tenant_causes(result: TurnResult, context: IncidentContext, assessment: Assessment, inventory: Inventory) -> TurnResult:
    """Add the causes that a tenant may see. If all are withheld, ask the tenant for their log, once."""
    tenant_causes = _find_tenant_causes(result.report.root_causes, context, assessment, inventory)
    report = result.report.model_copy(update={"crossing": tenant_causes})
    if tenant_causes is None:
        return replace(result, report=report) if result.report.crossing is not None else result
    turn = result.turn or context.turn
    was_asked = LOG_QUESTION in context.turn.asked
    if was_asked or not report.hides_all_causes_from_tenant or not _can_ask_tenant(context):
        return replace(result, report=report)
    return replace(
        result,
        report=report.model_copy(update={"questions": (LOG_QUESTION,)}),
        lifecycle=get_next_lifecycle(context.lifecycle, TurnEvent.QUESTION),
        turn=replace(turn, asked=(*turn.asked, LOG_QUESTION)),
    )


def _can_ask_tenant(context: IncidentContext) -> bool:
    """Return whether a tenant can be asked: they uploaded nothing, no person took over, and the turn was not cut."""
    has_upload = any(message.get("attachments") for message in context.messages)
    return context.is_tenant_incident and not (context.has_open_ticket or has_upload or context.turn.cut)


def _find_tenant_causes(
    causes: tuple[Hypothesis, ...], context: IncidentContext, assessment: Assessment, inventory: Inventory
) -> tuple[Hypothesis, ...] | None:
    """Return the causes that the tenant's own facts show.

    Return None if nothing is withheld or no tenant reads the incident.
    """
    origin = context.origin
    if not causes or origin is None or not origin.tenant:
        return None
    machines = build_tenant_machines(inventory, list_visible_hosts(inventory, origin))
    tenant_facts = [fact for fact in context.facts if not is_withheld_from_tenant(fact, machines)]
    if len(tenant_facts) == len(context.facts):
        return None
    labels = {cause.label for cause in causes}
    tenant_assessment = assess_facts(
        tenant_facts, assessment.reference, context.hosts, context.turn.priors, context.onset, context.brief.symptoms
    )
    return tuple(cause for cause in tenant_assessment.list_root_causes() if cause.label in labels)


def _compute_costs(context: IncidentContext, graph_context: GraphContext) -> IncidentCosts:
    """Return costs so far: model spend, and seconds that people waited."""
    update: dict[str, Any] = {}
    if context.turn.began:
        seconds = (graph_context.clock.now() - datetime.fromisoformat(context.turn.began)).total_seconds()
        update["wall_seconds"] = round(context.stats.wall_seconds + max(0.0, seconds), 3)
    if graph_context.model is not None:
        spent = graph_context.model.get_spend(context.id)
        update |= {"model_calls": spent.calls, "tokens_in": spent.tokens_in, "tokens_out": spent.tokens_out, "usd": spent.usd}
    return context.stats.model_copy(update=update)


def _build_diagnosis(context: IncidentContext, assessment: Assessment, graph_context: GraphContext) -> TurnResult:
    turn, outcome = context.turn, _get_outcome(context, assessment)
    own_causes, other_causes = partition_causes(context, assessment)
    roots = (*own_causes, *other_causes)
    hosts_summary = summarize_hosts(context, assessment)
    suspected_labels = find_suspected_causes(context.brief.text, assessment.reference.taxonomy)
    questions = () if outcome in ("diagnosed", "no_fault") or turn.cut in TURN_ENDING_KINDS else turn.questions
    likely_cause = None
    if outcome in ("abstained", "no_fault") and not turn.cut:
        likely_cause = find_likely_cause(context, assessment, graph_context.taxonomy)
    if likely_cause and likely_cause.by == "reading":
        outcome = "abstained"  # a likely cause is open: "no fault" would deny it
    next_step = _choose_next_step(assessment, roots, outcome, questions)
    if other_causes and not own_causes:
        next_step = _render_elsewhere_step(assessment, other_causes[0])
    report = Report(
        item=context.item.id,
        outcome=outcome,
        headline=build_headline(context, assessment, outcome, own_causes, hosts_summary, likely_cause),
        root_causes=roots,
        ruled_out=tuple(
            cause.model_copy(update={"evidence": (), "checks": (), "because": cause.because[:MAX_REASON_CHARS]})
            for cause in assessment.list_ruled_out(suspected=suspected_labels)
            if likely_cause is None or cause.label != likely_cause.label
        ),
        could_not_look=select_unobserved_checks(assessment.list_unobserved()),
        questions=questions,
        differs=() if outcome == "diagnosed" else render_differences(context, assessment),
        old=render_old_events(context, assessment),
        suggestions=() if outcome in ("diagnosed", "no_fault") else tuple(list_suggestions(context, assessment)),
        likely=likely_cause,
        outside=turn.outside if outcome == "no_fault" and likely_cause is None else "",
        ideas=context.exploration.ideas if outcome == "abstained" and not turn.cut else (),
        doubts=turn.doubts if outcome == "diagnosed" else (),
        without_model=turn.without_model,
        unkept=graph_context.evidence.get_trouble(),
        next_step=next_step,
        logs=select_telling_templates(context.logs if roots else list_logs(context)),
        about=hosts_summary,
        also_seen=tuple(cause.label for cause in other_causes),
        unknown_hosts=context.find_unknown_names(turn.unknown),
        read_as=turn.read_as,
        unknown_job=turn.unknown_job,
        why_nowhere=turn.why_nowhere,
    )
    return TurnResult(
        add_recalled_lessons(report, turn.recalled),
        lifecycle=get_next_lifecycle(context.lifecycle, _get_turn_event(context, report)),
        turn=replace(
            turn,
            asked=(*turn.asked, *questions)[-MAX_ASKED_QUESTIONS:],
            hosts=fold_host_names(context.hosts_in_question) if turn.only else turn.hosts,
        ),
        hypotheses=list_hypotheses(assessment, turn.past, "taxonomy"),
        ticket=build_handoff_ticket(context, assessment, report) if context.has_open_ticket else None,
    )


def select_unobserved_checks(unobserved_checks: Sequence[UnobservedCheck]) -> tuple[UnobservedCheck, ...]:
    """Return at most `MAX_UNOBSERVED_CHECKS` failed checks in the given order.

    One check of each host is kept before a second one of any host.
    """
    counts: Counter[str] = Counter()
    ranks: list[int] = []  # of each check among those of its host
    for unobserved_check in unobserved_checks:
        ranks.append(counts[unobserved_check.host])
        counts[unobserved_check.host] += 1
    kept_indexes = sorted(range(len(unobserved_checks)), key=lambda index: (ranks[index], index))[:MAX_UNOBSERVED_CHECKS]
    return tuple(unobserved_checks[index] for index in sorted(kept_indexes))


def build_healthy_baselines(context: IncidentContext, assessment: Assessment) -> dict[str, HostBaseline]:
    """Return the baselines of hosts without a finding, for later comparison."""
    hosts_with_findings = {fact.host for fact in assessment.abnormal_facts} | {
        host for belief in assessment.roots for host in (*belief.accused, *belief.shown)
    }
    return {host: baseline for host, baseline in build_baselines(context.facts).items() if host not in hosts_with_findings}


def _hand_off_if_exhausted(result: TurnResult, context: IncidentContext, assessment: Assessment) -> TurnResult:
    """Hand off an undecided incident if nothing is left to ask or to try.

    An incident whose causes are all withheld from its tenant counts as undecided. A cut turn, an open ticket or an open
    remediation prevents the hand-off.
    """
    report, lifecycle = result.report, result.lifecycle or context.lifecycle
    remediations = context.remediations if result.ladders is None else result.ladders
    has_open_work = context.turn.cut or context.has_open_ticket or any(remediation.is_open for remediation in remediations)
    if has_open_work or lifecycle not in ("open", "waiting"):
        return result
    has_no_tenant_question = context.is_tenant_incident and not list_tenant_question_ids(context, report)
    is_exhausted = has_no_tenant_question or has_exhausted_ideas(context)
    is_undecided = report.outcome == "abstained" or (context.is_tenant_incident and report.hides_all_causes_from_tenant)
    if not is_exhausted or not is_undecided:
        return result
    report = report.model_copy(update={"next_step": "Take the ticket."})
    return replace(
        result,
        report=report,
        lifecycle=get_next_lifecycle(lifecycle, TurnEvent.HAND_OFF),
        ticket=build_handoff_ticket(context, assessment, report),
    )


def _get_outcome(context: IncidentContext, assessment: Assessment) -> DiagnosisOutcome:
    """Return the outcome of the checks. A turn that was cut short abstains unless a cause is proven."""
    return "abstained" if context.turn.cut and assessment.finding != "diagnosed" else assessment.finding


def _get_turn_event(context: IncidentContext, report: Report) -> TurnEvent:
    if context.has_open_ticket:
        return TurnEvent.TO_PEOPLE
    return TurnEvent.QUESTION if report.questions else TurnEvent.NOTHING_OPEN


def _choose_next_step(assessment: Assessment, roots: Sequence[Hypothesis], outcome: DiagnosisOutcome, questions: Sequence[str]) -> str:
    if roots:
        return assessment.reference.taxonomy.get_leaf(roots[0].label).next_step
    if assessment.open_hidden_causes and outcome == "abstained":
        hidden_cause = assessment.open_hidden_causes[0]
        return (
            f"Run {hidden_cause.check_names} on {fold_host_names(hidden_cause.hosts)}: approve its card, or free the GPUs and say recheck."
        )
    worst_fact = assessment.abnormal_facts[0] if assessment.abnormal_facts else None
    if worst_fact is not None and worst_fact.key == "sched.state" and worst_fact.attrs.get("reason"):
        drained_by = worst_fact.attrs.get("by") or "the person who drained it"
        return f"Ask {drained_by} before {worst_fact.host} goes back into service: {worst_fact.attrs['reason']}"[:MAX_REASON_CHARS]
    if outcome == "no_fault":
        return "Nothing to fix on these hosts; tell me more if it happens again."
    return ANSWER_QUESTIONS_STEP if questions else TELL_MORE_STEP


def _render_elsewhere_step(assessment: Assessment, cause: Hypothesis) -> str:
    return f"For {render_cause(assessment, cause)}: {assessment.reference.taxonomy.get_leaf(cause.label).next_step}"
