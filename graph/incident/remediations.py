"""Remediations within a turn: a diagnosis builds them, an action result advances one, a takeover ends them.

Only the evidence store is touched; the reconciler proposes and runs steps between turns.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from graph.context import GraphContext
from graph.engine.assessment import Assessment, assess_facts
from graph.engine.fact_history import find_repair_cursors, mark_stale_after_repairs
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
from graph.state import HandoffTicket, Hypothesis, InboxItem, Remediation
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


async def add_remediations(result: TurnResult, context: IncidentContext, assessment: Assessment, ports: GraphContext) -> TurnResult:
    """Add the remediations of the turn, and drained nodes where the answer offers their return."""
    after = await _update_remediations(result, context, assessment, ports)
    remediations = context.remediations if after.ladders is None else after.ladders
    offered = list_returnable_nodes(remediations) if context.kind in RETURN_OFFERING_KINDS and after.report.reply else ()
    return after if after.report.held == offered else replace(after, report=after.report.model_copy(update={"held": offered}))


async def _update_remediations(result: TurnResult, context: IncidentContext, assessment: Assessment, ports: GraphContext) -> TurnResult:
    kind = context.kind
    if is_check_result(context.item):
        return await _apply_diagnosis(
            result,
            advance(context.remediations, RemediationEvent.from_item_data(context.item.data), build_plan_context(context, ports)),
            context,
            assessment,
            ports,
        )
    if kind == "action_result":
        return _apply_action_result(result, context, assessment, ports)
    if kind in TAKEOVER_REASONS:
        return (
            _apply_takeover(result, stop_remediations(context.remediations, TAKEOVER_REASONS[kind]), ports)
            if context.remediations
            else result
        )
    if kind == "timer" and result.lifecycle == "closed" and context.remediations:
        return _apply_takeover(result, stop_remediations(context.remediations, "no message for days"), ports)
    if kind == "timer" and result.lifecycle == "handed_off" and context.remediations:
        return _apply_takeover(result, stop_remediations(context.remediations, TAKEOVER_REASONS["hand_off"]), ports)
    if kind == "timer" or result.hypotheses is None:
        return result
    return await _apply_diagnosis(result, context.remediations, context, assessment, ports)


def is_renewed_request(context: IncidentContext) -> bool:
    """Return whether people want a new diagnosis: a recheck, or news after a stop; one for a released cause is not."""
    return context.looks_at_hosts and "why" not in context.item.data and (context.kind == "recheck" or context.is_stopped)


def is_check_result(item: InboxItem) -> bool:
    """Return whether an exclusive check has answered, which renews the diagnosis."""
    return item.kind == "action_result" and item.data.get("remedy") == "run_check" and item.data.get("event") == "done"


async def add_action_facts(context: IncidentContext, ports: GraphContext) -> IncidentContext:
    """Add the facts of the item's proof or check; mark facts from before the host was changed as stale."""
    if context.item.kind != "action_result":
        return context
    event = RemediationEvent.from_item_data(context.item.data)
    try:
        action_facts = await ports.evidence.get_facts(str(context.item.data.get("facts") or ""))
    except KeyError:
        action_facts = []
    since = find_repair_cursors(context.remediations)
    remediation = next((row for row in context.remediations if event.approval and row.approval == event.approval), None)
    if remediation and remediation.current_step and remediation.current_step.part == "fix" and event.since:
        since[remediation.target] = event.since
    if not action_facts and not since:
        return context
    facts = mark_stale_after_repairs(merge_facts(context.facts, action_facts), since)
    return replace(context, facts=facts, snapshot=await ports.evidence.put_facts(context.id, facts))


def build_plan_context(context: IncidentContext, ports: GraphContext) -> PlanContext:
    return PlanContext(
        incident=context.id,
        now=ports.clock.now(),
        inventory=ports.inventory,
        taxonomy=ports.taxonomy,
        facts=context.facts,
        job=context.brief.job,
        stuck=bool(HANG_SYMPTOMS & set(context.brief.symptoms)),
        waits=ports.waits,
    )


