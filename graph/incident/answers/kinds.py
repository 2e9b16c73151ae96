"""Answers to items that are no question of the table: stop, hand-off, take, close, timers and results of actions. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from graph.engine.assess import Assessment
from graph.incident.case import Case
from graph.incident.concluded import Concluded
from graph.incident.lifecycle import Came, becomes
from graph.incident.questions import unanswered
from graph.incident.tickets import hand_over
from graph.reading.unknown import said_in
from graph.report import Report
from graph.state import ALERTED, ALERTS_OVER, UNANSWERED, ItemKind, Outcome

WAITING = "Noted: it waits for others. Press “Go on” on the ticket, or say “I take it”, when it goes on."

LOOKED_AT_NOTHING = "I looked at nothing, and nothing else has changed."


def unknown(case: Case) -> Concluded:
    """Only names that nobody knows: what stands stays."""
    turn = case.turn
    report = answering(case, "").model_copy(
        update={
            "unknown_hosts": case.unknown(turn.unknown),
            "unknown_job": turn.unknown_job,
            "why_nowhere": turn.why_nowhere,
        }
    )
    reply = " ".join((*said_in(report), LOOKED_AT_NOTHING))
    return Concluded(report.model_copy(update={"reply": reply}))


def answering(case: Case, reply: str, outcome: Outcome | None = None) -> Report:
    """The report so far under the new item's id, with a direct reply."""
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


def _stop(case: Case, now: Assessment) -> Concluded:
    left = "" if case.second_look.due is None else " I do not look again by myself."
    says = f"Stopped.{left} What was seen is kept; say recheck to look again."
    report = answering(case, says).model_copy(update={"look_again": ""})
    return Concluded(report, becomes(case.lifecycle, Came.STOPPED), stopped=True)


def _hand_off(case: Case, now: Assessment) -> Concluded:
    report = answering(case, "Handed over to a human.", "handed_off").model_copy(update={"next_step": "Take the ticket."})
    return Concluded(report, becomes(case.lifecycle, Came.HAND_OFF), ticket=hand_over(case, now, report))


def _take(case: Case, now: Assessment) -> Concluded:
    before, state = _has(case)
    if before == case.item.user and state == "taken":
        return Concluded(answering(case, ""))  # two clicks are one
    says = f"Taken by {case.item.user}."
    if before:
        says = f"{before} goes on with it." if before == case.item.user else f"Taken over by {case.item.user} from {before}."
    report = answering(case, says, "handed_off")
    ticket = hand_over(case, now, report).model_copy(update={"state": "taken", "taken_by": case.item.user})
    return Concluded(report, becomes(case.lifecycle, Came.TAKEN), ticket=ticket)


def _wait(case: Case, now: Assessment) -> Concluded:
    """Whoever has it waits for somebody else; who says so of one that nobody has, has it from then on."""
    before, state = _has(case)
    if state == "waiting":
        return Concluded(answering(case, ""))  # two clicks are one
    report = answering(case, WAITING, "handed_off")
    ticket = hand_over(case, now, report).model_copy(update={"state": "waiting", "taken_by": before or case.item.user})
    return Concluded(report, becomes(case.lifecycle, Came.TAKEN), ticket=ticket)


def _has(case: Case) -> tuple[str, str]:
    """Who has the ticket, and what it is in; nobody while it is open or closed."""
    ticket = case.ticket
    return (ticket.taken_by, ticket.state) if ticket and ticket.state in ("taken", "waiting") else ("", "")


def _close(case: Case, now: Assessment) -> Concluded:
    """Closed by a human with what it really was."""
    data: Mapping[str, Any] = case.item.data
    label, cause = str(data.get("label") or ""), str(data.get("root_cause") or "")[:400]
    report = answering(case, f"Closed: {now.lens.taxonomy.title(label) if label else cause or 'no cause named'}.")
    noted = {
        "state": "resolved",
        "true_label": label,
        "true_cause": cause,
        "closed_by": case.item.user,
        "handed": bool(case.ticket and case.ticket.handed),
    }
    ticket = hand_over(case, now, report).model_copy(update=noted)
    return Concluded(report, becomes(case.lifecycle, Came.CLOSED), ticket=ticket)


def _timer(case: Case, now: Assessment) -> Concluded:
    """Time passed. Nothing is said, unless it passed without a word from anybody: then the incident ends, or people get what a customer does
    not answer."""
    if case.item.data.get("why") == "auto_close":
        said = answering(case, "Closed after three quiet days. Mention me again and I start anew.")
        return Concluded(said, becomes(case.lifecycle, Came.QUIET))
    if case.item.data.get("why") == UNANSWERED and unanswered(case):
        return _unanswered(case, now)
    if case.item.data.get("why") == ALERTS_OVER:
        return _alerts_over(case)
    return Concluded(answering(case, ""))


def _unanswered(case: Case, now: Assessment) -> Concluded:
    """A customer says nothing: people go on with what there is."""
    asked, reminded = case.silence.since, case.silence.reminded
    said = f"The customer was asked {asked:%Y-%m-%d %H:%M} UTC, reminded {reminded:%Y-%m-%d %H:%M} UTC, and has not answered."
    report = answering(case, f"{said} Handed over to a human, with all that was found.", "handed_off")
    report = report.model_copy(update={"next_step": "Take the ticket."})
    return Concluded(report, becomes(case.lifecycle, Came.HAND_OFF), ticket=hand_over(case, now, report))


def _alerts_over(case: Case) -> Concluded:
    """The incident ends with the alerts that opened it, unless somebody has to do with it by now."""
    if case.lifecycle == "closed":
        return Concluded(answering(case, ""))
    if why := _not_by_itself(case):
        return Concluded(answering(case, f"The alerts are over. I leave this open: {why}."))
    said = answering(case, "The alerts are over and nothing was done: closed. If they come back, I start anew.")
    return Concluded(said, becomes(case.lifecycle, Came.QUIET))


def _not_by_itself(case: Case) -> str:
    """Why people are to end it; empty where nobody had to do with it."""
    if case.ladders:
        return "a fix was put up"
    if case.owner or case.ticket or case.lifecycle in ("handed_off", "watching"):
        return "a person has it"
    told_us = not (case.origin and case.origin.alert) or any(row.get("user") != ALERTED for row in case.said)
    if told_us or case.item.data.get("people"):  # what people say to each other is not kept, but that they do
        return "people wrote about it"
    return ""


def _action_result(case: Case, now: Assessment) -> Concluded:
    """What became of an action is said by its ladder (`graph.incident.fixes`)."""
    return Concluded(answering(case, ""))


BY_KIND: Mapping[ItemKind, Callable[[Case, Assessment], Concluded]] = {
    "stop": _stop,
    "hand_off": _hand_off,
    "take": _take,
    "wait": _wait,
    "close": _close,
    "timer": _timer,
    "action_result": _action_result,
}
