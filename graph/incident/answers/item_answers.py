"""Answers to other items: stop, hand-off, take, wait, close, timers, action results. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from graph.engine.assessment import Assessment
from graph.extraction.unknown_names import format_report_unknowns
from graph.incident.context import IncidentContext
from graph.incident.handoff_tickets import build_handoff_ticket
from graph.incident.lifecycle import TurnEvent, get_next_lifecycle
from graph.incident.questions import is_unanswered
from graph.incident.turn_result import TurnResult
from graph.report import Report
from graph.state import ALERTS_RESOLVED, ALERTS_USER, REMINDER_UNANSWERED, DiagnosisOutcome, InboxItemKind

WAITING_TEXT = "Noted: it waits for others. Press “Go on” on the ticket, or say “I take it”, when it goes on."

NOTHING_CHECKED_TEXT = "I looked at nothing, and nothing else has changed."


def answer_unknown_names(case: IncidentContext) -> TurnResult:
    """Answer a message with only unknown names; nothing else changes."""
    turn = case.turn
    report = build_answer_report(case, "").model_copy(
        update={
            "unknown_hosts": case.find_unknown_names(turn.unknown),
            "unknown_job": turn.unknown_job,
            "why_nowhere": turn.why_nowhere,
        }
    )
    reply = " ".join((*format_report_unknowns(report), NOTHING_CHECKED_TEXT))
    return TurnResult(report.model_copy(update={"reply": reply}))


def build_answer_report(case: IncidentContext, reply: str, outcome: DiagnosisOutcome | None = None) -> Report:
    """Return the last report under the new item's id, with a reply."""
    last = case.report or Report(item=case.item.id, outcome="abstained")
    said = {"item": case.item.id, "reply": reply, "outcome": outcome or last.outcome}
    return last.model_copy(
        update={
            **said,
            "unknown_hosts": (),
            "read_as": {},
            "unknown_job": "",
            "why_nowhere": "",
            "shown": (),
            "pictures": (),
            "page": False,
            "threads": (),
        }
    )


def _answer_stop(case: IncidentContext, now: Assessment) -> TurnResult:
    left = "" if case.scheduled_recheck.due is None else " I do not check again on my own."
    says = f"Stopped.{left} Findings are kept; say recheck to check again."
    report = build_answer_report(case, says).model_copy(update={"look_again": ""})
    return TurnResult(report, get_next_lifecycle(case.lifecycle, TurnEvent.STOPPED), stopped=True)


def _answer_hand_off(case: IncidentContext, now: Assessment) -> TurnResult:
    report = build_answer_report(case, "Handed over to a human.", "handed_off").model_copy(update={"next_step": "Take the ticket."})
    return TurnResult(report, get_next_lifecycle(case.lifecycle, TurnEvent.HAND_OFF), ticket=build_handoff_ticket(case, now, report))


def _answer_take(case: IncidentContext, now: Assessment) -> TurnResult:
    before, state = _get_ticket_holder(case)
    if before == case.item.user and state == "taken":
        return TurnResult(build_answer_report(case, ""))  # a repeated click changes nothing
    says = f"Taken by {case.item.user}."
    if before:
        says = f"{before} goes on with it." if before == case.item.user else f"Taken over by {case.item.user} from {before}."
    report = build_answer_report(case, says, "handed_off")
    ticket = build_handoff_ticket(case, now, report).model_copy(update={"state": "taken", "taken_by": case.item.user})
    return TurnResult(report, get_next_lifecycle(case.lifecycle, TurnEvent.TAKEN), ticket=ticket)


def _answer_wait(case: IncidentContext, now: Assessment) -> TurnResult:
    """Mark the ticket as waiting for others. An unowned ticket goes to the requester."""
    before, state = _get_ticket_holder(case)
    if state == "waiting":
        return TurnResult(build_answer_report(case, ""))  # a repeated click changes nothing
    report = build_answer_report(case, WAITING_TEXT, "handed_off")
    ticket = build_handoff_ticket(case, now, report).model_copy(update={"state": "waiting", "taken_by": before or case.item.user})
    return TurnResult(report, get_next_lifecycle(case.lifecycle, TurnEvent.TAKEN), ticket=ticket)


