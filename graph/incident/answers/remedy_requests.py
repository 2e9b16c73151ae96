"""Requests for a test, a remedy or its undo: an approval card, or the reason for a refusal.

A remedy needs a cause that asks for it, and nothing runs before approval.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from graph.incident.answers.answer_context import (
    AnswerContext,
    build_answer,
    build_host_knowledge,
    get_check_name,
    render_citation,
    render_coverage,
    render_unknown_names,
    resolve_target_hosts,
)
from graph.incident.answers.hosts import render_not_checked
from graph.incident.answers.people import render_step_summary
from graph.incident.answers.unproven import format_unproven
from graph.incident.lifecycle import get_next_lifecycle, get_remediation_event
from graph.incident.remediations import build_plan_context, derive_fault_condition
from graph.incident.turn_result import TurnResult
from graph.remediation.build import PlanContext, build_remediations
from graph.remediation.drained_nodes import get_return_blocker, is_returning, list_unresolved_on_host
from graph.remediation.outcomes import describe_remediation
from graph.remediation.plan_steps import parse_plan
from graph.remediation.proposals import MAX_TEST_HOSTS, build_requested_check, list_planned_actions
from graph.remediation.state_machine import RETURN_EVENT, RemediationEvent, advance
from graph.state import Hypothesis, Remediation
from tools.inventory.host_ranges import expand_host_range, fold_host_names
from tools.remedies import REMEDIES

MAX_REQUESTED_HOSTS = 8
ON_APPROVE_TEXT = "starts only after an approver presses Approve."
# beginnings of refusals
NO_CARD_PREFIX = "No card posted"
NOTHING_TO_UNDO_PREFIX = "There is nothing to undo"
# asked if a request names hosts and others too: “drain everything, leave gpu-003”
WHICH_HOSTS_QUESTION = "Which hosts do you mean?"
_MAX_REQUEST_CHARS = 400  # characters searched for words that mean other hosts
_OTHER_HOSTS_PATTERN = re.compile(
    r"\b(?:(?:all|every|each|any)\b(?!(?: of)?(?: the| its| \d{1,2})? (?:gpus?|cards?|devices?|jobs?|process\w*|ranks?)\b)"
    r"|everything|anything|everyone|others?|rest|remaining|instead of|rather than|without|minus|leave|keep|spare|unless"
    r"|(?:don['’]?t|do not|never|not) (?:drain|reboot|reset|restart|touch|cycle|power|cancel|kill|run|test|return|undo|resume)\w*)\b",
    re.IGNORECASE,
)
# outcomes after which a remediation may be proposed again
REOPENABLE_OUTCOMES = frozenset({"undecided", "denied", "stopped", "withdrawn"})


def propose_remediations(context: AnswerContext, lines: Sequence[str], remediations: Sequence[Remediation]) -> TurnResult:
    """Answer with changed remediations; the reconciler posts their cards."""
    case, plan = context.case, build_plan_context(context.case, context.ports)
    answer = build_answer(context, lines)
    report = answer.report.model_copy(update={"actions": tuple(list_planned_actions(remediations, plan))})
    return replace(
        answer, report=report, ladders=list(remediations), lifecycle=get_next_lifecycle(case.lifecycle, get_remediation_event(remediations))
    )


async def request_check(context: AnswerContext) -> TurnResult:
    """Propose an exclusive check on the hosts named."""
    checks, target_hosts = context.now.reference.checks, resolve_target_hosts(context)
    if unclear := ask_which_hosts(context):
        return build_answer(context, unclear)
    hosts = target_hosts.hosts[:MAX_TEST_HOSTS] if target_hosts.named else ()  # never guess whose GPUs a test takes
    row = checks.get(context.message.check)
    able = ", ".join(check.id for check in checks.values() if check.exclusive)
    if row is None:
        return build_answer(
            context,
            [*render_unknown_names(context), f"Which test? I know {able}. For example “run nccl1 on {next(iter(hosts), 'gpu-002')}”."],
        )
    if not row.exclusive:
        free = f"{get_check_name(row.id)} disturbs no job, so it needs no card: say `recheck {fold_host_names(hosts or target_hosts.hosts)}` and it is read now."
        return build_answer(context, [*render_unknown_names(context), free])
    if not hosts:
        return build_answer(context, [*render_unknown_names(context), f"On which hosts? For example “run {row.id} on gpu-[001-002]”."])
    if row.scope != "host" and len(hosts) < 2:
        return build_answer(context, [*render_unknown_names(context), f"{row.id} measures between hosts, so it needs at least two."])
    target = ",".join(sorted(hosts))
    if any(
        one.is_open and one.target == target and one.current_step and one.current_step.args.get("check") == row.id
        for one in context.case.remediations
    ):
        return build_answer(context, [f"{row.id} on {fold_host_names(hosts)} is already waiting for approval; its card is above."])
    remediation = build_requested_check(row, hosts, context.now, build_plan_context(context.case, context.ports), context.case.remediations)
    remediation = remediation.model_copy(update={"asked_by": _get_requester(context)})
    lines = [
        f"Waiting for approval: {row.id} on {fold_host_names(hosts)}. {row.asks}",
        f"It takes about {row.seconds:.0f} s and whole GPUs; it {ON_APPROVE_TEXT}",
    ]
    return propose_remediations(context, [*render_unknown_names(context), *lines], [*context.case.remediations, remediation])


async def request_remedy(context: AnswerContext) -> TurnResult:
    """Propose a remedy that a finding asks for, or say why not."""
    remedy = REMEDIES.get(context.message.remedy)
    if remedy is None or remedy.at == "fleet":
        return (
            await request_check(context)
            if remedy
            else build_answer(
                context, ["Which fix do you mean? I can propose only what something found asks for; say “what should I do now?”."]
            )
        )
    if remedy.id == "resume_node":
        return await request_undo(context)
    if unclear := ask_which_hosts(context):
        return build_answer(context, unclear)
    hosts = resolve_target_hosts(context).hosts
    if not hosts:
        return build_answer(
            context,
            [*render_unknown_names(context), f"On which host? Nothing was found yet that {format_remedy_name(remedy.id)} would fix."],
        )
    remediations, lines = list(context.case.remediations), render_unknown_names(context)
    well = [
        host
        for host in hosts
        if not [row for row in context.root_causes if host in row.hosts] and not build_host_knowledge(context, host).is_unobserved
    ]
    well = [host for host in well if not any(row.target == host for row in remediations)]
    lines += [_render_refusal(context, remedy.id, fold_host_names(well), ())] if well else []
    for host in [one for one in hosts if one not in well][:MAX_REQUESTED_HOSTS]:
        remediations, line = _request_for_host(context, remedy.id, host, remediations)
        lines.append(line)
    return propose_remediations(context, lines, remediations) if remediations != context.case.remediations else build_answer(context, lines)


def ask_which_hosts(context: AnswerContext) -> list[str]:
    """Return a question if the hosts named may be those to spare."""
    hosts = context.message.hosts
    if not hosts or not _OTHER_HOSTS_PATTERN.search(context.message.text[:_MAX_REQUEST_CHARS]):
        return []
    host_names = fold_host_names(hosts)
    return [
        f"{WHICH_HOSTS_QUESTION} You name {host_names} and speak of others, too. Say it again with only the hosts to change, as one list of names."
    ]


def _get_requester(context: AnswerContext) -> str:
    """Return the requester's ledger id; empty outside Slack, where approval is impossible."""
    team, user = context.case.origin.team if context.case.origin else "", context.case.item.user
    return f"{team}:{user}" if team and user else ""


