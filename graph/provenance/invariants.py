"""Invariants of a turn's reasoning, checked against stored evidence every turn and on request.

A violation is a bug of RackMedic: the turn abstains.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Final

from graph.engine.assessment import Assessment, assess_facts
from graph.engine.belief import Belief
from graph.engine.reference_data import ReferenceData
from graph.provenance.belief_shifts import MAX_SHIFT_LOG_ODDS, ROUNDING_TOLERANCE, BeliefShift
from graph.provenance.reason_graph import ReasonGraph, ReasonNode
from graph.provenance.receipts import Receipts
from graph.state import Hypothesis
from kb.taxonomy.taxonomy import Taxonomy
from tools.fact import Fact

# How often a turn may ask the model these questions; every other one once. `graph.model.budget` bounds an incident's cost.
MAX_MODEL_QUESTIONS: Final[Mapping[str, int]] = {"explore": 2, "critique": 2, "read what was found": 3}
MACHINE_SCOPES: Final = frozenset({"node", "gpu", "hca"})  # scopes of causes that accuse the machines they name
# Invariants that assess the facts again, and so need the same taxonomy.
REASSESSING_INVARIANTS: Final = frozenset(
    {"confirmed_is_verified", "rejected_is_not_proven", "found_again", "silence_is_earned", "verification_was_seen"}
)


@dataclass(frozen=True)
class InvariantInputs:
    """The evidence to check a graph against.

    `causes` are the reported ones, None if unknown. `outputs` maps digests to stored texts, None for a missing one.
    `read_again(check, texts)` parses a check's outputs again. `asked` counts the calls per model question in this turn.
    """

    facts: Sequence[Fact]
    reference: ReferenceData
    taxonomy: Taxonomy
    hosts: Sequence[str]
    causes: Sequence[Hypothesis] | None = None
    moves: Sequence[BeliefShift] = ()
    priors: Mapping[str, float] = field(default_factory=dict)
    receipts: Receipts = field(default_factory=Receipts)
    outputs: Mapping[str, str | None] = field(default_factory=dict)
    read_again: Callable[[str, Sequence[str]], Sequence[Fact]] = lambda check, texts: ()
    asked: Mapping[str, int] = field(default_factory=dict)
    opened: datetime | None = None

    def reassess(self, labels: frozenset[str]) -> Assessment:
        leaves = {label: leaf for label, leaf in self.reference.taxonomy.leaves.items() if label in labels}
        return assess_facts(
            self.facts,
            replace(self.reference, taxonomy=replace(self.reference.taxonomy, leaves=leaves)),
            self.hosts,
            self.priors,
            self.opened,
        )


@dataclass(frozen=True)
class InvariantContext:
    """A graph with its evidence, and values that several invariants share."""

    graph: ReasonGraph
    inputs: InvariantInputs

    @cached_property
    def reassessment(self) -> Assessment:
        return self.inputs.reassess(frozenset(node.label for node in self.graph.list_nodes("proposition") if node.label))

    @cached_property
    def observed_keys(self) -> frozenset[tuple[str, str, str]]:
        """The (host, check, key) of every fact that was observed, or derived while assessing."""
        facts = list(self.inputs.facts)
        for belief in self.reassessment.beliefs:
            facts += [match.fact for match in (*belief.support, *belief.against)]
        return frozenset((fact.host, fact.check, fact.key) for fact in facts)

    def list_proven_beliefs(self, label: str) -> list[Belief]:
        return [belief for belief in self.reassessment.by_label.get(label, ()) if belief.proven]


def compute_catalogue_digest(taxonomy: Taxonomy) -> str:
    """Return a digest of all causes with their evidence, which determine how facts are read."""
    lines = [
        f"{leaf.label} {leaf.prior} {clue.id} {clue.key} {clue.when} {clue.weight}"
        for leaf in taxonomy.leaves.values()
        for clue in leaf.evidence
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


InvariantChecker = Callable[[InvariantContext], Iterator[str]]  # Yields one sentence per violation.


@dataclass(frozen=True, slots=True)
class ReasonInvariant:
    id: str
    promise: str
    check: InvariantChecker


@dataclass(frozen=True, slots=True)
class InvariantViolation:
    contract: str
    promise: str
    says: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.says}"


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """The result of a verification. `unchecked` describes what can no longer be checked; `held` counts invariants that hold."""

    broken: tuple[InvariantViolation, ...] = ()
    unchecked: tuple[str, ...] = ()
    held: int = 0


def verify_reasoning(graph: ReasonGraph, inputs: InvariantInputs) -> VerificationResult:
    """Check every invariant. If the taxonomy has changed, those that assess the facts again are skipped."""
    context = InvariantContext(graph, inputs)
    is_same_catalogue = graph.catalogue == compute_catalogue_digest(inputs.taxonomy)
    invariants = [invariant for invariant in INVARIANTS if is_same_catalogue or invariant.id not in REASSESSING_INVARIANTS]
    violations: list[InvariantViolation] = []
    held_count = 0
    for invariant in invariants:
        sentences = list(invariant.check(context))
        violations += [InvariantViolation(invariant.id, invariant.promise, sentence) for sentence in sentences]
        held_count += not sentences
    unchecked: list[str] = []
    if not is_same_catalogue:
        skipped_count = len(INVARIANTS) - len(invariants)
        unchecked.append(f"{skipped_count} contracts: the catalogue of causes is not the one that it was reasoned with")
    unchecked += _iter_missing_outputs(context)
    return VerificationResult(tuple(violations), tuple(unchecked), held_count)


def _check_well_formed(context: InvariantContext) -> Iterator[str]:
    graph = context.graph
    if len(graph.by_id) != len(graph.nodes):
        yield "two steps have one id"
    for edge in graph.edges:
        if edge.source not in graph.by_id or edge.target not in graph.by_id:
            yield f"{edge.source} → {edge.target} leads nowhere"


def _check_known_labels(context: InvariantContext) -> Iterator[str]:
    leaves = context.inputs.taxonomy.leaves
    yield from (f"{node.label} is none" for node in context.graph.nodes if node.label and node.label not in leaves)


def _check_confirmed_is_verified(context: InvariantContext) -> Iterator[str]:
    for node in _list_confirmed(context.graph):
        proven = context.list_proven_beliefs(node.label)
        if not context.graph.list_incoming(node, "decides"):
            yield f"{node.label} rests on no fact that decides"
        elif not proven:
            yield f"{node.label}: the stored facts do not prove it"
        else:
            yield from _iter_unaccused_targets(node, proven)


def _iter_unaccused_targets(node: ReasonNode, proven: Sequence[Belief]) -> Iterator[str]:
    hosts = {host for belief in proven for host in belief.accused}
    devices = {name for belief in proven for name in belief.subject.named_devices}
    yield from (f"{node.label}: no fact accuses {host}" for host in node.hosts if host not in hosts)
    yield from (f"{node.label}: no fact accuses {device}" for device in node.devices if device not in devices)


def _check_rejected_is_not_proven(context: InvariantContext) -> Iterator[str]:
    roots = {belief.label for belief in context.reassessment.roots}
    for node in context.graph.list_nodes("proposition"):
        if node.verdict == "rejected" and node.label in roots:
            yield f"{node.label} is said to be ruled out, and the stored facts prove it"


def _check_found_again(context: InvariantContext) -> Iterator[str]:
    """Require that every cited fact has the same weight for its cause when the facts are assessed again."""
    weights: dict[str, dict[tuple[str, str, str, str], set[float]]] = {}
    for belief in context.reassessment.beliefs:
        weights_by_source = weights.setdefault(belief.label, {})
        for match in (*belief.support, *belief.against):
            fact = match.fact
            weights_by_source.setdefault((fact.host, fact.check, fact.key, fact.device or ""), set()).add(round(match.weight, 2))
    for edge in context.graph.edges:
        node, cause = context.graph.by_id.get(edge.source), context.graph.by_id.get(edge.target)
        if node is None or cause is None or edge.kind not in ("decides", "supports", "contradicts"):
            continue
        cause_weights = weights.get(cause.label, {})
        if edge.weight not in cause_weights.get((node.host, node.check, node.key, node.device), set()):
            yield f"“{node.says[:80]}” does not speak {edge.weight:+.1f} for {cause.label}"


def _check_no_fault_is_earned(context: InvariantContext) -> Iterator[str]:
    if context.graph.outcome != "no_fault":
        return
    yield from (f"{belief.label} is proven, and no fault was reported" for belief in context.reassessment.roots)


def _check_verification_was_seen(context: InvariantContext) -> Iterator[str]:
    for node in context.graph.list_nodes("verification"):
        if node.verdict == "seen" and (node.host, node.check, node.key) not in context.observed_keys:
            yield f"{node.check} on {node.host or 'what was handed in'} never said {node.key}"


def _check_answer_is_its_hosts(context: InvariantContext) -> Iterator[str]:
    yield from context.inputs.receipts.list_misattributed(context.inputs.facts)


def _check_nothing_is_lost(context: InvariantContext) -> Iterator[str]:
    for host, check in context.inputs.receipts.list_dropped(context.inputs.facts):
        yield f"{check} on {host} was answered, and nothing of it was weighed"


def _iter_quotes(context: InvariantContext) -> Iterator[tuple[ReasonNode, str]]:
    """Yield each citing node with the stored output that should contain its line.

    A fact that was derived from several outputs, such as a GPU missing from a list, stands in none of them;
    `verification_was_seen` derives it again.
    """
    stored_keys = {(fact.host, fact.check, fact.key) for fact in context.inputs.facts}
    for node in context.graph.list_nodes("verification"):
        text = context.inputs.outputs.get(node.sha256) if node.sha256 else None
        if text is not None and node.verdict == "seen" and node.line and (node.host, node.check, node.key) in stored_keys:
            yield node, text


def _check_quote_is_in_output(context: InvariantContext) -> Iterator[str]:
    for node, text in _iter_quotes(context):
        if not is_quoted_in(node.line, text) and not _is_confirmed_by_reparse(node, context.inputs):
            yield f"“{node.line[:80]}” is not in what {node.host or 'people'} showed ({node.check})"


def is_quoted_in(line: str, text: str) -> bool:
    """Return whether an output contains a line, ignoring whitespace."""
    return line in text or _strip_whitespace(line) in _strip_whitespace(text)


def list_output_digests(facts: Sequence[Fact], host: str, check: str) -> list[str]:
    """Return the digests of all outputs of a check on a host: some facts combine several commands."""
    return list(dict.fromkeys(fact.sha256 for fact in facts if fact.sha256 and (fact.host, fact.check) == (host, check)))


def _is_confirmed_by_reparse(node: ReasonNode, inputs: InvariantInputs) -> bool:
    """Return whether parsing the check's outputs again gives this fact. A missing output counts as a confirmation."""
    texts = [inputs.outputs.get(sha256) for sha256 in list_output_digests(inputs.facts, node.host, node.check)]
    if None in texts:
        return True
    reparsed_facts = inputs.read_again(node.check, [text for text in texts if text is not None])
    return any(
        fact.key == node.key and (not fact.line or _strip_whitespace(fact.line)[:400] == _strip_whitespace(node.line)[:400])
        for fact in reparsed_facts
    )


