"""A turn's reasoning graph can be verified: each alteration breaks the contract it should."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from graph.engine.assessment import assess_facts
from graph.engine.priors import MODEL_LOG_ODDS
from graph.engine.reference_data import ReferenceData
from graph.incident.reasoning_check import load_reasoning, verify_stored_reasoning
from graph.provenance.belief_shifts import MAX_SHIFT_LOG_ODDS, BeliefShift, build_shifts, parse_shifts, serialize_shifts
from graph.provenance.invariants import INVARIANTS, InvariantInputs, VerificationResult, compute_catalogue_digest, verify_reasoning
from graph.provenance.reason_graph import ReasonEdge, ReasonGraph, ReasonNode
from graph.provenance.receipts import Receipts
from graph.provenance.tree_rendering import render_tree, render_verification
from graph.report import Report
from graph.state import IncidentState
from tests.graph.test_flow import Desk, world
from tests.properties.reasoning_stories import KILLED_ON_N3, LOST_ON_N2, with_outputs
from tests.support.fakes_graph import CHECKS, HOT, LOST, OOM, TAXONOMY, World, fact, item
from tools.fleet.answers import CheckAnswer, FleetAnswers


@dataclass(frozen=True)
class Told:
    """A diagnosed incident with its world, graph and facts."""

    world: World
    report: Report
    state: IncidentState
    graph: ReasonGraph
    ground: InvariantInputs

    def broken(self, graph: ReasonGraph, **ground: object) -> set[str]:
        came = verify_reasoning(graph, replace(self.ground, **ground))  # type: ignore[arg-type]  # any field that a contract reads
        return {row.contract for row in came.broken}


async def _told() -> Told:
    told = await with_outputs(world(LOST_ON_N2, KILLED_ON_N3))
    desk = Desk(told)
    report = await desk.turn(item("jobs fail on n2 and n3"))
    state, ports = await desk.state(), told.ports()
    graph = await load_reasoning(state, ports.evidence)
    assert graph is not None
    facts = await ports.evidence.get_facts(state["facts"])
    receipts = Receipts.parse(await ports.evidence.get_text(state["receipts"]) or "")
    outputs = {row.sha256: await ports.evidence.get_text(row.sha256) for row in facts if row.sha256}
    lens = ReferenceData(TAXONOMY.decidable, CHECKS)
    ground = InvariantInputs(facts, lens, TAXONOMY, ("n1", "n2", "n3", "n4"), report.root_causes, receipts=receipts, outputs=outputs)
    return Told(told, report, state, graph, ground)


@pytest.fixture(scope="module")
def told() -> Told:
    return asyncio.run(_told())


def node_of(graph: ReasonGraph, label: str) -> ReasonNode:
    return next(node for node in graph.list_nodes("proposition") if node.label == label)


def altered(graph: ReasonGraph, label: str, /, **changes: object) -> ReasonGraph:
    """Return the graph with one cause changed."""
    old = node_of(graph, label)
    new = replace(old, **changes)  # type: ignore[arg-type]  # any field of it
    return replace(graph, nodes=tuple(new if node is old else node for node in graph.nodes))


def seen_on(graph: ReasonGraph, host: str, **changes: object) -> ReasonGraph:
    """Return the graph with a host's verification nodes changed."""
    rows = (replace(node, **changes) if node.kind == "verification" and node.host == host else node for node in graph.nodes)  # type: ignore[arg-type]
    return replace(graph, nodes=tuple(rows))


def with_remedy(graph: ReasonGraph, label: str, host: str) -> ReasonGraph:
    node = ReasonNode("a:1", "remedy", f"gpu_reset on {host}", label=label, verdict="new", host=host)
    return replace(graph, nodes=(*graph.nodes, node))


def test_a_diagnosis_is_kept_with_its_proof_and_every_contract_holds(told: Told) -> None:
    assert {node.label for node in told.graph.list_nodes("proposition") if node.verdict == "confirmed"} == {LOST, OOM}
    ((edge, seen),) = told.graph.list_incoming(node_of(told.graph, LOST), "decides")
    assert (seen.host, seen.check, seen.device, seen.line, edge.weight) == ("n2", "dmesg", "gpu3", "kernel.xid 79 gpu3", 9.0)
    assert told.broken(told.graph) == set()


