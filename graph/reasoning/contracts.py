"""What must hold of a turn's reasoning, as a table: each contract is checked against what was really seen, at the end of every turn and whenever
somebody asks. A broken one is a bug of ours: the turn abstains. Pure."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Final

from graph.engine.assess import Assessment, assess
from graph.engine.belief import Belief
from graph.engine.reference import Lens
from graph.reasoning.moves import BOUNDS, ROUNDING, Move
from graph.reasoning.nodes import ReasonGraph, ReasonNode
from graph.reasoning.receipts import Receipts
from graph.state import Hypothesis
from kb.taxonomy.labels import Taxonomy
from tools.fact import Fact

ASKED_AT_MOST: Final[Mapping[str, int]] = {"explore": 2, "critique": 2}
"""How often one turn may put a question to the model; every other one once. What an incident may spend is `graph.model.budget`'s."""
OF_MACHINES: Final = frozenset({"node", "gpu", "hca"})
"""Scopes of causes that accuse the machines that they name."""


@dataclass(frozen=True)
class ReasonGround:
    """What a graph is checked against. `causes`: those reported, None where nobody knows any more; `outputs`: stored texts by digest, None where one
    is gone; `read_again(check, texts)`: what the check's own formats make of its outputs; `asked`: how often this turn put each question to
    the model.
    """

    facts: Sequence[Fact]
    lens: Lens
    taxonomy: Taxonomy
    hosts: Sequence[str]
    causes: Sequence[Hypothesis] | None = None
    moves: Sequence[Move] = ()
    priors: Mapping[str, float] = field(default_factory=dict)
    receipts: Receipts = field(default_factory=Receipts)
    outputs: Mapping[str, str | None] = field(default_factory=dict)
    read_again: Callable[[str, Sequence[str]], Sequence[Fact]] = lambda check, texts: ()
    asked: Mapping[str, int] = field(default_factory=dict)
    opened: datetime | None = None

    def afresh(self, labels: frozenset[str]) -> Assessment:
        """The facts weighed once more, for these causes alone, from what is stored."""
        leaves = {label: leaf for label, leaf in self.lens.taxonomy.leaves.items() if label in labels}
        return assess(
            self.facts, replace(self.lens, taxonomy=replace(self.lens.taxonomy, leaves=leaves)), self.hosts, self.priors, self.opened
        )


@dataclass(frozen=True)
class Trial:
    """A graph before its ground, with what several contracts need."""

    graph: ReasonGraph
    ground: ReasonGround

    @cached_property
    def afresh(self) -> Assessment:
        return self.ground.afresh(frozenset(node.label for node in self.graph.of_kind("proposition") if node.label))

    @cached_property
    def seen(self) -> frozenset[tuple[str, str, str]]:
        """(host, check, key) of everything that was really looked at."""
        ready = (match.fact for row in self.afresh.rows for match in (*row.support, *row.against))
        return frozenset((fact.host, fact.check, fact.key) for fact in (*self.ground.facts, *ready))

    def proven(self, label: str) -> list[Belief]:
        """What the facts prove of a cause, weighed afresh."""
        return [row for row in self.afresh.by_label.get(label, ()) if row.proven]


WEIGH_AGAIN: Final = frozenset(
    {"confirmed_is_verified", "rejected_is_not_proven", "found_again", "silence_is_earned", "verification_was_seen"}
)
"""Contracts that weigh the facts once more."""


def catalogue_digest(taxonomy: Taxonomy) -> str:
    """Of every cause with its evidence: what the same facts are read by."""
    rows = (
        f"{leaf.label} {leaf.prior} {clue.id} {clue.key} {clue.when} {clue.weight}"
        for leaf in taxonomy.leaves.values()
        for clue in leaf.evidence
    )
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16]


Checker = Callable[[Trial], Iterator[str]]
"""Yields what breaks the promise, a sentence each."""


@dataclass(frozen=True, slots=True)
class Contract:
    """A promise, and how it is checked."""

    id: str
    promise: str
    check: Checker


