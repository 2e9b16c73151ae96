"""nvbandwidth parsing: JSON and table matrices, and failures."""

import json

import pytest

from tests.support.samples_exclusive import HOST_COPIES, HOST_TABLE, NVBANDWIDTH_802, PEER_COPIES, PEER_TABLE, nvbandwidth
from tools.checks import CHECKS
from tools.fact import Status


def values(check: str, text: str) -> dict[tuple[str, str | None], object]:
    return {(fact.key, fact.device): fact.value for fact in CHECKS[check].parse_output(text) if fact.key}


def test_copies_with_the_host_are_told_by_direction_and_gpu() -> None:
    assert values("bw", HOST_COPIES) == {
        ("bw.h2d", "gpu0"): 54.81,
        ("bw.h2d", "gpu1"): 12.3,
        ("bw.d2h", "gpu0"): 53.9,
        ("bw.d2h", "gpu1"): 12.1,
    }
    assert values("bw", HOST_TABLE)["bw.h2d", "gpu1"] == 55.64


def test_a_gpu_is_as_good_as_its_best_peer_and_its_worst_is_told_beside_it() -> None:
    told = values("p2p", PEER_COPIES)
    assert (told["p2p.bw", "gpu0"], told["p2p.worst", "gpu0"]) == (341.2, 240.9)
    (worst,) = (fact for fact in CHECKS["p2p"].parse_output(PEER_COPIES) if fact.key == "p2p.worst" and fact.device == "gpu2")
    assert (worst.value, worst.attrs["peer"]) == (240.1, "gpu0")
    assert values("p2p", PEER_TABLE) == {
        ("p2p.bw", "gpu0"): 276.07, ("p2p.worst", "gpu0"): 276.07, ("p2p.bw", "gpu1"): 276.36, ("p2p.worst", "gpu1"): 276.36,
    }  # fmt: skip


def test_one_direction_only_is_told() -> None:
    facts = CHECKS["bw"].parse_output(nvbandwidth(host_to_device_memcpy_ce=[["54.8"]]))
    assert [fact.status for fact in facts if not fact.key] == [Status.UNREADABLE]


@pytest.mark.parametrize("check", ["bw", "p2p"])
def test_a_cuda_error_in_place_of_figures_is_a_fact(check: str) -> None:
    assert values(check, NVBANDWIDTH_802) == {("cuda.error", None): "not_ready"}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"nvbandwidth": {"testcases": [{"name": "host_to_device_memcpy_ce", "status": "Waived"}]}}),
        HOST_COPIES[:90],
        nvbandwidth(device_to_device_memcpy_read_ce=[["N/A"]]),
        "nvbandwidth Version: v0.8\n",
    ],
)
@pytest.mark.parametrize("check", ["bw", "p2p"])
def test_what_measured_nothing_is_no_measurement(check: str, text: str) -> None:
    facts = CHECKS[check].parse_output(text)
    assert [fact.status for fact in facts] == [Status.UNREADABLE]
    assert facts[0].line
