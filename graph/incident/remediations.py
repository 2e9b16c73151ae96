"""Remediations within a turn: a diagnosis builds them, an action result advances one, a takeover ends them.

Only the evidence store is touched; the reconciler proposes and runs steps between turns.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from graph.context import GraphContext
from graph.engine.assessment import Assessment, assess_facts
from graph.engine.stale_facts import find_repair_cursors, mark_stale_after_repairs
from graph.incident.context import IncidentContext, build_reference_data, merge_facts
from graph.incident.handoff_tickets import build_handoff_ticket
from graph.incident.lifecycle import TurnEvent, get_next_lifecycle, get_remediation_event, is_all_cured
from graph.incident.turn_result import TurnResult
from graph.remediation.build import PlanContext, build_remediations, find_remediation_hosts, list_manual_work
from graph.remediation.cause_ownership import (
    CauseLocation,
    find_owned_elsewhere,
    list_causes_owned_elsewhere,
    map_cause_locations,
    map_remediation_locations,
)
from graph.remediation.drained_nodes import is_returning, list_returnable_nodes, render_drained_nodes
from graph.remediation.fault_condition import build_fault_condition, is_contradicted
from graph.remediation.outcomes import (
    describe_remediation,
    end_remediation,
    release_finished_nodes,
    stop_remediations,
    withdraw_disbelieved,
    withdraw_owned_elsewhere,
)
from graph.remediation.proposals import build_check_remediations, list_planned_actions
from graph.remediation.state_machine import RemediationEvent, advance
from graph.report import CauseOwnedElsewhere, Report
from graph.state import HandoffTicket, Hypothesis, InboxItem, InboxItemKind, Lifecycle, Remediation
from tools.action import FaultCondition
from tools.fact import Fact

TAKEOVER_REASONS = {
    "hand_off": "handed to a human",
    "take": "taken by a human",
    "wait": "taken by a human",
    "close": "the incident was closed",
    "stop": "stopped on request",
}
# item kinds whose answers offer to return drained nodes; with a ticket its card does
RETURN_OFFERING_KINDS = frozenset({"stop", "status", "action_result"})
HANG_SYMPTOMS = frozenset({"hang", "nccl_timeout"})
MAX_STORED_REMEDIATIONS = 80  # remediations kept: whether the first of many passed decides about those that wait
QUIET_EVENT = "quiet"


async def add_remediations(result: TurnResult, context: IncidentContext, assessment: Assessment, graph_context: GraphContext) -> TurnResult:
    """Add the remediations of the turn, and drained nodes where the answer offers their return."""
    after = await _update_remediations(result, context, assessment, graph_context)
    remediations = context.remediations if after.ladders is None else after.ladders
    offered = list_returnable_nodes(remediations) if context.kind in RETURN_OFFERING_KINDS and after.report.reply else ()
    return after if after.report.held == offered else replace(after, report=after.report.model_copy(update={"held": offered}))


async def _update_remediations(
    result: TurnResult, context: IncidentContext, assessment: Assessment, graph_context: GraphContext
) -> TurnResult:
    if is_check_result(context.item):
        event = RemediationEvent.from_item_data(context.item.data)
        remediations = advance(context.remediations, event, build_plan_context(context, graph_context))
        return await _apply_diagnosis(result, remediations, context, assessment, graph_context)
    if context.kind == "action_result":
        return _apply_action_result(result, context, assessment, graph_context)
    if reason := _get_takeover_reason(context.kind, result.lifecycle):
        return _apply_takeover(result, stop_remediations(context.remediations, reason), graph_context) if context.remediations else result
    if context.kind == "timer" or result.hypotheses is None:
        return result
    return await _apply_diagnosis(result, context.remediations, context, assessment, graph_context)


def _get_takeover_reason(kind: InboxItemKind, lifecycle: Lifecycle | None) -> str:
    """Return why this turn ends all remediations, or an empty string."""
    if kind == "timer" and lifecycle == "closed":
        return "no message for days"
    if kind == "timer" and lifecycle == "handed_off":
        return TAKEOVER_REASONS["hand_off"]
    return TAKEOVER_REASONS.get(kind, "")


def is_renewed_request(context: IncidentContext) -> bool:
    """Return whether people want a new diagnosis: a recheck, or news after a stop; one for a released cause is not."""
    return context.looks_at_hosts and "why" not in context.item.data and (context.kind == "recheck" or context.is_stopped)


def is_check_result(item: InboxItem) -> bool:
    """Return whether an exclusive check has answered, which renews the diagnosis."""
    return item.kind == "action_result" and item.data.get("remedy") == "run_check" and item.data.get("event") == "done"


async def add_action_facts(context: IncidentContext, graph_context: GraphContext) -> IncidentContext:
    """Add the facts of the item's proof or check; mark facts from before the host was changed as stale."""
    if context.item.kind != "action_result":
        return context
    event = RemediationEvent.from_item_data(context.item.data)
    try:
        action_facts = await graph_context.evidence.get_facts(str(context.item.data.get("facts") or ""))
    except KeyError:
        action_facts = []
    since = find_repair_cursors(context.remediations)
    remediation = next(
        (remediation for remediation in context.remediations if event.approval and remediation.approval == event.approval), None
    )
    if remediation and remediation.current_step and remediation.current_step.part == "fix" and event.since:
        since[remediation.target] = event.since
    if not action_facts and not since:
        return context
    facts = mark_stale_after_repairs(merge_facts(context.facts, action_facts), since)
    return replace(context, facts=facts, snapshot=await graph_context.evidence.put_facts(context.id, facts))


