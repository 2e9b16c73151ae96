"""Close, correct, reopen or pause an incident. A person's word is stored beside the evidence, never over it."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from graph.dialogue.asserted_cause import contradicts_finding
from graph.dialogue.days import get_morning
from graph.dialogue.intents import Intent
from graph.dialogue.said import ParsedMessage
from graph.incident.answers.action_details import list_pending_approvals
from graph.incident.answers.answer_context import AnswerContext, build_answer, clean_text, find_common_branch, render_citation
from graph.incident.answers.people import render_step_summary
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
MAX_SNOOZED_LINES = 3


def _format_named_cause(context: AnswerContext) -> str:
    label = _choose_named_label(context.message)
    return context.get_title(label) if label else ""


def _choose_named_label(message: ParsedMessage) -> str:
    """Return the only label, else the branch of all labels, or of those that share a category with the first one."""
    if not message.labels:
        return message.category
    if branch := find_common_branch(message.labels):
        return branch
    category = message.labels[0].partition(".")[0]
    return find_common_branch([label for label in message.labels if label.partition(".")[0] == category])


def _build_correction(context: AnswerContext, denied: Sequence[str] = ()) -> HumanCorrection:
    message = context.message
    found_labels = {cause.label for cause in context.root_causes if _is_named_label(context, cause.label)}
    # Where the message names a whole branch, and one cause of it was found, it is that cause.
    label = found_labels.pop() if len(found_labels) == 1 else _choose_named_label(message)
    return HumanCorrection(
        label=label,
        words=clean_text(message.cause or (message.text if label else ""), MAX_CORRECTION_CHARS),
        by=context.incident.item.user,
        denied=tuple(denied)[:MAX_DENIED_LABELS],
    )


async def correct_cause(context: AnswerContext) -> TurnResult:
    """Store a person's cause; withdraw pending approvals for other causes."""
    cause_name, incident = _format_named_cause(context), context.incident
    found_labels = [cause.label for cause in context.root_causes]
    if not cause_name and context.message.cause:
        return _note_stated_cause(context, found_labels)
    if not cause_name:
        noted = "Noted that it was something else." if found_labels else "Noted."
        question = "What was it? For example “it was the cable”."
        return replace(build_answer(context, [f"{noted} {question}", "The evidence is unchanged."]), correction=_build_correction(context))
    confirmed_causes = [cause for cause in context.root_causes if _is_named_label(context, cause.label)]
    if confirmed_causes:
        cause = confirmed_causes[0]
        text = f"That is what I found: {context.get_title(cause.label)}{render_citation(cause)}. Noted as confirmed by you."
        return _offer_closing(context, [text], _build_correction(context))
    kept_targets = {
        (remediation.label, remediation.target) for remediation in incident.remediations if _is_named_label(context, remediation.label)
    }
    return _note_other_cause(context, cause_name, found_labels, kept_targets)


def _note_stated_cause(context: AnswerContext, found_labels: Sequence[str]) -> TurnResult:
    """Note a cause in a person's own words. What was found is withdrawn only where they say that it is wrong."""
    cause_name = clean_text(context.message.cause, MAX_CORRECTION_CHARS)
    if contradicts_finding(context.message.text):
        return _note_other_cause(context, cause_name, found_labels, set())
    lines = _render_noted_cause(context, cause_name, found_labels)
    return _offer_closing(context, lines, _build_correction(context))


def _render_noted_cause(context: AnswerContext, cause_name: str, found_labels: Sequence[str]) -> list[str]:
    notice = f"Noted, on your word: {cause_name}."
    if found_labels:
        found_cause = f"{context.get_title(found_labels[0])}{render_citation(context.root_causes[0])}"
        notice += f" I found {found_cause}; the evidence is unchanged."
    return [notice]


def _note_other_cause(
    context: AnswerContext, cause_name: str, found_labels: Sequence[str], kept_targets: Collection[tuple[str, str]]
) -> TurnResult:
    """Note another cause than the one that was found, and withdraw what waits for approval, but for the kept targets."""
    remediations = withdraw_disbelieved(context.incident.remediations, kept_targets)
    lines = _render_noted_cause(context, cause_name, found_labels)
    withdrawn_hosts = _list_changed_targets(context, remediations)
    if withdrawn_hosts:
        lines.append(f"Pending approvals for that cause are withdrawn: {fold_host_names(withdrawn_hosts)}.")
    running_hosts = [remediation.target for remediation in remediations if remediation.is_open]
    if running_hosts:
        lines.append(f"Already started, continues: {fold_host_names(running_hosts)}.")
    return _apply_remediations(context, _offer_closing(context, lines, _build_correction(context, found_labels)), remediations)


def _offer_closing(context: AnswerContext, lines: Sequence[str], correction: HumanCorrection) -> TurnResult:
    """Answer, store the correction, and ask whether to close with it: once for a cause, and not if the incident is closed."""
    incident, earlier = context.incident, context.incident.correction
    is_asked = earlier is not None and (earlier.label or earlier.words) == (correction.label or correction.words)
    if incident.lifecycle == "closed" or is_asked:
        return replace(build_answer(context, lines), correction=correction)
    answer = build_answer(context, [*lines, "Close the incident with it? Say “close”, or press the button."])
    report = answer.report.model_copy(update={"meant": (Intent.CLOSE.value,)})
    return replace(answer, report=report, correction=correction)


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
    elif incident.correction and (incident.correction.label or incident.correction.words):
        cause_name = context.get_title(incident.correction.label) if incident.correction.label else incident.correction.words
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


async def snooze_reminders(context: AnswerContext) -> TurnResult:
    """Send no reminder until a time, by default the next morning. Messages are still answered."""
    now, named = context.current_time, context.message.at
    until = min(named, now + MAX_PAUSE) if named and named > now else get_morning(now, 1)
    waiting = [
        f"{render_step_summary(remediation)}: its card stays open, and if it expires meanwhile, I propose it again after that."
        for remediation in list_pending_approvals(context)[:MAX_SNOOZED_LINES]
    ]
    lines = [f"No reminders here until {_format_until(until, now)}. I still answer messages.", *waiting]
    return replace(build_answer(context, lines), snoozed_until=until)


async def pause_thread(context: AnswerContext) -> TurnResult:
    """Stay quiet in this thread until a time, except when mentioned."""
    now, resume_at = context.current_time, context.message.at
    until = min(resume_at, now + MAX_PAUSE) if resume_at and resume_at > now else now + DEFAULT_PAUSE
    return replace(
        build_answer(
            context, [f"I am quiet here until {_format_until(until, now)}. I still answer when mentioned; waiting cards stay open."]
        ),
        quiet_until=until,
    )


def _format_until(until: datetime, now: datetime) -> str:
    return f"{until:%H:%M} UTC" if until.date() == now.date() else f"{until:%Y-%m-%d %H:%M} UTC"