def _strip_whitespace(text: str) -> str:
    return "".join(text.split())


def _iter_missing_outputs(context: InvariantContext) -> Iterator[str]:
    for node in context.graph.list_nodes("verification"):
        if node.sha256 and node.verdict == "seen" and context.inputs.outputs.get(node.sha256) is None:
            yield f"the output behind “{node.line[:60]}” ({node.check} on {node.host or 'an uploaded file'}) is no longer stored"


def _check_shifts_are_bounded(context: InvariantContext) -> Iterator[str]:
    total_shifts: dict[str, float] = {}
    for shift in context.inputs.moves:
        max_shift = MAX_SHIFT_LOG_ODDS[shift.source]
        if abs(shift.weight) > max_shift + ROUNDING_TOLERANCE:
            yield f"{shift.source} moved {shift.label} by {shift.weight:+.2f}, and may by {max_shift}"
        total_shifts[shift.label] = total_shifts.get(shift.label, 0.0) + shift.weight
    for label, prior in context.inputs.priors.items():
        total_shift = total_shifts.get(label, 0.0)
        if abs(prior) > abs(total_shift) + ROUNDING_TOLERANCE * 4:
            yield f"{label} was moved by {prior:+.2f}, and only {total_shift:+.2f} is accounted for"


def _check_model_is_named(context: InvariantContext) -> Iterator[str]:
    for node in context.graph.nodes:
        if node.by.startswith("model") and node.kind in ("verification", "remedy"):
            yield f"a model stands as what was looked at: {node.says}"
        if node.by.startswith("model") and node.verdict == "confirmed":
            yield f"a model's idea stands as confirmed: {node.says}"