def _get_ticket_holder(case: IncidentContext) -> tuple[str, str]:
    ticket = case.ticket
    return (ticket.taken_by, ticket.state) if ticket and ticket.state in ("taken", "waiting") else ("", "")


def _answer_close(case: IncidentContext, now: Assessment) -> TurnResult:
    data: Mapping[str, Any] = case.item.data
    label, cause = str(data.get("label") or ""), str(data.get("root_cause") or "")[:400]
    report = build_answer_report(case, f"Closed: {now.lens.taxonomy.get_title(label) if label else cause or 'no cause named'}.")
    noted = {
        "state": "resolved",
        "true_label": label,
        "true_cause": cause,
        "closed_by": case.item.user,
        "handed": bool(case.ticket and case.ticket.handed),
    }
    ticket = build_handoff_ticket(case, now, report).model_copy(update=noted)
    return TurnResult(report, get_next_lifecycle(case.lifecycle, TurnEvent.CLOSED), ticket=ticket)


def _answer_timer(case: IncidentContext, now: Assessment) -> TurnResult:
    """Stay silent, unless a quiet incident closes, a tenant did not answer, or its alerts resolved."""
    if case.item.data.get("why") == "auto_close":
        said = build_answer_report(case, "Closed after three quiet days. Mention me again and I start anew.")
        return TurnResult(said, get_next_lifecycle(case.lifecycle, TurnEvent.QUIET))
    if case.item.data.get("why") == REMINDER_UNANSWERED and is_unanswered(case):
        return _hand_off_unanswered(case, now)
    if case.item.data.get("why") == ALERTS_RESOLVED:
        return _answer_alerts_resolved(case)
    return TurnResult(build_answer_report(case, ""))


def _hand_off_unanswered(case: IncidentContext, now: Assessment) -> TurnResult:
    asked, reminded = case.tenant_silence.since, case.tenant_silence.reminded
    said = f"The customer was asked {asked:%Y-%m-%d %H:%M} UTC, reminded {reminded:%Y-%m-%d %H:%M} UTC, and has not answered."
    report = build_answer_report(case, f"{said} Handed over to a human, with all that was found.", "handed_off")
    report = report.model_copy(update={"next_step": "Take the ticket."})
    return TurnResult(report, get_next_lifecycle(case.lifecycle, TurnEvent.HAND_OFF), ticket=build_handoff_ticket(case, now, report))


def _answer_alerts_resolved(case: IncidentContext) -> TurnResult:
    """Close the incident with its alerts, unless people are involved."""
    if case.lifecycle == "closed":
        return TurnResult(build_answer_report(case, ""))
    if why := _get_keep_open_reason(case):
        return TurnResult(build_answer_report(case, f"The alerts are over. I leave this open: {why}."))
    said = build_answer_report(case, "The alerts are over and nothing was done: closed. If they come back, I start anew.")
    return TurnResult(said, get_next_lifecycle(case.lifecycle, TurnEvent.QUIET))


def _get_keep_open_reason(case: IncidentContext) -> str:
    if case.remediations:
        return "a fix was proposed"
    if case.owner or case.ticket or case.lifecycle in ("handed_off", "watching"):
        return "a person has it"
    told_us = not (case.origin and case.origin.alert) or any(row.get("user") != ALERTS_USER for row in case.messages)
    if told_us or case.item.data.get("people"):  # messages between people are not stored, only that there are some
        return "people wrote about it"
    return ""


def _answer_action_result(case: IncidentContext, now: Assessment) -> TurnResult:
    """Say nothing: the remediation reports the result (`graph.incident.remediations`)."""
    return TurnResult(build_answer_report(case, ""))


HANDLERS_BY_KIND: Mapping[InboxItemKind, Callable[[IncidentContext, Assessment], TurnResult]] = {
    "stop": _answer_stop,
    "hand_off": _answer_hand_off,
    "take": _answer_take,
    "wait": _answer_wait,
    "close": _answer_close,
    "timer": _answer_timer,
    "action_result": _answer_action_result,
}
