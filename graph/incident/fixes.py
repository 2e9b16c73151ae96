"""Fixes as part of a turn: a diagnosis builds ladders, the result of an action moves one, a human who takes over ends them.

Touches nothing but the evidence store; proposing and running is for those who tend the ladders between turns.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from graph.engine.after_repairs import after_repairs, cursors
from graph.engine.assess import Assessment
from graph.incident.case import Case, merged
from graph.incident.tickets import hand_over
from graph.ladders.build import Yard, ladders_for, mended_on, read_ladders, write_ladders
from graph.ladders.ends import HELD, describe, held_by, settled, stopped, withdrawn
from graph.ladders.exclusive_checks import look_ladders
from graph.ladders.moves import News, climb
from graph.ladders.preview import planned_actions
from graph.ports import Ports
from graph.state import Incident, Item, Ladder, Lifecycle, Report, Ticket

TAKES_OVER = {"hand_off": "handed to a human", "take": "taken by a human", "close": "the incident was closed", "stop": "somebody said stop"}
STUCK = frozenset({"hang", "nccl_timeout"})
MOST_KEPT = 16
QUIET = "quiet"


def fixes(state: Incident, case: Case, now: Assessment, ports: Ports, update: dict[str, Any]) -> dict[str, Any]:
    """What changes beside the turn's own update; empty for an incident without any fix."""
    ladders = read_ladders(state.get("ladders", []))
    kind = case.item.kind
    if is_look(case.item):
        return _diagnosed(case, now, ports, climb(ladders, News.of(case.item.data), yard_of(case, ports)), update)
    if kind == "action_result":
        return _result(state, case, now, ports, ladders, update)
    if kind in TAKES_OVER:
        return _taken_over(stopped(ladders, TAKES_OVER[kind]), update) if ladders else {}
    if kind == "timer" or "hypotheses" not in update:
        return {}
    return _diagnosed(case, now, ports, ladders, update)


def is_look(item: Item) -> bool:
    """Whether an exclusive check has answered: then the diagnosis is made anew."""
    return item.kind == "action_result" and item.data.get("remedy") == "run_check" and item.data.get("event") == "done"


async def with_results(case: Case, state: Incident, ports: Ports) -> Case:
    """The case with what the proof or check of its item saw. What a host said before it was changed is of the past."""
    if case.item.kind != "action_result":
        return case
    news, known = News.of(case.item.data), read_ladders(state.get("ladders", []))
    try:
        seen = await ports.evidence.facts(str(case.item.data.get("facts") or ""))
    except KeyError:
        seen = []
    since = cursors(known)
    about = next((row for row in known if news.approval and row.approval == news.approval), None)
    if about and about.now and about.now.part == "fix" and news.since:
        since[about.target] = news.since
    if not seen and not since:
        return case
    facts = after_repairs(merged(case.facts, seen), since)
    return replace(case, facts=facts, snapshot=await ports.evidence.put_facts(case.id, facts))


def yard_of(case: Case, ports: Ports) -> Yard:
    """What this incident's ladders are built from."""
    return Yard(
        incident=case.id,
        now=ports.clock.now(),
        inventory=ports.inventory,
        taxonomy=ports.taxonomy,
        facts=case.facts,
        job=case.brief.job,
        stuck=bool(STUCK & set(case.brief.symptoms)),
        waits=ports.waits,
    )


def _diagnosed(case: Case, now: Assessment, ports: Ports, known: list[Ladder], update: dict[str, Any]) -> dict[str, Any]:
    report: Report = update["report"]
    yard = yard_of(case, ports)
    believed = {(cause.label, host) for cause in report.root_causes for host in mended_on(cause, yard)}
    kept = withdrawn(known, believed) if report.outcome in ("diagnosed", "no_fault") else known
    built = ladders_for(report.root_causes, yard, kept, anew=case.item.kind == "recheck")
    looks = look_ladders(now, yard, kept) if report.outcome == "abstained" else []
    ladders = settled([*kept, *built.ladders, *looks], yard)
    if not ladders and not built.by_hand:
        return {}
    more = {"actions": tuple(planned_actions(ladders, yard)), "by_hand": built.by_hand}
    return _stored(ladders) | {"report": report.model_copy(update=more), "lifecycle": lifecycle(ladders, update.get("lifecycle", "open"))}


