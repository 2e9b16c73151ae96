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
from graph.engine.reference_data import is_tenant_writable
from graph.extraction import report_texts
from graph.extraction.complaints import find_suspected_causes
from graph.extraction.log_digests import select_telling_templates
from graph.extraction.report_texts import format_unknown_hosts, format_unknown_job
from graph.incident.answers.routes import answer_item
from graph.incident.answers.unproven import list_unproven
from graph.incident.context import IncidentContext, assess_incident, load_incident_context
from graph.incident.followup_turns import add_change_summary, add_recheck_result, answer_narrow_recheck, schedule_next_recheck
from graph.incident.guides import add_guide_status, answer_unknown_guide, get_unknown_guide
from graph.incident.handoff_tickets import build_handoff_ticket
from graph.incident.host_findings import (
    describe_unknown_writers,
    find_unreached_hosts,
    partition_causes,
    render_differences,
    render_hosts_summary,
    render_old_events,
    summarize_hosts,
)
from graph.incident.lifecycle import TurnEvent, get_next_lifecycle
from graph.incident.model_hypotheses import find_likely_cause, has_exhausted_ideas
from graph.incident.questions import LOG_QUESTION, list_logs, list_suggestions, list_tenant_question_ids, update_tenant_silence
from graph.incident.reasoning_check import verify_conclusion
from graph.incident.reflect import list_hypotheses
from graph.incident.remediations import add_action_facts, add_remediations, is_check_result, is_renewed_request
from graph.incident.run_checks import TURN_ENDING_KINDS
from graph.incident.turn_result import TurnResult
from graph.incident.visibility import list_visible_hosts
from graph.learning.lessons import add_recalled_lessons
from graph.learning.site_notes import add_site_notes
from graph.ownership import build_tenant_machines, is_withheld_from_tenant
from graph.report import AttachedChart, FileReadResult, HostsSummary, Report
from graph.report_charts import select_report_charts
from graph.state import DiagnosisOutcome, Hypothesis, IncidentCosts, IncidentState, UnobservedCheck
from graph.timeline import append_milestones
from tools.fact import Status
from tools.inventory.host_ranges import fold_host_names
from tools.inventory.inventory import Inventory

# Which causes of a diagnosis a tenant may see: those that hold without facts not established as the tenant's.


def add_tenant_causes(result: TurnResult, context: IncidentContext, assessment: Assessment, inventory: Inventory) -> TurnResult:
    """Add the causes that a tenant may see. If all are withheld, ask the tenant for their log, once."""
    crossing = find_tenant_causes(result.report.root_causes, context, assessment, inventory)
    report = result.report.model_copy(update={"crossing": crossing})
    if crossing is None:
        return replace(result, report=report) if result.report.crossing is not None else result
    turn = result.turn or context.turn
    if not (report.hides_all_causes_from_tenant and _can_ask_tenant(context)) or LOG_QUESTION in context.turn.asked:
        return replace(result, report=report)
    return replace(
        result,
        report=report.model_copy(update={"questions": (LOG_QUESTION,)}),
        lifecycle=get_next_lifecycle(context.lifecycle, TurnEvent.QUESTION),
        turn=replace(turn, asked=(*turn.asked, LOG_QUESTION)),
    )


def _can_ask_tenant(context: IncidentContext) -> bool:
    """Return whether a tenant can be asked: no upload yet, no person on it, not stopped."""
    has_upload = any(row.get("attachments") for row in context.messages)
    is_tenant = context.origin is not None and context.origin.customer is not None
    return is_tenant and not (_has_open_ticket(context) or has_upload or context.turn.cut)


def find_tenant_causes(
    found: tuple[Hypothesis, ...], context: IncidentContext, assessment: Assessment, inventory: Inventory
) -> tuple[Hypothesis, ...] | None:
    """Return the causes that the tenant's own facts show; None if nothing is withheld or no tenant reads it."""
    origin = context.origin
    if not found or origin is None or not origin.tenant:
        return None
    machines = build_tenant_machines(inventory, list_visible_hosts(inventory, origin))
    tenant_facts = [fact for fact in context.facts if not is_withheld_from_tenant(fact, machines)]
    if len(tenant_facts) == len(context.facts):
        return None
    labels = {cause.label for cause in found}
    tenant_assessment = assess_facts(
        tenant_facts, assessment.reference, context.hosts, context.turn.priors, context.onset, context.brief.symptoms
    )
    return tuple(cause for cause in tenant_assessment.list_root_causes() if cause.label in labels)


