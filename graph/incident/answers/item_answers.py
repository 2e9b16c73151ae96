"""Answers to other items: stop, hand-off, take, wait, close, timers, action results."""

from collections.abc import Callable, Mapping
from typing import Any

from graph.engine.assessment import Assessment
from graph.extraction.report_texts import format_report_unknowns
from graph.incident.context import IncidentContext
from graph.incident.handoff_tickets import build_handoff_ticket
from graph.incident.lifecycle import TurnEvent, get_next_lifecycle
from graph.incident.questions import is_unanswered
from graph.incident.turn_result import TurnResult
from graph.report import Report
from graph.state import ALERTS_RESOLVED, ALERTS_USER, REMINDER_UNANSWERED, DiagnosisOutcome, InboxItemKind

WAITING_TEXT = "Noted: it waits for others. To continue, press “Resume” on the ticket or say “I take it”."

NOTHING_CHECKED_TEXT = "I looked at nothing, and nothing else has changed."


def answer_unknown_names(context: IncidentContext) -> TurnResult:
    """Answer a message with only unknown names; nothing else changes."""
    turn = context.turn
    report = build_answer_report(context, "").model_copy(
        update={
            "unknown_hosts": context.find_unknown_names(turn.unknown),
            "unknown_job": turn.unknown_job,
            "why_nowhere": turn.why_nowhere,
        }
    )
    reply = " ".join((*format_report_unknowns(report), NOTHING_CHECKED_TEXT))
    return TurnResult(report.model_copy(update={"reply": reply}))


def build_answer_report(context: IncidentContext, reply: str, outcome: DiagnosisOutcome | None = None) -> Report:
    """Return the last report under the new item's id, with a reply."""
    last = context.report or Report(item=context.item.id, outcome="abstained")
    report_fields = {"item": context.item.id, "reply": reply, "outcome": outcome or last.outcome}
    return last.model_copy(
        update={
            **report_fields,
            "unknown_hosts": (),
            "read_as": {},
            "unknown_job": "",
            "why_nowhere": "",
            "shown": (),
            "pictures": (),
            "page": False,
            "meant": (),
            "threads": (),
        }
    )


def _answer_stop(context: IncidentContext, assessment: Assessment) -> TurnResult:
    recheck_note = "" if context.scheduled_recheck.due is None else " I do not check again on my own."
    text = f"Stopped.{recheck_note} Findings are kept; say recheck to check again."
    report = build_answer_report(context, text).model_copy(update={"look_again": ""})
    return TurnResult(report, get_next_lifecycle(context.lifecycle, TurnEvent.STOPPED), stopped=True)


def _answer_hand_off(context: IncidentContext, assessment: Assessment) -> TurnResult:
    report = build_answer_report(context, "Handed over to a human.", "handed_off").model_copy(update={"next_step": "Take the ticket."})
    return TurnResult(
        report, get_next_lifecycle(context.lifecycle, TurnEvent.HAND_OFF), ticket=build_handoff_ticket(context, assessment, report)
    )


def _answer_take(context: IncidentContext, assessment: Assessment) -> TurnResult:
    holder, state = _get_ticket_holder(context)
    if holder == context.item.user and state == "taken":
        return TurnResult(build_answer_report(context, ""))  # a repeated click changes nothing
    notice = f"Taken by {context.item.user}."
    if holder:
        notice = f"{holder} continues with it." if holder == context.item.user else f"Taken over by {context.item.user} from {holder}."
    report = build_answer_report(context, notice, "handed_off")
    ticket = build_handoff_ticket(context, assessment, report).model_copy(update={"state": "taken", "taken_by": context.item.user})
    return TurnResult(report, get_next_lifecycle(context.lifecycle, TurnEvent.TAKEN), ticket=ticket)


def _answer_wait(context: IncidentContext, assessment: Assessment) -> TurnResult:
    """Mark the ticket as waiting for others. An unowned ticket goes to the requester."""
    holder, state = _get_ticket_holder(context)
    if state == "waiting":
        return TurnResult(build_answer_report(context, ""))  # a repeated click changes nothing
    report = build_answer_report(context, WAITING_TEXT, "handed_off")
    ticket = build_handoff_ticket(context, assessment, report).model_copy(
        update={"state": "waiting", "taken_by": holder or context.item.user}
    )
    return TurnResult(report, get_next_lifecycle(context.lifecycle, TurnEvent.TAKEN), ticket=ticket)


