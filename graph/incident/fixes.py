"""Fixes as part of a turn: a diagnosis builds ladders, the result of an action moves one, a human who takes over ends them.

Touches nothing but the evidence store; proposing and running is for those who tend the ladders between turns.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from graph.engine.after_repairs import after_repairs, cursors
from graph.engine.assess import Assessment, assess
from graph.incident.case import Case, lens_of, merged
from graph.incident.concluded import Concluded
from graph.incident.lifecycle import Came, all_cured, becomes, of_fixes
from graph.incident.tickets import hand_over
from graph.ladders.build import Yard, ladders_for, left_to_people, mended_on
from graph.ladders.ends import describe, ended, left_to_others, settled, stopped, withdrawn
from graph.ladders.exclusive_checks import look_ladders
from graph.ladders.fault import contradicted, rests_on
from graph.ladders.held import held_by, may_come_back, on_the_way_back
from graph.ladders.moves import News, climb
from graph.ladders.preview import planned_actions
from graph.ladders.shared import Spot, kept_elsewhere, shared_causes, spots_of, spots_of_ladders
from graph.ports import Ports
from graph.report import Report, SharedCause
from graph.state import Hypothesis, Item, Ladder, Ticket
from tools.action import FaultCondition
from tools.fact import Fact

TAKES_OVER = {
    "hand_off": "handed to a human",
    "take": "taken by a human",
    "wait": "taken by a human",
    "close": "the incident was closed",
    "stop": "somebody said stop",
}
TELLS_OF_FIXES = frozenset({"stop", "status", "action_result"})
"""Kinds of items whose answers offer what is held; where there is a ticket, its card does."""
STUCK = frozenset({"hang", "nccl_timeout"})
MOST_KEPT = 80
"""Ladders that are remembered: whether the first of many passed decides about those that wait."""
QUIET = "quiet"


async def with_fixes(concluded: Concluded, case: Case, now: Assessment, ports: Ports) -> Concluded:
    """The same with what it means for the fixes, and with what is held where fixes are told of."""
    after = await _with_fixes(concluded, case, now, ports)
    ladders = case.ladders if after.ladders is None else after.ladders
    offered = may_come_back(ladders) if case.kind in TELLS_OF_FIXES and after.report.reply else ()
    return after if after.report.held == offered else replace(after, report=after.report.model_copy(update={"held": offered}))


async def _with_fixes(concluded: Concluded, case: Case, now: Assessment, ports: Ports) -> Concluded:
    """As it was for an incident without any."""
    kind = case.kind
    if is_look(case.item):
        return await _diagnosed(concluded, climb(case.ladders, News.of(case.item.data), yard_of(case, ports)), case, now, ports)
    if kind == "action_result":
        return _result(concluded, case, now, ports)
    if kind in TAKES_OVER:
        return _taken_over(concluded, stopped(case.ladders, TAKES_OVER[kind]), ports) if case.ladders else concluded
    if kind == "timer" and concluded.lifecycle == "closed" and case.ladders:
        return _taken_over(concluded, stopped(case.ladders, "nobody said anything for days"), ports)
    if kind == "timer" and concluded.lifecycle == "handed_off" and case.ladders:
        return _taken_over(concluded, stopped(case.ladders, TAKES_OVER["hand_off"]), ports)
    if kind == "timer" or concluded.hypotheses is None:
        return concluded
    return await _diagnosed(concluded, case.ladders, case, now, ports)


def asks_anew(case: Case) -> bool:
    """Return whether people asked for this look after they ended a fix. A look because another incident let a cause go is not asked for."""
    return case.looks and "why" not in case.item.data and (case.kind == "recheck" or case.stopped)


def is_look(item: Item) -> bool:
    """Whether an exclusive check has answered: then the diagnosis is made anew."""
    return item.kind == "action_result" and item.data.get("remedy") == "run_check" and item.data.get("event") == "done"


async def with_results(case: Case, ports: Ports) -> Case:
    """The case with what the proof or check of its item saw. What a host said before it was changed is of the past."""
    if case.item.kind != "action_result":
        return case
    news = News.of(case.item.data)
    try:
        seen = await ports.evidence.facts(str(case.item.data.get("facts") or ""))
    except KeyError:
        seen = []
    since = cursors(case.ladders)
    about = next((row for row in case.ladders if news.approval and row.approval == news.approval), None)
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


async def _diagnosed(concluded: Concluded, known: Sequence[Ladder], case: Case, now: Assessment, ports: Ports) -> Concluded:
    report, yard = concluded.report, yard_of(case, ports)
    believed = {(cause.label, host) for cause in report.root_causes for host in mended_on(cause, yard)}
    kept, wanted = withdrawn(known, believed | _undenied(known, report, case, now, ports)), to_be_mended(report, case)
    elsewhere = await _elsewhere(report, wanted, kept, case, ports, now)
    kept = left_to_others(kept, elsewhere)
    asked = asks_anew(case)
    built = ladders_for(wanted, yard, kept, anew=asked, elsewhere=elsewhere)
    looks = look_ladders(now, yard, kept) if report.outcome == "abstained" else []
    ladders = settled(_resting([*kept, *built.ladders], believed, case, ports) + looks, yard)
    aside = [row for row in report.root_causes if row not in wanted and row.label in report.also_seen]
    known_there = await _known_to_others(aside, yard, ports)
    shared = (*shared_causes(wanted, elsewhere), *shared_causes(aside, known_there, waits=False))
    report = _let_go_of(_pointing(report, shared), case, ports)
    if not ladders and not built.by_hand:
        return replace(concluded, report=report)
    by_hand = tuple(dict.fromkeys((*built.by_hand, *left_to_people(kept, ports.taxonomy))))
    report = report.model_copy(update={"actions": tuple(planned_actions(ladders, yard)), "by_hand": by_hand})
    return replace(concluded, report=report, ladders=_kept(ladders), lifecycle=becomes(concluded.lifecycle or "open", of_fixes(ladders)))


def to_be_mended(report: Report, case: Case) -> tuple[Hypothesis, ...]:
    """The causes whose fixes are put up, in their order. Who only asks how a host is calls nobody to what is wrong elsewhere, and what
    people say it was not is put up again by nobody but them."""
    only_asked = case.turn.question and not case.brief.job
    denied = case.correction.denied if case.correction else ()
    return tuple(row for row in report.root_causes if not (only_asked and row.label in report.also_seen) and row.label not in denied)


async def _elsewhere(
    report: Report, wanted: Sequence[Hypothesis], kept: Sequence[Ladder], case: Case, ports: Ports, now: Assessment
) -> Mapping[Spot, str]:
    """Which of these causes another incident keeps. Ours stays what we treat, and what this turn could not look at."""
    yard = yard_of(case, ports)
    spots = spots_of(wanted, yard)
    before = case.report.root_causes if case.report and report.outcome == "abstained" else ()
    unseen = [row for row in before if (standing := now.standings.get(row.label)) is None or standing.verdict != "rejected"]
    ours = {**{spot: names for spot, names in spots_of(unseen, yard).items() if not spot[1]}, **spots_of_ladders(kept)}
    names = dict.fromkeys(name for row in (*spots.values(), *ours.values()) for name in row)
    return kept_elsewhere(spots, await ports.keep(case.id, tuple(names)))


async def _known_to_others(aside: Sequence[Hypothesis], yard: Yard, ports: Ports) -> Mapping[Spot, str]:
    """Which of the causes that nobody asked this incident about others keep. It keeps none of them itself."""
    spots = spots_of(aside, yard)
    names = dict.fromkeys(name for row in spots.values() for name in row)
    return kept_elsewhere(spots, await ports.keepers(yard.incident, tuple(names))) if names else {}


def _pointing(report: Report, shared: tuple[SharedCause, ...]) -> Report:
    """The report with the causes that others keep. Where that is all of them, there is nothing to do here."""
    if not shared:
        return report
    all_theirs = {row.label for row in report.root_causes} == {row.label for row in shared}
    return report.model_copy(update={"shared": shared, "next_step": "" if all_theirs else report.next_step})


def _let_go_of(report: Report, case: Case, ports: Ports) -> Report:
    """The report of a look because another incident let go of a cause, with what became of it as this one sees it: of the other thread nothing
    is told but that."""
    was = case.report.shared if case.report and case.kind == "recheck" and "why" in case.item.data else ()
    labels = list(dict.fromkeys(row.label for row in was if row.waits and row.label not in {kept.label for kept in report.shared}))
    shown = {row.label for row in report.root_causes}
    unseen = "I could not see whether it is gone" if report.outcome == "abstained" else "it does not show here any more"
    left = "it still shows here, so it is decided here now"
    ends = [f"{ports.taxonomy.title(label)}: {left if label in shown else unseen}." for label in labels]
    if not ends:
        return report
    says = " ".join(["The other thread that worked on it has let go.", *ends])
    return report.model_copy(update={"reply": f"{says}\n{report.reply}"} if report.reply else {"changed": says})


def _undenied(known: Sequence[Ladder], report: Report, case: Case, now: Assessment, ports: Ports) -> set[tuple[str, str]]:
    """Causes that were not shown in this turn, and that nothing denies: where one could not look, what was found before stands."""
    sure = report.outcome in ("diagnosed", "no_fault")
    return {(row.label, row.target) for row in known if row.open and not (_denied(row, case, now, ports) if row.fault else sure)}


def _denied(ladder: Ladder, case: Case, now: Assessment, ports: Ports) -> bool:
    """Whether the facts contradict a cause: on all hosts (something else explains it, or nothing shows it), or on its own."""
    standing = now.standings.get(ladder.label)
    rejected = standing is not None and standing.verdict == "rejected"
    return rejected or contradicted(ladder, alone_on(ladder.target, case, ports)[1])


def _resting(ladders: Sequence[Ladder], believed: Collection[tuple[str, str]], case: Case, ports: Ports) -> list[Ladder]:
    """Those whose cause this turn has shown, with what it rests on."""
    return [
        row.model_copy(update={"fault": what_it_rests_on(row, case, ports)}) if row.open and (row.label, row.target) in believed else row
        for row in ladders
    ]


def what_it_rests_on(ladder: Ladder, case: Case, ports: Ports) -> FaultCondition:
    """The fault that a ladder is for, as the facts show it."""
    facts, alone = alone_on(ladder.target, case, ports)
    return rests_on(ladder, alone, facts)


def alone_on(host: str, case: Case, ports: Ports) -> tuple[list[Fact], Assessment]:
    """What a host says of itself, as a later look at it alone will be judged."""
    facts = [fact for fact in case.facts if fact.host == host]
    return facts, assess(facts, lens_of(ports, case.facts), [host])


def _result(concluded: Concluded, case: Case, now: Assessment, ports: Ports) -> Concluded:
    news = News.of(case.item.data)
    if news.kind == QUIET:
        return _quiet(concluded, case)
    yard = yard_of(case, ports)
    ladders = climb(case.ladders, news, yard)
    if case.lifecycle == "closed":
        ladders = [row if on_the_way_back(row) or not row.open else ended(row, "stopped", "the incident is closed") for row in ladders]
    changed = [row for row in ladders if row not in case.ladders]
    after = becomes(case.lifecycle, of_fixes(ladders))
    if not changed:
        return replace(concluded, lifecycle=case.lifecycle)
    said = [describe(row, ports.taxonomy.title(row.label)) for row in changed]
    actions = tuple(planned_actions(ladders, yard))
    by_hand = () if after == "closed" else _by_hand(concluded.report, case, ladders, yard)
    report = concluded.report.model_copy(update={"reply": "\n".join(said), "actions": actions, "by_hand": by_hand})
    ticket = _with_ladders(hand_over(case, now, report), ladders, ports) if after == "handed_off" else concluded.ticket
    return replace(concluded, report=report, ladders=_kept(ladders), lifecycle=after, ticket=ticket)


def _by_hand(report: Report, case: Case, ladders: Sequence[Ladder], yard: Yard) -> tuple[str, ...]:
    """What is left to people after an action: of fixes what their plan says, of other causes what was left to them before."""
    done = {(row.label, row.target) for row in ladders} | {(row.label, host) for row in report.shared for host in row.hosts or ("",)}
    others = ladders_for(to_be_mended(report, case), yard, ladders, elsewhere=done).by_hand
    return tuple(dict.fromkeys((*others, *left_to_people(ladders, yard.taxonomy))))


def _taken_over(concluded: Concluded, ladders: Sequence[Ladder], ports: Ports) -> Concluded:
    """A hand-off lists what is still held."""
    held = held_by(ladders, ports.taxonomy)
    lines = _section("Held:", held) if concluded.report.reply else []
    reply = "\n".join((concluded.report.reply, *lines))
    report = concluded.report.model_copy(update={"reply": reply, "actions": (), "by_hand": tuple(held)})
    ticket = _lengthened(concluded.ticket, _section("Held:", held)) if concluded.ticket else None
    return replace(concluded, report=report, ladders=_kept(ladders), ticket=ticket)


def _with_ladders(ticket: Ticket, ladders: Sequence[Ladder], ports: Ports) -> Ticket:
    fixes = [describe(row, ports.taxonomy.title(row.label)) for row in ladders]
    return _lengthened(ticket, [*_section("Fixes:", fixes), *_section("Held:", held_by(ladders, ports.taxonomy))])


def _section(title: str, rows: Sequence[str]) -> list[str]:
    return [title, *(f"  {row}" for row in rows)] if rows else []


def _lengthened(ticket: Ticket, lines: Sequence[str]) -> Ticket:
    return ticket.model_copy(update={"summary": "\n".join((ticket.summary, *lines))})


def _quiet(concluded: Concluded, case: Case) -> Concluded:
    """Cured and nobody said anything since: the incident ends by itself."""
    after = becomes(case.lifecycle, Came.CURED_QUIET if all_cured(case.ladders) else None)
    over = after != case.lifecycle
    reply = "Closed by itself: the fix was proved twice and all has been quiet since." if over else ""
    report = concluded.report.model_copy(update={"reply": reply})
    return replace(concluded, report=report, lifecycle=after)


def _kept(ladders: Sequence[Ladder]) -> list[Ladder]:
    """All open ladders, those whose nodes we hold, and the latest of the others."""
    over = [row.id for row in ladders if not row.open and not row.drained]
    gone = set(over[: max(0, len(ladders) - MOST_KEPT)])
    return [row for row in ladders if row.id not in gone]
