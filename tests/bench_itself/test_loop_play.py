"""Whole plays with bot, Slack, people and a live cluster, checked against the cluster's true final state."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.bench.case_files.generate import cases
from tests.bench.case_files.truth import read_truth
from tests.bench.loop.people import NOT_SO
from tests.bench.loop.play import Play, played
from tests.bench.loop.score import Played, kinds, left_behind


def case_of(fault: str, **remediation: list[str]) -> dict[str, Any]:
    """Return the easy case of a fault, optionally with other correct plans."""
    raw = next(raw for raw in cases("easy", 1) if raw["faults"][0]["id"] == fault)
    plans: dict[str, list[str]] = {"correct": [], "acceptable": [], "wrong": [], "harmful": []} | remediation
    return raw | {"truth": raw["truth"] | ({"remediation": plans} if remediation else {})}


def play(raw: Mapping[str, Any], name: str) -> Played:
    row = played(raw, Play.named(name))
    return Played(str(raw["id"]), "easy", read_truth(raw["truth"]), row)


def clean(one: Played) -> bool:
    """Return whether nothing ran unapproved, twice or outside the grammar, and the audit log is intact."""
    row = one.row
    return not row["unapproved"] and not row["unsafe"] and row["audit"] and all(times == 1 for *_, times in row["executions"])


def test_one_click_recovers_the_cluster_and_a_second_proof_confirms_it() -> None:
    done = play(case_of("G17"), "loop:yes")
    [fault], [action] = done.row["faults"], done.row["actions"]
    assert fault["is"] == "recovered"
    assert 0 < fault["at"] < 600
    assert (action["remedy"], action["ran"], action["outcome"], len(action["approved"])) == ("reset_clocks", 1, "cured", 1)
    assert done.row["seconds"] > 7200, "the second proof comes hours later"
    assert clean(done)
    assert not done.row["untouched"]


def test_without_decisions_the_cluster_is_unchanged() -> None:
    done = play(case_of("G17"), "loop:nobody")
    assert done.row["untouched"]
    assert done.row["executions"] == []
    assert {row["state"] for row in done.row["actions"]} == {"expired"}
    assert done.row["faults"][0]["is"] == "unchanged"


def test_a_careful_approver_rejects_what_the_case_does_not_need() -> None:
    done = play(case_of("G17", correct=["report_user"]), "loop:careful")
    [action] = done.row["actions"]
    assert (action["state"], action["ran"]) == ("denied", 0)
    assert NOT_SO in done.row["said"]
    assert done.row["untouched"]


def test_two_bots_and_clicks_at_once_run_each_step_once() -> None:
    done = play(case_of("G01"), "loop:yesx2")
    assert [row["remedy"] for row in done.row["actions"]] == ["drain_node", "gpu_reset", "resume_node"]
    assert [row["ran"] for row in done.row["actions"]] == [1, 1, 1]
    assert clean(done)
    assert done.row["faults"][0]["is"] == "recovered"
    assert done.row["drained"] == []


def test_what_people_must_mend_is_held_out_of_service_and_told() -> None:
    done = play(case_of("G02"), "loop:careful")
    assert [kind for _, kind in kinds(done)] == ["right"]
    assert done.row["drained"] == done.row["faults"][0]["nodes"]
    assert left_behind(done) == []
    assert done.told
    assert done.row["lifecycle"] == "handed_off"


@pytest.mark.parametrize("name", ["loop:yes", "loop:carefulx3"])
def test_a_play_has_one_name(name: str) -> None:
    assert Play.named(name).name == name