NO_HOST_CHECKED_TEXT = "I looked at no machine."
MOST_BESIDE = 3
MAX_UNOBSERVED_CHECKS = 20
MAX_DONE_ITEMS = 50
MAX_ASKED_QUESTIONS = 12
MAX_LIKELY_CAUSES = 2
MAX_REASON_CHARS = 120
ANSWER_QUESTIONS_STEP = "Answer the questions, or hand the incident over."
TELL_MORE_STEP = "I have no more questions: tell me anything new, say recheck, or hand the incident over."


async def conclude(state: IncidentState, runtime: Runtime[GraphContext]) -> dict[str, Any]:
    """Return the state update: report, lifecycle, and a ticket if a person must take over."""
    ports = runtime.context
    context = await add_action_facts(await load_incident_context(state, ports), ports)
    assessment = await assess_incident(context, ports)
    unknown_guide = get_unknown_guide(context, ports)
    diagnosing = (context.looks_at_hosts or is_check_result(context.item)) and not (context.keeps_last_report or unknown_guide)
    if diagnosing:
        diagnosis = _add_site_notes(_conclude_diagnosis(context, assessment, ports), context, assessment, ports)
        result = _add_file_results(_add_charts(diagnosis, context), context)
        result = await asyncio.to_thread(add_tenant_causes, result, context, assessment, ports.inventory)
    elif unknown_guide:
        result = _add_file_results(answer_unknown_guide(context, ports), context)
    else:
        result = _add_file_results(await answer_item(context, assessment, ports), context)
    result = await add_remediations(result, context, assessment, ports)
    update: dict[str, Any] = {}
    if diagnosing:
        result, update = await verify_conclusion(_hand_off_if_exhausted(result, context, assessment), context, assessment, ports)
        result = add_guide_status(result, context, assessment, ports)
    lifecycle, at = result.lifecycle or context.lifecycle, ports.clock.now()
    next_recheck = schedule_next_recheck(context, assessment, result.report, lifecycle, diagnosing, ports.waits, at)
    if diagnosing:
        result = add_recheck_result(result, context, assessment, next_recheck, at)
        await ports.remember(build_healthy_baselines(context, assessment))
    await ports.progress(Progress(context.id, "conclude", result.report.headline or result.report.reply))
    update = {**result.to_state_update(), **update}
    if context.is_stopped and (lifecycle == "closed" or (diagnosing and is_renewed_request(context))):
        update["stopped"] = False
    milestones = append_milestones(context, result.report, lifecycle, diagnosing, ports.clock.now())
    silence = update_tenant_silence(context, result.report, lifecycle, ports.clock.now())
    stored_values: dict[str, Any] = {
        "milestones": [row.to_row() for row in milestones],
        "second_look": next_recheck.model_dump(mode="json", exclude_defaults=True),
        "silence": silence.model_dump(mode="json", exclude_defaults=True),
    }
    for key, value in stored_values.items():
        if value != context.stored.get(key, type(value)()):
            update[key] = value
    return {
        **update,
        "facts": context.snapshot,
        "stats": _compute_costs(context, ports).model_dump(mode="json", exclude_defaults=True),
        "turns": context.stored.get("turns", 0) + 1,
        "done_items": [*context.done_items, context.item.id][-MAX_DONE_ITEMS:],
        "to_look": [],
        "tier": "done",
    }


def _add_file_results(result: TurnResult, context: IncidentContext) -> TurnResult:
    if not context.turn.files and not result.report.files:
        return result
    files = tuple(FileReadResult.model_validate(row) for row in context.turn.files)
    report = result.report.model_copy(update={"files": files})
    return replace(result, report=report, turn=replace(result.turn or context.turn, files=()))


