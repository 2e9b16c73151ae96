"""Last node: what this turn concluded, in one report. The item is marked as done in the same checkpoint that holds its report."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from langgraph.runtime import Runtime

from graph.deciding import telling_pictures
from graph.engine.assess import Assessment
from graph.engine.peers import Baseline, baselines
from graph.engine.reference import is_text
from graph.incident.about import about_hosts, causes_in_order, differences_said, foreign_said, kept_out, old_said
from graph.incident.about import in_words as about_in_words
from graph.incident.again import looked_again, with_changes
from graph.incident.answers.table import answer
from graph.incident.answers.unproven import unproven
from graph.incident.case import Case, read_case, weigh
from graph.incident.concluded import Concluded
from graph.incident.crossing import with_crossing
from graph.incident.execute import ENDS
from graph.incident.fixes import asks_anew, is_look, with_fixes, with_results
from graph.incident.guiding.steps import no_such_guide, unknown_guide, with_guide
from graph.incident.lifecycle import Came, becomes
from graph.incident.questions import asked_of_customer, logs_of, silence_after, suggestions_for
from graph.incident.reflect import hypotheses_of
from graph.incident.second_look import second_look_after, with_second_look
from graph.incident.thinking.checked import checked
from graph.incident.thinking.exploring import tried_out
from graph.incident.thinking.suspecting import likely_cause
from graph.incident.tickets import hand_over
from graph.learning.noted import with_notes
from graph.learning.recalled import with_recalled
from graph.milestones import milestones_after
from graph.ports import Ports, Progress
from graph.reading import counts
from graph.reading.logs import handful
from graph.reading.suspected import suspected_causes
from graph.reading.unknown import hosts_said, job_said
from graph.report import AboutHosts, FileRead, Report, ShownPicture
from graph.state import Blind, Hypothesis, Incident, Outcome, Stats
from tools.fact import Status
from tools.inventory.ranges import fold

LOOKED_AT_NO_MACHINE = "I looked at no machine."

MOST_BESIDE = 3
MOST_BLIND, MOST_DONE, MOST_ASKED, LIKELIEST = 20, 50, 12, 2
LONGEST_REASON = 120
ANSWER = "Answer the questions, or hand the incident over."
TELL_MORE = "I have no more questions: tell me anything new, say recheck, or hand the incident over."


async def conclude(state: Incident, runtime: Runtime[Ports]) -> dict[str, Any]:
    """Report, lifecycle, and a ticket where a human has to go on."""
    ports = runtime.context
    case = await with_results(await read_case(state, ports), ports)
    now = await weigh(case, ports)
    lost = unknown_guide(case, ports)
    diagnosing = (case.looks or is_look(case.item)) and not (case.stands or lost)
    said = _with_files(
        _with_pictures(_noted(_looked(case, now, ports), case, now, ports), case)
        if diagnosing
        else no_such_guide(case, ports)
        if lost
        else await answer(case, now, ports),
        case,
    )
    if diagnosing:
        said = await asyncio.to_thread(with_crossing, said, case, now, ports.inventory)
    concluded = await with_fixes(said, case, now, ports)
    kept: dict[str, Any] = {}
    if diagnosing:
        concluded, kept = await checked(_to_people(concluded, case, now), case, now, ports)
        concluded = with_guide(concluded, case, now, ports)
    lifecycle, at = concluded.lifecycle or case.lifecycle, ports.clock.now()
    second = second_look_after(case, now, concluded.report, lifecycle, diagnosing, ports.waits, at)
    if diagnosing:
        concluded = with_second_look(concluded, case, now, second, at)
        await ports.remember(well_baselines(case, now))
    await ports.progress(Progress(case.id, "conclude", concluded.report.headline or concluded.report.reply))
    marked = milestones_after(case, concluded.report, lifecycle, diagnosing, ports.clock.now())
    before = case.stored.get("second_look", {})
    silence = silence_after(case, concluded.report, lifecycle, ports.clock.now()).model_dump(mode="json", exclude_defaults=True)
    return {
        **concluded.write(),
        **kept,
        **({"stopped": False} if case.stopped and (lifecycle == "closed" or (diagnosing and asks_anew(case))) else {}),
        **({"milestones": rows} if (rows := [row.kept() for row in marked]) != case.stored.get("milestones", []) else {}),
        **({"second_look": waiting} if (waiting := second.model_dump(mode="json", exclude_defaults=True)) != before else {}),
        **({"silence": silence} if silence != case.stored.get("silence", {}) else {}),
        "facts": case.snapshot,
        "stats": _cost(case, ports).model_dump(mode="json", exclude_defaults=True),
        "turns": case.stored.get("turns", 0) + 1,
        "done_items": [*case.done_items, case.item.id][-MOST_DONE:],
        "to_look": [],
        "tier": "done",
    }


def _with_files(concluded: Concluded, case: Case) -> Concluded:
    """With the files that came with the item acknowledged, once."""
    if not case.turn.files and not concluded.report.files:
        return concluded
    files = tuple(FileRead.model_validate(row) for row in case.turn.files)
    report = concluded.report.model_copy(update={"files": files})
    return replace(concluded, report=report, turn=replace(concluded.turn or case.turn, files=()))


def _looked(case: Case, now: Assessment, ports: Ports) -> Concluded:
    """The diagnosis; where only what decided before was looked at, as an answer to whoever said how it is now."""
    found = _diagnosis(case, now, ports)
    if case.turn.news and not case.turn.cut:
        about = found.report.about
        causes = "; ".join(_named(now, row) for row in found.report.root_causes[:3])
        return with_changes(found, case, causes, about_in_words(about, case.item.at) if about else "")
    return looked_again(found, case, now, ports) if case.turn.narrow else found


def _noted(said: Concluded, case: Case, now: Assessment, ports: Ports) -> Concluded:
    """With what the site's own pages say of its causes, or where none was found of the likeliest."""
    if not ports.pages:
        return said
    hosts = {name: ports.inventory.hosts[name] for name in case.hosts if name in ports.inventory.hosts}
    likely = list(now.standings)[:LIKELIEST]
    return replace(said, report=with_notes(said.report, ports.pages, case.brief.text, likely, hosts))


