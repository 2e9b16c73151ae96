"""What people wish for: a test, a fix, or its way back. It becomes a card through the same ladders as what we propose, or the reason why not.

Nothing is wished that no cause asks for, and nothing runs before somebody presses Approve.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from graph.incident.answers.known import Asked, cited, looked_with, meant, name_of, of_host, say, unknown_said
from graph.incident.answers.people import brief
from graph.incident.answers.states import not_looked
from graph.incident.answers.unproven import told
from graph.incident.concluded import Concluded
from graph.incident.fixes import what_it_rests_on, yard_of
from graph.incident.lifecycle import becomes, of_fixes
from graph.ladders.build import Yard, ladders_for
from graph.ladders.ends import describe
from graph.ladders.exclusive_checks import MOST_HOSTS, wished_look
from graph.ladders.held import beside, no_return, on_the_way_back
from graph.ladders.moves import RETURN, News, climb
from graph.ladders.preview import planned_actions
from graph.ladders.steps import steps_of
from graph.state import Hypothesis, Ladder
from tools.inventory.ranges import expand, fold
from tools.remedies import REMEDIES

MOST_WISHED = 8
ON_APPROVE = "starts only when somebody presses Approve."
NO_CARD, NOTHING_TO_UNDO = "I put up no card", "There is nothing to undo"
"""What a refusal begins with."""
WHICH_HOSTS = "Which hosts do you mean?"
"""What is asked where a wish names hosts and speaks of others, too: “drain everything, leave gpu-003”."""
_LONGEST_WISH = 400
"""Characters of a wish in which words for other hosts are looked for."""
_MORE_HOSTS = re.compile(
    r"\b(?:(?:all|every|each|any)\b(?!(?: of)?(?: the| its| \d{1,2})? (?:gpus?|cards?|devices?|jobs?|process\w*|ranks?)\b)"
    r"|everything|anything|everyone|others?|rest|remaining|instead of|rather than|without|minus|leave|keep|spare|unless"
    r"|(?:don['’]?t|do not|never|not) (?:drain|reboot|reset|restart|touch|cycle|power|cancel|kill|run|test|return|undo|resume)\w*)\b",
    re.IGNORECASE,
)
AGAIN = frozenset({"undecided", "denied", "stopped", "withdrawn"})
"""Ends after which a fix may be put up once more."""


def put_up(asked: Asked, lines: Sequence[str], ladders: Sequence[Ladder]) -> Concluded:
    """The answer with ladders that have changed; whoever tends them puts up what waits for a decision."""
    case, yard = asked.case, yard_of(asked.case, asked.ports)
    told = say(asked, lines)
    report = told.report.model_copy(update={"actions": tuple(planned_actions(ladders, yard))})
    return replace(told, report=report, ladders=list(ladders), lifecycle=becomes(case.lifecycle, of_fixes(ladders)))


async def run_check(asked: Asked) -> Concluded:
    """A test that needs idle GPUs, put up for decision on the hosts named."""
    checks, named = asked.now.lens.checks, meant(asked)
    if unclear := which_hosts(asked):
        return say(asked, unclear)
    hosts = named.hosts[:MOST_HOSTS] if named.named else ()  # whose GPUs are taken is nobody's guess
    row = checks.get(asked.said.check)
    able = ", ".join(check.id for check in checks.values() if check.exclusive)
    if row is None:
        return say(asked, [*unknown_said(asked), f"Which test? I know {able}. For example “run nccl1 on {next(iter(hosts), 'gpu-002')}”."])
    if not row.exclusive:
        free = f"{name_of(row.id)} disturbs nobody, so it needs no card: say `recheck {fold(hosts or named.hosts)}` and it is read now."
        return say(asked, [*unknown_said(asked), free])
    if not hosts:
        return say(asked, [*unknown_said(asked), f"On which hosts? For example “run {row.id} on gpu-[001-002]”."])
    if row.scope != "host" and len(hosts) < 2:
        return say(asked, [*unknown_said(asked), f"{row.id} measures between hosts, so it needs at least two."])
    target = ",".join(sorted(hosts))
    if any(one.open and one.target == target and one.now and one.now.args.get("check") == row.id for one in asked.case.ladders):
        return say(asked, [f"{row.id} on {fold(hosts)} is up for decision already; its card is above."])
    ladder = wished_look(row, hosts, asked.now, yard_of(asked.case, asked.ports), asked.case.ladders)
    ladder = ladder.model_copy(update={"asked_by": _asker(asked)})
    lines = [
        f"Put up for decision: {row.id} on {fold(hosts)}. {row.asks}",
        f"It takes about {row.seconds:.0f} s and whole GPUs; it {ON_APPROVE}",
    ]
    return put_up(asked, [*unknown_said(asked), *lines], [*asked.case.ladders, ladder])


async def wish_remedy(asked: Asked) -> Concluded:
    """A fix: its card where something found asks for it, else the reason why not."""
    remedy = REMEDIES.get(asked.said.remedy)
    if remedy is None or remedy.at == "fleet":
        return (
            await run_check(asked)
            if remedy
            else say(asked, ["Which fix do you mean? I can propose only what something found asks for; say “what should I do now?”."])
        )
    if remedy.id == "resume_node":
        return await undo(asked)
    if unclear := which_hosts(asked):
        return say(asked, unclear)
    hosts = meant(asked).hosts
    if not hosts:
        return say(asked, [*unknown_said(asked), f"On which host? Nothing was found yet that {called(remedy.id)} would mend."])
    ladders, lines = list(asked.case.ladders), unknown_said(asked)
    well = [host for host in hosts if not [row for row in asked.roots if host in row.hosts] and not of_host(asked, host).dark]
    well = [host for host in well if not any(row.target == host for row in ladders)]
    lines += [_why_not(asked, remedy.id, fold(well), ())] if well else []
    for host in [one for one in hosts if one not in well][:MOST_WISHED]:
        ladders, line = _wished(asked, remedy.id, host, ladders)
        lines.append(line)
    return put_up(asked, lines, ladders) if ladders != asked.case.ladders else say(asked, lines)


def which_hosts(asked: Asked) -> list[str]:
    """A question back where the hosts named may be those to spare; empty where it is clear."""
    hosts = asked.said.hosts
    if not hosts or not _MORE_HOSTS.search(asked.said.text[:_LONGEST_WISH]):
        return []
    named = fold(hosts)
    return [f"{WHICH_HOSTS} You name {named} and speak of others, too. Say it again with only the hosts to change, as one list of names."]


def _asker(asked: Asked) -> str:
    """Who wishes, as the ledger knows people; empty where nobody can approve anyhow."""
    team, user = asked.case.origin.team if asked.case.origin else "", asked.case.item.user
    return f"{team}:{user}" if team and user else ""


def _wished_again(asked: Asked, row: Ladder, ladders: Sequence[Ladder], news: News) -> list[Ladder]:
    """The ladders after one of them is wished for once more."""
    moved = climb(ladders, news, yard_of(asked.case, asked.ports))
    return [one.model_copy(update={"asked_by": _asker(asked)}) if one.id == row.id else one for one in moved]


def called(remedy: str) -> str:
    """A remedy in a sentence."""
    words = {
        "drain_node": "a drain",
        "reboot": "a reboot",
        "gpu_reset": "a GPU reset",
        "cancel_job": "cancelling the job",
        "power_cycle": "a power cycle",
    }
    return words.get(remedy, f"“{remedy.replace('_', ' ')}”")


def _wished(asked: Asked, remedy: str, host: str, ladders: list[Ladder]) -> tuple[list[Ladder], str]:
    """The ladders after one wish for one host, and what is said of it."""
    own = [row for row in ladders if row.target == host and any(rung.remedy == remedy for rung in row.rungs)]
    yard = yard_of(asked.case, asked.ports)
    if row := next((one for one in own if one.open), None):
        return ladders, _of_open(asked, remedy, row)
    if row := next((one for one in own if one.outcome in AGAIN and one.now and one.now.remedy == remedy), None):
        again = _wished_again(asked, row, ladders, News("again", ladder=row.id))
        return (
            again,
            f"Put up again: {brief(row)}. It {ON_APPROVE}",
        )
    known = of_host(asked, host)
    if known.dark:
        why = f"{NO_CARD} for {called(remedy)}: a fix is put up only for a fault that a look has shown. {not_looked(asked, known)}"
        return ladders, f"{why} {_instead(remedy, host, yard)}"
    causes = [row for row in asked.roots if host in row.hosts]
    fitting = [row for row in causes if remedy in _remedies(asked, row.label)]
    if not fitting:
        return ladders, _why_not(asked, remedy, host, causes)
    return _begun(asked, remedy, host, fitting[0], ladders, yard)


def _instead(remedy: str, host: str, yard: Yard) -> str:
    """What people can do about a host that does not let us look."""
    row = yard.inventory.hosts.get(host)
    controller = row.controller if row else ""
    if remedy == "drain_node" and controller:
        how = f'`scontrol update NodeName={host} State=DRAIN Reason="does not answer"` on {controller}'
        return f"To keep jobs off it until somebody has seen to it, drain it yourselves: {how}. Whoever does returns it, too; I do not."
    if remedy == "drain_node":
        return "To keep jobs off it until somebody has seen to it, take it out of service where they are scheduled."
    if remedy in ("reboot", "power_cycle"):
        return f"I come in by SSH alone: ask its BMC from outside, or go there. Once it answers, say `recheck {host}`."
    return f"Once it answers, say `recheck {host}`."


def _begun(asked: Asked, remedy: str, host: str, cause: Hypothesis, ladders: list[Ladder], yard: Yard) -> tuple[list[Ladder], str]:
    """A new ladder for a cause that has none there, or whose last one people ended."""
    only = cause.model_copy(update={"hosts": (host,), "devices": tuple(name for name in cause.devices if name.partition("/")[0] == host)})
    built = ladders_for([only], yard, ladders, anew=True)
    if not built.ladders:
        why = " ".join(built.by_hand) or "; ".join(
            row.says for row in ladders if row.target == host and row.label == cause.label and row.says
        )
        return ladders, f"{host}: no card, for this is left to people. {why}".strip()
    row = built.ladders[0].model_copy(
        update={"fault": what_it_rests_on(built.ladders[0], asked.case, asked.ports), "asked_by": _asker(asked)}
    )
    follows = "" if row.now and row.now.remedy == remedy else f" {called(remedy).capitalize()} follows if it is needed."
    waits = "Put up for decision" if row.waiting_for == "approval" else "Planned"
    return (
        [*ladders, row],
        f"{waits}: {brief(row)}, for {asked.title(cause.label)}{cited(cause)}.{follows} It {ON_APPROVE}",
    )


def _remedies(asked: Asked, label: str) -> set[str]:
    leaf = asked.now.lens.taxonomy.leaves.get(label)
    return {step.name for plan in leaf.remedies for step in steps_of(plan)} if leaf else set()


def _of_open(asked: Asked, remedy: str, row: Ladder) -> str:
    if row.now and row.now.remedy == remedy and row.waiting_for == "approval":
        return f"{brief(row)}: it is up for decision already; press Approve on its card."
    at = next((n for n, rung in enumerate(row.rungs) if rung.remedy == remedy), 0)
    when = "was done before" if at < row.rung else "comes later, if it is still needed"
    return f"{row.target}: {called(remedy)} {when}. Now: {describe(row, asked.title(row.label))}."


def _why_not(asked: Asked, remedy: str, host: str, causes: Sequence[Hypothesis]) -> str:
    known = [of_host(asked, one) for one in expand(host)] if not causes else []
    against = list(dict.fromkeys(line for row in known for line in (*row.unproven, *row.unplaced)))
    if against:
        why = f"{NO_CARD} for {called(remedy)}: a fix is put up only for a fault that a look has shown. Of {host} I have, without such a look: {told(against)}."
        return f"{why} {_instead(remedy, expand(host)[0], yard_of(asked.case, asked.ports))} Say `recheck {host}` and I look again."
    if not causes:
        looked = looked_with(asked, of_host(asked, expand(host)[0]))
        return f"{NO_CARD}: nothing was found on {host} that {called(remedy)} would mend ({looked}). Tell me what you see there, or say `recheck {host}`."
    row = causes[0]
    step = asked.now.lens.taxonomy.leaf(row.label).next_step
    return f"{NO_CARD}: {asked.title(row.label)} on {host}{cited(row)} is not mended by {called(remedy)}. {step}"


async def undo(asked: Asked) -> Concluded:
    """The way back of what was done: a node's return as a card where it may go back, else the reason; of other remedies what people do."""
    if unclear := which_hosts(asked):
        return say(asked, unclear)
    hosts, case = meant(asked), asked.case
    rows = [row for row in case.ladders if not hosts.named or row.target in hosts.hosts]
    held = [row for row in rows if row.drained]
    ladders, lines = list(case.ladders), unknown_said(asked)
    for row in held[:4]:
        ladders, line = _returned(asked, row, ladders)
        lines.append(line)
    if not held:
        lines += _undone([row for row in rows if row.since or row.proven]) or [_nothing_held(asked, hosts.hosts if hosts.named else ())]
    return put_up(asked, lines, ladders) if ladders != case.ladders else say(asked, lines)


