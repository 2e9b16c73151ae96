"""Second node: what to look at next. Three tiers in order: what similar incidents turned out to be, the taxonomy, then honest questions.

The first round asks for one wave of everything cheap; after it the walk of the taxonomy asks only for what is missing,
exclusive checks come last, and where nothing is left the reporter is asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langgraph.runtime import Runtime

from graph.engine.assess import Assessment
from graph.engine.prior import most_telling, past_priors, read_priors, together, word_priors
from graph.engine.schedule import Offer, exclusive_offers, first_wave
from graph.engine.walk import Walk, advance
from graph.incident.again import brings_news, looks_narrowly, what_decided, what_is_new
from graph.incident.case import MOST_UNNAMED, Case, Turn, folded_asks, kind_of, lens_of, read_case, weigh
from graph.incident.guiding.steps import guided_looks, unknown_guide
from graph.incident.questions import digest_of, logs_of, which_hosts
from graph.incident.second_look import counter_looks, is_second_look
from graph.incident.thinking.exploring import beyond
from graph.incident.thinking.material import learnt, material_of
from graph.incident.thinking.suspecting import offered
from graph.learning.noted import hints
from graph.learning.recalled import recalled
from graph.model.reasoner import Declined
from graph.ports import Ports, Progress
from graph.reading.hosts import hosts_in
from graph.reasoning.moves import Mover, moves_by, read_moves, write_moves
from graph.state import COUNTERS, Explored, Incident, Tier
from kb.history.mistakes import swayed
from tools.inventory.ranges import expand, fold

MOST_ROUNDS, MOST_RANKED = 10, 12
MOST_BESIDE, MOST_JOBS, MOST_PEERS = 16, 2, 3
MOST_ALIKE, MOST_TOLD = 60, 2
"""Past incidents that are asked for, and of them those that are most alike whatever they are of."""
"""Hosts looked at beside those named once a cause is known, jobs whose hosts are, and peers that hosts named in a larger fleet are compared with."""

FABRIC = ("INTERCONNECT.IB.", "INTERCONNECT.ROCE.", "INTERCONNECT.ETH.", "INTERCONNECT.SWITCH.")
"""Causes that may be of the whole fabric: one host alone does not tell."""
FOUND = "read what was found"
"""That a model was asked after looking, in the turn's list of questions."""
LONGEST_OUTSIDE = 240
MOST_AGAIN = 2
"""A fault that shows in one look of three is found in three looks; "no fault" is said after as many."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What to look at next, if anything, and how turn and walk stand then."""

    turn: Turn
    walk: Walk
    tier: Tier
    asks: Sequence[tuple[str, str]] = ()
    explored: Explored | None = None
    """Where a model thought of causes beyond the taxonomy."""


async def plan(state: Incident, runtime: Runtime[Ports]) -> dict[str, Any]:
    """Choose asks for `execute`; none when everything worth a look has been looked at."""
    ports = runtime.context
    case = await read_case(state, ports)
    chosen = await (_go_on(case, ports, case.rounds) if case.rounds else _open(case, ports))
    await ports.progress(_told(case, chosen, ports))
    return {
        "turn": chosen.turn.write(),
        "walk": chosen.walk.write(),
        "tier": chosen.tier,
        "to_look": folded_asks(chosen.asks),
        "rounds": case.rounds + 1,
        **({"explored": chosen.explored.model_dump(mode="json", exclude_defaults=True)} if chosen.explored else {}),
    }


async def _open(case: Case, ports: Ports) -> Chosen:
    """First round: priors from words and history, and the one wave that all hypotheses share. Where only hosts or a job were named that
    nobody knows there is nothing to look at."""
    if unknown_guide(case, ports):
        return Chosen(case.turn, Walk(), "done")
    if (case.turn.unknown or case.turn.unknown_job) and not case.brief.hosts:
        return Chosen(replace(case.turn, hosts="", named=True, questions=(which_hosts(case.turn),)), Walk(), "done")
    news = brings_news(case)
    hosts = case.hosts if case.turn.only else tuple(dict.fromkeys((*case.in_question, *case.hosts))) if news else case.in_question
    alike = await ports.history.similar(case.brief.text, MOST_ALIKE, case.reader) if case.brief.text else []
    similar = most_telling(alike, word_priors(ports.taxonomy, case.brief))
    known = [(past.label, past.score) for past in similar if past.label in ports.taxonomy.decidable.leaves]
    noted = [(label, score) for label, score in hints(ports.pages, case.brief.text) if label in ports.taxonomy.decidable.leaves]
    parts: dict[Mover, Mapping[str, float]] = {
        "words": word_priors(ports.taxonomy.decidable, case.brief),
        "history": past_priors([*known, *noted]),
        "read": read_priors(case.turn.reading),
    }
    suggested = together(*parts.values())
    parts["mistakes"] = swayed(suggested, ports.mistakes(case.reader), ports.taxonomy.decidable.leaves)
    priors = _trimmed(together(*parts.values()))
    moves = write_moves([move for by, weights in parts.items() for move in moves_by(by, weights)], priors)
    turn = replace(case.turn, hosts=fold(hosts), named=bool(case.brief.hosts), past=tuple(label for label, _ in known), priors=priors)
    turn = replace(turn, moves=moves)
    turn = replace(turn, recalled=recalled(turn.recalled, [*alike[:MOST_TOLD], *similar]))
    case = replace(case, turn=turn)
    if guided := guided_looks(case, None, ports):
        return Chosen(guided.turn, Walk(), "taxonomy", guided.asks)
    if is_second_look(case) == COUNTERS:
        asks = counter_looks(case, await weigh(case, ports))
        return Chosen(case.turn, Walk(), "history" if asks else "done", asks)
    if looks_narrowly(case):
        return _narrowly(replace(case, turn=replace(turn, narrow=True)), await weigh(case, ports))
    if news:
        case = replace(case, turn=replace(turn, news=True))
        pointed_at = what_is_new(case, await weigh(case, ports))
        return Chosen(case.turn, Walk(), "history", pointed_at) if pointed_at else await _go_on(case, ports, rounds=1)
    asks = first_wave(lens_of(ports, case.facts), hosts)
    return Chosen(turn, Walk(), "history", asks) if asks else await _go_on(case, ports, rounds=1)