async def _apply_diagnosis(
    result: TurnResult, known: Sequence[Remediation], context: IncidentContext, assessment: Assessment, ports: GraphContext
) -> TurnResult:
    report, plan = result.report, build_plan_context(context, ports)
    believed = {(cause.label, host) for cause in report.root_causes for host in find_remediation_hosts(cause, plan)}
    kept_remediations, wanted_remediations = (
        withdraw_disbelieved(known, believed | _list_undenied_causes(known, report, context, assessment, ports)),
        list_remediable_causes(report, context),
    )
    elsewhere = await _find_owned_elsewhere(report, wanted_remediations, kept_remediations, context, ports, assessment)
    kept_remediations = withdraw_owned_elsewhere(kept_remediations, elsewhere)
    is_renewed = is_renewed_request(context)
    built = build_remediations(wanted_remediations, plan, kept_remediations, anew=is_renewed, elsewhere=elsewhere)
    check_remediations = build_check_remediations(assessment, plan, kept_remediations) if report.outcome == "abstained" else []
    ladders = release_finished_nodes(
        _refresh_fault_conditions([*kept_remediations, *built.ladders], believed, context, ports) + check_remediations, plan
    )
    aside = [row for row in report.root_causes if row not in wanted_remediations and row.label in report.also_seen]
    known_there = await _find_known_elsewhere(aside, plan, ports)
    shared = (*list_causes_owned_elsewhere(wanted_remediations, elsewhere), *list_causes_owned_elsewhere(aside, known_there, waits=False))
    report = _report_released_causes(_add_owned_elsewhere(report, shared), context, ports)
    if not ladders and not built.by_hand:
        return replace(result, report=report)
    by_hand = tuple(dict.fromkeys((*built.by_hand, *list_manual_work(kept_remediations, ports.taxonomy))))
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
    return tuple(row for row in report.root_causes if not (only_asked and row.label in report.also_seen) and row.label not in denied)


async def _find_owned_elsewhere(
    report: Report,
    wanted: Sequence[Hypothesis],
    kept: Sequence[Remediation],
    context: IncidentContext,
    ports: GraphContext,
    assessment: Assessment,
) -> Mapping[CauseLocation, str]:
    """Claim the causes and return those that another incident owns. Ours, and those unobserved now, stay ours."""
    plan = build_plan_context(context, ports)
    spots = map_cause_locations(wanted, plan)
    before = context.report.root_causes if context.report and report.outcome == "abstained" else ()
    unseen = [row for row in before if (verdict := assessment.label_verdicts.get(row.label)) is None or verdict.verdict != "rejected"]
    own_locations = {
        **{spot: names for spot, names in map_cause_locations(unseen, plan).items() if not spot[1]},
        **map_remediation_locations(kept),
    }
    names = dict.fromkeys(name for row in (*spots.values(), *own_locations.values()) for name in row)
    return find_owned_elsewhere(spots, await ports.keep(context.id, tuple(names)))


async def _find_known_elsewhere(aside: Sequence[Hypothesis], plan: PlanContext, ports: GraphContext) -> Mapping[CauseLocation, str]:
    """Return who owns the causes outside this incident's question, without claiming any."""
    spots = map_cause_locations(aside, plan)
    names = dict.fromkeys(name for row in spots.values() for name in row)
    return find_owned_elsewhere(spots, await ports.keepers(plan.incident, tuple(names))) if names else {}


def _add_owned_elsewhere(report: Report, shared: tuple[CauseOwnedElsewhere, ...]) -> Report:
    """Add causes owned elsewhere; if those are all, there is no next step here."""
    if not shared:
        return report
    all_theirs = {row.label for row in report.root_causes} == {row.label for row in shared}
    return report.model_copy(update={"shared": shared, "next_step": "" if all_theirs else report.next_step})


def _report_released_causes(report: Report, context: IncidentContext, ports: GraphContext) -> Report:
    """Report what became of causes that another incident released; nothing else of it is revealed."""
    was = context.report.shared if context.report and context.kind == "recheck" and "why" in context.item.data else ()
    labels = list(
        dict.fromkeys(row.label for row in was if row.waits and row.label not in {released_cause.label for released_cause in report.shared})
    )
    root_labels = {row.label for row in report.root_causes}
    unseen = "I could not see whether it is gone" if report.outcome == "abstained" else "it no longer shows here"
    note = "it still shows here, so it is decided here now"
    ends = [f"{ports.taxonomy.get_title(label)}: {note if label in root_labels else unseen}." for label in labels]
    if not ends:
        return report
    text = " ".join(["The other thread no longer works on it.", *ends])
    return report.model_copy(update={"reply": f"{text}\n{report.reply}"} if report.reply else {"changed": text})


def _list_undenied_causes(
    remediations: Sequence[Remediation], report: Report, context: IncidentContext, assessment: Assessment, ports: GraphContext
) -> set[tuple[str, str]]:
    """Return causes that nothing contradicts: unobserved, an earlier finding holds."""
    sure = report.outcome in ("diagnosed", "no_fault")
    return {
        (row.label, row.target)
        for row in remediations
        if row.is_open and not (_is_denied(row, context, assessment, ports) if row.fault else sure)
    }


def _is_denied(remediation: Remediation, context: IncidentContext, assessment: Assessment, ports: GraphContext) -> bool:
    """Return whether facts contradict a cause, across all hosts or on its own host."""
    verdict = assessment.label_verdicts.get(remediation.label)
    rejected = verdict is not None and verdict.verdict == "rejected"
    return rejected or is_contradicted(remediation, assess_host_alone(remediation.target, context, ports)[1])