@dataclass(frozen=True, slots=True)
class Breach:
    """A promise that does not hold, and of what."""

    contract: str
    promise: str
    says: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.says}"


@dataclass(frozen=True, slots=True)
class Verified:
    """What came of checking. `unchecked`: what could not be looked at any more, in words."""

    broken: tuple[Breach, ...] = ()
    unchecked: tuple[str, ...] = ()
    held: int = 0


def verify(graph: ReasonGraph, ground: ReasonGround) -> Verified:
    """Every contract that can still be checked: with other causes in the catalogue than then the same facts may mean something else."""
    trial = Trial(graph, ground)
    same = graph.catalogue == catalogue_digest(ground.taxonomy)
    able = [one for one in CONTRACTS if same or one.id not in WEIGH_AGAIN]
    broken = tuple(Breach(one.id, one.promise, says) for one in able for says in one.check(trial))
    failed = {row.contract for row in broken}
    other = () if same else (f"{len(CONTRACTS) - len(able)} contracts: the catalogue of causes is not the one that it was reasoned with",)
    return Verified(broken, (*other, *_gone(trial)), sum(one.id not in failed for one in able))


def _well_formed(trial: Trial) -> Iterator[str]:
    graph = trial.graph
    if len(graph.by_id) != len(graph.nodes):
        yield "two steps have one id"
    yield from (
        f"{edge.source} → {edge.target} leads nowhere" for edge in graph.edges if not {edge.source, edge.target} <= graph.by_id.keys()
    )


def _known_labels(trial: Trial) -> Iterator[str]:
    known = trial.ground.taxonomy.leaves
    yield from (f"{node.label} is none" for node in trial.graph.nodes if node.label and node.label not in known)


def _confirmed_is_verified(trial: Trial) -> Iterator[str]:
    for node in _confirmed(trial.graph):
        proven = trial.proven(node.label)
        if not trial.graph.into(node, "decides"):
            yield f"{node.label} rests on no fact that decides"
        elif not proven:
            yield f"{node.label}: the stored facts do not prove it"
        else:
            yield from _of_others(node, proven)


def _of_others(node: ReasonNode, proven: Sequence[Belief]) -> Iterator[str]:
    """Accused machines and parts that no fact accuses."""
    hosts = {host for row in proven for host in row.accused}
    devices = {name for row in proven for name in row.subject.named}
    yield from (f"{node.label}: no fact accuses {host}" for host in node.hosts if host not in hosts)
    yield from (f"{node.label}: no fact accuses {device}" for device in node.devices if device not in devices)


def _rejected_is_not_proven(trial: Trial) -> Iterator[str]:
    roots = {row.label for row in trial.afresh.roots}
    for node in trial.graph.of_kind("proposition"):
        if node.verdict == "rejected" and node.label in roots:
            yield f"{node.label} is said to be ruled out, and the stored facts prove it"


def _found_again(trial: Trial) -> Iterator[str]:
    """Every fact that is said to speak for or against a cause does so when the stored facts are weighed once more, with the same weight."""
    weights: dict[str, dict[tuple[str, str, str, str], set[float]]] = {}
    for row in trial.afresh.rows:
        known = weights.setdefault(row.label, {})
        for match in (*row.support, *row.against):
            fact = match.fact
            known.setdefault((fact.host, fact.check, fact.key, fact.device or ""), set()).add(round(match.weight, 2))
    for edge in trial.graph.edges:
        node, cause = trial.graph.by_id.get(edge.source), trial.graph.by_id.get(edge.target)
        if node is None or cause is None or edge.kind not in ("decides", "supports", "contradicts"):
            continue
        if edge.weight not in weights.get(cause.label, {}).get((node.host, node.check, node.key, node.device), set()):
            yield f"“{node.says[:80]}” does not speak {edge.weight:+.1f} for {cause.label}"


def _nothing_proven_is_silent(trial: Trial) -> Iterator[str]:
    if trial.graph.outcome != "no_fault":
        return
    yield from (f"{row.label} is proven, and no fault was reported" for row in trial.afresh.roots)