def _with_pictures(said: Concluded, case: Case) -> Concluded:
    """How fast hosts are at each message size is shown where that was measured, and the number that decided where it stands out; nobody needs
    to ask."""
    sizes = {str(fact.attrs.get("size")) for fact in case.facts if fact.key == "nccl.busbw_at" and fact.status is Status.OK}
    measured = (ShownPicture(kind="bandwidth", asked=False),) if len(sizes) > 1 else ()
    shown = (*measured, *telling_pictures(said.report.root_causes, case.facts))
    return replace(said, report=said.report.model_copy(update={"pictures": shown})) if shown else said


def _cost(case: Case, ports: Ports) -> Stats:
    """What the incident has cost by now: the model's share, and the time that people waited."""
    update: dict[str, Any] = {}
    if case.turn.began:
        seconds = (ports.clock.now() - datetime.fromisoformat(case.turn.began)).total_seconds()
        update["wall_seconds"] = round(case.stats.wall_seconds + max(0.0, seconds), 3)
    if ports.model is not None:
        spent = ports.model.spent(case.id)
        update |= {"model_calls": spent.calls, "tokens_in": spent.tokens_in, "tokens_out": spent.tokens_out, "usd": spent.usd}
    return case.stats.model_copy(update=update)


def _diagnosis(case: Case, now: Assessment, ports: Ports) -> Concluded:
    turn, outcome = case.turn, _outcome(case, now)
    here, elsewhere = causes_in_order(case, now)
    about, roots = about_hosts(case, now), (*here, *elsewhere)
    suspected = suspected_causes(case.brief.text, now.lens.taxonomy)
    questions = () if outcome in ("diagnosed", "no_fault") or turn.cut in ENDS else turn.questions
    likely = likely_cause(case, now, ports.taxonomy) if outcome in ("abstained", "no_fault") and not turn.cut else None
    report = Report(
        item=case.item.id,
        outcome=outcome,
        headline=headline(case, now, outcome, here, about),
        root_causes=roots,
        ruled_out=tuple(
            row.model_copy(update={"evidence": (), "checks": (), "because": row.because[:LONGEST_REASON]})
            for row in now.ruled_out(suspected=suspected)
            if likely is None or row.label != likely.label
        ),
        could_not_look=blind_of_every_host(now.could_not_look()),
        questions=questions,
        differs=() if outcome == "diagnosed" else differences_said(case, now),
        old=old_said(case, now),
        suggestions=() if outcome in ("diagnosed", "no_fault") else tuple(suggestions_for(case, now)),
        likely=likely,
        outside=turn.outside if outcome == "no_fault" and likely is None else "",
        ideas=case.explored.ideas if outcome == "abstained" and not turn.cut else (),
        doubts=turn.doubts if outcome == "diagnosed" else (),
        without_model=turn.without_model,
        unkept=ports.evidence.trouble(),
        next_step=_next_step(now, roots, outcome, questions) if here or not elsewhere else _elsewhere(now, elsewhere[0]),
        logs=handful(case.logs if roots else logs_of(case)),
        about=about,
        also_seen=tuple(row.label for row in elsewhere),
        unknown_hosts=case.unknown(turn.unknown),
        read_as=turn.read_as,
        unknown_job=turn.unknown_job,
        why_nowhere=turn.why_nowhere,
    )
    return Concluded(
        with_recalled(report, turn.recalled),
        lifecycle=becomes(case.lifecycle, _came(case, report)),
        turn=replace(turn, asked=(*turn.asked, *questions)[-MOST_ASKED:], hosts=fold(case.in_question) if turn.only else turn.hosts),
        hypotheses=hypotheses_of(now, turn.past, "taxonomy"),
        ticket=hand_over(case, now, report) if _with_people(case) else None,
    )


