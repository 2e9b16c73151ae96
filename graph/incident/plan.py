"""Second node: what to look at next. Three tiers in order: what similar incidents turned out to be, the taxonomy, then honest questions.

The first round asks for one wave of everything cheap; after it the walk of the taxonomy asks only for what is missing,
exclusive checks come last, and where nothing is left the reporter is asked.
"""

from typing import Any

from langgraph.runtime import Runtime

from graph.engine.assess import Assessment
from graph.engine.prior import past_priors, ranked_priors, together, word_priors
from graph.engine.schedule import exclusive_offers, first_wave
from graph.engine.walk import Walk, advance
from graph.incident.case import MOST_UNNAMED, Case, folded_asks, read_case, visible_hosts, weigh
from graph.incident.questions import digest_of, questions_for
from graph.model.reasoner import Declined
from graph.ports import Ports, Progress
from graph.reading.hosts import hosts_in
from graph.state import Incident, Tier
from tools.inventory.ranges import fold

MOST_ROUNDS, MOST_RANKED = 10, 12
MOST_BESIDE, MOST_JOBS = 16, 2
"""Hosts looked at beside those named once a cause is known, and jobs whose hosts are."""

MOST_AGAIN = 2
"""A fault that shows in one look of three is found in three looks; "no fault" is said after as many."""


async def plan(state: Incident, runtime: Runtime[Ports]) -> dict[str, Any]:
    """Choose asks for `execute`; none when everything worth a look has been looked at."""
    ports = runtime.context
    case = await read_case(state, ports)
    rounds = state.get("rounds", 0)
    if rounds == 0:
        return await _open(case, ports)
    walk = Walk.read(state.get("walk", {}))
    tier, asks = await _go_on(case, walk, ports, rounds)
    await ports.progress(Progress(case.id, "plan", f"{len(asks)} more looks" if asks else "nothing left to look at"))
    return {"turn": case.turn.write(), "walk": walk.write(), "tier": tier, "to_look": folded_asks(asks), "rounds": rounds + 1}


async def _open(case: Case, ports: Ports) -> dict[str, Any]:
    """First round: priors from words and history, and the one wave that all hypotheses share."""
    turn = case.turn
    visible = visible_hosts(ports.inventory, case.origin)
    hosts = case.brief.hosts or (visible if len(visible) <= MOST_UNNAMED else ())
    turn.hosts, turn.named = fold(hosts), bool(case.brief.hosts)
    similar = [(past.label, past.score) for past in await ports.history.similar(case.brief.text, 2)] if case.brief.text else []
    known = [(label, score) for label, score in similar if label in ports.taxonomy.leaves]
    turn.past = [label for label, _ in known]
    turn.priors = _trimmed(together(word_priors(ports.taxonomy, case.brief), past_priors(known)))
    walk, tier = Walk(), "history"
    asks = first_wave(weigh(case, ports).lens, hosts)
    if not asks:
        tier, asks = await _go_on(case, walk, ports, rounds=1)
    await ports.progress(Progress(case.id, "plan", f"looking at {len(hosts)} hosts", hypotheses=_titles(turn.past, ports)))
    return {"turn": turn.write(), "tier": tier, "walk": walk.write(), "to_look": folded_asks(asks), "rounds": 1}


async def _go_on(case: Case, walk: Walk, ports: Ports, rounds: int) -> tuple[Tier, list[tuple[str, str]]]:
    """The next look, from the cheapest kind that is left."""
    now = weigh(case, ports)
    if not now.roots and "rank" not in case.turn.asked_model:
        now = await _ranked(case, now, ports)
    if case.turn.cut or rounds >= MOST_ROUNDS:
        return "done", []
    visit = advance(walk, now)
    if visit:
        return "taxonomy", list(visit.asks)
    if more := await _wider(case, now, ports):
        return "taxonomy", first_wave(now.lens, more)
    if now.finding != "diagnosed" and case.turn.again < MOST_AGAIN and (answering := seen_hosts(now)):
        case.turn.again += 1
        return "taxonomy", first_wave(now.lens, answering)
    for offer in exclusive_offers(now)[:1]:
        return "taxonomy", [(host, offer.check) for host in offer.hosts]
    if now.finding == "abstained":
        case.turn.questions = await _questions(case, now, ports)
        return "exploration", []
    return "done", []