def _conclude_diagnosis(context: IncidentContext, assessment: Assessment, ports: GraphContext) -> TurnResult:
    """Diagnose; after news or a narrow recheck, answer with what changed."""
    diagnosis = _build_diagnosis(context, assessment, ports)
    if context.turn.news and not context.turn.cut:
        hosts_summary = diagnosis.report.about
        causes = "; ".join(_render_cause(assessment, row) for row in diagnosis.report.root_causes[:3])
        return add_change_summary(diagnosis, context, causes, render_hosts_summary(hosts_summary, context.item.at) if hosts_summary else "")
    return answer_narrow_recheck(diagnosis, context, assessment, ports) if context.turn.narrow else diagnosis


def _add_site_notes(said: TurnResult, context: IncidentContext, assessment: Assessment, ports: GraphContext) -> TurnResult:
    """Add the site's own pages about its causes, or about the likeliest if none is found."""
    if not ports.pages:
        return said
    hosts = {name: ports.inventory.hosts[name] for name in context.hosts if name in ports.inventory.hosts}
    likely = list(assessment.label_verdicts)[:MAX_LIKELY_CAUSES]
    return replace(said, report=add_site_notes(said.report, ports.pages, context.brief.text, likely, hosts))


def _add_charts(said: TurnResult, context: IncidentContext) -> TurnResult:
    """Add unrequested charts: bandwidth by message size if measured, and the deciding metric if it stands out."""
    sizes = {str(fact.attrs.get("size")) for fact in context.facts if fact.key == "nccl.busbw_at" and fact.status is Status.OK}
    measured = (AttachedChart(kind="bandwidth", asked=False),) if len(sizes) > 1 else ()
    charts = (*measured, *select_report_charts(said.report.root_causes, context.facts))
    return replace(said, report=said.report.model_copy(update={"pictures": charts})) if charts else said


def _compute_costs(context: IncidentContext, ports: GraphContext) -> IncidentCosts:
    """Return costs so far: model spend, and seconds that people waited."""
    update: dict[str, Any] = {}
    if context.turn.began:
        seconds = (ports.clock.now() - datetime.fromisoformat(context.turn.began)).total_seconds()
        update["wall_seconds"] = round(context.stats.wall_seconds + max(0.0, seconds), 3)
    if ports.model is not None:
        spent = ports.model.get_spend(context.id)
        update |= {"model_calls": spent.calls, "tokens_in": spent.tokens_in, "tokens_out": spent.tokens_out, "usd": spent.usd}
    return context.stats.model_copy(update=update)


def _build_diagnosis(context: IncidentContext, assessment: Assessment, ports: GraphContext) -> TurnResult:
    turn, outcome = context.turn, _get_outcome(context, assessment)
    own_causes, elsewhere = partition_causes(context, assessment)
    hosts_summary, roots = summarize_hosts(context, assessment), (*own_causes, *elsewhere)
    suspected = find_suspected_causes(context.brief.text, assessment.reference.taxonomy)
    questions = () if outcome in ("diagnosed", "no_fault") or turn.cut in TURN_ENDING_KINDS else turn.questions
    likely = find_likely_cause(context, assessment, ports.taxonomy) if outcome in ("abstained", "no_fault") and not turn.cut else None
    report = Report(
        item=context.item.id,
        outcome=outcome,
        headline=build_headline(context, assessment, outcome, own_causes, hosts_summary),
        root_causes=roots,
        ruled_out=tuple(
            row.model_copy(update={"evidence": (), "checks": (), "because": row.because[:MAX_REASON_CHARS]})
            for row in assessment.list_ruled_out(suspected=suspected)
            if likely is None or row.label != likely.label
        ),
        could_not_look=select_unobserved_checks(assessment.list_unobserved()),
        questions=questions,
        differs=() if outcome == "diagnosed" else render_differences(context, assessment),
        old=render_old_events(context, assessment),
        suggestions=() if outcome in ("diagnosed", "no_fault") else tuple(list_suggestions(context, assessment)),
        likely=likely,
        outside=turn.outside if outcome == "no_fault" and likely is None else "",
        ideas=context.exploration.ideas if outcome == "abstained" and not turn.cut else (),
        doubts=turn.doubts if outcome == "diagnosed" else (),
        without_model=turn.without_model,
        unkept=ports.evidence.get_trouble(),
        next_step=_choose_next_step(assessment, roots, outcome, questions)
        if own_causes or not elsewhere
        else _render_elsewhere_step(assessment, elsewhere[0]),
        logs=select_telling_templates(context.logs if roots else list_logs(context)),
        about=hosts_summary,
        also_seen=tuple(row.label for row in elsewhere),
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
        ticket=build_handoff_ticket(context, assessment, report) if _has_open_ticket(context) else None,
    )


