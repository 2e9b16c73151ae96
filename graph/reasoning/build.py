"""From what a turn weighed and reports to its graph. Pure: the same facts, moves and report give the same graph, byte by byte."""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graph.engine.assess import Assessment
from graph.engine.belief import Belief, Match
from graph.reasoning.moves import BY_MODEL, Move
from graph.reasoning.nodes import EdgeKind, ReasonEdge, ReasonGraph, ReasonNode, numbered, shortened
from graph.report import Report
from graph.state import Hypothesis
from kb.taxonomy.labels import Taxonomy

LOOK = "run_check"
"""The remedy that only looks: an exclusive check needs leave, and no cause."""
MOST_ROWS, MOST_FOR, MOST_AGAINST, MOST_OTHERS, MOST_BLIND = 8, 4, 2, 8, 12
"""Of one cause: places, and facts for and against it at each; other causes than the proven ones; looks that failed."""


@dataclass(frozen=True, slots=True)
class Thought:
    """Everything that a turn came to."""

    incident: str
    report: Report
    now: Assessment
    taxonomy: Taxonomy
    moves: Sequence[Move] = ()
    catalogue: str = ""
    ground: Mapping[str, Any] = field(default_factory=dict)
    earlier: Collection[tuple[str, str]] = ()
    """Causes and targets of fixes that were there before this turn."""


@dataclass(slots=True)
class Sketch:
    """A graph as it grows."""

    nodes: list[ReasonNode] = field(default_factory=list)
    edges: list[ReasonEdge] = field(default_factory=list)

    def add(self, node: ReasonNode, target: str, kind: EdgeKind, weight: float = 0.0) -> None:
        self.nodes.append(node)
        self.edges.append(ReasonEdge(node.id, target, kind, round(weight, 2)))


def reasoned(thought: Thought) -> ReasonGraph:
    """The graph of a turn that diagnosed."""
    sketch = Sketch()
    for cause in propositions(thought):
        sketch.nodes.append(_proposition(cause))
        _verified(cause, thought.now, sketch)
        _blind(cause, thought, sketch)
        _objected(cause, thought, sketch)
        _moved(cause, thought, sketch)
    _beyond(thought.report, sketch)
    _called_for(thought, sketch)
    known = numbered(sketch.nodes)
    edges = tuple(dict.fromkeys(sketch.edges))
    return ReasonGraph(thought.incident, thought.report.item, thought.report.outcome, thought.catalogue, known, edges, thought.ground)


def propositions(thought: Thought) -> list[Hypothesis]:
    """Causes found, then what else was on the table: what is likely, what a reading named, what was ruled out."""
    report, now = thought.report, thought.now
    rows = [*report.root_causes, *now.root_causes(), *(now.hypothesis(row.label) for row in now.suspects[:3])]
    if report.likely and report.likely.label in now.standings:
        rows.append(now.hypothesis(report.likely.label))
    elif report.likely:
        rows.append(Hypothesis(label=report.likely.label, verdict="inconclusive", because=report.likely.because))
    rows += [*(now.hypothesis(row.leaf.label) for row in now.hidden), *report.ruled_out]
    moved = dict.fromkeys(move.label for move in thought.moves if move.label in now.standings)
    rows += [now.hypothesis(label) for label in moved]
    found = len(report.root_causes) + len(now.root_causes())
    first: dict[str, Hypothesis] = {}
    for row in rows:
        first.setdefault(row.label, row)
    return list(first.values())[: found + MOST_OTHERS]


def _id(prefix: str, *parts: str) -> str:
    return f"{prefix}:{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:10]}"


def _place(label: str) -> str:
    return f"p:{label}"


def _proposition(cause: Hypothesis) -> ReasonNode:
    return ReasonNode(
        _place(cause.label),
        "proposition",
        shortened(cause.because),
        label=cause.label,
        verdict=cause.verdict,
        confidence=round(cause.confidence, 3),
        hosts=cause.hosts,
        devices=cause.devices,
    )


def _rows(cause: Hypothesis, now: Assessment) -> Sequence[Belief]:
    """The beliefs that stand behind a verdict."""
    roots = [row for row in now.roots if row.label == cause.label]
    return roots[:MOST_ROWS] or now.by_label.get(cause.label, [])[:1]


