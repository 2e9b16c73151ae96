"""Answer requests for a test, a remedy or its undo with an approval card or the reason for a refusal.

A remedy is proposed only for a cause that it fixes. Nothing runs before an approval.
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
ONLY_SHOWN_FAULTS_TEXT = "I propose a fix only for a fault that a check has shown."
# beginnings of refusals
NO_CARD_PREFIX = "No card posted"
NOTHING_TO_UNDO_PREFIX = "There is nothing to undo"
# Asked if a request may name the hosts to spare: “drain everything, leave gpu-003”.
WHICH_HOSTS_QUESTION = "Which hosts do you mean?"
_MAX_SEARCHED_CHARS = 400  # characters of a request that are searched for words that mean other hosts
_OTHER_HOSTS_PATTERN = re.compile(
    r"\b(?:(?:all|every|each|any)\b(?!(?: of)?(?: the| its| \d{1,2})? (?:gpus?|cards?|devices?|jobs?|process\w*|ranks?)\b)"
    r"|everything|anything|everyone|others?|rest|remaining|instead of|rather than|without|minus|leave|keep|spare|unless"
    r"|(?:don['’]?t|do not|never|not) (?:drain|reboot|reset|restart|touch|cycle|power|cancel|kill|run|test|return|undo|resume)\w*)\b",
    re.IGNORECASE,
)
_REMEDY_NAMES = {
    "drain_node": "a drain",
    "reboot": "a reboot",
    "gpu_reset": "a GPU reset",
    "cancel_job": "cancelling the job",
    "power_cycle": "a power cycle",
}
# outcomes after which a remediation may be proposed again
REOPENABLE_OUTCOMES = frozenset({"undecided", "denied", "stopped", "withdrawn"})


def propose_remediations(context: AnswerContext, lines: Sequence[str], remediations: Sequence[Remediation]) -> TurnResult:
    """Answer and store the changed remediations. The reconciler posts their cards."""
    incident, plan = context.incident, build_plan_context(context.incident, context.graph_context)
    answer = build_answer(context, lines)
    report = answer.report.model_copy(update={"actions": tuple(list_planned_actions(remediations, plan))})
    return replace(
        answer,
        report=report,
        ladders=list(remediations),
        lifecycle=get_next_lifecycle(incident.lifecycle, get_remediation_event(remediations)),
    )


async def request_check(context: AnswerContext) -> TurnResult:
    """Propose an exclusive check on the hosts named."""
    checks, target_hosts = context.assessment.reference.checks, resolve_target_hosts(context)
    if questions := ask_which_hosts(context):
        return build_answer(context, questions)
    hosts = target_hosts.hosts[:MAX_TEST_HOSTS] if target_hosts.named else ()  # never guess whose GPUs a test takes
    check = checks.get(context.message.check)
    refusal = ""
    if check is None:
        test_names = ", ".join(check.id for check in checks.values() if check.exclusive)
        refusal = f"Which test? I know {test_names}. For example “run nccl1 on {hosts[0] if hosts else 'gpu-002'}”."
    elif not check.exclusive:
        host_names = fold_host_names(hosts or target_hosts.hosts)
        refusal = f"{get_check_name(check.id)} disturbs no job, so it needs no card: say `recheck {host_names}` and it is read now."
    elif not hosts:
        refusal = f"On which hosts? For example “run {check.id} on gpu-[001-002]”."
    elif check.scope != "host" and len(hosts) < 2:
        refusal = f"{check.id} measures between hosts, so it needs at least two."
    if check is None or refusal:
        return build_answer(context, [*render_unknown_names(context), refusal])
    if _is_check_pending(context, check.id, hosts):
        return build_answer(context, [f"{check.id} on {fold_host_names(hosts)} is already waiting for approval; its card is above."])
    remediation = build_requested_check(
        check, hosts, context.assessment, build_plan_context(context.incident, context.graph_context), context.incident.remediations
    )
    remediation = remediation.model_copy(update={"asked_by": _get_requester(context)})
    lines = [
        f"Waiting for approval: {check.id} on {fold_host_names(hosts)}. {check.asks}",
        f"It takes about {check.seconds:.0f} s and whole GPUs; it {ON_APPROVE_TEXT}",
    ]
    return propose_remediations(context, [*render_unknown_names(context), *lines], [*context.incident.remediations, remediation])


async def request_remedy(context: AnswerContext) -> TurnResult:
    """Propose a remedy for a cause that was found, or say why not."""
    remedy = REMEDIES.get(context.message.remedy)
    if remedy is None:
        return build_answer(
            context, ["Which fix do you mean? I can propose only what something found asks for; say “what should I do now?”."]
        )
    if remedy.at == "fleet":
        return await request_check(context)
    if remedy.id == "resume_node":
        return await request_undo(context)
    if questions := ask_which_hosts(context):
        return build_answer(context, questions)
    hosts = resolve_target_hosts(context).hosts
    if not hosts:
        return build_answer(
            context,
            [*render_unknown_names(context), f"On which host? Nothing was found yet that {format_remedy_name(remedy.id)} would fix."],
        )
    return _request_for_hosts(context, remedy.id, hosts)


def _request_for_hosts(context: AnswerContext, remedy: str, hosts: Sequence[str]) -> TurnResult:
    """Propose the remedy for each host with a cause, and refuse it for the others."""
    remediations, lines = list(context.incident.remediations), render_unknown_names(context)
    affected_hosts = {host for cause in context.root_causes for host in cause.hosts}
    affected_hosts |= {remediation.target for remediation in remediations}
    healthy_hosts = [host for host in hosts if host not in affected_hosts and not build_host_knowledge(context, host).is_unobserved]
    if healthy_hosts:
        lines.append(_render_refusal(context, remedy, fold_host_names(healthy_hosts), ()))
    for host in [host for host in hosts if host not in healthy_hosts][:MAX_REQUESTED_HOSTS]:
        remediations, line = _request_for_host(context, remedy, host, remediations)
        lines.append(line)
    if remediations == context.incident.remediations:
        return build_answer(context, lines)
    return propose_remediations(context, lines, remediations)


def ask_which_hosts(context: AnswerContext) -> list[str]:
    """Return a question if the hosts named may be those to spare."""
    hosts = context.message.hosts
    if not hosts or not _OTHER_HOSTS_PATTERN.search(context.message.text[:_MAX_SEARCHED_CHARS]):
        return []
    host_names = fold_host_names(hosts)
    explanation = f"You name {host_names} and speak of others, too."
    return [f"{WHICH_HOSTS_QUESTION} {explanation} Say it again with only the hosts to change, as one list of names."]


def _is_check_pending(context: AnswerContext, check_id: str, hosts: Sequence[str]) -> bool:
    target = ",".join(sorted(hosts))
    pending_steps = [
        remediation.current_step for remediation in context.incident.remediations if remediation.is_open and remediation.target == target
    ]
    return any(step is not None and step.args.get("check") == check_id for step in pending_steps)


def _get_requester(context: AnswerContext) -> str:
    """Return the requester's ledger id; empty outside Slack, where approval is impossible."""
    team = context.incident.origin.team if context.incident.origin else ""
    user = context.incident.item.user
    return f"{team}:{user}" if team and user else ""