def _check_remedy_has_its_cause(context: InvariantContext) -> Iterator[str]:
    confirmed = {node.label: node for node in _list_confirmed(context.graph)}
    for node in context.graph.list_nodes("remedy"):
        if node.verdict != "new":
            continue
        cause = confirmed.get(node.label)
        if cause is None:
            yield f"{node.says} is proposed for {node.label}, which is not confirmed"
        elif _accuses_machines(cause, context.inputs) and node.host in context.inputs.hosts and node.host not in cause.hosts:
            yield f"{node.says} is proposed, and {node.label} accuses {', '.join(cause.hosts)}"


def _accuses_machines(cause: ReasonNode, inputs: InvariantInputs) -> bool:
    leaf = inputs.taxonomy.leaves.get(cause.label)
    return leaf is not None and leaf.scope in MACHINE_SCOPES


def _check_refusals_are_shown(context: InvariantContext) -> Iterator[str]:
    failed_checks = {node.check for node in context.graph.list_nodes("verification") if node.verdict == "could not look"}
    for node in context.graph.list_nodes("proposition"):
        leaf = context.inputs.reference.taxonomy.leaves.get(node.label)
        if leaf is None or node.verdict != "inconclusive" or not node.says.startswith("could not look"):
            continue
        deciding_checks = {check.id for check in context.inputs.reference.list_deciding_checks(leaf)}
        if not failed_checks & {*deciding_checks, "all"}:
            yield f"{node.label} could not be looked at, and the failed look is not shown"


