"""Arms on a few cases: the oracle is always right, model figures are never invented, and the product depends on
evidence, not on label names.
"""

import asyncio
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from deploy.sandbox.cluster.cases.reader import parse_case
from tests.bench.arms.arm import Answer, Arm
from tests.bench.arms.rule_arms import Oracle, Product, Retrieval, TaxonomyOnly
from tests.bench.arms.table import ARMS, MODEL_FREE, PARTS, why_not
from tests.bench.case_files.generate import cases
from tests.bench.case_files.truth import ABSTAIN, NO_FAULT, read_truth
from tests.bench.model.endpoint import Access
from tests.bench.run.cache import Kept
from tests.bench.run.setup import everything, stand, without
from tests.bench.run.work import Job, marked, permutation, work
from tests.bench.score import grounded
from tools.checks import CHECKS
from tools.evidence import MemoryEvidence
from tools.fact import Fact
from tools.fleet.answers import CheckRequest
from tools.fleet.fleet import Fleet
from tools.inventory.sku import load_skus

ACCESS = Access("http://127.0.0.1:9", "key", "gpt-4o")


@cache
def easy(fault: str) -> dict[str, Any]:
    return next(raw for raw in cases("easy", "arms") if raw["faults"][0]["id"] == fault)


def solve(arm: Arm, raw: Mapping[str, Any]) -> Answer:

    async def run() -> Answer:
        case = parse_case(dict(raw))
        knowledge = without(frozenset(read_truth(case.truth).removed))
        async with stand(case, knowledge, oracle=isinstance(arm, Oracle)) as ready:
            answer = await arm.solve(ready.stage)
            assert ready.unchanged
            assert ready.meter.commands or not answer.cost.checks
            return answer

    return asyncio.run(run())


def test_arms_that_need_a_model_say_so_and_are_never_made_up() -> None:
    assert set(MODEL_FREE) == {"B0", "B1", "B4r", "B5", "B8", "B10"}
    assert not any(ARMS[name].model for name in PARTS)
    for name, row in ARMS.items():
        assert bool(why_not(name, None)) == row.model
        assert not why_not(name, ACCESS)


@pytest.mark.parametrize("layer", ["easy", "hard", "composite", "unseen", "control"])
def test_the_oracle_is_always_right(layer: str) -> None:
    for raw in cases(layer, "oracle", 20):
        assert set(solve(Oracle(), raw).labels) == set(read_truth(raw["truth"]).labels)


def test_only_the_oracle_is_handed_the_cluster() -> None:
    async def run() -> None:
        async with stand(parse_case(easy("G07")), everything()) as ready:
            assert ready.stage.cluster is None

    asyncio.run(run())
    assert {name for name, row in ARMS.items() if row.sees_cluster} == {"B10", "B6-sage", "B8-liar", "B8-sage"}


def test_retrieval_reads_the_ticket_and_touches_nothing() -> None:
    answer = solve(Retrieval(), easy("G07"))
    assert answer.cost.checks == 0
    assert len(answer.labels) == 1


def test_the_product_finds_a_fault_cites_it_and_costs_less_than_looking_at_everything() -> None:
    rows = work(Job(easy("G07"), ("B8", "B4r", "B5")))
    marks = {row["arm"]: marked(row, easy("G07")) for row in rows}
    assert marks["B8"].right
    assert grounded(marks["B8"])
    assert marks["B8"].truth.hosts == set(marks["B8"].answer.hosts)
    assert marks["B8"].answer.plans[0].startswith("drain_node > reboot")
    assert marks["B8"].answer.cost.makespan < marks["B4r"].answer.cost.makespan * 0.5
    assert marks["B5"].answer.cost.checks < marks["B4r"].answer.cost.checks
    assert all(mark.unsafe == 0 and mark.unchanged for mark in marks.values())


def test_the_walk_alone_never_says_that_nothing_is_wrong_before_it_has_looked() -> None:
    control = next(cases("control", 1, 1))
    assert solve(TaxonomyOnly(), control).labels in ((ABSTAIN,), (NO_FAULT,))


def test_no_arm_knows_a_removed_label() -> None:
    raw = next(cases("unseen", 3, 1))
    removed = frozenset(read_truth(raw["truth"]).removed)
    knowledge = without(removed)
    assert not removed & knowledge.taxonomy.leaves.keys()
    assert not removed & {row.label for row in knowledge.past}
    assert solve(Product(), raw).labels[0] not in removed


def test_other_names_for_the_labels_change_no_answer() -> None:
    new = permutation(5)
    assert all(old.rpartition(".")[0] == name.rpartition(".")[0] for old, name in new.items())
    assert len(set(new.values())) == len(new)
    for raw in cases("hard", "names", 2):
        plain, renamed = (work(Job(raw, ("B8",), permuted=seed))[0]["answer"]["labels"] for seed in (None, 5))
        assert plain == renamed


def test_another_attempt_meets_another_world_around_the_same_fault() -> None:
    case = parse_case(easy("G01"))

    async def hashes() -> list[str]:
        found = []
        for attempt in (0, 1, 0):
            async with stand(case, everything(), attempt=attempt) as ready:
                found.append(ready.before)
        return found

    first, second, again = asyncio.run(hashes())
    assert first == again != second


@pytest.mark.parametrize("layer", ["easy", "hard", "composite", "unseen", "control"])
def test_the_same_case_behind_real_ssh_gets_the_same_answer(layer: str) -> None:
    raw = next(cases(layer, "ssh", 1))
    inside, outside = (work(Job(raw, ("B8",), transport=way))[0] for way in ("inprocess", "ssh"))
    told = [{name: row["answer"][name] for name in ("labels", "hosts", "devices", "plans")} for row in (inside, outside)]
    assert told[0] == told[1]
    assert (outside["unsafe"], outside["unchanged"]) == (0, True)


def test_what_is_kept_between_arms_is_what_each_would_have_worked_out() -> None:
    async def run() -> list[Fact]:
        async with stand(parse_case(easy("G01")), everything()) as ready:
            evidence = MemoryEvidence()
            fleet = Fleet(ready.stage.transport, ready.stage.inventory, CHECKS, evidence, ready.stage.clock, load_skus())
            wave = await fleet.run_checks("plain", [CheckRequest(host, "smi") for host in ready.stage.inventory.hosts])
            kept = Kept()
            sharing = Fleet(ready.stage.transport, ready.stage.inventory, everything().checks, kept, ready.stage.clock, load_skus())
            again = await sharing.run_checks("kept", [CheckRequest(host, "smi") for host in ready.stage.inventory.hosts])
            assert again.facts == wave.facts
            assert await evidence.get_facts(await evidence.put_facts("plain", wave.facts)) == await kept.get_facts(
                await kept.put_facts("kept", wave.facts)
            )
            return list(wave.facts)

    assert len(asyncio.run(run())) > 100