def build_plan_context(context: IncidentContext, graph_context: GraphContext) -> PlanContext:
    return PlanContext(
        incident=context.id,
        now=graph_context.clock.now(),
        inventory=graph_context.inventory,
        taxonomy=graph_context.taxonomy,
        facts=context.facts,
        job=context.brief.job,
        stuck=bool(HANG_SYMPTOMS & set(context.brief.symptoms)),
        waits=graph_context.waits,
    )


async def _apply_diagnosis(
    result: TurnResult,
    known_remediations: Sequence[Remediation],
    context: IncidentContext,
    assessment: Assessment,
    graph_context: GraphContext,
) -> TurnResult:
    report, plan = result.report, build_plan_context(context, graph_context)
    believed = {(cause.label, host) for cause in report.root_causes for host in find_remediation_hosts(cause, plan)}
    undenied = _list_undenied_causes(known_remediations, report, context, assessment, graph_context)
    kept_remediations = withdraw_disbelieved(known_remediations, believed | undenied)
    wanted_causes = list_remediable_causes(report, context)
    elsewhere = await _find_owned_elsewhere(report, wanted_causes, kept_remediations, context, graph_context, assessment)
    kept_remediations = withdraw_owned_elsewhere(kept_remediations, elsewhere)
    is_renewed = is_renewed_request(context)
    built = build_remediations(wanted_causes, plan, kept_remediations, anew=is_renewed, elsewhere=elsewhere)
    check_remediations = build_check_remediations(assessment, plan, kept_remediations) if report.outcome == "abstained" else []
    ladders = release_finished_nodes(
        _refresh_fault_conditions([*kept_remediations, *built.ladders], believed, context, graph_context) + check_remediations, plan
    )
    aside = [cause for cause in report.root_causes if cause not in wanted_causes and cause.label in report.also_seen]
    known_there = await _find_known_elsewhere(aside, plan, graph_context)
    shared = (*list_causes_owned_elsewhere(wanted_causes, elsewhere), *list_causes_owned_elsewhere(aside, known_there, waits=False))
    report = _report_released_causes(_add_owned_elsewhere(report, shared), context, graph_context)
    if not ladders and not built.by_hand:
        return replace(result, report=report)
    by_hand = tuple(dict.fromkeys((*built.by_hand, *list_manual_work(kept_remediations, graph_context.taxonomy))))
    report = report.model_copy(update={"actions": tuple(list_planned_actions(ladders, plan)), "by_hand": by_hand})
    return replace(
        result,
        report=report,
        ladders=_drop_old_remediations(ladders),
        lifecycle=get_next_lifecycle(result.lifecycle or "open", get_remediation_event(ladders)),
    )


def list_remediable_causes(report: Report, context: IncidentContext) -> tuple[Hypothesis, ...]:
    """Return causes to remediate: none elsewhere for a mere host question, none that people denied."""
    only_asked = context.turn.question and not context.brief.job
    denied = context.correction.denied if context.correction else ()
    return tuple(
        cause for cause in report.root_causes if not (only_asked and cause.label in report.also_seen) and cause.label not in denied
    )