def _verification_was_seen(trial: Trial) -> Iterator[str]:
    for node in trial.graph.of_kind("verification"):
        if node.verdict == "seen" and (node.host, node.check, node.key) not in trial.seen:
            yield f"{node.check} on {node.host or 'what was handed in'} never said {node.key}"


def _answer_is_its_hosts(trial: Trial) -> Iterator[str]:
    yield from trial.ground.receipts.strange(trial.ground.facts)


def _nothing_is_lost(trial: Trial) -> Iterator[str]:
    for host, check in trial.ground.receipts.lost(trial.ground.facts):
        yield f"{check} on {host} was answered, and nothing of it was weighed"


def _quoted(trial: Trial) -> Iterator[tuple[ReasonNode, str]]:
    """Cited lines with the output that they are said to stand in, where that is still there. What follows from several outputs, as a GPU that is missing
    from a list, stands in none: it is derived anew from the stored facts (`verification_was_seen`)."""
    stored = {(fact.host, fact.check, fact.key) for fact in trial.ground.facts}
    for node in trial.graph.of_kind("verification"):
        text = trial.ground.outputs.get(node.sha256) if node.sha256 else None
        if text is not None and node.verdict == "seen" and node.line and (node.host, node.check, node.key) in stored:
            yield node, text


def _quote_is_in_output(trial: Trial) -> Iterator[str]:
    for node, text in _quoted(trial):
        if not in_text(node.line, text) and not _says_so(node, trial.ground):
            yield f"“{node.line[:80]}” is not in what {node.host or 'people'} showed ({node.check})"


def in_text(line: str, text: str) -> bool:
    """Whether a line stands in an output, however its blanks are squashed."""
    return line in text or _bare(line) in _bare(text)


def outputs_of(facts: Sequence[Fact], host: str, check: str) -> list[str]:
    """Digests of everything that a check printed on a host: some lines are put together from several commands."""
    return list(dict.fromkeys(fact.sha256 for fact in facts if fact.sha256 and (fact.host, fact.check) == (host, check)))


def _says_so(node: ReasonNode, ground: ReasonGround) -> bool:
    """Whether what the check printed there, read once more, says this; so it is taken where a part of that was not read again."""
    texts = [ground.outputs.get(sha256) for sha256 in outputs_of(ground.facts, node.host, node.check)]
    if None in texts:
        return True
    again = ground.read_again(node.check, [text for text in texts if text is not None])
    return any(fact.key == node.key and (not fact.line or _bare(fact.line)[:400] == _bare(node.line)[:400]) for fact in again)


def _bare(text: str) -> str:
    return "".join(text.split())


def _gone(trial: Trial) -> Iterator[str]:
    for node in trial.graph.of_kind("verification"):
        if node.sha256 and node.verdict == "seen" and trial.ground.outputs.get(node.sha256) is None:
            yield f"the output behind “{node.line[:60]}” ({node.check} on {node.host or 'what was handed in'}) is not kept any more"


def _moves_are_bounded(trial: Trial) -> Iterator[str]:
    summed: dict[str, float] = {}
    for move in trial.ground.moves:
        if abs(move.weight) > BOUNDS[move.by] + ROUNDING:
            yield f"{move.by} moved {move.label} by {move.weight:+.2f}, and may by {BOUNDS[move.by]}"
        summed[move.label] = summed.get(move.label, 0.0) + move.weight
    for label, prior in trial.ground.priors.items():
        if abs(prior) > abs(summed.get(label, 0.0)) + ROUNDING * 4:
            yield f"{label} was moved by {prior:+.2f}, and only {summed.get(label, 0.0):+.2f} is accounted for"


def _model_is_named(trial: Trial) -> Iterator[str]:
    for node in trial.graph.nodes:
        if node.by.startswith("model") and node.kind in ("verification", "remedy"):
            yield f"a model stands as what was looked at: {node.says}"
        if node.by.startswith("model") and node.verdict == "confirmed":
            yield f"a model's idea stands as confirmed: {node.says}"