def _request_again(
    context: AnswerContext, row: Remediation, remediations: Sequence[Remediation], event: RemediationEvent
) -> list[Remediation]:
    moved = advance(remediations, event, build_plan_context(context.case, context.ports))
    return [one.model_copy(update={"asked_by": _get_requester(context)}) if one.id == row.id else one for one in moved]


def format_remedy_name(remedy: str) -> str:
    words = {
        "drain_node": "a drain",
        "reboot": "a reboot",
        "gpu_reset": "a GPU reset",
        "cancel_job": "cancelling the job",
        "power_cycle": "a power cycle",
    }
    return words.get(remedy, f"“{remedy.replace('_', ' ')}”")


def _request_for_host(context: AnswerContext, remedy: str, host: str, remediations: list[Remediation]) -> tuple[list[Remediation], str]:
    own = [row for row in remediations if row.target == host and any(step.remedy == remedy for step in row.rungs)]
    plan = build_plan_context(context.case, context.ports)
    if row := next((one for one in own if one.is_open), None):
        return remediations, _render_open_step(context, remedy, row)
    if row := next(
        (one for one in own if one.outcome in REOPENABLE_OUTCOMES and one.current_step and one.current_step.remedy == remedy), None
    ):
        renewed = _request_again(context, row, remediations, RemediationEvent("again", ladder=row.id))
        return (
            renewed,
            f"Proposed again: {render_step_summary(row)}. It {ON_APPROVE_TEXT}",
        )
    host_knowledge = build_host_knowledge(context, host)
    if host_knowledge.is_unobserved:
        refusal = f"{NO_CARD_PREFIX} for {format_remedy_name(remedy)}: I propose a fix only for a fault that a check has shown. {render_not_checked(context, host_knowledge)}"
        return remediations, f"{refusal} {_render_alternative(remedy, host, plan)}"
    causes = [row for row in context.root_causes if host in row.hosts]
    fitting = [row for row in causes if remedy in _list_remedies(context, row.label)]
    if not fitting:
        return remediations, _render_refusal(context, remedy, host, causes)
    return _start_remediation(context, remedy, host, fitting[0], remediations, plan)