async def _find_owned_elsewhere(
    report: Report,
    wanted_causes: Sequence[Hypothesis],
    kept_remediations: Sequence[Remediation],
    context: IncidentContext,
    graph_context: GraphContext,
    assessment: Assessment,
) -> Mapping[CauseLocation, str]:
    """Claim the causes and return those that another incident owns. Ours, and those unobserved now, stay ours."""
    plan = build_plan_context(context, graph_context)
    locations = map_cause_locations(wanted_causes, plan)
    previous_causes = context.report.root_causes if context.report and report.outcome == "abstained" else ()
    rejected = {label for label, verdict in assessment.label_verdicts.items() if verdict.verdict == "rejected"}
    unseen = [cause for cause in previous_causes if cause.label not in rejected]
    own_locations = {
        **{spot: names for spot, names in map_cause_locations(unseen, plan).items() if not spot[1]},
        **map_remediation_locations(kept_remediations),
    }
    names = dict.fromkeys(name for location in (*locations.values(), *own_locations.values()) for name in location)
    return find_owned_elsewhere(locations, await graph_context.keep(context.id, tuple(names)))


async def _find_known_elsewhere(
    causes_aside: Sequence[Hypothesis], plan: PlanContext, graph_context: GraphContext
) -> Mapping[CauseLocation, str]:
    """Return who owns the causes outside this incident's question, without claiming any."""
    locations = map_cause_locations(causes_aside, plan)
    names = dict.fromkeys(name for location in locations.values() for name in location)
    return find_owned_elsewhere(locations, await graph_context.keepers(plan.incident, tuple(names))) if names else {}


def _add_owned_elsewhere(report: Report, owned_causes: tuple[CauseOwnedElsewhere, ...]) -> Report:
    """Add causes owned elsewhere; if those are all, there is no next step here."""
    if not owned_causes:
        return report
    all_theirs = {cause.label for cause in report.root_causes} == {cause.label for cause in owned_causes}
    return report.model_copy(update={"shared": owned_causes, "next_step": "" if all_theirs else report.next_step})


def _report_released_causes(report: Report, context: IncidentContext, graph_context: GraphContext) -> Report:
    """Report what became of causes that another incident released; nothing else of it is revealed."""
    previously_owned = context.report.shared if context.report and context.kind == "recheck" and "why" in context.item.data else ()
    still_owned = {owned_cause.label for owned_cause in report.shared}
    awaited = [owned_cause.label for owned_cause in previously_owned if owned_cause.waits]
    labels = [label for label in dict.fromkeys(awaited) if label not in still_owned]
    root_labels = {cause.label for cause in report.root_causes}
    unseen = "I could not see whether it is gone" if report.outcome == "abstained" else "it no longer shows here"
    note = "it still shows here, so it is decided here now"
    ends = [f"{graph_context.taxonomy.get_title(label)}: {note if label in root_labels else unseen}." for label in labels]
    if not ends:
        return report
    text = " ".join(["The other thread no longer works on it.", *ends])
    return report.model_copy(update={"reply": f"{text}\n{report.reply}"} if report.reply else {"changed": text})


def _list_undenied_causes(
    remediations: Sequence[Remediation], report: Report, context: IncidentContext, assessment: Assessment, graph_context: GraphContext
) -> set[tuple[str, str]]:
    """Return causes that nothing contradicts: unobserved, an earlier finding holds."""
    sure = report.outcome in ("diagnosed", "no_fault")
    return {
        (remediation.label, remediation.target)
        for remediation in remediations
        if remediation.is_open and not (_is_denied(remediation, context, assessment, graph_context) if remediation.fault else sure)
    }


def _is_denied(remediation: Remediation, context: IncidentContext, assessment: Assessment, graph_context: GraphContext) -> bool:
    """Return whether facts contradict a cause, across all hosts or on its own host."""
    verdict = assessment.label_verdicts.get(remediation.label)
    rejected = verdict is not None and verdict.verdict == "rejected"
    return rejected or is_contradicted(remediation, assess_host_alone(remediation.target, context, graph_context)[1])


def _refresh_fault_conditions(
    remediations: Sequence[Remediation], believed: Collection[tuple[str, str]], context: IncidentContext, graph_context: GraphContext
) -> list[Remediation]:
    return [
        remediation.model_copy(update={"fault": derive_fault_condition(remediation, context, graph_context)})
        if remediation.is_open and (remediation.label, remediation.target) in believed
        else remediation
        for remediation in remediations
    ]


def derive_fault_condition(remediation: Remediation, context: IncidentContext, graph_context: GraphContext) -> FaultCondition:
    """Return the fault that a remediation is for, from the facts."""
    facts, alone = assess_host_alone(remediation.target, context, graph_context)
    return build_fault_condition(remediation, alone, facts)


def assess_host_alone(host: str, context: IncidentContext, graph_context: GraphContext) -> tuple[list[Fact], Assessment]:
    """Assess a host alone, as later proofs will."""
    facts = [fact for fact in context.facts if fact.host == host]
    return facts, assess_facts(facts, build_reference_data(graph_context, context.facts), [host])


