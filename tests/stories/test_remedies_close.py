"""The closed loop: mention, approve, run with the node kit's scripts, prove twice. One whole bot and one broken machine
per fault, in virtual time.
"""

from typing import Any

import pytest

from deploy.sandbox.cluster.faults import FAULTS
from deploy.sandbox.cluster.plan import InjectedFault
from tests.bench.case_files.truth import truth_of
from tests.bench.loop.play import Play, played

NODES = ["gpu-017", "gpu-018", "gpu-019"]
SICK = "gpu-018"

AROUND = ("drain_node", "resume_node")
# fault → remedies; those for a driver, container engine or whole GPU run on a drained node, which is returned
TAKES: dict[str, list[str]] = {
    "G17": ["reset_clocks"],
    "G18": ["power_limit_default"],
    "G19": ["mig_off", "gpu_reset"],
    "G20": ["compute_mode_default"],
    "S01": ["reload_driver"],
    "S03": ["dkms_rebuild"],
    "S04": ["restart_fabricmanager"],
    "S06": ["restart_container"],
    "S07": ["configure_runtime", "restart_service"],
    "S08": ["modprobe_peermem"],
    "S10": ["cleanup"],
    "S17": ["chrony_makestep"],
    "S19": ["governor_performance"],
}

DRAINED = {"G19", "S01", "S03", "S04", "S07"}


def case(fault: str) -> dict[str, Any]:
    truth = truth_of([InjectedFault(fault, (SICK,), -620.0, (5,))], NODES).write()
    rows = [{"id": fault, "node": SICK, "gpu": 5}]
    ticket = {"text": f"training on gpu-[017-019] broke, job 4711 ({FAULTS[fault].scope})"}
    return {"id": f"close-{fault}", "profile": "dgx-h100-8", "nodes": NODES, "faults": rows, "ticket": ticket, "truth": truth}


@pytest.mark.parametrize("fault", TAKES)
def test_a_fault_is_mended_by_its_remedies_and_stays_so(fault: str) -> None:
    row = played(case(fault), Play())
    fix = [AROUND[0], *TAKES[fault], AROUND[1]] if fault in DRAINED else TAKES[fault]
    assert [(action["remedy"], action["state"], action["ran"]) for action in row["actions"]] == [(name, "done", 1) for name in fix]
    assert [found["is"] for found in row["faults"]] == ["recovered"]
    assert [ladder["outcome"] for ladder in row["ladders"]] == ["cured"]
    assert (row["drained"], row["new_faults"], row["lost"]) == ([], [], [])
    assert row["messages"] == len(fix) + 2, "the living message, one card for each step, and that it holds"
    assert row["pictures"] <= 1, "of the number that decided"