def _request_again(
    context: AnswerContext, remediation: Remediation, remediations: Sequence[Remediation], event: RemediationEvent
) -> list[Remediation]:
    """Apply the event, and record the requester in the remediation."""
    advanced = advance(remediations, event, build_plan_context(context.incident, context.graph_context))
    requester = {"asked_by": _get_requester(context)}
    return [other.model_copy(update=requester) if other.id == remediation.id else other for other in advanced]


def format_remedy_name(remedy: str) -> str:
    return _REMEDY_NAMES.get(remedy, f"“{remedy.replace('_', ' ')}”")


def _request_for_host(context: AnswerContext, remedy: str, host: str, remediations: list[Remediation]) -> tuple[list[Remediation], str]:
    """Return the remediations with one that carries out the remedy on the host, and a line about it.

    The remediations are unchanged if the remedy is pending already or is refused.
    """
    plan = build_plan_context(context.incident, context.graph_context)
    host_remediations = [
        remediation
        for remediation in remediations
        if remediation.target == host and any(step.remedy == remedy for step in remediation.rungs)
    ]
    for remediation in host_remediations:
        if remediation.is_open:
            return remediations, _render_open_step(context, remedy, remediation)
    for remediation in host_remediations:
        step = remediation.current_step
        if remediation.outcome in REOPENABLE_OUTCOMES and step and step.remedy == remedy:
            renewed = _request_again(context, remediation, remediations, RemediationEvent("again", ladder=remediation.id))
            return renewed, f"Proposed again: {render_step_summary(remediation)}. It {ON_APPROVE_TEXT}"
    knowledge = build_host_knowledge(context, host)
    if knowledge.is_unobserved:
        refusal = f"{NO_CARD_PREFIX} for {format_remedy_name(remedy)}: {ONLY_SHOWN_FAULTS_TEXT} {render_not_checked(context, knowledge)}"
        return remediations, f"{refusal} {_render_alternative(remedy, host, plan)}"
    causes = [cause for cause in context.root_causes if host in cause.hosts]
    fixable_causes = [cause for cause in causes if remedy in _list_remedies(context, cause.label)]
    if not fixable_causes:
        return remediations, _render_refusal(context, remedy, host, causes)
    return _start_remediation(context, remedy, host, fixable_causes[0], remediations, plan)


