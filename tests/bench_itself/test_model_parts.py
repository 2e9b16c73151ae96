"""Ablations: each row removes exactly its part, and no model, however wrong, makes the product name an unproven cause."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from tests.bench.arms.ablations import ABLATIONS, MUTE
from tests.bench.arms.arm import Knowledge, Stage
from tests.bench.arms.table import ARMS, BASELINES, BOUNDS, PARTS
from tests.bench.case_files.generate import cases
from tests.bench.report.parts import least, left_out
from tests.bench.run.setup import everything
from tests.bench.run.work import Job, work


@cache
def hard(n: int = 3) -> tuple[dict[str, Any], ...]:
    return tuple(cases("hard", "1", n))


def answers(raw: dict[str, Any], *arms: str) -> dict[str, dict[str, Any]]:
    return {row["arm"]: row["answer"] for row in work(Job(raw, arms))}


def test_every_row_leaves_a_part_out_of_an_arm_that_is_there() -> None:
    for name, row in ABLATIONS.items():
        whole = name.partition("-")[0]
        assert ARMS[name].part == whole
        assert ARMS[name].model == BASELINES[whole].model
        assert ARMS[name].title.startswith(f"{whole} with")
        assert row.knows or row.stage or row.declines or row.fleet.__name__ != "Fleet"
    assert {name for name in ABLATIONS if name.startswith("B8")} == set(PARTS) - BOUNDS.keys()


TAKES: Mapping[str, Callable[[Knowledge], int]] = {
    "B8-history": lambda known: len(known.past),
    "B8-exclusive": lambda known: sum(check.exclusive for check in known.checks.values()),
    "B8-suppression": lambda known: sum(len(leaf.suppresses) for leaf in known.taxonomy.leaves.values()),
    "B8-contrary": lambda known: sum(clue.weight < 0 for leaf in known.taxonomy.leaves.values() for clue in leaf.evidence),
    "B8-peers": lambda known: sum(
        "majority" in clue.expression.mentions for leaf in known.taxonomy.leaves.values() for clue in leaf.evidence
    ),
    "B8-profiles": lambda known: len(known.skus),
    "B8-kernel": lambda known: int("dmesg" in known.checks),
    "B8-joblog": lambda known: int("joblog" in known.checks),
}


@pytest.mark.parametrize("name", TAKES)
def test_what_a_row_says_is_gone_and_the_labels_are_all_there(name: str) -> None:
    knows = ABLATIONS[name].knows
    assert knows is not None
    left = knows(everything())
    assert TAKES[name](everything()) > 0 == TAKES[name](left)
    assert left.taxonomy.leaves.keys() == everything().taxonomy.leaves.keys()


def test_one_look_at_a_time_finds_the_same_and_takes_the_sum() -> None:
    found = answers(hard()[0], "B8", "B8-parallel")
    assert found["B8-parallel"]["labels"] == found["B8"]["labels"]
    cost = found["B8-parallel"]["cost"]
    assert cost["makespan"] == pytest.approx(cost["check_seconds"], rel=0.01)
    assert cost["makespan"] > 5 * found["B8"]["cost"]["makespan"]


def test_a_mute_ticket_names_nothing() -> None:
    stage = ABLATIONS["B8-ticket"].stage
    assert stage is not None
    assert replace(stage(_stage()), text="") == replace(_stage(), text="")
    assert stage(_stage()).text == MUTE


def _stage() -> Any:
    return Stage("GPU 3 of n1 fell off the bus", (), None, None, None, everything())  # type: ignore[arg-type]


@pytest.mark.parametrize("layer", ["hard", "unseen", "control"])
def test_a_model_that_always_lies_makes_nothing_named_that_nothing_proves(layer: str) -> None:
    asked = 0
    for raw in cases(layer, "liar", 2):
        for answer in answers(raw, "B8-liar", "B8-sage").values():
            asked += answer["cost"]["calls"]
            if answer["labels"] not in (["NO_FAULT"], ["ABSTAIN"]):
                assert answer["evidence"]
    assert layer != "unseen" or asked  # else it was never asked


def test_aidai_with_a_model_that_is_always_right_names_the_cause_and_asks_more() -> None:
    found = answers(hard()[0], "B6-sage", "B8-sage")
    assert set(found["B6-sage"]["labels"]) == {hard()[0]["truth"]["primary"]["label"]}
    assert found["B6-sage"]["cost"]["calls"] >= 7 > found["B8-sage"]["cost"]["calls"]
    assert found["B6-sage"]["cost"]["makespan"] > found["B8-sage"]["cost"]["makespan"]


def test_the_report_shows_what_each_part_is_worth() -> None:
    def row(f1: float) -> dict[str, Any]:
        layer = {"hard": {"micro_f1": {"l3": f1}}}
        return {"by_layer": layer, "abstaining": {"share": 0.1}, "cost": {"makespan": 20.0, "gpu_seconds": 3.0}}

    doc = {
        "arms": {"B8": row(0.9), "B8-peers": row(0.8), "B8-history": {"not_run": "no run of it succeeded"}},
        "paired": {"B8 / B8-peers": {"only_one": 21, "only_other": 1, "p": 0.00002}},
    }
    text = left_out(doc, ["hard"])
    assert "| B8 | F1, hard |" in text
    assert "| nothing left out | 0.900 | 0.10 | 20 | 3 |  |  |" in text
    assert "| without comparing machines with each other | 0.800 (-0.100) | 0.10 | 20 | 3 | 21 / 1 | 2e-05 |" in text
    assert "history" not in text
    assert left_out({"arms": {"B8": row(0.9)}, "paired": {}}, ["hard"]) == ""


def test_the_report_sets_what_designs_ask_beside_what_was_published() -> None:
    cost = {
        "calls": 1.5,
        "tokens_in": 600.4,
        "tokens_out": 30.0,
        "usd": 0.0018,
        "makespan": 20.0,
        "check_seconds": 300.0,
        "gpu_seconds": 50.0,
    }
    doc = {"arms": {"B8-sage": {"cost": cost}, "B6-sage": {"not_run": "no run of it succeeded"}}}
    text = least(doc)
    assert "| B8-sage: B8 with a model that is always right | 1.50 | 600 / 30 | 0.0018 | 20 | 300 | 50 |" in text
    assert "other data, private" in text
    assert "B6-sage:" not in text
    assert least({"arms": {}}) == ""
