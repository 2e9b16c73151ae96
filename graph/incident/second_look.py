"""A second look after minutes, where a report found no cause: a fault that comes and goes falls between two looks. Pure.

The incident keeps when it is due; the dispatcher's timer wakes it. Each kind of second look is made at most once per incident, with passive
checks alone, and `stop`, `close` or a new report takes it back.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from graph.engine.assess import Assessment
from graph.engine.belief import CERTAIN
from graph.engine.rises import RISES
from graph.incident.case import Case
from graph.incident.concluded import Concluded
from graph.ports import Waits
from graph.reading.intermittent import comes_and_goes
from graph.report import Report
from graph.state import COUNTERS, LOOK_AGAIN, Lifecycle, SecondLook
from tools.fact import Status

MOST_SEEN: Final = 64


def is_second_look(case: Case) -> str:
    """Return which second look the item is, if it is still due; empty where it is none."""
    why = str(case.item.data.get("why") or "") if case.item.kind == "timer" else ""
    due = case.second_look
    return why if why in (COUNTERS, LOOK_AGAIN) and due.due is not None and due.why == why else ""


def counter_looks(case: Case, now: Assessment) -> list[tuple[str, str]]:
    """Return (host, check) pairs that read error counters and disturb nobody."""
    checks = [check.id for check in now.lens.passive() if RISES.keys() & set(check.establishes)]
    return [(host, check) for host in case.hosts for check in checks]


def second_look_after(
    case: Case, now: Assessment, report: Report, lifecycle: Lifecycle, looked: bool, waits: Waits, at: datetime
) -> SecondLook:
    """Return which second look is due after a turn. `looked`: the turn made a diagnosis."""
    before, done = case.second_look, is_second_look(case)
    came = (*before.done, done) if done else before.done
    none = SecondLook(done=came)
    if lifecycle not in ("open", "waiting") or case.turn.cut or (case.kind in ("stop", "close") and not looked):
        return none
    if not looked:
        return before
    asks_only = case.turn.question and not case.turn.only  # "how is gpu-001?" is answered; "recheck gpu-001" is a look
    seen = any(fact.host for fact in case.facts)
    if asks_only or not seen or not _undecided(report) or (case.origin and (case.origin.customer or case.origin.ticket)):
        return none
    delays = {COUNTERS: waits.counters if comes_and_goes(case.brief.text) else timedelta(), LOOK_AGAIN: waits.look_again}
    why = next((name for name, delay in delays.items() if delay and name not in came), "")
    return SecondLook(why=why, due=at + delays[why], done=came, seen=_abnormal(now)) if why else none


def with_second_look(concluded: Concluded, case: Case, now: Assessment, after: SecondLook, at: datetime) -> Concluded:
    """Return the conclusion with when the next look is, and a second look that found nothing new as one line."""
    report, done = concluded.report, is_second_look(case)
    announced = announcement(after)
    if done and case.report is not None and not _appeared(case, now, report):
        says = " ".join(filter(None, (_nothing_new(case, now, done, at), announced)))
        return replace(concluded, report=report.model_copy(update={"reply": says, "look_again": ""}))
    changed = f"Looked again at {at:%H:%M} UTC, and something is new." if done and not report.changed else report.changed
    return replace(concluded, report=report.model_copy(update={"look_again": announced, "changed": changed}))


def announcement(row: SecondLook) -> str:
    """Return when the next look is, in a sentence; empty where none is due."""
    if row.due is None:
        return ""
    does = "read the error counters again" if row.why == COUNTERS else "look again"
    return f"I {does} at {row.due:%H:%M} UTC; say stop to leave it."


def _undecided(report: Report) -> bool:
    if report.outcome == "diagnosed":
        return min((row.confidence for row in report.root_causes), default=1.0) < CERTAIN
    return report.outcome in ("abstained", "no_fault")


def _abnormal(now: Assessment) -> tuple[str, ...]:
    """Return what is abnormal or likely, by names that stay the same while it does."""
    odd = (f"{fact.host} {fact.key} {fact.device or ''}" for fact in now.odd)
    return tuple(dict.fromkeys((*odd, *_likely(now))))[:MOST_SEEN]


def _likely(now: Assessment) -> Iterable[str]:
    return (f"{row.label} {' '.join(row.subject.hosts)} {row.subject.device}" for row in (*now.roots, *now.suspects))


def _appeared(case: Case, now: Assessment, report: Report) -> bool:
    """Whether something is abnormal or likely that was not before."""
    known = set(case.second_look.seen)
    new = [name for name in _abnormal(now) if name not in known]
    return (bool(new) and len(known) < MOST_SEEN) or (case.report is not None and report.outcome != case.report.outcome)


def _nothing_new(case: Case, now: Assessment, done: str, at: datetime) -> str:
    hosts = f"{len(case.hosts)} host{'s' * (len(case.hosts) != 1)}"
    blind = len(now.coverage.blind_spots())
    missed = f"; {blind} looks failed" if blind else ""
    if done == LOOK_AGAIN:
        return f"Looked again at {at:%H:%M} UTC: nothing has changed on {hosts}{missed}."
    read = sum(fact.key in RISES and fact.status is Status.OK and not fact.key.startswith("kernel.") for fact in case.facts)
    if not read:
        return f"Could not read any error counter of {hosts} again{missed}."
    return f"Read {read} error counters again at {at:%H:%M} UTC: none rose on {hosts}{missed}."
