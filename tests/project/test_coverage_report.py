"""Visibility of every fault to the checks, and coverage of AidAI's taxonomy. Measuring takes half a minute: `make
coverage`.
"""

import pytest

from deploy.sandbox.cluster.faults import FAULTS
from tests.project.coverage_report import AIDAI, BUILT, COVERAGE, ELSEWHERE, LOGS, SILENT, Row, Told, apart, fewest, measured, rendered
from tools.checks import CHECKS

measures = pytest.mark.tier3


@measures
def test_every_fault_is_seen_by_a_passive_check() -> None:
    passive = {name for name, check in CHECKS.items() if not check.exclusive}
    assert len(measured()) == 80
    assert not [row.fault for row in measured() if not set(row.seen) & passive]


@measures
def test_every_fault_is_told_apart_from_every_other_by_three_checks_at_most() -> None:
    assert not [row.fault for row in measured() if not apart(row, measured())]


@measures
def test_every_check_sees_some_fault() -> None:
    assert not [name for name in CHECKS if not any(name in row.seen for row in measured())]


# faults that an obvious check could easily miss
SHOULD_SEE = {
    "G20": {"smi", "cuda"}, "S02": {"vers", "dmesg", "docker"}, "S05": {"sysd", "smi", "cuda", "nccl1", "mods"}, "S16": {"lspci", "p2p", "nccl1"},
    "F05": {"joblog"}, "U03": {"env", "joblog"},
}  # fmt: skip


@measures
def test_what_a_person_would_ask_sees_the_fault() -> None:
    seen = {row.fault: set(row.seen) | row.elsewhere for row in measured()}
    assert not {fault: checks - seen[fault] for fault, checks in SHOULD_SEE.items() if checks - seen[fault]}


@measures
def test_an_adapter_that_is_none_of_nccls_is_the_clusters_and_not_the_users_fault() -> None:
    (wrong,) = [row for row in measured() if row.fault == "U03"]
    assert set(wrong.seen) == {"env", "joblog"}
    assert {told.value.strip() for told in wrong.seen["env"] if told.key == "env.NCCL_IB_HCA"} == {
        "'mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7'",
        "'mlx5_0,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7'",
    }


@measures
def test_a_check_that_is_expected_to_see_a_fault_and_does_not_has_its_reason() -> None:
    seen = {row.fault: set(row.seen) | row.elsewhere for row in measured()}
    assert SILENT
    for fault, (check, why) in SILENT.items():
        assert check not in seen[fault], f"{check} sees {fault} by now"
        assert check in CHECKS
        assert why
        assert f"| {fault} | {FAULTS[fault].label} | " in COVERAGE.read_text()
    assert set(BUILT) | set(ELSEWHERE) <= set(FAULTS)


@measures
def test_the_document_is_what_is_measured() -> None:
    assert COVERAGE.read_text() == rendered(), "python -m tests.project.coverage_report"


@measures
def test_every_verification_check_of_aidai_has_ours_that_see_some_fault() -> None:
    assert len(AIDAI) == 18
    for category, asked, ours, _ in AIDAI:
        assert set(ours) <= set(CHECKS), (category, asked)
        assert any(set(row.seen) & set(ours) for row in measured()), (category, asked)
    assert set(LOGS) <= set(CHECKS)


def row(fault: str, **seen: str) -> Row:
    return Row(fault, {check: frozenset({Told(check, "n1", "k", "", value)}) for check, value in seen.items()})


def test_the_fewest_checks_that_see_everything_are_found() -> None:
    rows = [row("a", smi="1"), row("b", smi="1", dmesg="2"), row("c", dmesg="3", mem="4"), row("d", mem="5", dmesg="6")]
    assert fewest(rows, list(CHECKS)) == ("smi", "dmesg")
    assert fewest(rows, ["mem"]) == ("mem",)


@measures
def test_none_of_the_checks_that_together_see_every_fault_can_be_spared() -> None:
    chosen = fewest(measured(), list(CHECKS))
    for spared in chosen:
        assert any(not set(found.seen) & (set(chosen) - {spared}) for found in measured())


def test_faults_that_look_alike_are_not_told_apart() -> None:
    rows = [row("a", smi="1", dmesg="2"), row("b", smi="1", dmesg="3"), row("c", smi="1", dmesg="2")]
    assert apart(rows[1], rows) == ("dmesg",)
    assert apart(rows[0], rows) == ()
