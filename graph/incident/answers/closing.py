"""Close, correct, reopen or pause an incident. A person's word is stored beside the evidence, never over it."""

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
        cause.label for cause in context.root_causes if cause.label in message.labels or _is_under_branch(cause.label, message.category)
    }
    label = message.labels[0] if len(message.labels) == 1 else find_common_branch(message.labels) or message.category
    label = rejected_labels.pop() if len(rejected_labels) == 1 else label
    return HumanCorrection(
        label=label, words=clean_text(message.text, 160), by=context.incident.item.user, denied=tuple(denied)[:MAX_DENIED_LABELS]
    )


async def correct_cause(context: AnswerContext) -> TurnResult:
    """Store a person's cause; withdraw pending approvals for other causes."""
    cause_name, incident = _format_named_cause(context), context.incident
    found_labels = [cause.label for cause in context.root_causes]
    if not cause_name:
        noted = "Noted that it was something else." if found_labels else "Noted."
        question = "What was it? For example “it was the cable”."
        return replace(build_answer(context, [f"{noted} {question}", "The evidence is unchanged."]), correction=_build_correction(context))
    matching_causes = [
        cause
        for cause in context.root_causes
        if cause.label in context.message.labels or _is_under_branch(cause.label, context.message.category)
    ]
    agreed = [f"{context.get_title(cause.label)}{render_citation(cause)}" for cause in matching_causes]
    if agreed:
        return replace(
            build_answer(context, [f"That is what I found: {agreed[0]}. Noted as confirmed by you."]), correction=_build_correction(context)
        )
    kept_targets = {
        (remediation.label, remediation.target)
        for remediation in incident.remediations
        if remediation.label in context.message.labels or _is_under_branch(remediation.label, context.message.category)
    }
    remediations = withdraw_disbelieved(incident.remediations, kept_targets)
    changed_remediations = [
        remediation
        for remediation, previous_remediation in zip(remediations, incident.remediations, strict=True)
        if remediation != previous_remediation
    ]
    lines = [
        f"Noted, on your word: {cause_name}."
        + (
            f" I found {context.get_title(found_labels[0])}{render_citation(context.root_causes[0])}; the evidence is unchanged."
            if found_labels
            else ""
        )
    ]
    if changed_remediations:
        lines.append(
            f"Pending approvals for that cause are withdrawn: {fold_host_names([remediation.target for remediation in changed_remediations])}."
        )
    going = [remediation for remediation in remediations if remediation.is_open]
    if going:
        lines.append(f"Already started, continues: {fold_host_names([remediation.target for remediation in going])}.")
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


def _apply_remediations(context: AnswerContext, result: TurnResult, remediations: Sequence[Remediation]) -> TurnResult:
    if list(remediations) == context.incident.remediations:
        return result
    actions = tuple(list_planned_actions(remediations, build_plan_context(context.incident, context.graph_context)))
    return replace(result, ladders=list(remediations), report=result.report.model_copy(update={"actions": actions}))


async def close_incident(context: AnswerContext) -> TurnResult:
    """Close without a hand-off: propose nothing more, let running steps finish, name drained nodes."""
    incident, named_cause = context.incident, _format_named_cause(context)
    if incident.lifecycle == "closed":
        return build_answer(context, ["It is closed already. Say “reopen” if it is not over."])
    found_titles = " and ".join(context.get_title(cause.label) for cause in context.root_causes[:2])
    cause_name = (
        named_cause
        or (context.get_title(incident.correction.label) if incident.correction and incident.correction.label else "")
        or found_titles
    )
    remediations = stop_remediations(incident.remediations, "the incident was closed")
    changed_remediations = [
        remediation
        for remediation, previous_remediation in zip(remediations, incident.remediations, strict=True)
        if remediation != previous_remediation
    ]
    nodes = [remediation.target for remediation in remediations if remediation.drained]
    lines = [f"Closed: {cause_name or 'no cause named'}."]
    if nodes:
        verb, pronoun = ("stays", "it") if len(set(nodes)) == 1 else ("stay", "them")
        lines.append(f"{fold_host_names(nodes)} {verb} drained: return {pronoun} by hand, or say “reopen”.")
    elif changed_remediations:
        lines.append("Pending approvals are withdrawn.")
    ticket = incident.ticket
    if ticket and ticket.state != "resolved":
        ticket = ticket.model_copy(update={"state": "resolved", "true_cause": cause_name[:400], "closed_by": incident.item.user})
    answer = build_answer(context, [*lines, "Say “reopen” if it comes back."], event=TurnEvent.CLOSED, ticket=ticket)
    denied = incident.correction.denied if incident.correction else ()
    return _apply_remediations(
        context, replace(answer, correction=_build_correction(context, denied)) if named_cause else answer, remediations
    )


async def reopen_incident(context: AnswerContext) -> TurnResult:
    """Reopen as it was left; no check runs."""
    if context.incident.lifecycle != "closed":
        return build_answer(
            context, [f"It is not closed: it is {context.incident.lifecycle.replace('_', ' ')}. Say `recheck` to look again."]
        )
    ticket = context.incident.ticket
    if ticket and ticket.state == "resolved":
        ticket = ticket.model_copy(update={"state": "open"})
    event = TurnEvent.TO_PEOPLE if ticket and ticket.handed else TurnEvent.NOTHING_OPEN
    return build_answer(context, ["Reopened. Earlier findings are kept; say `recheck` to check the hosts now."], event=event, ticket=ticket)


async def pause_thread(context: AnswerContext) -> TurnResult:
    """Stay quiet in this thread until a time, except when mentioned."""
    now, resume_at = context.current_time, context.message.at
    until = min(resume_at, now + MAX_PAUSE) if resume_at and resume_at > now else now + DEFAULT_PAUSE
    when = f"{until:%H:%M} UTC" if until.date() == now.date() else f"{until:%Y-%m-%d %H:%M} UTC"
    return replace(
        build_answer(context, [f"I am quiet here until {when}. I still answer when mentioned; waiting cards stay open."]),
        quiet_until=until,
    )
