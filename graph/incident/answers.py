"""Turns that only answer: status, why, stop, hand-off, take, close, timers and results of actions. Nothing is looked at. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from graph.engine.assess import Assessment
from graph.incident.case import Case
from graph.incident.tickets import hand_over
from graph.ladders.build import read_ladders
from graph.ladders.ends import describe
from graph.state import Hypothesis, Incident, ItemKind, Lifecycle, Outcome, Report, Stats, Ticket

Answer = Callable[[Incident, Case, Assessment], dict[str, Any]]
"""What changes in the state; `report` is a Report."""


def answer(state: Incident, case: Case, now: Assessment) -> dict[str, Any]:
    """The answer to the turn's item."""
    return ANSWERS[case.item.kind](state, case, now)


def _report(state: Incident, case: Case, reply: str, outcome: Outcome | None = None) -> Report:
    """The report so far under the new item's id, with a direct reply."""
    before = state.get("report")
    last = Report.model_validate(before) if before else Report(item=case.item.id, outcome="abstained")
    return last.model_copy(update={"item": case.item.id, "reply": reply, "outcome": outcome or last.outcome})


def _status(state: Incident, case: Case, now: Assessment) -> dict[str, Any]:
    stats = Stats.model_validate(state.get("stats", {}))
    rows = [Hypothesis.model_validate(row) for row in state.get("hypotheses", [])]
    leading = ", ".join(f"{now.lens.taxonomy.title(r.label)} ({r.verdict} {r.confidence:.0%})" for r in rows[:3]) or "no hypothesis"
    ticket = Ticket.model_validate(state["ticket"]) if state.get("ticket") else None
    parts = [
        f"Incident {case.id} is {state.get('lifecycle', 'open').replace('_', ' ')}",
        f"{stats.hosts} hosts looked at with {stats.checks} looks",
        leading,
    ]
    parts += [f"ticket {ticket.state}{f', taken by {ticket.taken_by}' if ticket.taken_by else ''}"] if ticket else []
    fixes = [f"  {describe(row, now.lens.taxonomy.title(row.label))}" for row in read_ladders(state.get("ladders", []))]
    return {"report": _report(state, case, "\n".join(["; ".join(parts) + ".", *fixes]))}


def _why(state: Incident, case: Case, now: Assessment) -> dict[str, Any]:
    """Evidence of what was concluded, or of the label that the question names."""
    asked = case.item.text.lower()
    titles = {label: now.lens.taxonomy.title(label).lower() for label in now.standings}
    wanted = [label for label, title in titles.items() if label.lower() in asked or title in asked]
    labels = wanted or [row.label for row in now.root_causes()] or [row.label for row in now.suspects[:2]]
    lines = [line for label in dict.fromkeys(labels[:3]) for line in _because(now, label)]
    return {"report": _report(state, case, "\n".join(lines or [*now.why_unsure[:3]] or ["Nothing was found that would need a reason."]))}


def _because(now: Assessment, label: str) -> list[str]:
    row = now.hypothesis(label)
    cited = [f"  {e.host or 'handed in'} {e.check}: {e.line}" for e in row.evidence]
    return [f"{now.lens.taxonomy.title(label)}: {row.verdict}, {row.confidence:.0%}; {row.because}", *cited]


def _stop(state: Incident, case: Case, now: Assessment) -> dict[str, Any]:
    return {"report": _report(state, case, "Stopped. What was seen is kept; say recheck to look again."), "lifecycle": "open"}


def _hand_off(state: Incident, case: Case, now: Assessment) -> dict[str, Any]:
    report = _report(state, case, "Handed over to a human.", "handed_off").model_copy(update={"next_step": "Take the ticket."})
    return _ticketed(report, hand_over(state, case, now, report), "handed_off")


def _take(state: Incident, case: Case, now: Assessment) -> dict[str, Any]:
    report = _report(state, case, f"Taken by {case.item.user}.", "handed_off")
    ticket = hand_over(state, case, now, report).model_copy(update={"state": "taken", "taken_by": case.item.user})
    return _ticketed(report, ticket, "handed_off")


def _close(state: Incident, case: Case, now: Assessment) -> dict[str, Any]:
    """Closed by a human with what it really was."""
    data: Mapping[str, Any] = case.item.data
    label, cause = str(data.get("label") or ""), str(data.get("root_cause") or "")[:400]
    report = _report(state, case, f"Closed: {now.lens.taxonomy.title(label) if label else cause or 'no cause named'}.")
    ticket = hand_over(state, case, now, report).model_copy(
        update={"state": "resolved", "true_label": label, "true_cause": cause, "closed_by": case.item.user}
    )
    return _ticketed(report, ticket, "closed")


def _ticketed(report: Report, ticket: Ticket, lifecycle: Lifecycle) -> dict[str, Any]:
    return {"report": report, "ticket": ticket.model_dump(mode="json"), "lifecycle": lifecycle}


def _timer(state: Incident, case: Case, now: Assessment) -> dict[str, Any]:
    """Time passed. Nothing is said, unless it passed without a word from anybody: then the incident ends."""
    if case.item.data.get("why") == "auto_close":
        return {"report": _report(state, case, "Closed after three quiet days. Mention me again and I start anew."), "lifecycle": "closed"}
    return {"report": _report(state, case, "")}


def _action_result(state: Incident, case: Case, now: Assessment) -> dict[str, Any]:
    """What became of an action is said by its ladder (`graph.incident.fixes`)."""
    return {"report": _report(state, case, "")}


ANSWERS: Mapping[ItemKind, Answer] = {
    "status": _status,
    "why": _why,
    "stop": _stop,
    "hand_off": _hand_off,
    "take": _take,
    "close": _close,
    "timer": _timer,
    "action_result": _action_result,
}
