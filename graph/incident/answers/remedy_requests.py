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
from graph.incident.answers.host_states import render_not_checked
from graph.incident.answers.people import render_step_summary
from graph.incident.answers.unproven import told
from graph.incident.lifecycle import get_next_lifecycle, get_remediation_event
from graph.incident.remediations import build_plan_context, derive_fault_condition
from graph.incident.turn_result import TurnResult
from graph.remediation.build import PlanContext, build_remediations
from graph.remediation.drained_nodes import get_return_blocker, is_returning, list_unresolved_on_host
from graph.remediation.exclusive_checks import MAX_TEST_HOSTS, build_requested_check
from graph.remediation.outcomes import describe_remediation
from graph.remediation.plan_steps import parse_plan
from graph.remediation.preview import list_planned_actions
from graph.remediation.transitions import RETURN_EVENT, RemediationEvent, advance
from graph.state import Hypothesis, Remediation
from tools.inventory.host_ranges import expand_host_range, fold_host_names
from tools.remedies import REMEDIES

MAX_REQUESTED_HOSTS = 8
ON_APPROVE_TEXT = "starts only after an approver presses Approve."
NO_CARD_PREFIX, NOTHING_TO_UNDO_PREFIX = "No card posted", "There is nothing to undo"  # beginnings of refusals
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


def propose_remediations(asked: AnswerContext, lines: Sequence[str], ladders: Sequence[Remediation]) -> TurnResult:
    """Answer with changed remediations; the reconciler posts their cards."""
    case, yard = asked.case, build_plan_context(asked.case, asked.ports)
    told = build_answer(asked, lines)
    report = told.report.model_copy(update={"actions": tuple(list_planned_actions(ladders, yard))})
    return replace(told, report=report, ladders=list(ladders), lifecycle=get_next_lifecycle(case.lifecycle, get_remediation_event(ladders)))


async def request_check(asked: AnswerContext) -> TurnResult:
    """Propose an exclusive check on the hosts named."""
    checks, named = asked.now.lens.checks, resolve_target_hosts(asked)
    if unclear := ask_which_hosts(asked):
        return build_answer(asked, unclear)
    hosts = named.hosts[:MAX_TEST_HOSTS] if named.named else ()  # never guess whose GPUs a test takes
    row = checks.get(asked.message.check)
    able = ", ".join(check.id for check in checks.values() if check.exclusive)
    if row is None:
        return build_answer(
            asked, [*render_unknown_names(asked), f"Which test? I know {able}. For example “run nccl1 on {next(iter(hosts), 'gpu-002')}”."]
        )
    if not row.exclusive:
        free = f"{get_check_name(row.id)} disturbs no job, so it needs no card: say `recheck {fold_host_names(hosts or named.hosts)}` and it is read now."
        return build_answer(asked, [*render_unknown_names(asked), free])
    if not hosts:
        return build_answer(asked, [*render_unknown_names(asked), f"On which hosts? For example “run {row.id} on gpu-[001-002]”."])
    if row.scope != "host" and len(hosts) < 2:
        return build_answer(asked, [*render_unknown_names(asked), f"{row.id} measures between hosts, so it needs at least two."])
    target = ",".join(sorted(hosts))
    if any(
        one.is_open and one.target == target and one.current_step and one.current_step.args.get("check") == row.id
        for one in asked.case.remediations
    ):
        return build_answer(asked, [f"{row.id} on {fold_host_names(hosts)} is already waiting for approval; its card is above."])
    ladder = build_requested_check(row, hosts, asked.now, build_plan_context(asked.case, asked.ports), asked.case.remediations)
    ladder = ladder.model_copy(update={"asked_by": _get_requester(asked)})
    lines = [
        f"Waiting for approval: {row.id} on {fold_host_names(hosts)}. {row.asks}",
        f"It takes about {row.seconds:.0f} s and whole GPUs; it {ON_APPROVE_TEXT}",
    ]
    return propose_remediations(asked, [*render_unknown_names(asked), *lines], [*asked.case.remediations, ladder])


async def request_remedy(asked: AnswerContext) -> TurnResult:
    """Propose a remedy that a finding asks for, or say why not."""
    remedy = REMEDIES.get(asked.message.remedy)
    if remedy is None or remedy.at == "fleet":
        return (
            await request_check(asked)
            if remedy
            else build_answer(
                asked, ["Which fix do you mean? I can propose only what something found asks for; say “what should I do now?”."]
            )
        )
    if remedy.id == "resume_node":
        return await request_undo(asked)
    if unclear := ask_which_hosts(asked):
        return build_answer(asked, unclear)
    hosts = resolve_target_hosts(asked).hosts
    if not hosts:
        return build_answer(
            asked, [*render_unknown_names(asked), f"On which host? Nothing was found yet that {format_remedy_name(remedy.id)} would fix."]
        )
    ladders, lines = list(asked.case.remediations), render_unknown_names(asked)
    well = [
        host
        for host in hosts
        if not [row for row in asked.root_causes if host in row.hosts] and not build_host_knowledge(asked, host).is_unobserved
    ]
    well = [host for host in well if not any(row.target == host for row in ladders)]
    lines += [_render_refusal(asked, remedy.id, fold_host_names(well), ())] if well else []
    for host in [one for one in hosts if one not in well][:MAX_REQUESTED_HOSTS]:
        ladders, line = _request_for_host(asked, remedy.id, host, ladders)
        lines.append(line)
    return propose_remediations(asked, lines, ladders) if ladders != asked.case.remediations else build_answer(asked, lines)