def _check_budget_is_kept(context: InvariantContext) -> Iterator[str]:
    for question, times in context.inputs.asked.items():
        if times > MAX_MODEL_QUESTIONS.get(question, 1):
            yield f"“{question}” was asked {times} times in one turn"


def _list_confirmed(graph: ReasonGraph) -> list[ReasonNode]:
    return [node for node in graph.list_nodes("proposition") if node.verdict == "confirmed"]


def _check_confirmed_is_reported(context: InvariantContext) -> Iterator[str]:
    causes = context.inputs.causes
    if causes is None:
        return
    confirmed_labels = {node.label for node in _list_confirmed(context.graph)}
    reported_labels = {cause.label for cause in causes}
    yield from (f"{cause.label} is reported as {cause.verdict}" for cause in causes if cause.verdict != "confirmed")
    yield from (f"{label} is reported and not confirmed" for label in sorted(reported_labels - confirmed_labels))
    yield from (f"{label} is confirmed and not reported" for label in sorted(confirmed_labels - reported_labels))


INVARIANTS: Final[tuple[ReasonInvariant, ...]] = (
    ReasonInvariant("well_formed", "every step has one place, and every edge two ends", _check_well_formed),
    ReasonInvariant("known_labels", "every cause is one of the catalogue", _check_known_labels),
    ReasonInvariant(
        "confirmed_is_verified",
        "nothing is confirmed without a fact that decides, of the accused machine and part",
        _check_confirmed_is_verified,
    ),
    ReasonInvariant("confirmed_is_reported", "what is reported as found is what was confirmed", _check_confirmed_is_reported),
    ReasonInvariant("rejected_is_not_proven", "what is ruled out is not what the facts prove", _check_rejected_is_not_proven),
    ReasonInvariant("found_again", "weighed once more, the stored facts say the same", _check_found_again),
    ReasonInvariant("silence_is_earned", "no fault is said where none is proven", _check_no_fault_is_earned),
    ReasonInvariant("verification_was_seen", "what is cited was looked at", _check_verification_was_seen),
    ReasonInvariant("answer_is_its_hosts", "what a host is said to have answered is what it answered", _check_answer_is_its_hosts),
    ReasonInvariant("nothing_is_lost", "what was answered was weighed", _check_nothing_is_lost),
    ReasonInvariant("quote_is_in_output", "every quoted line is in the output that it cites", _check_quote_is_in_output),
    ReasonInvariant("moves_are_bounded", "words, history and models move a belief by no more than they may", _check_shifts_are_bounded),
    ReasonInvariant("model_is_named", "a model's word is marked as one, looks at nothing and confirms nothing", _check_model_is_named),
    ReasonInvariant(
        "remedy_has_its_cause",
        "no step is proposed without its confirmed cause, on the machine that it accuses",
        _check_remedy_has_its_cause,
    ),
    ReasonInvariant("refusals_are_told", "a look that was refused is shown where it keeps something undecided", _check_refusals_are_shown),
    ReasonInvariant("budget_is_kept", "the model is asked no more often than a turn may", _check_budget_is_kept),
)