def _narrowly(case: Case, now: Assessment) -> Chosen:
    """What decided before, and no more; as often as it takes to call it gone."""
    asks = what_decided(case, now)
    return Chosen(case.turn, Walk(), "history" if asks else "done", asks)


async def _go_on(case: Case, ports: Ports, rounds: int) -> Chosen:
    """The next look: of a guide that somebody called, then from the cheapest kind that is left."""
    if is_second_look(case) == COUNTERS:
        return Chosen(case.turn, case.walk, "done")
    if rounds < MOST_ROUNDS and (guided := guided_looks(case, await weigh(case, ports), ports)):
        return Chosen(guided.turn, case.walk, "taxonomy", guided.asks)
    return await _otherwise(case, ports, rounds)


async def _otherwise(case: Case, ports: Ports, rounds: int) -> Chosen:
    """The next look, from the cheapest kind that is left."""
    if case.turn.narrow:
        now = await weigh(case, ports)
        over = case.turn.cut or case.turn.again >= MOST_AGAIN or now.finding == "diagnosed"
        again = replace(case, turn=replace(case.turn, again=case.turn.again + 1))
        return Chosen(case.turn, case.walk, "done") if over else _narrowly(again, now)
    case, now = await _read(case, await weigh(case, ports), ports)
    turn = case.turn
    if turn.cut or rounds >= MOST_ROUNDS or (turn.news and now.finding != "abstained"):
        return Chosen(turn, case.walk, "done")
    walk, visit = advance(case.walk, now)
    if visit:
        return Chosen(turn, walk, "taxonomy", visit.asks)
    if more := await _wider(case, now, ports):
        return Chosen(replace(turn, hosts=fold((*case.hosts, *more))), walk, "taxonomy", first_wave(now.lens, more))
    settled = not (turn.news and case.report and case.report.outcome == "abstained")  # else all was looked at as often before
    if settled and now.finding != "diagnosed" and turn.again < MOST_AGAIN and (answering := seen_hosts(now)):
        return Chosen(replace(turn, again=turn.again + 1), walk, "taxonomy", first_wave(now.lens, answering))
    if offers := _exclusive(case, now):
        return Chosen(turn, walk, "taxonomy", [(host, offers[0].check) for host in offers[0].hosts])
    if now.finding == "abstained":
        step = await beyond(case, now, ports)
        return Chosen(step.turn, walk, "exploration", step.asks, step.explored)
    return Chosen(turn, walk, "done")


def _exclusive(case: Case, now: Assessment) -> list[Offer]:
    """Return the exclusive checks that could still decide; a second look disturbs nobody."""
    return [] if is_second_look(case) else exclusive_offers(now)


async def _wider(case: Case, now: Assessment, ports: Ports) -> tuple[str, ...]:
    """Return the next hosts to look at, none if the report names only unknown hosts.

    The rest of a small fleet is looked at too: people may blame the wrong host, and one cause may hide another. In a larger one named hosts are
    the subject: beside them are looked at those that their errors name, those of a job that was named, and a few peers to compare with. An option
    names hosts so in any fleet, whatever job runs there; what a command names is all.
    """
    if case.brief.unknown_hosts:
        return ()
    compares = now.finding != "diagnosed" or any(not row.accused or row.label.startswith(FABRIC) for row in now.roots)
    if case.turn.only and (case.item.kind != "mention" or not compares):
        return ()
    if (
        not case.turn.only
        and case.hosts
        and len(case.visible) <= (MOST_BESIDE if case.turn.named or now.finding == "diagnosed" else MOST_UNNAMED)
    ):
        near = _of_their_groups(case, ports)
    elif case.turn.only or (case.turn.named and not case.brief.job):
        near = await _near(case, ports)
        new = [host for host in near if host not in case.hosts]
        near = _peers(case, ports) if compares and not new else near
    else:
        near = await _near(case, ports, mates=True)
    return tuple(host for host in near if host not in case.hosts)


