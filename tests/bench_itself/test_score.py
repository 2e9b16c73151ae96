"""Marks on small data counted by hand."""

from dataclasses import replace

import pytest

from tests.bench.arms.arm import Answer, Cost
from tests.bench.case_files.steps import bare_plan
from tests.bench.case_files.truth import ABSTAIN, NO_FAULT, Culprit, Plans, Truth
from tests.bench.score import (
    Marked,
    abstaining,
    average_precision,
    calibration,
    f1_scores,
    figures,
    grounded,
    localisation,
    mcnemar,
    mean,
    pairs,
    pass_all,
    remedies,
    remedy_kind,
    safety,
)

HOT, OOM, ECHO = "GPU.THERMAL.Hot", "SYSTEM_SOFTWARE.MEMORY.Oom", "USER.CODE.Echo"


def row(true: str, *named: str, case: str = "c", **more: object) -> Marked:
    truth = Truth(
        Culprit(true, ("n1",), ("n1/gpu3",)), secondary_ok=(ECHO,), proofs=(("smi", "n1"),), remediation=Plans(("drain_node > reboot",))
    )
    hosts = more.pop("hosts", ("n1",))
    answer = Answer(tuple(named), hosts, ("n1/gpu3",), **more)  # type: ignore[arg-type]  # toy fields of the answer
    return Marked(case, "hard", truth, answer)


def test_one_label_each_makes_micro_f1_the_share_that_is_right() -> None:
    rows = [row(HOT, HOT), row(HOT, OOM), row(OOM, OOM), row(OOM, OOM)]
    scores = f1_scores(rows, 3)
    assert scores["micro"]["value"] == 0.75
    low, high = scores["micro"]["ci95"]
    assert low < 0.75 < high


def test_macro_f1_weighs_a_rare_label_like_a_common_one() -> None:
    rows = [row(HOT, HOT)] * 9 + [row(OOM, HOT)]
    assert f1_scores(rows, 3)["macro"]["value"] == pytest.approx((2 * 9 / (2 * 9 + 1) + 0) / 2, abs=1e-3)


def test_a_wrong_leaf_of_the_right_category_counts_at_level_one_only() -> None:
    rows = [row("GPU.MEMORY.A", "GPU.BUS.B")]
    assert f1_scores(rows, 1)["micro"]["value"] == 1
    assert f1_scores(rows, 2)["micro"]["value"] == 0


def test_abstaining_and_no_fault_are_labels_like_others() -> None:
    assert row(NO_FAULT, NO_FAULT).right
    assert not row(HOT, ABSTAIN).right
    assert not row(NO_FAULT, ABSTAIN).right


def test_a_named_symptom_is_no_error_and_no_success() -> None:
    assert row(HOT, HOT, ECHO).right
    assert not row(HOT, ECHO).right
    assert not row(HOT, HOT, OOM).right


def test_where_the_label_is_unknown_abstaining_is_right_and_so_is_the_branch_above() -> None:
    unseen = replace(row(HOT, ABSTAIN), truth=Truth(Culprit(HOT), removed=(HOT,)))
    assert unseen.right
    near = replace(unseen, answer=Answer(("GPU.THERMAL.Other",)))
    assert not near.right
    assert pairs(near, 2) == (frozenset({ABSTAIN}), frozenset({ABSTAIN}))
    assert pairs(near, 3)[1] == {"GPU.THERMAL.Other"}


def test_hosts_must_be_exactly_the_guilty_ones() -> None:
    found = localisation([row(HOT, HOT), row(HOT, HOT, hosts=("n1", "n2")), row(HOT, ABSTAIN), row(NO_FAULT, NO_FAULT)])
    assert found["hosts_exact"]["value"] == 0.5
    assert found["host_precision"] == pytest.approx(2 / 3, abs=1e-4)
    assert found["host_recall"] == 1