async def _wider(case: Case, now: Assessment, ports: Ports) -> tuple[str, ...]:
    """The next hosts to look at. People may blame the wrong host, and one cause may hide another: the rest of a small fleet is
    looked at too. In a large one only hosts that run the same job, and those that its errors name, which costs nobody anything."""
    visible = visible_hosts(ports.inventory, case.origin)
    few = MOST_BESIDE if now.finding == "diagnosed" else MOST_UNNAMED
    near = visible if case.hosts and len(visible) <= few else await _near(case, visible, ports)
    more = tuple(host for host in near if host not in case.hosts)
    if more:
        case.turn.hosts = fold((*case.hosts, *more))
    return more


async def _near(case: Case, visible: tuple[str, ...], ports: Ports) -> tuple[str, ...]:
    """Hosts that the errors seen so far name, and those of a job that runs where we looked."""
    said = "\n".join(fact.line for fact in case.facts if fact.key == "job.error" and fact.line)
    jobs = sorted({str(fact.attrs["job"]) for fact in case.facts if fact.host and fact.key == "proc.gpu_memory" and fact.attrs.get("job")})
    mates = [host for job in jobs[:MOST_JOBS] for host in await ports.job_hosts(job)]
    named = (*hosts_in(said, visible).hosts[:MOST_BESIDE], *hosts_in(" ".join(mates), visible).hosts[:MOST_UNNAMED])
    return tuple(dict.fromkeys(named))


def seen_hosts(now: Assessment) -> list[str]:
    """Hosts that answered at all."""
    answered = {host for host, check in now.coverage.asked if (host, check) not in now.coverage.blind and check != "ssh"}
    return [host for host in now.hosts if host in answered]


async def _ranked(case: Case, now: Assessment, ports: Ports) -> Assessment:
    """Where the engine is unsure a model may order the likeliest labels; its order is worth a prior, no more."""
    if ports.model is None:
        return now
    labels = [standing.label for standing in now.standings.values() if standing.verdict != "rejected"][:MOST_RANKED]
    answer = await ports.model.rank(case.id, case.brief, digest_of(now), labels) if len(labels) > 1 else Declined("")
    case.turn.asked_model.append("rank")
    if isinstance(answer, Declined):
        case.turn.without_model = case.turn.without_model or answer.reason
        return now
    case.turn.priors = _trimmed(together(case.turn.priors, ranked_priors([label for label in answer.labels if label in labels])))
    return weigh(case, ports)


async def _questions(case: Case, now: Assessment, ports: Ports) -> list[str]:
    """Up to three, from a model where there is one, else from what is missing."""
    own = questions_for(case, now)
    if ports.model is None:
        return own
    out = [standing.label for standing in now.standings.values() if standing.verdict == "rejected"][:MOST_RANKED]
    answer = await ports.model.questions(case.id, case.brief, digest_of(now), out)
    if isinstance(answer, Declined):
        case.turn.without_model = case.turn.without_model or answer.reason
        return own
    return [question.strip()[:240] for question in answer if question.strip()][:3] or own


def _trimmed(priors: dict[str, float]) -> dict[str, float]:
    """The strongest, rounded: state stays small."""
    top = sorted(priors.items(), key=lambda row: (-row[1], row[0]))[:MOST_RANKED]
    return {label: round(weight, 2) for label, weight in top}


def _titles(labels: list[str], ports: Ports) -> tuple[str, ...]:
    return tuple(ports.taxonomy.title(label) for label in labels)


def after_plan(state: Incident) -> str:
    """Look where there is something to look at; otherwise this turn is decided."""
    return "execute" if state["to_look"] else "conclude"