def _render_alternative(remedy: str, host: str, plan: PlanContext) -> str:
    """Say what people can do about a host that no check could observe."""
    inventory_host = plan.inventory.hosts.get(host)
    controller = inventory_host.controller if inventory_host else ""
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
    """Start a remediation of a cause that has none, or whose last one people ended."""
    devices = tuple(device for device in cause.devices if device.partition("/")[0] == host)
    host_cause = cause.model_copy(update={"hosts": (host,), "devices": devices})
    built = build_remediations([host_cause], plan, remediations, anew=True)
    if not built.ladders:
        instructions = " ".join(built.by_hand)
        if not instructions:
            earlier = [other for other in remediations if other.target == host and other.label == cause.label]
            instructions = "; ".join(remediation.says for remediation in earlier if remediation.says)
        return remediations, f"{host}: no card: a person must do this. {instructions}".strip()
    remediation = built.ladders[0]
    remediation = remediation.model_copy(
        update={
            "fault": derive_fault_condition(remediation, context.incident, context.graph_context),
            "asked_by": _get_requester(context),
        }
    )
    state = "Waiting for approval" if remediation.waiting_for == "approval" else "Planned"
    line = f"{state}: {render_step_summary(remediation)}, for {context.get_title(cause.label)}{render_citation(cause)}."
    if not remediation.current_step or remediation.current_step.remedy != remedy:
        line += f" {format_remedy_name(remedy).capitalize()} follows if it is needed."
    return [*remediations, remediation], f"{line} It {ON_APPROVE_TEXT}"


def _list_remedies(context: AnswerContext, label: str) -> set[str]:
    leaf = context.assessment.reference.taxonomy.leaves.get(label)
    return {step.name for plan in leaf.remedies for step in parse_plan(plan)} if leaf else set()


def _render_open_step(context: AnswerContext, remedy: str, remediation: Remediation) -> str:
    if remediation.current_step and remediation.current_step.remedy == remedy and remediation.waiting_for == "approval":
        return f"{render_step_summary(remediation)}: already waiting for approval; press Approve on its card."
    step_index = next((index for index, step in enumerate(remediation.rungs) if step.remedy == remedy), 0)
    timing = "was done before" if step_index < remediation.rung else "comes later, if it is still needed"
    status = describe_remediation(remediation, context.get_title(remediation.label))
    return f"{remediation.target}: {format_remedy_name(remedy)} {timing}. Now: {status}."


