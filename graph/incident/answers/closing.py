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
MAX_CORRECTION_CHARS = 160
MAX_PAUSE = timedelta(days=7)


def _format_named_cause(context: AnswerContext) -> str:
    message = context.message
    if message.labels:
        branch = find_common_branch(message.labels)
        return context.get_title(branch) if len(message.labels) > 1 and branch else context.get_title(message.labels[0])
    return context.get_title(message.category) if message.category else ""


def _build_correction(context: AnswerContext, denied: Sequence[str] = ()) -> HumanCorrection:
    message = context.message
    found_labels = {cause.label for cause in context.root_causes if _is_named_label(context, cause.label)}
    if len(found_labels) == 1:  # the message names a whole branch, and one cause of it was found
        label = found_labels.pop()
    elif len(message.labels) == 1:
        label = message.labels[0]
    else:
        label = find_common_branch(message.labels) or message.category
    return HumanCorrection(
        label=label,
        words=clean_text(message.text, MAX_CORRECTION_CHARS),
        by=context.incident.item.user,
        denied=tuple(denied)[:MAX_DENIED_LABELS],
    )


async def correct_cause(context: AnswerContext) -> TurnResult:
    """Store a person's cause; withdraw pending approvals for other causes."""
    cause_name, incident = _format_named_cause(context), context.incident
    found_labels = [cause.label for cause in context.root_causes]
    if not cause_name:
        noted = "Noted that it was something else." if found_labels else "Noted."
        question = "What was it? For example “it was the cable”."
        return replace(build_answer(context, [f"{noted} {question}", "The evidence is unchanged."]), correction=_build_correction(context))
    confirmed_causes = [cause for cause in context.root_causes if _is_named_label(context, cause.label)]
    if confirmed_causes:
        cause = confirmed_causes[0]
        text = f"That is what I found: {context.get_title(cause.label)}{render_citation(cause)}. Noted as confirmed by you."
        return replace(build_answer(context, [text]), correction=_build_correction(context))
    kept_targets = {
        (remediation.label, remediation.target) for remediation in incident.remediations if _is_named_label(context, remediation.label)
    }
    remediations = withdraw_disbelieved(incident.remediations, kept_targets)
    notice = f"Noted, on your word: {cause_name}."
    if found_labels:
        found_cause = f"{context.get_title(found_labels[0])}{render_citation(context.root_causes[0])}"
        notice += f" I found {found_cause}; the evidence is unchanged."
    lines = [notice]
    withdrawn_hosts = _list_changed_targets(context, remediations)
    if withdrawn_hosts:
        lines.append(f"Pending approvals for that cause are withdrawn: {fold_host_names(withdrawn_hosts)}.")
    running_hosts = [remediation.target for remediation in remediations if remediation.is_open]
    if running_hosts:
        lines.append(f"Already started, continues: {fold_host_names(running_hosts)}.")
    answer = build_answer(context, [*lines, "Say “close” to close the incident with it."])
    return _apply_remediations(context, replace(answer, correction=_build_correction(context, found_labels)), remediations)


def _is_named_label(context: AnswerContext, label: str) -> bool:
    """Return whether the message names the label, or a branch of the taxonomy that holds it."""
    branch = context.message.category
    return label in context.message.labels or (bool(branch) and (label == branch or label.startswith(f"{branch}.")))


def _list_changed_targets(context: AnswerContext, remediations: Sequence[Remediation]) -> list[str]:
    """Return the targets of remediations that differ from the incident's."""
    pairs = zip(remediations, context.incident.remediations, strict=True)
    return [remediation.target for remediation, previous in pairs if remediation != previous]


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
    if named_cause:
        cause_name = named_cause
    elif incident.correction and incident.correction.label:
        cause_name = context.get_title(incident.correction.label)
    else:
        cause_name = " and ".join(context.get_title(cause.label) for cause in context.root_causes[:2])
    remediations = stop_remediations(incident.remediations, "the incident was closed")
    nodes = [remediation.target for remediation in remediations if remediation.drained]
    lines = [f"Closed: {cause_name or 'no cause named'}."]
    if nodes:
        verb, pronoun = ("stays", "it") if len(set(nodes)) == 1 else ("stay", "them")
        lines.append(f"{fold_host_names(nodes)} {verb} drained: return {pronoun} by hand, or say “reopen”.")
    elif _list_changed_targets(context, remediations):
        lines.append("Pending approvals are withdrawn.")
    ticket = incident.ticket
    if ticket and ticket.state != "resolved":
        ticket = ticket.model_copy(update={"state": "resolved", "true_cause": cause_name[:400], "closed_by": incident.item.user})
    answer = build_answer(context, [*lines, "Say “reopen” if it comes back."], event=TurnEvent.CLOSED, ticket=ticket)
    if named_cause:
        denied_labels = incident.correction.denied if incident.correction else ()
        answer = replace(answer, correction=_build_correction(context, denied_labels))
    return _apply_remediations(context, answer, remediations)


async def reopen_incident(context: AnswerContext) -> TurnResult:
    """Reopen the incident with its earlier findings, without running a check."""
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