def _get_ticket_holder(context: IncidentContext) -> tuple[str, str]:
    ticket = context.ticket
    return (ticket.taken_by, ticket.state) if ticket and ticket.state in ("taken", "waiting") else ("", "")


def _answer_close(context: IncidentContext, assessment: Assessment) -> TurnResult:
    data: Mapping[str, Any] = context.item.data
    label, cause = str(data.get("label") or ""), str(data.get("root_cause") or "")[:400]
    report = build_answer_report(
        context, f"Closed: {assessment.reference.taxonomy.get_title(label) if label else cause or 'no cause named'}."
    )
    noted = {
        "state": "resolved",
        "true_label": label,
        "true_cause": cause,
        "closed_by": context.item.user,
        "handed": bool(context.ticket and context.ticket.handed),
    }
    ticket = build_handoff_ticket(context, assessment, report).model_copy(update=noted)
    return TurnResult(report, get_next_lifecycle(context.lifecycle, TurnEvent.CLOSED), ticket=ticket)


def _answer_timer(context: IncidentContext, assessment: Assessment) -> TurnResult:
    """Stay silent, unless a quiet incident closes, a tenant did not answer, or its alerts resolved."""
    if context.item.data.get("why") == "auto_close":
        answer_report = build_answer_report(context, "Closed after three quiet days. Mention me to start again.")
        return TurnResult(answer_report, get_next_lifecycle(context.lifecycle, TurnEvent.QUIET))
    if context.item.data.get("why") == REMINDER_UNANSWERED and is_unanswered(context):
        return _hand_off_unanswered(context, assessment)
    if context.item.data.get("why") == ALERTS_RESOLVED:
        return _answer_alerts_resolved(context)
    return TurnResult(build_answer_report(context, ""))


def _hand_off_unanswered(context: IncidentContext, assessment: Assessment) -> TurnResult:
    asked_at, reminded = context.tenant_silence.since, context.tenant_silence.reminded
    text = f"The customer was asked {asked_at:%Y-%m-%d %H:%M} UTC, reminded {reminded:%Y-%m-%d %H:%M} UTC, and has not answered."
    report = build_answer_report(context, f"{text} Handed over to a human, with all that was found.", "handed_off")
    report = report.model_copy(update={"next_step": "Take the ticket."})
    return TurnResult(
        report, get_next_lifecycle(context.lifecycle, TurnEvent.HAND_OFF), ticket=build_handoff_ticket(context, assessment, report)
    )


def _answer_alerts_resolved(context: IncidentContext) -> TurnResult:
    """Close the incident with its alerts, unless people are involved."""
    if context.lifecycle == "closed":
        return TurnResult(build_answer_report(context, ""))
    if keep_open_reason := _get_keep_open_reason(context):
        return TurnResult(build_answer_report(context, f"The alerts are over. I leave this open: {keep_open_reason}."))
    answer_report = build_answer_report(
        context, "The alerts have resolved and nothing was done: closed. If they fire again, I start again."
    )
    return TurnResult(answer_report, get_next_lifecycle(context.lifecycle, TurnEvent.QUIET))


def _get_keep_open_reason(context: IncidentContext) -> str:
    if context.remediations:
        return "a fix was proposed"
    if context.owner or context.ticket or context.lifecycle in ("handed_off", "watching"):
        return "a person has it"
    told_us = not (context.origin and context.origin.alert) or any(message.get("user") != ALERTS_USER for message in context.messages)
    if told_us or context.item.data.get("people"):  # messages between people are not stored, only that there are some
        return "people wrote about it"
    return ""


def _answer_action_result(context: IncidentContext, assessment: Assessment) -> TurnResult:
    """Say nothing: the remediation reports the result (`graph.incident.remediations`)."""
    return TurnResult(build_answer_report(context, ""))


HANDLERS_BY_KIND: Mapping[InboxItemKind, Callable[[IncidentContext, Assessment], TurnResult]] = {
    "stop": _answer_stop,
    "hand_off": _answer_hand_off,
    "take": _answer_take,
    "wait": _answer_wait,
    "close": _answer_close,
    "timer": _answer_timer,
    "action_result": _answer_action_result,
}