def _render_refusal(context: AnswerContext, remedy: str, host_range: str, causes: Sequence[Hypothesis]) -> str:
    """Say why no card was posted for hosts: their cause needs another remedy, or no cause was found."""
    remedy_name = format_remedy_name(remedy)
    if causes:
        cause = causes[0]
        next_step = context.assessment.reference.taxonomy.get_leaf(cause.label).next_step
        cause_text = f"{context.get_title(cause.label)} on {host_range}{render_citation(cause)}"
        return f"{NO_CARD_PREFIX}: {cause_text} is not fixed by {remedy_name}. {next_step}"
    hosts = expand_host_range(host_range)
    host_knowledge = [build_host_knowledge(context, host) for host in hosts]
    findings = list(dict.fromkeys(finding for knowledge in host_knowledge for finding in (*knowledge.unproven, *knowledge.unlocated)))
    if findings:
        refusal = f"{NO_CARD_PREFIX} for {remedy_name}: {ONLY_SHOWN_FAULTS_TEXT}"
        findings_text = f"Seen on {host_range} without one: {format_unproven(findings)}."
        alternative = _render_alternative(remedy, hosts[0], build_plan_context(context.incident, context.graph_context))
        return f"{refusal} {findings_text} {alternative} Say `recheck {host_range}` and I look again."
    refusal = f"{NO_CARD_PREFIX}: nothing was found on {host_range} that {remedy_name} would fix"
    coverage = render_coverage(context, host_knowledge[0])
    return f"{refusal} ({coverage}). Tell me what you see there, or say `recheck {host_range}`."


async def request_undo(context: AnswerContext) -> TurnResult:
    """Propose the return of drained nodes. For other remedies, say how people undo them."""
    if questions := ask_which_hosts(context):
        return build_answer(context, questions)
    hosts, incident = resolve_target_hosts(context), context.incident
    matching_remediations = [remediation for remediation in incident.remediations if not hosts.named or remediation.target in hosts.hosts]
    drained_remediations = [remediation for remediation in matching_remediations if remediation.drained]
    remediations, lines = list(incident.remediations), render_unknown_names(context)
    for remediation in drained_remediations[:4]:
        remediations, line = _request_return(context, remediation, remediations)
        lines.append(line)
    if not drained_remediations:
        started_remediations = [remediation for remediation in matching_remediations if remediation.since or remediation.proven]
        instructions = _render_undo_instructions(started_remediations)
        lines += instructions or [_render_nothing_to_undo(context, hosts.hosts if hosts.named else ())]
    if remediations == incident.remediations:
        return build_answer(context, lines)
    return propose_remediations(context, lines, remediations)


def _render_nothing_to_undo(context: AnswerContext, hosts: Sequence[str]) -> str:
    waiting = [
        remediation for remediation in context.incident.remediations if remediation.is_open and remediation.waiting_for == "approval"
    ]
    waiting_note = f" {render_step_summary(waiting[0])} is only waiting for approval: reject its card." if waiting else ""
    location = f" on {fold_host_names(hosts)}" if hosts else ""
    return f"{NOTHING_TO_UNDO_PREFIX}{location}: RackMedic has changed nothing there.{waiting_note}"


def _request_return(context: AnswerContext, remediation: Remediation, remediations: list[Remediation]) -> tuple[list[Remediation], str]:
    """Request a drained node's return to service. The node is checked once more before its card is posted."""
    if is_returning(remediation) and remediation.waiting_for == "approval":
        return remediations, f"The return of {remediation.target} to service is already waiting for approval; press Approve on its card."
    if blocker := get_return_blocker(remediation, remediations):
        return remediations, f"{remediation.target} is not returned: {blocker}."
    if list_unresolved_on_host(remediation, remediations):
        return (
            remediations,
            f"{remediation.target} had more than one fix: press “Ask again to return” where it is listed as held, and I check every fault first.",
        )
    renewed = _request_again(context, remediation, remediations, RemediationEvent(RETURN_EVENT, ladder=remediation.id))
    return renewed, f"I check {remediation.target} again; if its fault is gone, I propose its return for approval."


def _render_undo_instructions(remediations: Sequence[Remediation]) -> list[str]:
    lines: list[str] = []
    for remediation in remediations[:3]:
        fixes = [step for step in remediation.rungs[: remediation.rung + 1] if step.part == "fix"]
        if fixes:
            remedy = fixes[-1].remedy
            undo = REMEDIES[remedy].back or "nothing takes it back"
            lines.append(f"{remediation.target}, {remedy.replace('_', ' ')}: {undo}.")
    return lines