def _refresh_fault_conditions(
    remediations: Sequence[Remediation], believed: Collection[tuple[str, str]], context: IncidentContext, ports: GraphContext
) -> list[Remediation]:
    return [
        row.model_copy(update={"fault": derive_fault_condition(row, context, ports)})
        if row.is_open and (row.label, row.target) in believed
        else row
        for row in remediations
    ]


def derive_fault_condition(remediation: Remediation, context: IncidentContext, ports: GraphContext) -> FaultCondition:
    """Return the fault that a remediation is for, from the facts."""
    facts, alone = assess_host_alone(remediation.target, context, ports)
    return build_fault_condition(remediation, alone, facts)


def assess_host_alone(host: str, context: IncidentContext, ports: GraphContext) -> tuple[list[Fact], Assessment]:
    """Assess a host alone, as later proofs will."""
    facts = [fact for fact in context.facts if fact.host == host]
    return facts, assess_facts(facts, build_reference_data(ports, context.facts), [host])


def _apply_action_result(result: TurnResult, context: IncidentContext, assessment: Assessment, ports: GraphContext) -> TurnResult:
    event = RemediationEvent.from_item_data(context.item.data)
    if event.kind == QUIET_EVENT:
        return _close_if_quiet(result, context)
    plan = build_plan_context(context, ports)
    remediations = advance(context.remediations, event, plan)
    if context.lifecycle == "closed":
        remediations = [
            row if is_returning(row) or not row.is_open else end_remediation(row, "stopped", "the incident is closed")
            for row in remediations
        ]
    changed = [row for row in remediations if row not in context.remediations]
    after = get_next_lifecycle(context.lifecycle, get_remediation_event(remediations))
    if not changed:
        return replace(result, lifecycle=context.lifecycle)
    descriptions = [describe_remediation(row, ports.taxonomy.get_title(row.label)) for row in changed]
    actions = tuple(list_planned_actions(remediations, plan))
    by_hand = () if after == "closed" else _list_remaining_manual_work(result.report, context, remediations, plan)
    report = result.report.model_copy(update={"reply": "\n".join(descriptions), "actions": actions, "by_hand": by_hand})
    ticket = (
        _add_remediation_lines(build_handoff_ticket(context, assessment, report), remediations, ports)
        if after == "handed_off"
        else result.ticket
    )
    return replace(result, report=report, ladders=_drop_old_remediations(remediations), lifecycle=after, ticket=ticket)


def _list_remaining_manual_work(
    report: Report, context: IncidentContext, remediations: Sequence[Remediation], plan: PlanContext
) -> tuple[str, ...]:
    """Return manual work after an action: by plan for its remediations, as before for other causes."""
    done_targets = {(row.label, row.target) for row in remediations} | {
        (row.label, host) for row in report.shared for host in row.hosts or ("",)
    }
    manual_steps = build_remediations(list_remediable_causes(report, context), plan, remediations, elsewhere=done_targets).by_hand
    return tuple(dict.fromkeys((*manual_steps, *list_manual_work(remediations, plan.taxonomy))))


def _apply_takeover(result: TurnResult, remediations: Sequence[Remediation], ports: GraphContext) -> TurnResult:
    """End remediations; a hand-off lists drained nodes."""
    drained_nodes = render_drained_nodes(remediations, ports.taxonomy)
    lines = _render_section("Held:", drained_nodes) if result.report.reply else []
    reply = "\n".join((result.report.reply, *lines))
    report = result.report.model_copy(update={"reply": reply, "actions": (), "by_hand": tuple(drained_nodes)})
    ticket = _append_summary_lines(result.ticket, _render_section("Held:", drained_nodes)) if result.ticket else None
    return replace(result, report=report, ladders=_drop_old_remediations(remediations), ticket=ticket)


def _add_remediation_lines(ticket: HandoffTicket, remediations: Sequence[Remediation], ports: GraphContext) -> HandoffTicket:
    fixes = [describe_remediation(row, ports.taxonomy.get_title(row.label)) for row in remediations]
    return _append_summary_lines(
        ticket, [*_render_section("Fixes:", fixes), *_render_section("Held:", render_drained_nodes(remediations, ports.taxonomy))]
    )


def _render_section(title: str, rows: Sequence[str]) -> list[str]:
    return [title, *(f"  {row}" for row in rows)] if rows else []


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
    over = [row.id for row in remediations if not row.is_open and not row.drained]
    dropped_ids = set(over[: max(0, len(remediations) - MAX_STORED_REMEDIATIONS)])
    return [row for row in remediations if row.id not in dropped_ids]