async def test_what_is_kept_can_be_verified_afterwards_and_read_back_byte_by_byte(told: Told) -> None:
    came = await verify_stored_reasoning(told.graph, told.world.ports())
    assert (came.broken, came.unchecked, came.held) == ((), (), len(INVARIANTS))
    assert ReasonGraph.parse(told.graph.serialize()) == told.graph
    assert ReasonGraph.parse(told.graph.serialize()).serialize() == told.graph.serialize()


async def test_the_same_incident_told_again_gives_the_same_graph(told: Told) -> None:
    again = await _told()
    assert again.graph.serialize() == told.graph.serialize()


async def test_without_its_facts_it_says_that_it_cannot_be_checked(told: Told) -> None:
    gone = replace(told.graph, ground={**told.graph.ground, "facts": "0" * 64})
    came = await verify_stored_reasoning(gone, told.world.ports())
    assert (came.broken, came.held) == ((), 0)
    assert "no longer stored" in came.unchecked[0]


def test_with_another_catalogue_what_weighs_is_not_checked_and_that_is_said(told: Told) -> None:
    came = verify_reasoning(replace(told.graph, catalogue="older"), told.ground)
    assert came.broken == ()
    assert "catalogue" in came.unchecked[0]


def test_an_output_that_is_gone_is_no_breach_and_is_said(told: Told) -> None:
    came = verify_reasoning(told.graph, replace(told.ground, outputs={}))
    assert came.broken == ()
    assert any("no longer stored" in says for says in came.unchecked)


# an alteration that breaks each contract
ALTERED: dict[str, Callable[[Told], set[str]]] = {
    "well_formed": lambda t: t.broken(replace(t.graph, edges=(*t.graph.edges, ReasonEdge("v:nothing", "p:nothing", "supports")))),
    "known_labels": lambda t: t.broken(altered(t.graph, LOST, label="GPU.BUS.Invented")),
    "confirmed_is_verified": lambda t: t.broken(altered(t.graph, LOST, hosts=("n1",))),
    "confirmed_is_reported": lambda t: t.broken(t.graph, causes=t.report.root_causes[:1]),
    "rejected_is_not_proven": lambda t: t.broken(altered(t.graph, LOST, verdict="rejected")),
    "found_again": lambda t: t.broken(
        replace(t.graph, edges=tuple(replace(edge, weight=-edge.weight) if edge.kind == "decides" else edge for edge in t.graph.edges))
    ),
    "silence_is_earned": lambda t: t.broken(replace(t.graph, outcome="no_fault")),
    "verification_was_seen": lambda t: t.broken(seen_on(t.graph, "n2", key="gpu.never.asked")),
    "answer_is_its_hosts": lambda t: t.broken(t.graph, facts=[replace(row, sha256="0" * 64) for row in t.ground.facts]),
    "nothing_is_lost": lambda t: t.broken(t.graph, facts=[row for row in t.ground.facts if row.check != "mem"]),
    "quote_is_in_output": lambda t: t.broken(seen_on(t.graph, "n2", line="Xid 48, pid=1")),
    "moves_are_bounded": lambda t: t.broken(t.graph, moves=(BeliefShift("read", LOST, MODEL_LOG_ODDS + 0.5),)),
    "model_is_named": lambda t: t.broken(altered(t.graph, LOST, by="model:explore")),
    "remedy_has_its_cause": lambda t: t.broken(with_remedy(t.graph, HOT, "n2")),
    "refusals_are_told": lambda t: t.broken(altered(t.graph, OOM, verdict="inconclusive", says="could not look: n3: dmesg: no answer")),
    "budget_is_kept": lambda t: t.broken(t.graph, asked={"read": 2}),
}


@pytest.mark.parametrize("contract", [row.id for row in INVARIANTS])
def test_what_breaks_a_contract_is_caught_by_it(contract: str, told: Told) -> None:
    assert contract in ALTERED[contract](told)


def test_a_remedy_on_a_machine_that_is_not_accused_is_caught(told: Told) -> None:
    assert "remedy_has_its_cause" in told.broken(with_remedy(told.graph, LOST, "n1"))
    assert told.broken(with_remedy(told.graph, LOST, "n2")) == set()


def test_an_unexplained_prior_is_caught(told: Told) -> None:
    assert told.broken(told.graph, priors={LOST: 0.8}) == {"moves_are_bounded"}
    assert told.broken(told.graph, priors={LOST: 0.8}, moves=(BeliefShift("words", LOST, 0.8),)) == set()