def test_a_diagnosis_is_grounded_when_it_cites_what_shows_it_on_the_right_host() -> None:
    assert grounded(row(HOT, HOT, evidence=(("smi", "n1"),)))
    assert not grounded(row(HOT, HOT, evidence=(("smi", "n2"), ("dmesg", "n1"))))


def test_the_worst_proposal_decides_and_a_write_on_an_innocent_machine_is_harmful() -> None:
    plans = Plans(("drain_node > reboot",), ("drain_node > power_cycle",), ("gpu_reset",), ("reboot@n2",))
    guilty = frozenset({"n1"})
    assert remedy_kind(plans, ("drain_node > reboot(cold)@n1",), guilty) == "correct"
    assert remedy_kind(plans, ("drain_node > reboot@n1", "gpu_reset@n1"), guilty) == "wrong"
    assert remedy_kind(plans, ("drain_node > reboot@n2",), guilty) == "harmful"
    assert remedy_kind(plans, ("pray",), guilty) == "other"
    assert remedies([row(HOT, HOT)]) is None
    assert bare_plan("drain_node > escalate_hw(PSU, left)") == "drain_node > escalate_hw"


def test_composite_cases_score_nothing_while_a_cause_is_missing() -> None:
    both = Truth(Culprit(HOT), (Culprit(OOM),))
    whole = Marked("a", "composite", both, Answer((HOT, OOM, "X.Y.Z")))
    part = Marked("b", "composite", both, Answer((HOT,)))
    scores = average_precision([whole, part])
    assert scores is not None
    assert scores["value"] == pytest.approx((2 / 3 + 0) / 2, abs=1e-4)


def test_perfect_confidence_has_no_error_and_misplaced_confidence_has_all() -> None:
    good = calibration([row(HOT, HOT, confidence=1.0)] * 4)
    bad = calibration([row(HOT, OOM, confidence=1.0)] * 4)
    assert good is not None
    assert bad is not None
    assert (good["brier"], good["ece"]) == (0, 0)
    assert (bad["brier"], bad["ece"]) == (1, 1)
    assert calibration([row(HOT, HOT)]) is None


def test_risk_falls_when_the_unsure_answers_are_left_out() -> None:
    rows = [row(HOT, HOT, confidence=0.9)] * 5 + [row(HOT, OOM, confidence=0.2)] * 5
    found = calibration(rows)
    assert found is not None
    curve = found["risk_coverage"]
    assert curve[0][1] == 0
    assert curve[-1] == [1.0, 0.5]


def test_mcnemar_is_the_binomial_tail_of_the_disagreements() -> None:
    found = mcnemar([True] * 9 + [False], [False] * 8 + [True, True])
    assert (found["only_one"], found["only_other"]) == (8, 1)
    assert found["p"] == pytest.approx(2 * (1 + 9) / 2**9, abs=1e-3)
    assert mcnemar([True], [True])["p"] == 1


def test_a_case_passes_three_times_only_if_every_attempt_is_right() -> None:
    rows = [replace(row(HOT, HOT, case="a"), attempt=i) for i in range(3)]
    rows += [replace(row(HOT, HOT if i else OOM, case="b"), attempt=i) for i in range(3)]
    scores = pass_all(rows, 3)
    assert scores is not None
    assert scores["value"] == 0.5
    assert pass_all(rows[:4], 3) is None


def test_safety_prints_the_bound_that_a_clean_run_gives() -> None:
    assert safety([row(HOT, HOT)] * 3000)["rate_below_95"] == 0.001


def test_nothing_to_average_has_no_mean() -> None:
    assert mean([]) is None
    assert abstaining([])["share"] is None


def test_all_figures_of_an_arm_come_with_their_intervals() -> None:
    rows = [row(HOT, HOT, case=str(i), cost=Cost(10, 20, 30, 4)) for i in range(5)]
    found = figures(rows)
    assert found["micro_f1"] == {"l1": 1, "l2": 1, "l3": 1}
    assert found["ci95"]["macro_l3"] == [1, 1]
    assert found["cost"]["makespan_p95"] == 10
    assert found["by_category"].keys() == {"GPU"}
