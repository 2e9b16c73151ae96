"""Fourth node: a verdict for every hypothesis from the facts that the taxonomy names for it.

The engine decides. A model is asked only where facts disagree or say nothing, about two hypotheses at most, or to attack causes that stand by
little; its opinion moves a belief by a bounded amount: what no executed fact decides stays unproven whatever it says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langgraph.runtime import Runtime

from graph.engine.assess import Assessment
from graph.engine.prior import ATTACK_SWAY, MODEL_SWAY, together
from graph.incident.case import Case, Turn, read_case, weigh
from graph.incident.questions import digest_of
from graph.incident.thinking.exploring import CRITIQUE
from graph.incident.thinking.material import findings_of
from graph.model.reasoner import Declined, Judgement
from graph.ports import Ports, Progress
from graph.reading.counts import sure
from graph.reasoning.moves import Mover, moves_by, read_moves, write_moves
from graph.rows import write_hypotheses
from graph.state import Hypothesis, Incident, Tier
from kb.scan import lines_in

MOST_HYPOTHESES, MOST_JUDGED, MOST_DOUBTS = 6, 2, 2


async def reflect(state: Incident, runtime: Runtime[Ports]) -> dict[str, Any]:
    """Judge what is on the table."""
    ports = runtime.context
    case = await read_case(state, ports)
    now = await weigh(case, ports)
    if _unsure(now) and not case.turn.cut:
        case, now = await _judged(case, now, ports)
    if now.narrow and not case.turn.cut:
        case, now = await _attacked(case, now, ports)
    rows = hypotheses_of(now, case.turn.past, case.tier)
    await ports.progress(Progress(case.id, "reflect", _line(rows), hypotheses=tuple(_short(row, ports) for row in rows[:4])))
    return {"hypotheses": write_hypotheses(rows), "turn": case.turn.write()}


def _unsure(now: Assessment) -> bool:
    return not now.roots and bool(now.suspects or now.settled.contradictions)


async def _judged(case: Case, now: Assessment, ports: Ports) -> tuple[Case, Assessment]:
    """Once a turn a model may weigh the likeliest suspects."""
    if ports.model is None or "judge" in case.turn.asked_model:
        return case, now
    turn = replace(case.turn, asked_model=(*case.turn.asked_model, "judge"))
    lines = lines_in(digest_of(now))
    sway: dict[str, float] = {}
    for row in now.suspects[:MOST_JUDGED]:
        answer = await ports.model.judge(case.id, now.hypothesis(row.label), lines)
        if isinstance(answer, Declined):
            turn = turn.declined(answer.reason)
            break
        sway[row.label] = _sway(answer, len(lines))
    case = replace(case, turn=_moved(turn, "judge", sway))
    return case, await weigh(case, ports)


def _moved(turn: Turn, by: Mover, sway: Mapping[str, float]) -> Turn:
    priors = together(turn.priors, sway)
    return replace(turn, priors=priors, moves=write_moves([*read_moves(turn.moves, turn.priors), *moves_by(by, sway)], priors))


async def _attacked(case: Case, now: Assessment, ports: Ports) -> tuple[Case, Assessment]:
    """Once a turn a second reading may attack causes that stand by little: where a finding contradicts one its belief falls by a bounded amount,
    and what is held against it is told beside it."""
    if ports.model is None or CRITIQUE in case.turn.asked_model:
        return case, now
    causes, turn = now.root_causes(), replace(case.turn, asked_model=(*case.turn.asked_model, CRITIQUE))
    claims = [f"{ports.taxonomy.title(row.label)} ({', '.join(row.devices or row.hosts) or 'the job'})" for row in causes]
    answer = await ports.model.critique(case.id, claims, findings_of(now))
    if isinstance(answer, Declined):
        return replace(case, turn=turn.declined(answer.reason)), now
    against = {row.label: objection for row, objection in zip(causes, answer, strict=True) if objection.verdict != "holds"}
    sway = {label: -ATTACK_SWAY for label, objection in against.items() if objection.verdict == "contradicted"}
    doubts = tuple(f"{ports.taxonomy.title(label)}: {objection.because}" for label, objection in against.items())[:MOST_DOUBTS]
    case = replace(case, turn=replace(_moved(turn, "critique", sway), doubts=doubts))
    return case, await weigh(case, ports)


def _sway(answer: Judgement, lines: int) -> float:
    """A verdict that cites nothing that was shown counts for nothing."""
    if not any(0 <= n < lines for n in answer.cites):
        return 0.0
    return {"confirmed": MODEL_SWAY, "rejected": -MODEL_SWAY, "inconclusive": 0.0}[answer.verdict]


def hypotheses_of(now: Assessment, past: Sequence[str], tier: Tier) -> list[Hypothesis]:
    """What is on the table: causes found, what similar incidents turned out to be, and what else is likely or was spoken for."""
    found = [row.label for row in now.roots]
    spoken = [s.label for s in now.standings.values() if s.best.support]
    likely = [s.label for s in now.standings.values() if s.verdict == "open"][:2]
    hidden = [row.leaf.label for row in now.hidden]
    labels = list(dict.fromkeys((*found, *(label for label in past if label in now.standings), *spoken, *hidden, *likely)))
    return [now.hypothesis(label, "history" if label in past else tier) for label in labels[:MOST_HYPOTHESES]]


def _line(rows: list[Hypothesis]) -> str:
    count = {verdict: sum(row.verdict == verdict for row in rows) for verdict in ("confirmed", "open", "rejected", "inconclusive")}
    return ", ".join(f"{n} {verdict}" for verdict, n in count.items() if n) or "no hypothesis yet"


def _short(row: Hypothesis, ports: Ports) -> str:
    return f"{ports.taxonomy.title(row.label)}: {row.verdict} {sure(row.confidence)}"


def after_reflect(state: Incident) -> str:
    """Plan goes on until nothing is worth a look; a turn that was cut short ends here."""
    return "conclude" if state.get("turn", {}).get("cut") else "plan"
