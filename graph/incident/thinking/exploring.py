"""Third tier: where no cause of the taxonomy is proven, a model thinks of others. What they rest on is checked, looks that disturb nobody are taken for
them at once, what comes back is weighed, and a second reading attacks what is left. Nothing of it becomes a diagnosis or a remedy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from graph.engine.assess import Assessment
from graph.incident.case import Case, Turn
from graph.incident.questions import logs_of, questions_for
from graph.incident.thinking.material import MOST_OFFERED, findings_of, learnt, material_of
from graph.incident.thinking.suspecting import may_be
from graph.model.reasoner import Declined, Idea, IdeaChoices
from graph.ports import Ports
from graph.state import Conjecture, Explored
from tools.inventory.ranges import fold

ROUNDS = 3
"""Turns in which ideas are made anew; then people go on."""
MOST_ASKS, MOST_RULED_OUT = 24, 12
"""Looks that are taken for the ideas of a round, and causes that are shown as ruled out."""
KNOWN_ALREADY = 0.7
"""A label of the taxonomy of which the last reading is as sure: what keeps it unproven is a look, and no other cause is sought."""
EXPLORE, CRITIQUE = "explore", "critique"
Asks = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Beyond:
    """What comes of it: how the turn stands, what is thought by now, and what is looked at for it."""

    turn: Turn
    explored: Explored
    asks: Asks = ()


async def beyond(case: Case, now: Assessment, ports: Ports) -> Beyond:
    """One step: ideas and their looks; or, once those were taken, what they say of the ideas."""
    turn, before, again = case.turn, case.explored, EXPLORE in case.turn.asked_model
    asking = replace(turn, questions=turn.questions or tuple(questions_for(case, now)))
    over = turn.asked_model.count(EXPLORE) > 1 or (before.rounds >= ROUNDS and not again)
    if ports.model is None or over or _known_already(turn, now):
        return Beyond(asking, before)
    lines = findings_of(now, learnt(case, list(now.standings)[:MOST_OFFERED], ports))
    material = await material_of(case.brief, logs_of(case), case, ports)
    answer = await ports.model.explore(case.id, material, lines, _known(case, now, ports))
    if isinstance(answer, Declined):
        return Beyond(asking.declined(answer.reason), before)
    asked = tuple(question for question in answer.questions if question not in turn.asked)
    turn = replace(asking, asked_model=(*turn.asked_model, EXPLORE), questions=asked or asking.questions)
    taken = {idea.title: idea.looks for idea in before.ideas} if again else {}
    looks = {} if again else looks_for(answer.ideas, case, now)
    ideas = tuple(_conjecture(idea, lines, taken.get(idea.title, ()) or _folded(looks.get(idea.title, ()))) for idea in answer.ideas)
    explored = Explored(rounds=before.rounds + (not again), ideas=ideas)
    if asks := list(dict.fromkeys(ask for rows in looks.values() for ask in rows))[:MOST_ASKS]:
        return Beyond(replace(turn, hosts=fold((*case.hosts, *(host for host, _ in asks)))), explored, asks)
    return await _attacked(Beyond(turn, explored), lines, case, ports)


def _known_already(turn: Turn, now: Assessment) -> bool:
    """Whether a reading is sure of a label that no fact contradicts."""
    return any(p >= KNOWN_ALREADY and may_be(label, now) for label, p in turn.reading.items())


def _known(case: Case, now: Assessment, ports: Ports) -> IdeaChoices:
    """What ideas may be made of."""
    title = ports.taxonomy.title
    looks = {check.id: check.asks for check in now.lens.passive()}
    branches = {branch: title(branch) for branch in dict.fromkeys(label.rpartition(".")[0] for label in ports.taxonomy.leaves)}
    out = [title(row.label) for row in now.standings.values() if row.verdict == "rejected" and row.best.support][:MOST_RULED_OUT]
    earlier = [f"{idea.title} ({idea.standing}): {idea.cause}" for idea in case.explored.ideas]
    return IdeaChoices(_places(case), looks, branches, out, earlier)


def _places(case: Case) -> tuple[str, ...]:
    """Hosts that may be looked at: those in question first."""
    return case.hosts if case.turn.only else tuple(dict.fromkeys((*case.hosts, *case.visible)))


def looks_for(ideas: Sequence[Idea], case: Case, now: Assessment) -> Mapping[str, Asks]:
    """For each idea by its title what it wants to see and nobody has looked at: passive looks, on hosts that may be looked at."""
    passive, places = {check.id for check in now.lens.passive()}, set(_places(case))
    wanted = {idea.title: [(host, look) for host in idea.hosts or case.hosts for look in idea.looks] for idea in ideas}
    return {
        title: [(host, look) for host, look in rows if host in places and look in passive and (host, look) not in now.coverage.asked]
        for title, rows in wanted.items()
    }


def _folded(asks: Asks) -> tuple[str, ...]:
    checks = dict.fromkeys(check for _, check in asks)
    return tuple(f"{check} on {fold(host for host, of in asks if of == check)}" for check in checks)


def _conjecture(idea: Idea, lines: Sequence[str], looks: tuple[str, ...]) -> Conjecture:
    return Conjecture(
        title=idea.title,
        cause=idea.cause,
        branch=idea.branch,
        rests=(*(lines[at][:160] for at in idea.cites if at < len(lines)), *idea.quotes),
        confirms=idea.confirms,
        refutes=idea.refutes,
        looks=looks,
        suggestions=idea.suggestions,
        standing=idea.standing,
    )


async def _attacked(now: Beyond, lines: Sequence[str], case: Case, ports: Ports) -> Beyond:
    """With what a second reading holds against the ideas: what a finding contradicts is refuted."""
    standing = [idea for idea in now.explored.ideas if idea.standing != "refuted"]
    if ports.model is None or not standing:
        return now
    answer = await ports.model.critique(case.id, [f"{idea.title}: {idea.cause}" for idea in standing], lines)
    turn = replace(now.turn, asked_model=(*now.turn.asked_model, CRITIQUE))
    if isinstance(answer, Declined):
        return replace(now, turn=turn.declined(answer.reason))
    against = {idea.title: row for idea, row in zip(standing, answer, strict=True)}
    ideas = tuple(
        idea.model_copy(
            update={"doubt": row.because, "standing": "refuted" if row.verdict == "contradicted" else idea.standing}
            if (row := against.get(idea.title)) and row.verdict != "holds"
            else {}
        )
        for idea in now.explored.ideas
    )
    return replace(now, turn=turn, explored=now.explored.model_copy(update={"ideas": ideas}))


def tried_out(case: Case) -> bool:
    """Whether ideas were made as often as may be, and an answer came that makes no new ones."""
    return case.explored.rounds >= ROUNDS and EXPLORE not in case.turn.asked_model and case.kind in ("reply", "attach")