def ask_which_hosts(asked: AnswerContext) -> list[str]:
    """Return a question if the hosts named may be those to spare."""
    hosts = asked.message.hosts
    if not hosts or not _OTHER_HOSTS_PATTERN.search(asked.message.text[:_MAX_REQUEST_CHARS]):
        return []
    named = fold_host_names(hosts)
    return [
        f"{WHICH_HOSTS_QUESTION} You name {named} and speak of others, too. Say it again with only the hosts to change, as one list of names."
    ]


def _get_requester(asked: AnswerContext) -> str:
    """Return the requester's ledger id; empty outside Slack, where approval is impossible."""
    team, user = asked.case.origin.team if asked.case.origin else "", asked.case.item.user
    return f"{team}:{user}" if team and user else ""


def _request_again(asked: AnswerContext, row: Remediation, ladders: Sequence[Remediation], news: RemediationEvent) -> list[Remediation]:
    moved = advance(ladders, news, build_plan_context(asked.case, asked.ports))
    return [one.model_copy(update={"asked_by": _get_requester(asked)}) if one.id == row.id else one for one in moved]


def format_remedy_name(remedy: str) -> str:
    words = {
        "drain_node": "a drain",
        "reboot": "a reboot",
        "gpu_reset": "a GPU reset",
        "cancel_job": "cancelling the job",
        "power_cycle": "a power cycle",
    }
    return words.get(remedy, f"“{remedy.replace('_', ' ')}”")


def _request_for_host(asked: AnswerContext, remedy: str, host: str, ladders: list[Remediation]) -> tuple[list[Remediation], str]:
    own = [row for row in ladders if row.target == host and any(rung.remedy == remedy for rung in row.rungs)]
    yard = build_plan_context(asked.case, asked.ports)
    if row := next((one for one in own if one.is_open), None):
        return ladders, _render_open_step(asked, remedy, row)
    if row := next(
        (one for one in own if one.outcome in REOPENABLE_OUTCOMES and one.current_step and one.current_step.remedy == remedy), None
    ):
        again = _request_again(asked, row, ladders, RemediationEvent("again", ladder=row.id))
        return (
            again,
            f"Proposed again: {render_step_summary(row)}. It {ON_APPROVE_TEXT}",
        )
    known = build_host_knowledge(asked, host)
    if known.is_unobserved:
        why = f"{NO_CARD_PREFIX} for {format_remedy_name(remedy)}: I propose a fix only for a fault that a check has shown. {render_not_checked(asked, known)}"
        return ladders, f"{why} {_render_alternative(remedy, host, yard)}"
    causes = [row for row in asked.root_causes if host in row.hosts]
    fitting = [row for row in causes if remedy in _list_remedies(asked, row.label)]
    if not fitting:
        return ladders, _render_refusal(asked, remedy, host, causes)
    return _start_remediation(asked, remedy, host, fitting[0], ladders, yard)


def _render_alternative(remedy: str, host: str, yard: PlanContext) -> str:
    row = yard.inventory.hosts.get(host)
    controller = row.controller if row else ""
    if remedy == "drain_node" and controller:
        how = f'`scontrol update NodeName={host} State=DRAIN Reason="does not answer"` on {controller}'
        return f"To keep jobs off it until somebody has seen to it, drain it yourselves: {how}. Whoever does returns it, too; I do not."
    if remedy == "drain_node":
        return "To keep jobs off it until somebody has seen to it, take it out of service where they are scheduled."
    if remedy in ("reboot", "power_cycle"):
        return f"I come in by SSH alone: ask its BMC from outside, or go there. Once it answers, say `recheck {host}`."
    return f"Once it answers, say `recheck {host}`."


def _start_remediation(
    asked: AnswerContext, remedy: str, host: str, cause: Hypothesis, ladders: list[Remediation], yard: PlanContext
) -> tuple[list[Remediation], str]:
    """Start a remediation for a cause without one, or whose last one people ended."""
    only = cause.model_copy(update={"hosts": (host,), "devices": tuple(name for name in cause.devices if name.partition("/")[0] == host)})
    built = build_remediations([only], yard, ladders, anew=True)
    if not built.ladders:
        why = " ".join(built.by_hand) or "; ".join(
            row.says for row in ladders if row.target == host and row.label == cause.label and row.says
        )
        return ladders, f"{host}: no card: a person must do this. {why}".strip()
    row = built.ladders[0].model_copy(
        update={"fault": derive_fault_condition(built.ladders[0], asked.case, asked.ports), "asked_by": _get_requester(asked)}
    )
    follows = (
        ""
        if row.current_step and row.current_step.remedy == remedy
        else f" {format_remedy_name(remedy).capitalize()} follows if it is needed."
    )
    waits = "Waiting for approval" if row.waiting_for == "approval" else "Planned"
    return (
        [*ladders, row],
        f"{waits}: {render_step_summary(row)}, for {asked.get_title(cause.label)}{render_citation(cause)}.{follows} It {ON_APPROVE_TEXT}",
    )


