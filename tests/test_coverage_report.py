"""What the checks see of every fault, and what AidAI's taxonomy asks to verify."""

from tests.coverage_report import AIDAI, COVERAGE, LOGS, Row, Told, apart, fewest, measured, rendered
from tools.checks import CHECKS


def test_every_fault_is_seen_by_a_passive_check() -> None:
    passive = {name for name, check in CHECKS.items() if not check.exclusive}
    assert len(measured()) == 80
    assert not [row.fault for row in measured() if not set(row.seen) & passive]


def test_every_fault_is_told_apart_from_every_other_by_three_checks_at_most() -> None:
    assert not [row.fault for row in measured() if not apart(row, measured())]


def test_every_check_sees_some_fault() -> None:
    assert not [name for name in CHECKS if not any(name in row.seen for row in measured())]


def test_the_document_is_what_is_measured() -> None:
    assert COVERAGE.read_text() == rendered(), "python -m tests.coverage_report"


def test_every_verification_check_of_aidai_has_ours_that_see_some_fault() -> None:
    assert len(AIDAI) == 18
    for category, asked, ours, _ in AIDAI:
        assert set(ours) <= set(CHECKS), (category, asked)
        assert any(set(row.seen) & set(ours) for row in measured()), (category, asked)
    assert set(LOGS) <= set(CHECKS)


def row(fault: str, **seen: str) -> Row:
    return Row(fault, {check: frozenset({Told(check, "n1", "k", "", value)}) for check, value in seen.items()})


def test_the_fewest_checks_see_everything_and_none_of_them_can_be_spared() -> None:
    rows = [row("a", smi="1"), row("b", smi="1", dmesg="2"), row("c", dmesg="3", mem="4"), row("d", mem="5", dmesg="6")]
    assert fewest(rows, list(CHECKS)) == ("smi", "dmesg")
    assert fewest(rows, ["mem"]) == ("mem",)
    chosen = fewest(measured(), list(CHECKS))
    for spared in chosen:
        assert any(not set(found.seen) & (set(chosen) - {spared}) for found in measured())


def test_faults_that_look_alike_are_not_told_apart() -> None:
    rows = [row("a", smi="1", dmesg="2"), row("b", smi="1", dmesg="3"), row("c", smi="1", dmesg="2")]
    assert apart(rows[1], rows) == ("dmesg",)
    assert apart(rows[0], rows) == ()