def select_unobserved_checks(rows: Sequence[UnobservedCheck]) -> tuple[UnobservedCheck, ...]:
    """Return at most `MAX_UNOBSERVED_CHECKS` failed checks, one of each host before the second of any."""
    turns: Counter[str] = Counter()
    places = []
    for row in rows:
        places.append(turns[row.host])
        turns[row.host] += 1
    kept_positions = sorted(range(len(rows)), key=lambda at: (places[at], at))[:MAX_UNOBSERVED_CHECKS]
    return tuple(rows[at] for at in sorted(kept_positions))


def build_healthy_baselines(context: IncidentContext, assessment: Assessment) -> dict[str, HostBaseline]:
    """Return the baselines of hosts without a finding, for later comparison."""
    sick = {fact.host for fact in assessment.abnormal_facts} | {host for row in assessment.roots for host in (*row.accused, *row.shown)}
    return {host: row for host, row in build_baselines(context.facts).items() if host not in sick}


def _hand_off_if_exhausted(result: TurnResult, context: IncidentContext, assessment: Assessment) -> TurnResult:
    """Hand off an undecided incident (or one whose causes are all withheld from its tenant) with nothing left to ask or
    try.

    A cut turn, an open ticket or an open remediation prevents it.
    """
    report, lifecycle = result.report, result.lifecycle or context.lifecycle
    is_tenant_incident = context.origin is not None and context.origin.customer is not None
    remediations = context.remediations if result.ladders is None else result.ladders
    is_incomplete = context.turn.cut or _has_open_ticket(context) or any(row.is_open for row in remediations)
    over = is_tenant_incident and not list_tenant_question_ids(context, report)
    undecided = report.outcome == "abstained" or (is_tenant_incident and report.hides_all_causes_from_tenant)
    if not (over or has_exhausted_ideas(context)) or not undecided or lifecycle not in ("open", "waiting") or is_incomplete:
        return result
    report = report.model_copy(update={"next_step": "Take the ticket."})
    return replace(
        result,
        report=report,
        lifecycle=get_next_lifecycle(lifecycle, TurnEvent.HAND_OFF),
        ticket=build_handoff_ticket(context, assessment, report),
    )


def _get_outcome(context: IncidentContext, assessment: Assessment) -> DiagnosisOutcome:
    """Return the outcome of the checks; a cut turn abstains unless a cause is proven."""
    return "abstained" if context.turn.cut and assessment.finding != "diagnosed" else assessment.finding


def _has_open_ticket(context: IncidentContext) -> bool:
    return context.ticket is not None and context.ticket.handed and context.ticket.state != "resolved"


def _has_only_unknown_targets(context: IncidentContext) -> bool:
    return bool(context.turn.unknown or context.turn.unknown_job) and not context.hosts


def _get_turn_event(context: IncidentContext, report: Report) -> TurnEvent:
    if _has_open_ticket(context):
        return TurnEvent.TO_PEOPLE
    return TurnEvent.QUESTION if report.questions else TurnEvent.NOTHING_OPEN


def _choose_next_step(assessment: Assessment, roots: Sequence[Hypothesis], outcome: DiagnosisOutcome, questions: Sequence[str]) -> str:
    if roots:
        return assessment.reference.taxonomy.get_leaf(roots[0].label).next_step
    if assessment.open_hidden_causes and outcome == "abstained":
        look = assessment.open_hidden_causes[0]
        return f"Run {look.check_names} on {fold_host_names(look.hosts)}: approve its card, or free the GPUs and say recheck."
    if (
        assessment.abnormal_facts
        and assessment.abnormal_facts[0].key == "sched.state"
        and (reason := assessment.abnormal_facts[0].attrs.get("reason"))
    ):
        drained_by = assessment.abnormal_facts[0].attrs.get("by") or "the person who drained it"
        return f"Ask {drained_by} before {assessment.abnormal_facts[0].host} goes back into service: {reason}"[:MAX_REASON_CHARS]
    if outcome == "no_fault":
        return "Nothing to fix on these hosts; tell me more if it happens again."
    return ANSWER_QUESTIONS_STEP if questions else TELL_MORE_STEP