def blind_of_every_host(rows: Sequence[Blind]) -> tuple[Blind, ...]:
    """Return at most `MOST_BLIND` failed looks: one of each host before the second of any, so that the cut hides no host while it can."""
    turns: Counter[str] = Counter()
    places = []
    for row in rows:
        places.append(turns[row.host])
        turns[row.host] += 1
    kept = sorted(range(len(rows)), key=lambda at: (places[at], at))[:MOST_BLIND]
    return tuple(rows[at] for at in sorted(kept))


def well_baselines(case: Case, now: Assessment) -> dict[str, Baseline]:
    """What the hosts look like on which nothing is abnormal: what they should look like the next time."""
    sick = {fact.host for fact in now.odd} | {host for row in now.roots for host in (*row.accused, *row.shown)}
    return {host: row for host, row in baselines(case.facts).items() if host not in sick}


def _to_people(concluded: Concluded, case: Case, now: Assessment) -> Concluded:
    """Where nothing is proven, or nothing that a customer may be told, and there is nothing left that they could be asked, or our own people answered
    as often as ideas are made anew, people go on; they are told so, and it is true."""
    report, lifecycle = concluded.report, concluded.lifecycle or case.lifecycle
    theirs = case.origin is not None and case.origin.customer is not None
    ladders = case.ladders if concluded.ladders is None else concluded.ladders
    waits = case.turn.cut or _with_people(case) or any(row.open for row in ladders)
    over = theirs and not asked_of_customer(case, report)
    undecided = report.outcome == "abstained" or (theirs and report.withheld)
    if not (over or tried_out(case)) or not undecided or lifecycle not in ("open", "waiting") or waits:
        return concluded
    report = report.model_copy(update={"next_step": "Take the ticket."})
    return replace(concluded, report=report, lifecycle=becomes(lifecycle, Came.HAND_OFF), ticket=hand_over(case, now, report))


def _outcome(case: Case, now: Assessment) -> Outcome:
    """What looking found. Where that is nothing people may hand the incident over; an answer of theirs never does."""
    return "abstained" if case.turn.cut and now.finding != "diagnosed" else now.finding


def _with_people(case: Case) -> bool:
    """Whether a ticket of it lies with people: it stays there, brought up to date."""
    return case.ticket is not None and case.ticket.handed and case.ticket.state != "resolved"


def _nowhere(case: Case) -> bool:
    """Only hosts or a job were named that nobody knows."""
    return bool(case.turn.unknown or case.turn.unknown_job) and not case.hosts


def _came(case: Case, report: Report) -> Came:
    if _with_people(case):
        return Came.TO_PEOPLE
    return Came.QUESTION if report.questions else Came.NOTHING_OPEN