def _nothing_held(asked: Asked, hosts: Sequence[str]) -> str:
    waiting = [row for row in asked.case.ladders if row.open and row.waiting_for == "approval"]
    what = f" {brief(waiting[0])} was only put up for decision: reject its card." if waiting else ""
    return f"{NOTHING_TO_UNDO}{f' on {fold(hosts)}' if hosts else ''}: RackMedic has changed nothing there.{what}"


def _returned(asked: Asked, row: Ladder, ladders: list[Ladder]) -> tuple[list[Ladder], str]:
    """The ladders after somebody asked for a held node, and what is said: whoever tends them looks once more before it is put up."""
    if on_the_way_back(row) and row.waiting_for == "approval":
        return ladders, f"Returning {row.target} to service is up for decision already; press Approve on its card."
    if why := no_return(row, ladders):
        return ladders, f"{row.target} is not returned: {why}."
    if beside(row, ladders):
        return (
            ladders,
            f"{row.target} had more than one fix: press “Ask for it back” where it is listed as held, and I look at all of it first.",
        )
    again = _wished_again(asked, row, ladders, News(RETURN, ladder=row.id))
    return again, f"I look at {row.target} once more; if its fault shows no more, its return is put up for decision."


def _undone(rows: Sequence[Ladder]) -> list[str]:
    """Of remedies that changed something: how people take them back."""
    lines: list[str] = []
    for row in rows[:3]:
        fixes = [rung for rung in row.rungs[: row.rung + 1] if rung.part == "fix"]
        for rung in fixes[-1:]:
            back = REMEDIES[rung.remedy].back or "nothing takes it back"
            lines.append(f"{row.target}, {rung.remedy.replace('_', ' ')}: {back}.")
    return lines