def _render_elsewhere_step(assessment: Assessment, row: Hypothesis) -> str:
    return f"For {_render_cause(assessment, row)}: {assessment.reference.taxonomy.get_leaf(row.label).next_step}"


def build_headline(
    context: IncidentContext, assessment: Assessment, outcome: DiagnosisOutcome, roots: Sequence[Hypothesis], about: HostsSummary | None
) -> str:
    """Return one sentence about `roots` on the hosts asked about; hosts that answer despite the report first."""
    headline = _build_headline_text(context, assessment, outcome, roots, about)
    closed = find_unreached_hosts(assessment, context.brief.hosts)
    answer = () if roots or context.turn.cut else tuple(host for host in find_answering_hosts(context) if host not in closed)
    foreign = "" if context.turn.unknown else describe_unknown_writers(context)
    headline = f"{foreign} {headline}".strip()
    return f"{fold_host_names(answer)} answer{'s' * (len(answer) == 1)}. {headline}" if answer else headline


def find_answering_hosts(context: IncidentContext) -> tuple[str, ...]:
    """Return reportedly unreachable hosts that answered."""
    if "unreachable" not in context.brief.symptoms:
        return ()
    answering_hosts = {fact.host for fact in context.facts if fact.status is Status.OK}
    return tuple(host for host in context.brief.hosts if host in answering_hosts)


def _build_headline_text(
    context: IncidentContext, assessment: Assessment, outcome: DiagnosisOutcome, roots: Sequence[Hypothesis], about: HostsSummary | None
) -> str:
    if about and not roots and not context.turn.cut:
        return render_hosts_summary(about, context.item.at)
    if roots:
        return "; ".join(_render_cause(assessment, row) for row in roots[:3]) + (f" and {len(roots) - 3} more" if len(roots) > 3 else "")
    if _has_only_unknown_targets(context):
        notices = (
            format_unknown_hosts(context.find_unknown_names(context.turn.unknown)),
            format_unknown_job(context.turn.unknown_job, context.turn.why_nowhere),
        )
        return " ".join((*filter(None, notices), NO_HOST_CHECKED_TEXT))
    if context.turn.cut:
        stop_reason = "Stopped on request" if context.turn.cut in TURN_ENDING_KINDS else "News came while I was looking"
        return f"{stop_reason}: {report_texts.format_coverage(context.stats)}, no cause proven so far."
    if outcome == "no_fault":
        complaints = tuple(row.says for row in list_unproven(context, assessment) if row.reported)
        side_notes = (*complaints[:1], *render_old_events(context, assessment)[:1], *render_differences(context, assessment)[:1])
        return f"No fault found: {report_texts.format_coverage(context.stats)}, nothing abnormal{f', but {side_notes[0]}' if side_notes else ''}."
    reason = assessment.why_unsure[0] if assessment.why_unsure else "nothing was decisive"
    return f"No cause proven: {report_texts.format_coverage(context.stats)}; {reason}{_format_more_uploaded(assessment)}."


def _format_more_uploaded(assessment: Assessment) -> str:
    """Name further uploaded machine events where the first is the reason: the mildest may come first."""
    odd = [fact for fact in assessment.abnormal_facts if not fact.host and not is_tenant_writable(fact.key)]
    if len(odd) < 2 or assessment.abnormal_facts[0] is not odd[0] or assessment.suspects:
        return ""
    more = f" and {len(odd) - 1 - MOST_BESIDE} more" if len(odd) - 1 > MOST_BESIDE else ""
    return "".join(f"; also {fact.format_sentence()}" for fact in odd[1 : 1 + MOST_BESIDE]) + more


def _render_cause(assessment: Assessment, row: Hypothesis) -> str:
    location = ", ".join(row.devices[:4]) or (fold_host_names(row.hosts) if row.hosts else "not a host fault")
    return f"{assessment.reference.taxonomy.get_title(row.label)} ({location})"