def _render_alternative(remedy: str, host: str, plan: PlanContext) -> str:
    row = plan.inventory.hosts.get(host)
    controller = row.controller if row else ""
    if remedy == "drain_node" and controller:
        command = f'`scontrol update NodeName={host} State=DRAIN Reason="does not answer"` on {controller}'
        return (
            f"To keep jobs off it until a person has checked it, drain it yourselves: {command}. Then return it yourselves, too; I do not."
        )
    if remedy == "drain_node":
        return "To keep jobs off it until a person has checked it, take it out of service in the scheduler."
    if remedy in ("reboot", "power_cycle"):
        return f"I can only use SSH: check it through its BMC, or go there. Once it answers, say `recheck {host}`."
    return f"Once it answers, say `recheck {host}`."


def _start_remediation(
    context: AnswerContext, remedy: str, host: str, cause: Hypothesis, remediations: list[Remediation], plan: PlanContext
) -> tuple[list[Remediation], str]:
    """Start a remediation for a cause without one, or whose last one people ended."""
    only = cause.model_copy(update={"hosts": (host,), "devices": tuple(name for name in cause.devices if name.partition("/")[0] == host)})
    built = build_remediations([only], plan, remediations, anew=True)
    if not built.ladders:
        refusal = " ".join(built.by_hand) or "; ".join(
            row.says for row in remediations if row.target == host and row.label == cause.label and row.says
        )
        return remediations, f"{host}: no card: a person must do this. {refusal}".strip()
    row = built.ladders[0].model_copy(
        update={"fault": derive_fault_condition(built.ladders[0], context.case, context.ports), "asked_by": _get_requester(context)}
    )
    follows = (
        ""
        if row.current_step and row.current_step.remedy == remedy
        else f" {format_remedy_name(remedy).capitalize()} follows if it is needed."
    )
    state = "Waiting for approval" if row.waiting_for == "approval" else "Planned"
    return (
        [*remediations, row],
        f"{state}: {render_step_summary(row)}, for {context.get_title(cause.label)}{render_citation(cause)}.{follows} It {ON_APPROVE_TEXT}",
    )


def _list_remedies(context: AnswerContext, label: str) -> set[str]:
    leaf = context.now.reference.taxonomy.leaves.get(label)
    return {step.name for plan in leaf.remedies for step in parse_plan(plan)} if leaf else set()


def _render_open_step(context: AnswerContext, remedy: str, row: Remediation) -> str:
    if row.current_step and row.current_step.remedy == remedy and row.waiting_for == "approval":
        return f"{render_step_summary(row)}: already waiting for approval; press Approve on its card."
    at = next((n for n, step in enumerate(row.rungs) if step.remedy == remedy), 0)
    when = "was done before" if at < row.rung else "comes later, if it is still needed"
    return f"{row.target}: {format_remedy_name(remedy)} {when}. Now: {describe_remediation(row, context.get_title(row.label))}."


