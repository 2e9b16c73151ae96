"""Values below the expected are reported in numbers beside the deciding facts, and decide nothing."""

from bot.incidents.cards.report_rows import render_evidence_summary
from graph.engine.assessment import Assessment, assess_facts
from graph.engine.reference_data import ReferenceData
from kb.taxonomy.loader import load_taxonomy
from tests.support.clock import T0
from tools.checks import CHECKS
from tools.fact import Fact, Value

A100 = "NVIDIA A100-SXM4-80GB"
HOSTS = ("n1", "n2", "n3")
LOCKED = "GPU.CONFIG.Clocks_Locked_Low"
BELOW = "35.4 TFLOP/s of 250 expected at 1410 MHz: SM clock of gpu3 200 MHz"


def fact(host: str, key: str, value: Value, device: str) -> Fact:
    return Fact("smi", key, value, device=device, host=host, line=f"{key} {value}")


def gpus(*, locked: bool, mhz: int) -> list[Fact]:
    """Return eight busy GPUs per host; one of them has another clock."""
    rows: list[Fact] = []
    for host in HOSTS:
        for at in range(8):
            sick, device = (host, at) == ("n2", 3), f"gpu{at}"
            rows += [
                fact(host, "gpu.product", A100, device),
                fact(host, "gpu.clock.sm", mhz if sick else 1410, device),
                fact(host, "gpu.clock.app", mhz if sick and locked else 1410, device),
                fact(host, "gpu.throttle.idle", False, device),
                fact(host, "gpu.throttle.applications_clocks", sick and locked, device),
            ]
    return rows


def look(facts: list[Fact]) -> Assessment:
    return assess_facts(facts, ReferenceData(load_taxonomy().decidable, CHECKS), HOSTS, None, T0)


def test_a_locked_clock_is_told_with_what_it_costs_right_after_what_decides() -> None:
    [cause] = look(gpus(locked=True, mhz=200)).list_root_causes()
    assert (cause.label, cause.devices) == (LOCKED, ("n2/gpu3",))
    assert [row.says for row in cause.evidence[:2]] == ["an applications clock setting holds gpu3 down", BELOW]
    assert cause.evidence[1].key == "expect.compute"
    card = ["".join(str(part) for part in line) for line in render_evidence_summary(cause, 2, sources=False)]
    assert card == ["• an applications clock setting holds gpu3 down", f"• {BELOW}"]


def test_a_slow_clock_that_nothing_decides_is_no_cause_by_its_number() -> None:
    now = look(gpus(locked=False, mhz=200))
    assert now.list_root_causes() == ()
    [row] = [row for row in now.by_label[LOCKED] if row.subject.named_devices == ("n2/gpu3",)]
    assert BELOW in [match.says for match in row.support]
    assert not any(match.decides for match in row.support)


def test_what_is_expected_weighs_less_than_any_look() -> None:
    clues = [clue for leaf in load_taxonomy().leaves.values() for clue in leaf.evidence if clue.key.startswith("expect.")]
    assert {clue.key for clue in clues} == {"expect.compute", "expect.h2d"}
    assert all(0 < clue.weight <= 0.3 and not clue.decisive for clue in clues)