def _next_step(now: Assessment, roots: Sequence[Hypothesis], outcome: Outcome, questions: Sequence[str]) -> str:
    if roots:
        return now.lens.taxonomy.leaf(roots[0].label).next_step
    if now.hidden and outcome == "abstained":
        look = now.hidden[0]
        return f"Let {look.names} look at {fold(look.hosts)}: approve it where it is put up for decision, or free the GPUs and say recheck."
    if now.odd and now.odd[0].key == "sched.state" and (reason := now.odd[0].attrs.get("reason")):
        who = now.odd[0].attrs.get("by") or "whoever took it out"
        return f"Ask {who} before {now.odd[0].host} goes back into service: {reason}"[:LONGEST_REASON]
    if outcome == "no_fault":
        return "Nothing to mend on these machines; tell me more if it happens again."
    return ANSWER if questions else TELL_MORE


def _elsewhere(now: Assessment, row: Hypothesis) -> str:
    return f"For {_named(now, row)}: {now.lens.taxonomy.leaf(row.label).next_step}"


def headline(case: Case, now: Assessment, outcome: Outcome, roots: Sequence[Hypothesis], about: AboutHosts | None) -> str:
    """One sentence, and before it which hosts answer that were reported not to. `roots` are the causes on the hosts asked about: what was seen
    elsewhere is never the headline of a question."""
    said = _headline(case, now, outcome, roots, about)
    closed = kept_out(now, case.brief.hosts)
    answer = () if roots or case.turn.cut else tuple(host for host in answering_hosts(case) if host not in closed)
    foreign = "" if case.turn.unknown else foreign_said(case)
    said = f"{foreign} {said}".strip()
    return f"{fold(answer)} answer{'s' * (len(answer) == 1)}. {said}" if answer else said


def answering_hosts(case: Case) -> tuple[str, ...]:
    """Return the named hosts that answered although the report says that they do not."""
    if "unreachable" not in case.brief.symptoms:
        return ()
    answered = {fact.host for fact in case.facts if fact.status is Status.OK}
    return tuple(host for host in case.brief.hosts if host in answered)


def _headline(case: Case, now: Assessment, outcome: Outcome, roots: Sequence[Hypothesis], about: AboutHosts | None) -> str:
    if about and not roots and not case.turn.cut:
        return about_in_words(about, case.item.at)
    if roots:
        return "; ".join(_named(now, row) for row in roots[:3]) + (f" and {len(roots) - 3} more" if len(roots) > 3 else "")
    if _nowhere(case):
        said = (hosts_said(case.unknown(case.turn.unknown)), job_said(case.turn.unknown_job, case.turn.why_nowhere))
        return " ".join((*filter(None, said), LOOKED_AT_NO_MACHINE))
    if case.turn.cut:
        what = "Stopped on request" if case.turn.cut in ENDS else "News came while I was looking"
        return f"{what}: {counts.looked(case.stats)}, no cause proven so far."
    if outcome == "no_fault":
        reported = tuple(row.says for row in unproven(case, now) if row.reported)
        beside = (*reported[:1], *old_said(case, now)[:1], *differences_said(case, now)[:1])
        return f"No fault found: {counts.looked(case.stats)}, nothing abnormal{f', but {beside[0]}' if beside else ''}."
    why = now.why_unsure[0] if now.why_unsure else "nothing was decisive"
    return f"No cause proven: {counts.looked(case.stats)}; {why}{_more_handed_in(now)}."


def _more_handed_in(now: Assessment) -> str:
    """The other events of machines that people handed in, where the first stands for them: the mildest may have come first."""
    odd = [fact for fact in now.odd if not fact.host and not is_text(fact.key)]
    if len(odd) < 2 or now.odd[0] is not odd[0] or now.suspects:
        return ""
    more = f" and {len(odd) - 1 - MOST_BESIDE} more" if len(odd) - 1 > MOST_BESIDE else ""
    return "".join(f"; also {fact.in_words()}" for fact in odd[1 : 1 + MOST_BESIDE]) + more


def _named(now: Assessment, row: Hypothesis) -> str:
    where = ", ".join(row.devices[:4]) or (fold(row.hosts) if row.hosts else "no machine at fault")
    return f"{now.lens.taxonomy.title(row.label)} ({where})"