def _list_remedies(asked: AnswerContext, label: str) -> set[str]:
    leaf = asked.now.lens.taxonomy.leaves.get(label)
    return {step.name for plan in leaf.remedies for step in parse_plan(plan)} if leaf else set()


def _render_open_step(asked: AnswerContext, remedy: str, row: Remediation) -> str:
    if row.current_step and row.current_step.remedy == remedy and row.waiting_for == "approval":
        return f"{render_step_summary(row)}: already waiting for approval; press Approve on its card."
    at = next((n for n, rung in enumerate(row.rungs) if rung.remedy == remedy), 0)
    when = "was done before" if at < row.rung else "comes later, if it is still needed"
    return f"{row.target}: {format_remedy_name(remedy)} {when}. Now: {describe_remediation(row, asked.get_title(row.label))}."


def _render_refusal(asked: AnswerContext, remedy: str, host: str, causes: Sequence[Hypothesis]) -> str:
    known = [build_host_knowledge(asked, one) for one in expand_host_range(host)] if not causes else []
    against = list(dict.fromkeys(line for row in known for line in (*row.unproven, *row.unplaced)))
    if against:
        why = f"{NO_CARD_PREFIX} for {format_remedy_name(remedy)}: I propose a fix only for a fault that a check has shown. Seen on {host} without one: {told(against)}."
        return f"{why} {_render_alternative(remedy, expand_host_range(host)[0], build_plan_context(asked.case, asked.ports))} Say `recheck {host}` and I look again."
    if not causes:
        looked = render_coverage(asked, build_host_knowledge(asked, expand_host_range(host)[0]))
        return f"{NO_CARD_PREFIX}: nothing was found on {host} that {format_remedy_name(remedy)} would fix ({looked}). Tell me what you see there, or say `recheck {host}`."
    row = causes[0]
    step = asked.now.lens.taxonomy.get_leaf(row.label).next_step
    return f"{NO_CARD_PREFIX}: {asked.get_title(row.label)} on {host}{render_citation(row)} is not fixed by {format_remedy_name(remedy)}. {step}"


async def request_undo(asked: AnswerContext) -> TurnResult:
    """Propose the return of drained nodes; for other remedies, say how people undo them."""
    if unclear := ask_which_hosts(asked):
        return build_answer(asked, unclear)
    hosts, case = resolve_target_hosts(asked), asked.case
    rows = [row for row in case.remediations if not hosts.named or row.target in hosts.hosts]
    held = [row for row in rows if row.drained]
    ladders, lines = list(case.remediations), render_unknown_names(asked)
    for row in held[:4]:
        ladders, line = _request_return(asked, row, ladders)
        lines.append(line)
    if not held:
        lines += _render_undo_instructions([row for row in rows if row.since or row.proven]) or [
            _render_nothing_to_undo(asked, hosts.hosts if hosts.named else ())
        ]
    return propose_remediations(asked, lines, ladders) if ladders != case.remediations else build_answer(asked, lines)


def _render_nothing_to_undo(asked: AnswerContext, hosts: Sequence[str]) -> str:
    waiting = [row for row in asked.case.remediations if row.is_open and row.waiting_for == "approval"]
    what = f" {render_step_summary(waiting[0])} is only waiting for approval: reject its card." if waiting else ""
    return f"{NOTHING_TO_UNDO_PREFIX}{f' on {fold_host_names(hosts)}' if hosts else ''}: RackMedic has changed nothing there.{what}"


def _request_return(asked: AnswerContext, row: Remediation, ladders: list[Remediation]) -> tuple[list[Remediation], str]:
    """Request a drained node's return; it is checked once more before its card is posted."""
    if is_returning(row) and row.waiting_for == "approval":
        return ladders, f"The return of {row.target} to service is already waiting for approval; press Approve on its card."
    if why := get_return_blocker(row, ladders):
        return ladders, f"{row.target} is not returned: {why}."
    if list_unresolved_on_host(row, ladders):
        return (
            ladders,
            f"{row.target} had more than one fix: press “Ask for it back” where it is listed as held, and I look at all of it first.",
        )
    again = _request_again(asked, row, ladders, RemediationEvent(RETURN_EVENT, ladder=row.id))
    return again, f"I check {row.target} again; if its fault is gone, I propose its return for approval."


def _render_undo_instructions(rows: Sequence[Remediation]) -> list[str]:
    lines: list[str] = []
    for row in rows[:3]:
        fixes = [rung for rung in row.rungs[: row.rung + 1] if rung.part == "fix"]
        for rung in fixes[-1:]:
            back = REMEDIES[rung.remedy].back or "nothing takes it back"
            lines.append(f"{row.target}, {rung.remedy.replace('_', ' ')}: {back}.")
    return lines