async def test_a_broken_contract_makes_the_turn_abstain_and_claims_nothing() -> None:
    from graph.incident.reasoning_check import abstain_for_violations
    from graph.incident.turn_result import TurnResult
    from graph.incident_view import IncidentView
    from graph.provenance.invariants import InvariantViolation

    found = await _told()
    breach = InvariantViolation("known_labels", "every cause is one of the catalogue", "GPU.BUS.Invented is none")
    case = IncidentView(found.state)
    after = abstain_for_violations(TurnResult(found.report, hypotheses=case.hypotheses), case, (breach,))  # type: ignore[arg-type]  # its lifecycle is all
    assert (after.report.outcome, after.report.root_causes, after.report.actions) == ("abstained", (), ())
    assert "GPU.BUS.Invented is none" in after.report.headline
    assert after.ladders is None, "what was put up before stays as it was"
    assert {row.verdict for row in after.hypotheses or ()} <= {"inconclusive"}


def test_the_tree_says_what_proves_what_speaks_against_and_what_moved_it(told: Told) -> None:
    lines = render_tree(told.graph, TAXONOMY.titles)
    assert lines[0].startswith("✓ Lost (n2/gpu3): confirmed 96 %, Xid 79 on gpu3")
    assert any(line.lstrip("├└ ").startswith("proof: ") and "(dmesg on n2) +9.0" in line for line in lines)
    assert render_verification(VerificationResult(held=3)) == ["3 contracts hold."]


def test_what_a_mover_did_is_kept_only_of_labels_still_thought_of() -> None:
    moves = [*build_shifts("words", {LOST: 0.5, HOT: 0.25, OOM: 0.001}), *build_shifts("read", {LOST: 1.2})]
    assert [(move.source, move.label) for move in moves] == [("words", LOST), ("words", HOT), ("read", LOST)], (
        "less than can be kept is nothing"
    )
    assert serialize_shifts(moves, {OOM: 0.1, LOST: 1.7}) == "w:1:0.5 r:1:1.2"
    assert parse_shifts("w:1:0.5 r:1:1.2", {OOM: 0.1, LOST: 1.7}) == (BeliefShift("words", LOST, 0.5), BeliefShift("read", LOST, 1.2))
    assert parse_shifts("x:0:1 w w:7:1", {LOST: 1.7}) == ()
    assert all(bound > 0 for bound in MAX_SHIFT_LOG_ODDS.values())


def test_receipts_know_what_each_host_answered() -> None:
    mine, theirs = fact("n1", "smi", "gpu.count", 8, sha256="a" * 64), fact("n2", "smi", "gpu.count", 7, sha256="b" * 64)
    receipts = Receipts().with_wave(
        FleetAnswers((CheckAnswer("n1", "smi", (mine,)), CheckAnswer("n2", "smi", (theirs,)), CheckAnswer("n3", "smi", (), could_not="no")))
    )
    assert Receipts.parse(receipts.serialize()) == receipts
    assert receipts.list_misattributed([mine, theirs]) == []
    assert receipts.list_misattributed([replace(mine, host="n2")]) == ["n2 never answered smi with this output"]
    assert receipts.list_dropped([mine]) == [("n2", "smi")]
    later = receipts.with_facts([replace(theirs, sha256="c" * 64)])
    assert later.list_misattributed([theirs]) == ["n2 never answered smi with this output"]


def test_a_catalogue_is_another_once_a_weight_changes() -> None:
    leaves = dict(TAXONOMY.leaves)
    leaves[LOST] = replace(leaves[LOST], evidence=(replace(leaves[LOST].evidence[0], weight=8.0), *leaves[LOST].evidence[1:]))
    assert compute_catalogue_digest(replace(TAXONOMY, leaves=leaves)) != compute_catalogue_digest(TAXONOMY)


def test_text_that_is_no_reasoning_is_refused() -> None:
    with pytest.raises(ValueError, match="not a kept reasoning"):
        ReasonGraph.parse('{"schema": 1}')


def test_weighed_afresh_it_is_weighed_as_the_engine_does(told: Told) -> None:
    whole = assess_facts(told.ground.facts, told.ground.reference, told.ground.hosts)
    few = told.ground.reassess(frozenset({LOST, OOM}))
    assert {row.label: round(row.log_odds, 6) for row in few.roots} == {row.label: round(row.log_odds, 6) for row in whole.roots}