def _remedy_has_its_cause(trial: Trial) -> Iterator[str]:
    confirmed = {node.label: node for node in _confirmed(trial.graph)}
    for node in trial.graph.of_kind("remedy"):
        if node.verdict != "new":
            continue
        cause = confirmed.get(node.label)
        if cause is None:
            yield f"{node.says} is put up for {node.label}, which is not confirmed"
        elif _accuses(cause, trial.ground) and node.host in trial.ground.hosts and node.host not in cause.hosts:
            yield f"{node.says} is put up, and {node.label} accuses {', '.join(cause.hosts)}"


def _accuses(cause: ReasonNode, ground: ReasonGround) -> bool:
    leaf = ground.taxonomy.leaves.get(cause.label)
    return leaf is not None and leaf.scope in OF_MACHINES


def _refusals_are_told(trial: Trial) -> Iterator[str]:
    told = {(node.host, node.check) for node in trial.graph.of_kind("verification") if node.verdict == "could not look"}
    everything = {host for host, check in told if check == "all"}
    for node in trial.graph.of_kind("proposition"):
        leaf = trial.ground.lens.taxonomy.leaves.get(node.label)
        if leaf is None or node.verdict != "inconclusive" or not node.says.startswith("could not look"):
            continue
        deciding = {check.id for check in trial.ground.lens.deciding(leaf)}
        if not any(check in deciding for _, check in told) and not everything:
            yield f"{node.label} could not be looked at, and the failed look is not shown"


def _budget_is_kept(trial: Trial) -> Iterator[str]:
    for question, times in trial.ground.asked.items():
        if times > ASKED_AT_MOST.get(question, 1):
            yield f"“{question}” was asked {times} times in one turn"


def _confirmed(graph: ReasonGraph) -> list[ReasonNode]:
    return [node for node in graph.of_kind("proposition") if node.verdict == "confirmed"]


def _confirmed_is_reported(trial: Trial) -> Iterator[str]:
    causes = trial.ground.causes
    if causes is None:
        return
    drawn, told = {node.label for node in _confirmed(trial.graph)}, {row.label for row in causes}
    yield from (f"{row.label} is reported as {row.verdict}" for row in causes if row.verdict != "confirmed")
    yield from (f"{label} is reported and not confirmed" for label in sorted(told - drawn))
    yield from (f"{label} is confirmed and not reported" for label in sorted(drawn - told))


CONTRACTS: Final[tuple[Contract, ...]] = (
    Contract("well_formed", "every step has one place, and every edge two ends", _well_formed),
    Contract("known_labels", "every cause is one of the catalogue", _known_labels),
    Contract(
        "confirmed_is_verified", "nothing is confirmed without a fact that decides, of the accused machine and part", _confirmed_is_verified
    ),
    Contract("confirmed_is_reported", "what is reported as found is what was confirmed", _confirmed_is_reported),
    Contract("rejected_is_not_proven", "what is ruled out is not what the facts prove", _rejected_is_not_proven),
    Contract("found_again", "weighed once more, the stored facts say the same", _found_again),
    Contract("silence_is_earned", "no fault is said where none is proven", _nothing_proven_is_silent),
    Contract("verification_was_seen", "what is cited was looked at", _verification_was_seen),
    Contract("answer_is_its_hosts", "what a host is said to have answered is what it answered", _answer_is_its_hosts),
    Contract("nothing_is_lost", "what was answered was weighed", _nothing_is_lost),
    Contract("quote_is_in_output", "every quoted line is in the output that it cites", _quote_is_in_output),
    Contract("moves_are_bounded", "words, history and models move a belief by no more than they may", _moves_are_bounded),
    Contract("model_is_named", "a model's word is marked as one, looks at nothing and confirms nothing", _model_is_named),
    Contract(
        "remedy_has_its_cause", "no step is put up without its confirmed cause, on the machine that it accuses", _remedy_has_its_cause
    ),
    Contract("refusals_are_told", "a look that was refused is shown where it keeps something undecided", _refusals_are_told),
    Contract("budget_is_kept", "the model is asked no more often than a turn may", _budget_is_kept),
)