def _render_refusal(context: AnswerContext, remedy: str, host: str, causes: Sequence[Hypothesis]) -> str:
    host_knowledge = [build_host_knowledge(context, one) for one in expand_host_range(host)] if not causes else []
    against = list(dict.fromkeys(line for row in host_knowledge for line in (*row.unproven, *row.unplaced)))
    if against:
        refusal = f"{NO_CARD_PREFIX} for {format_remedy_name(remedy)}: I propose a fix only for a fault that a check has shown."
        rest = f"Seen on {host} without one: {format_unproven(against)}."
        instead = _render_alternative(remedy, expand_host_range(host)[0], build_plan_context(context.case, context.ports))
        return f"{refusal} {rest} {instead} Say `recheck {host}` and I look again."
    if not causes:
        coverage = render_coverage(context, build_host_knowledge(context, expand_host_range(host)[0]))
        return f"{NO_CARD_PREFIX}: nothing was found on {host} that {format_remedy_name(remedy)} would fix ({coverage}). Tell me what you see there, or say `recheck {host}`."
    row = causes[0]
    step = context.now.reference.taxonomy.get_leaf(row.label).next_step
    return f"{NO_CARD_PREFIX}: {context.get_title(row.label)} on {host}{render_citation(row)} is not fixed by {format_remedy_name(remedy)}. {step}"


async def request_undo(context: AnswerContext) -> TurnResult:
    """Propose the return of drained nodes; for other remedies, say how people undo them."""
    if unclear := ask_which_hosts(context):
        return build_answer(context, unclear)
    hosts, case = resolve_target_hosts(context), context.case
    rows = [row for row in case.remediations if not hosts.named or row.target in hosts.hosts]
    drained_remediations = [row for row in rows if row.drained]
    remediations, lines = list(case.remediations), render_unknown_names(context)
    for row in drained_remediations[:4]:
        remediations, line = _request_return(context, row, remediations)
        lines.append(line)
    if not drained_remediations:
        lines += _render_undo_instructions([row for row in rows if row.since or row.proven]) or [
            _render_nothing_to_undo(context, hosts.hosts if hosts.named else ())
        ]
    return propose_remediations(context, lines, remediations) if remediations != case.remediations else build_answer(context, lines)


def _render_nothing_to_undo(context: AnswerContext, hosts: Sequence[str]) -> str:
    waiting = [row for row in context.case.remediations if row.is_open and row.waiting_for == "approval"]
    waiting_note = f" {render_step_summary(waiting[0])} is only waiting for approval: reject its card." if waiting else ""
    return f"{NOTHING_TO_UNDO_PREFIX}{f' on {fold_host_names(hosts)}' if hosts else ''}: RackMedic has changed nothing there.{waiting_note}"


def _request_return(context: AnswerContext, row: Remediation, remediations: list[Remediation]) -> tuple[list[Remediation], str]:
    """Request a drained node's return; it is checked once more before its card is posted."""
    if is_returning(row) and row.waiting_for == "approval":
        return remediations, f"The return of {row.target} to service is already waiting for approval; press Approve on its card."
    if blocker := get_return_blocker(row, remediations):
        return remediations, f"{row.target} is not returned: {blocker}."
    if list_unresolved_on_host(row, remediations):
        return (
            remediations,
            f"{row.target} had more than one fix: press “Ask again to return” where it is listed as held, and I check every fault first.",
        )
    renewed = _request_again(context, row, remediations, RemediationEvent(RETURN_EVENT, ladder=row.id))
    return renewed, f"I check {row.target} again; if its fault is gone, I propose its return for approval."


def _render_undo_instructions(rows: Sequence[Remediation]) -> list[str]:
    lines: list[str] = []
    for row in rows[:3]:
        fixes = [step for step in row.rungs[: row.rung + 1] if step.part == "fix"]
        for step in fixes[-1:]:
            back = REMEDIES[step.remedy].back or "nothing takes it back"
            lines.append(f"{row.target}, {step.remedy.replace('_', ' ')}: {back}.")
    return lines
