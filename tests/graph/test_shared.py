"""The stable location of a cause, equal in every incident that finds it, and which incident owns it."""

from collections.abc import Sequence

import pytest

from graph.context import IncidentTimeouts
from graph.remediation.build import PlanContext
from graph.remediation.cause_ownership import (
    find_owned_elsewhere,
    list_causes_owned_elsewhere,
    map_cause_locations,
    map_remediation_locations,
)
from graph.report import CauseOwnedElsewhere
from graph.state import Evidence, Hypothesis, Remediation, RemediationStep
from kb.taxonomy.taxonomy import Taxonomy
from tests.support.clock import T0
from tests.support.fakes_actions import TAXONOMY
from tests.support.fakes_graph import clue, leaf
from tests.support.inventories import inventory

HUNG = "GPU.EXECUTION.Hung"
STORE, SWITCH, CODE = "SYSTEM_SOFTWARE.STORAGE.Away", "INTERCONNECT.SWITCH.Bad", "USER.CODE.Bug"
SEEN = clue("seen", "kernel.xid", "value == 1", 9, decisive=True)
LEAVES = {row.label: row for row in (leaf(STORE, "cluster", SEEN), leaf(SWITCH, "switch", SEEN), leaf(CODE, "job", SEEN))}


def yard(job: str = "") -> PlanContext:
    return PlanContext(
        "inc-1", T0, inventory(), Taxonomy({**TAXONOMY.leaves, **LEAVES}, TAXONOMY.branches), [], job, waits=IncidentTimeouts()
    )


def cause(label: str, *devices: str, hosts: Sequence[str] = (), shown: Sequence[str] = ()) -> Hypothesis:
    return Hypothesis(
        label=label, hosts=tuple(hosts), devices=devices, evidence=tuple(Evidence(host=name, check="smi", line="x") for name in shown)
    )


@pytest.mark.parametrize(
    ("found", "job", "spots"),
    [
        (cause(HUNG, "n1/gpu3", "n1/gpu5", hosts=["n1"]), "", {(HUNG, "n1"): (f"{HUNG} n1/gpu3", f"{HUNG} n1/gpu5")}),
        (cause(HUNG, hosts=["n1", "n2"]), "", {(HUNG, "n1"): (f"{HUNG} n1",), (HUNG, "n2"): (f"{HUNG} n2",)}),
        (cause(HUNG, hosts=["stranger"]), "", {(HUNG, ""): (f"{HUNG} stranger",)}),
        (cause(SWITCH, "leaf:l2", hosts=["n1", "n2"]), "", {(SWITCH, ""): (f"{SWITCH} leaf:l2",)}),
        (cause(SWITCH, hosts=["n1", "n2"]), "", {(SWITCH, ""): (f"{SWITCH} n1", f"{SWITCH} n2")}),
        (cause(STORE, shown=["n1", "m1", "n2"]), "", {(STORE, ""): (f"{STORE} group:g", f"{STORE} group:bare")}),
        (cause(STORE, shown=[""]), "4711", {(STORE, ""): ()}),
        (cause(CODE, shown=["n1"]), "4711", {(CODE, ""): (f"{CODE} job:4711",)}),
        (cause(CODE, shown=["n1"]), "", {(CODE, ""): ()}),
    ],
)
def test_a_cause_is_known_by_what_all_who_find_it_would_name(
    found: Hypothesis, job: str, spots: dict[tuple[str, str], tuple[str, ...]]
) -> None:
    assert map_cause_locations([found], yard(job)) == spots


def test_a_hosts_cause_is_anothers_with_all_its_devices_and_what_people_mend_wherever_it_is_known() -> None:
    spots = map_cause_locations([cause(HUNG, "n1/gpu3", "n1/gpu5", hosts=["n1"]), cause(STORE, shown=["n1", "m1"]), cause(CODE)], yard())
    assert find_owned_elsewhere(spots, {f"{HUNG} n1/gpu3": "inc-2", f"{STORE} group:bare": "inc-3"}) == {(STORE, ""): "inc-3"}
    assert find_owned_elsewhere(spots, {f"{HUNG} n1/gpu3": "inc-2", f"{HUNG} n1/gpu5": "inc-2"}) == {(HUNG, "n1"): "inc-2"}
    assert find_owned_elsewhere(spots, {}) == {}


def test_a_report_has_one_row_per_cause_and_owner() -> None:
    causes = [cause(HUNG, hosts=["n1", "n2", "n3", "n4"]), cause(STORE)]
    elsewhere = {(HUNG, "n1"): "inc-2", (HUNG, "n2"): "inc-3", (HUNG, "n3"): "inc-2", (STORE, ""): "inc-2"}
    assert list_causes_owned_elsewhere(causes, elsewhere) == (
        CauseOwnedElsewhere(label=HUNG, incident="inc-2", hosts=("n1", "n3")),
        CauseOwnedElsewhere(label=HUNG, incident="inc-3", hosts=("n2",)),
        CauseOwnedElsewhere(label=STORE, incident="inc-2"),
    )


def test_what_is_treated_stays_ours_and_an_exclusive_check_treats_nothing() -> None:
    reset, look = RemediationStep(remedy="gpu_reset"), RemediationStep(remedy="run_check", args={"check": "nccl1"})
    rows = [
        Remediation(id="a", label=HUNG, target="n1", devices=("n1/gpu3",), rungs=(reset,)),
        Remediation(id="b", label=HUNG, target="n2", rungs=(reset,), outcome="denied"),
        Remediation(id="c", label=HUNG, target="n3", rungs=(look,)),
    ]
    assert map_remediation_locations(rows) == {(HUNG, "n1"): (f"{HUNG} n1/gpu3",)}