def _apply_action_result(result: TurnResult, context: IncidentContext, assessment: Assessment, graph_context: GraphContext) -> TurnResult:
    event = RemediationEvent.from_item_data(context.item.data)
    if event.kind == QUIET_EVENT:
        return _close_if_quiet(result, context)
    plan = build_plan_context(context, graph_context)
    remediations = advance(context.remediations, event, plan)
    if context.lifecycle == "closed":
        remediations = [
            remediation
            if is_returning(remediation) or not remediation.is_open
            else end_remediation(remediation, "stopped", "the incident is closed")
            for remediation in remediations
        ]
    changed = [remediation for remediation in remediations if remediation not in context.remediations]
    after = get_next_lifecycle(context.lifecycle, get_remediation_event(remediations))
    if not changed:
        return replace(result, lifecycle=context.lifecycle)
    descriptions = [describe_remediation(remediation, graph_context.taxonomy.get_title(remediation.label)) for remediation in changed]
    actions = tuple(list_planned_actions(remediations, plan))
    by_hand = () if after == "closed" else _list_remaining_manual_work(result.report, context, remediations, plan)
    report = result.report.model_copy(update={"reply": "\n".join(descriptions), "actions": actions, "by_hand": by_hand})
    ticket = (
        _add_remediation_lines(build_handoff_ticket(context, assessment, report), remediations, graph_context)
        if after == "handed_off"
        else result.ticket
    )
    return replace(result, report=report, ladders=_drop_old_remediations(remediations), lifecycle=after, ticket=ticket)


def _list_remaining_manual_work(
    report: Report, context: IncidentContext, remediations: Sequence[Remediation], plan: PlanContext
) -> tuple[str, ...]:
    """Return manual work after an action: by plan for its remediations, as before for other causes."""
    done_targets = {(remediation.label, remediation.target) for remediation in remediations} | {
        (owned_cause.label, host) for owned_cause in report.shared for host in owned_cause.hosts or ("",)
    }
    manual_steps = build_remediations(list_remediable_causes(report, context), plan, remediations, elsewhere=done_targets).by_hand
    return tuple(dict.fromkeys((*manual_steps, *list_manual_work(remediations, plan.taxonomy))))


def _apply_takeover(result: TurnResult, remediations: Sequence[Remediation], graph_context: GraphContext) -> TurnResult:
    """End remediations; a hand-off lists drained nodes."""
    drained_nodes = render_drained_nodes(remediations, graph_context.taxonomy)
    lines = _render_section("Held:", drained_nodes) if result.report.reply else []
    reply = "\n".join((result.report.reply, *lines))
    report = result.report.model_copy(update={"reply": reply, "actions": (), "by_hand": tuple(drained_nodes)})
    ticket = _append_summary_lines(result.ticket, _render_section("Held:", drained_nodes)) if result.ticket else None
    return replace(result, report=report, ladders=_drop_old_remediations(remediations), ticket=ticket)


def _add_remediation_lines(ticket: HandoffTicket, remediations: Sequence[Remediation], graph_context: GraphContext) -> HandoffTicket:
    fixes = [describe_remediation(remediation, graph_context.taxonomy.get_title(remediation.label)) for remediation in remediations]
    return _append_summary_lines(
        ticket, [*_render_section("Fixes:", fixes), *_render_section("Held:", render_drained_nodes(remediations, graph_context.taxonomy))]
    )


def _render_section(title: str, lines: Sequence[str]) -> list[str]:
    return [title, *(f"  {line}" for line in lines)] if lines else []


def _append_summary_lines(ticket: HandoffTicket, lines: Sequence[str]) -> HandoffTicket:
    return ticket.model_copy(update={"summary": "\n".join((ticket.summary, *lines))})


def _close_if_quiet(result: TurnResult, context: IncidentContext) -> TurnResult:
    after = get_next_lifecycle(context.lifecycle, TurnEvent.CURED_QUIET if is_all_cured(context.remediations) else None)
    over = after != context.lifecycle
    reply = "Closed automatically: the fix was proved twice, and nothing has happened since." if over else ""
    report = result.report.model_copy(update={"reply": reply})
    return replace(result, report=report, lifecycle=after)


def _drop_old_remediations(remediations: Sequence[Remediation]) -> list[Remediation]:
    """Keep open remediations, those with drained nodes, and the latest others."""
    ended_ids = [remediation.id for remediation in remediations if not remediation.is_open and not remediation.drained]
    dropped_ids = set(ended_ids[: max(0, len(remediations) - MAX_STORED_REMEDIATIONS)])
    return [remediation for remediation in remediations if remediation.id not in dropped_ids]
