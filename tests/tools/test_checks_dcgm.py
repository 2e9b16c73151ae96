"""dcgmi diag parsing: DCGM 3 and 4 JSON, pasted tables, and missing results."""

import json
import os
from pathlib import Path

import pytest

from tests.support.samples_exclusive import DCGM3, DCGM4, DCGM_NO_ENGINE, DCGM_TABLE
from tools.checks import CHECKS
from tools.fact import Fact, Status

FOLDER = Path(os.environ.get("RACKMEDIC_CAPTURES", Path(__file__).parents[3] / "shared/captures")) / "dcgm"


def look(text: str, check: str = "dcgm2") -> list[tuple[str, object, str | None]]:
    return [(fact.key, fact.value, fact.device) for fact in CHECKS[check].parse_output(text)]


def test_dcgm_3_tells_test_reason_and_gpu() -> None:
    told = look(DCGM3, "dcgm1")
    assert ("dcgm.failed", "Page Retirement/Row Remap", "gpu3") in told
    assert ("dcgm.reason", "row_remap_pending", "gpu3") in told
    assert ("dcgm.passed", 1, None) in told
    assert ("dcgm.not_run", ["Inforom"], None) in told


def test_dcgm_4_tells_the_same_in_its_own_layout() -> None:
    told = look(DCGM4, "dcgm1")
    assert ("dcgm.failed", "software", "gpu1") in told
    assert ("dcgm.reason", "inforom", "gpu1") in told
    assert ("dcgm.passed", 0, None) in told
    assert ("dcgm.not_run", ["memory"], None) in told


def test_wrapped_cells_of_the_table_are_joined_and_skip_is_not_pass() -> None:
    told = look(DCGM_TABLE)
    assert ("dcgm.failed", "GPU Memory", "gpu0") in told
    assert ("dcgm.reason", "thermal", "gpu0") in told
    assert ("dcgm.passed", 1, None) in told
    assert ("dcgm.not_run", ["PCIe"], None) in told


def test_a_table_that_ends_early_is_told_to() -> None:
    facts = CHECKS["dcgm2"].parse_output(DCGM_TABLE[:-140])
    assert Status.UNREADABLE in {fact.status for fact in facts}


def test_without_the_host_engine_nothing_has_passed() -> None:
    assert look(DCGM_NO_ENGINE) == [("dcgm.error", "no_engine", None)]


@pytest.mark.skipif(not FOLDER.is_dir(), reason="no captures beside the repository: set RACKMEDIC_CAPTURES")
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("r2__h100x8__thermal", Fact("dcgm2", "dcgm.reason", "thermal", "gpu0")),
        ("r3__h100x8__560", Fact("dcgm2", "dcgm.reason", "cuda_init", None)),
        ("row-remap-pending", Fact("dcgm2", "dcgm.reason", "row_remap_pending", "gpu3")),
    ],
)
def test_published_outputs_are_read_right(name: str, wanted: Fact) -> None:
    (path,) = (path for path in FOLDER.glob("*.txt") if name in path.name)
    facts = CHECKS["dcgm2"].parse_output(path.read_text())
    assert [(f.key, f.value, f.device) for f in facts if f.key == "dcgm.reason"] == [(wanted.key, wanted.value, wanted.device)]


def warned(*warnings: str, test: str = "memory") -> tuple[Fact, ...]:
    rows = [{"warning": warning, "error_id": 41, "error_category": 8} for warning in warnings]
    result = {"entity_group": "GPU", "entity_id": 5, "status": "Fail", "warnings": rows}
    body = {"test_categories": [{"tests": [{"name": test, "results": [result]}]}]}
    return CHECKS["dcgm2"].parse_output(json.dumps({"DCGM Diagnostic": body}))


SETTINGS = [
    ("Couldn't allocate at least 75.0% of GPU memory on GPU 5", "memory_in_use"),
    ("Unable to allocate memory on GPU 5", "memory_in_use"),
    ("Persistence mode for GPU 5 is disabled. Enable persistence mode", "setting"),
    ("Detected environment variable CUDA_VISIBLE_DEVICES, which may hide GPU 5", "setting"),
    ("Found a driver on the denylist: nouveau", "setting"),
    ("MIG configuration is incompatible with the diagnostic on GPU 5", "setting"),
    ("GPU 5 is in prohibited compute mode", "setting"),
    ("ECC is not enabled on GPU 5", "setting"),
    ("No permission to read /dev/nvidia5", "setting"),
    ("The GPUs are not the same SKU", "setting"),
    ("Found graphics processes running on GPU 5", "memory_in_use"),
    ("GPU 5 is in use by process 4711", "memory_in_use"),
    ("Cannot run diagnostic: MIG is enabled on GPU 5", "setting"),
    ("Insufficient permissions to run this test on GPU 5", "setting"),
    ("This test requires root privileges", "setting"),
    ("GPU 5 is in exclusive process mode", "setting"),
    ("API version mismatch between nvvs and the host engine", "setting"),
    ("The test is not supported on GPU 5", "setting"),
]


@pytest.mark.parametrize(("warning", "reason"), SETTINGS)
def test_a_warning_about_the_machines_use_or_settings_is_no_failed_test(warning: str, reason: str) -> None:
    facts = {fact.key: fact for fact in warned(warning)}
    assert facts["dcgm.reason"].value == reason
    assert facts["dcgm.not_run"].value == ["memory"]
    assert "dcgm.failed" not in facts


def test_beside_a_fault_a_setting_excuses_nothing() -> None:
    facts = {fact.key: fact for fact in warned(SETTINGS[0][0], "GPU 5 has uncorrectable memory errors and row remappings are pending")}
    assert (facts["dcgm.failed"].value, facts["dcgm.reason"].value) == ("memory", "row_remap_pending")


FAULTS = [
    ("Pending page retirements together with a DBE were detected on GPU 5", "row_remap_pending"),
    ("GPU 5 has pending row remappings. Reset the GPU; it is in use by process 4711", "row_remap_pending"),
    ("Row remap failure on GPU 5, which requires root to read", "row_remap_failure"),
    ("A double bit error was found on GPU 5 while MIG is enabled", "dbe"),
    ("GPU 5 Thermal violations totaling 13.3 seconds", "thermal"),
    ("Memtest found 3 errors in the memory of GPU 5", "memory"),
    ("PCIe replay counter went up on GPU 5", "pcie"),
    ("Driver/library version mismatch on GPU 5", "memory"),
]


@pytest.mark.parametrize(("warning", "reason"), FAULTS)
def test_a_fault_that_mentions_a_setting_is_still_a_fault(warning: str, reason: str) -> None:
    facts = {fact.key: fact for fact in warned(warning)}
    assert (facts["dcgm.failed"].value, facts["dcgm.reason"].value) == ("memory", reason)
    assert "dcgm.not_run" not in facts
