"""Close, correct, reopen or pause an incident. A person's word is stored beside the evidence, never over it. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from graph.incident.answers.answer_context import AnswerContext, build_answer, clean_text, find_common_branch, render_citation
from graph.incident.lifecycle import TurnEvent
from graph.incident.remediations import build_plan_context
from graph.incident.turn_result import TurnResult
from graph.remediation.outcomes import stop_remediations, withdraw_disbelieved
from graph.remediation.proposals import list_planned_actions
from graph.state import HumanCorrection, Remediation
from tools.inventory.host_ranges import fold_host_names

DEFAULT_PAUSE = timedelta(hours=2)  # pause if no time is named
MAX_DENIED_LABELS = 6
MAX_PAUSE = timedelta(days=7)


def _format_named_cause(context: AnswerContext) -> str:
    message = context.message
    if message.labels:
        branch = find_common_branch(message.labels)
        return context.get_title(branch) if len(message.labels) > 1 and branch else context.get_title(message.labels[0])
    return context.get_title(message.category) if message.category else ""


def _build_correction(context: AnswerContext, denied: Sequence[str] = ()) -> HumanCorrection:
    message = context.message
    rejected_labels = {
        row.label for row in context.root_causes if row.label in message.labels or _is_under_branch(row.label, message.category)
    }
    label = message.labels[0] if len(message.labels) == 1 else find_common_branch(message.labels) or message.category
    label = rejected_labels.pop() if len(rejected_labels) == 1 else label
    return HumanCorrection(
        label=label, words=clean_text(message.text, 160), by=context.case.item.user, denied=tuple(denied)[:MAX_DENIED_LABELS]
    )


async def correct_cause(context: AnswerContext) -> TurnResult:
    """Store a person's cause; withdraw pending approvals for other causes."""
    cause, case = _format_named_cause(context), context.case
    found_labels = [row.label for row in context.root_causes]
    if not cause:
        noted = "Noted that it was something else." if found_labels else "Noted."
        question = "What was it? For example “it was the cable”."
        return replace(build_answer(context, [f"{noted} {question}", "The evidence is unchanged."]), correction=_build_correction(context))
    same = [
        row for row in context.root_causes if row.label in context.message.labels or _is_under_branch(row.label, context.message.category)
    ]
    agreed = [f"{context.get_title(row.label)}{render_citation(row)}" for row in same]
    if agreed:
        return replace(
            build_answer(context, [f"That is what I found: {agreed[0]}. Noted as confirmed by you."]), correction=_build_correction(context)
        )
    kept_targets = {
        (row.label, row.target)
        for row in case.remediations
        if row.label in context.message.labels or _is_under_branch(row.label, context.message.category)
    }
    remediations = withdraw_disbelieved(case.remediations, kept_targets)
    changed_remediations = [row for row, before in zip(remediations, case.remediations, strict=True) if row != before]
    lines = [
        f"Noted, on your word: {cause}."
        + (
            f" I found {context.get_title(found_labels[0])}{render_citation(context.root_causes[0])}; the evidence is unchanged."
            if found_labels
            else ""
        )
    ]
    lines += (
        [f"Pending approvals for that cause are withdrawn: {fold_host_names([row.target for row in changed_remediations])}."]
        if changed_remediations
        else []
    )
    going = [row for row in remediations if row.is_open]
    lines += [f"Already started, continues: {fold_host_names([row.target for row in going])}."] if going else []
    return _apply_remediations(
        context,
        replace(
            build_answer(context, [*lines, "Say “close” to close the incident with it."]),
            correction=_build_correction(context, found_labels),
        ),
        remediations,
    )


def _is_under_branch(label: str, branch: str) -> bool:
    return bool(branch) and (label == branch or label.startswith(f"{branch}."))


def _apply_remediations(context: AnswerContext, told: TurnResult, remediations: Sequence[Remediation]) -> TurnResult:
    if list(remediations) == context.case.remediations:
        return told
    actions = tuple(list_planned_actions(remediations, build_plan_context(context.case, context.ports)))
    return replace(told, ladders=list(remediations), report=told.report.model_copy(update={"actions": actions}))


async def close_incident(context: AnswerContext) -> TurnResult:
    """Close without a hand-off: propose nothing more, let running steps finish, name drained nodes."""
    case, named_cause = context.case, _format_named_cause(context)
    if case.lifecycle == "closed":
        return build_answer(context, ["It is closed already. Say “reopen” if it is not over."])
    found_titles = " and ".join(context.get_title(row.label) for row in context.root_causes[:2])
    cause = named_cause or (context.get_title(case.correction.label) if case.correction and case.correction.label else "") or found_titles
    remediations = stop_remediations(case.remediations, "the incident was closed")
    changed_remediations = [row for row, before in zip(remediations, case.remediations, strict=True) if row != before]
    nodes = [row.target for row in remediations if row.drained]
    lines = [f"Closed: {cause or 'no cause named'}."]
    lines += (
        [
            f"{fold_host_names(nodes)} stay{'s' * (len(set(nodes)) == 1)} drained: return {'it' if len(set(nodes)) == 1 else 'them'} by hand, or say “reopen”."
        ]
        if nodes
        else []
    )
    lines += ["Pending approvals are withdrawn."] if changed_remediations and not nodes else []
    ticket = case.ticket
    if ticket and ticket.state != "resolved":
        ticket = ticket.model_copy(update={"state": "resolved", "true_cause": cause[:400], "closed_by": case.item.user})
    answer = build_answer(context, [*lines, "Say “reopen” if it comes back."], came=TurnEvent.CLOSED, ticket=ticket)
    denied = case.correction.denied if case.correction else ()
    return _apply_remediations(
        context, replace(answer, correction=_build_correction(context, denied)) if named_cause else answer, remediations
    )


async def reopen_incident(context: AnswerContext) -> TurnResult:
    """Reopen as it was left; no check runs."""
    if context.case.lifecycle != "closed":
        return build_answer(context, [f"It is not closed: it is {context.case.lifecycle.replace('_', ' ')}. Say `recheck` to look again."])
    ticket = context.case.ticket
    if ticket and ticket.state == "resolved":
        ticket = ticket.model_copy(update={"state": "open"})
    event = TurnEvent.TO_PEOPLE if ticket and ticket.handed else TurnEvent.NOTHING_OPEN
    return build_answer(context, ["Reopened. Earlier findings are kept; say `recheck` to check the hosts now."], came=event, ticket=ticket)


async def pause_thread(context: AnswerContext) -> TurnResult:
    """Stay quiet in this thread until a time, except when mentioned."""
    now, resume_at = context.current_time, context.message.at
    until = min(resume_at, now + MAX_PAUSE) if resume_at and resume_at > now else now + DEFAULT_PAUSE
    when = f"{until:%H:%M} UTC" if until.date() == now.date() else f"{until:%Y-%m-%d %H:%M} UTC"
    return replace(
        build_answer(context, [f"I am quiet here until {when}. I still answer when mentioned; waiting cards stay open."]),
        quiet_until=until,
    )