def _verified(cause: Hypothesis, now: Assessment, sketch: Sketch) -> None:
    """Facts for and against it."""
    for row in _rows(cause, now):
        deciding = {id(match.fact) for match in row.deciding}
        for match in row.support[:MOST_FOR]:
            kind: EdgeKind = "decides" if id(match.fact) in deciding else "supports"
            sketch.add(_seen(match), _place(cause.label), kind, match.weight)
        for match in row.against[:MOST_AGAINST]:
            sketch.add(_seen(match), _place(cause.label), "contradicts", match.weight)


def _seen(match: Match) -> ReasonNode:
    fact = match.fact
    line = fact.line or match.says
    return ReasonNode(
        _id("v", fact.host, fact.check, fact.key, fact.device or "", line),
        "verification",
        shortened(match.says),
        by="facts",
        verdict="seen",
        host=fact.host,
        device=fact.device or "",
        check=fact.check,
        key=fact.key,
        line=line[:400],
        sha256=fact.sha256,
    )


def _blind(cause: Hypothesis, thought: Thought, sketch: Sketch) -> None:
    """Add the refused looks that would have decided this cause. The report may show fewer of them, so all that failed are read here."""
    leaf = thought.taxonomy.leaves.get(cause.label)
    deciding = {check.id for check in thought.now.lens.deciding(leaf)} if leaf else set()
    for row in [blind for blind in thought.now.could_not_look() if blind.check in deciding or blind.check == "all"][:MOST_BLIND]:
        node = ReasonNode(
            _id("b", row.host, row.check, row.why),
            "verification",
            shortened(row.why),
            by="facts",
            verdict="could not look",
            host=row.host,
            check=row.check,
        )
        sketch.add(node, _place(cause.label), "leaves open")


def _objected(cause: Hypothesis, thought: Thought, sketch: Sketch) -> None:
    """What is held against it, by the engine or by a second reading."""
    for says, by in _objections(cause, thought):
        sketch.add(ReasonNode(_id("c", cause.label, says), "critique", shortened(says), by=by), _place(cause.label), "objects to")


def _objections(cause: Hypothesis, thought: Thought) -> Iterator[tuple[str, str]]:
    now, title = thought.now, thought.taxonomy.title(cause.label)
    yield from ((row.because, "engine") for row in now.settled.aside if row.belief.label == cause.label)
    yield from ((says, "engine") for says in now.settled.contradictions if title in says)
    yield from ((doubt.removeprefix(f"{title}: "), "model:critique") for doubt in thought.report.doubts if doubt.startswith(f"{title}: "))


def _moved(cause: Hypothesis, thought: Thought, sketch: Sketch) -> None:
    for number, move in enumerate(thought.moves):
        if move.label == cause.label:
            by = f"model:{move.by}" if move.by in BY_MODEL else move.by
            says = f"{move.by} {'for' if move.weight > 0 else 'against'} it"
            node = ReasonNode(_id("r", str(number), move.by, move.label), "refinement", says, by=by, weight=round(move.weight, 2))
            sketch.add(node, _place(cause.label), "moves", move.weight)


def _beyond(report: Report, sketch: Sketch) -> None:
    """What a model thought of where no cause is proven: never more than that."""
    for idea in report.ideas:
        place = _id("i", idea.title, idea.cause)
        sketch.nodes.append(
            ReasonNode(place, "proposition", shortened(f"{idea.title}: {idea.cause}"), by="model:explore", verdict=idea.standing)
        )
        for line in idea.rests:
            sketch.add(
                ReasonNode(_id("q", idea.title, line), "refinement", shortened(line), by="model:explore", line=line[:400]), place, "moves"
            )
        if idea.doubt:
            sketch.add(
                ReasonNode(_id("c", idea.title, idea.doubt), "critique", shortened(idea.doubt), by="model:critique"), place, "objects to"
            )


def _called_for(thought: Thought, sketch: Sketch) -> None:
    """The steps that would be put up for decision, each with the cause that it is for."""
    for row in thought.report.actions:
        known = "earlier" if (row.label, row.target) in thought.earlier else "new"
        node = ReasonNode(
            _id("a", row.label, row.remedy, row.target, str(row.rung)),
            "remedy",
            shortened(f"{row.remedy} on {row.target}"),
            label=row.label,
            verdict="look" if row.remedy == LOOK else known,
            host=row.target,
        )
        sketch.nodes.append(node)
        if _place(row.label) in {one.id for one in sketch.nodes}:
            sketch.edges.append(ReasonEdge(_place(row.label), node.id, "calls for"))