def _result(state: Incident, case: Case, now: Assessment, ports: Ports, known: list[Ladder], update: dict[str, Any]) -> dict[str, Any]:
    news = News.of(case.item.data)
    if news.kind == QUIET:
        return _quiet(known, state, update)
    yard = yard_of(case, ports)
    ladders = climb(known, news, yard)
    changed = [row for row in ladders if row not in known]
    if not changed:
        return {"lifecycle": state.get("lifecycle", "open")}
    said = [describe(row, ports.taxonomy.title(row.label)) for row in changed]
    report: Report = update["report"]
    report = report.model_copy(update={"reply": "\n".join(said), "actions": tuple(planned_actions(ladders, yard)), "by_hand": ()})
    found: dict[str, Any] = _stored(ladders) | {"report": report, "lifecycle": lifecycle(ladders, state.get("lifecycle", "open"))}
    if found["lifecycle"] == "handed_off":
        found["ticket"] = _ticket(hand_over(state, case, now, report), ladders, ports)
    return found


def _taken_over(ladders: list[Ladder], update: dict[str, Any]) -> dict[str, Any]:
    """A hand-off lists what is still held."""
    held = held_by(ladders)
    found = _stored(ladders) | {"report": update["report"].model_copy(update={"actions": (), "by_hand": tuple(held)})}
    if held and update.get("ticket"):
        ticket = Ticket.model_validate(update["ticket"])
        found["ticket"] = ticket.model_copy(
            update={"summary": "\n".join((ticket.summary, "Held:", *(f"  {row}" for row in held)))}
        ).model_dump(mode="json")
    return found


def _ticket(ticket: Ticket, ladders: Sequence[Ladder], ports: Ports) -> dict[str, Any]:
    lines = ["Fixes:", *(f"  {describe(row, ports.taxonomy.title(row.label))}" for row in ladders)]
    held = held_by(ladders)
    lines += ["Held:", *(f"  {row}" for row in held)] if held else []
    return ticket.model_copy(update={"summary": "\n".join((ticket.summary, *lines))}).model_dump(mode="json")


def _quiet(ladders: Sequence[Ladder], state: Incident, update: dict[str, Any]) -> dict[str, Any]:
    """Cured and nobody said anything since: the incident ends by itself."""
    if not all_cured(ladders) or state.get("lifecycle") != "watching":
        return {"report": update["report"].model_copy(update={"reply": ""}), "lifecycle": state.get("lifecycle", "open")}
    reply = "Closed by itself: the fix was proved twice and all has been quiet since."
    return {"report": update["report"].model_copy(update={"reply": reply}), "lifecycle": "closed"}


def all_cured(ladders: Sequence[Ladder]) -> bool:
    """Whether every fix is through, and one held."""
    return any(row.outcome == "cured" for row in ladders) and all(row.outcome and row.outcome not in HELD for row in ladders)


def lifecycle(ladders: Sequence[Ladder], before: Lifecycle) -> Lifecycle:
    """What the ladders make of the incident. What a human has taken or ended stays so."""
    if before in ("handed_off", "closed") or not ladders:
        return before
    going = [row for row in ladders if row.open]
    if any(row.waiting_for != "proof" for row in going) or any(row.outcome == "unknown" for row in ladders):
        return "waiting"
    if going or all_cured(ladders):
        return "watching"
    if any(row.outcome == "ticket" for row in ladders):
        return "handed_off"
    return "open" if before == "watching" else before


def _stored(ladders: Sequence[Ladder]) -> dict[str, Any]:
    """All open ladders, and the latest of the others."""
    over = [row.id for row in ladders if not row.open]
    gone = set(over[: max(0, len(ladders) - MOST_KEPT)])
    return {"ladders": write_ladders(row for row in ladders if row.id not in gone)}