def _of_their_groups(case: Case, ports: Ports) -> tuple[str, ...]:
    """The visible hosts; where people named some only those of the same groups, for other machines are not what they speak of."""
    if not case.turn.named:
        return case.visible
    rows = ports.inventory.hosts
    groups = {rows[name].group for name in case.hosts if name in rows}
    return tuple(name for name in case.visible if rows[name].group in groups)


def _peers(case: Case, ports: Ports) -> tuple[str, ...]:
    """A few visible hosts of the same kind as those in question, the ones that follow them in the inventory first; hosts that are looked at
    already count."""
    kind = kind_of(ports.inventory)
    kinds = {kind(host) for host in case.in_question}
    own = set(case.in_question)
    alike = [host for host in case.visible if kind(host) in kinds]
    last = max((at for at, host in enumerate(alike) if host in own), default=-1)
    room = MOST_PEERS - len(set(case.hosts) - own)
    return tuple(host for host in (*alike[last + 1 :], *alike[: last + 1]) if host not in case.hosts)[: max(0, room)]


async def _near(case: Case, ports: Ports, *, mates: bool = False) -> tuple[str, ...]:
    """Hosts that the errors seen so far name, and a few or (`mates`) all of a job that runs where we looked."""
    said = "\n".join(fact.line for fact in case.facts if fact.key == "job.error" and fact.line)
    shown = {str(fact.attrs["job"]) for fact in case.facts if fact.host and fact.key == "proc.gpu_memory" and fact.attrs.get("job")}
    queued = {job for fact in case.facts if fact.key == "sched.running" and isinstance(fact.value, list) for job in fact.value}
    jobs = sorted(shown or queued)
    places = [host for job in jobs[:MOST_JOBS] for host in (await ports.job_place(job)).hosts]
    beside = [host for host in hosts_in(" ".join(places), case.visible).hosts if mates or host not in case.hosts]
    room = MOST_UNNAMED if mates else max(0, MOST_PEERS - len(set(case.hosts) - set(case.in_question)))
    return tuple(dict.fromkeys((*hosts_in(said, case.names).hosts[:MOST_BESIDE], *beside[:room])))


def seen_hosts(now: Assessment) -> list[str]:
    """Hosts that answered at all."""
    answered = {host for host, check in now.coverage.asked if (host, check) not in now.coverage.blind and check != "ssh"}
    return [host for host in now.hosts if host in answered]


async def _read(case: Case, now: Assessment, ports: Ports) -> tuple[Case, Assessment]:
    """Where the engine is unsure a model may read everything that was found, once a turn; what it finds likely is worth a prior, no more."""
    if ports.model is None or now.roots or case.turn.news or FOUND in case.turn.asked_model:
        return case, now
    labels = offered(case, now, ports.taxonomy)
    if len(labels) < 2:
        return case, now
    seen = digest_of(now, (), learnt(case, list(labels), ports))
    material = await material_of(case.brief, logs_of(case), case, ports, seen)
    answer = await ports.model.read(case.id, material, case.visible, labels)
    turn = replace(case.turn, asked_model=(*case.turn.asked_model, FOUND))
    if isinstance(answer, Declined):
        return replace(case, turn=turn.declined(answer.reason)), now
    reading = {label: p for label, p in answer.causes if label in labels}
    open_ = {label: p for label, p in reading.items() if label in now.standings and now.standings[label].verdict != "rejected"}
    priors = _trimmed(together(turn.priors, read_priors(open_)))
    moves = write_moves([*read_moves(turn.moves, turn.priors), *moves_by("read", read_priors(open_))], priors)
    turn = replace(turn, reading=reading, outside=answer.outside[:LONGEST_OUTSIDE], priors=priors, moves=moves)
    case = replace(case, turn=turn)
    return case, await weigh(case, ports)


def _trimmed(priors: Mapping[str, float]) -> dict[str, float]:
    """The strongest, rounded: state stays small."""
    top = sorted(priors.items(), key=lambda row: (-row[1], row[0]))[:MOST_RANKED]
    return {label: round(weight, 2) for label, weight in top}


def _told(case: Case, chosen: Chosen, ports: Ports) -> Progress:
    if case.rounds:
        return Progress(case.id, "plan", f"{len(chosen.asks)} more looks" if chosen.asks else "nothing left to look at")
    looked = len(expand(chosen.turn.hosts))
    return Progress(case.id, "plan", f"looking at {looked} hosts", hypotheses=_titles(chosen.turn.past, ports))


def _titles(labels: Sequence[str], ports: Ports) -> tuple[str, ...]:
    return tuple(ports.taxonomy.title(label) for label in labels)


def after_plan(state: Incident) -> str:
    """Look where there is something to look at; otherwise this turn is decided."""
    return "execute" if state["to_look"] else "conclude"
