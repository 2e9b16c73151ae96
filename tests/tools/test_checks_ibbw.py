"""ib_write_bw parsing, and which adapter a ring of hosts accuses."""

from collections.abc import Mapping

import pytest

from tests.support.fakes_cluster import cluster, facts
from tests.support.samples_exclusive import PERFTEST, PERFTEST_JSON, PERFTEST_NO_PEER
from tools.checks import CHECKS
from tools.checks.check_types import CheckParticipant, CommandFacts
from tools.checks.exclusive.ibbw import run_ring
from tools.fact import Fact, Status

RUN = CHECKS["ibbw"]


def test_the_average_is_parsed_between_other_columns() -> None:
    (fact,) = RUN.parse_output(PERFTEST)
    assert (fact.key, fact.value, fact.device, fact.unit) == ("ib.write_bw", 391.18, "mlx5_3", "Gb/s")
    assert RUN.parse_output(PERFTEST_JSON)[0].value == 97.8


def test_megabytes_become_gigabits() -> None:
    assert RUN.parse_output(PERFTEST.replace("Gb/sec", "MB/sec").replace("391.18", "12000.0"))[0].value == 96.0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (PERFTEST_NO_PEER, "no_peer"),
        ("IB device mlx5_9 not found\n Unable to find the Infiniband/RoCE device\n", "no_device"),
        (" Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\n", "no_completion"),
        ("Couldn't allocate MR\nFailed to create MR\n", "no_gpu_memory"),
    ],
)
def test_a_failure_is_named(text: str, value: str) -> None:
    (fact,) = RUN.parse_output(text)
    assert (fact.key, fact.value) == ("ib.write_failed", value)


def test_a_server_that_only_waited_has_measured_nothing() -> None:
    assert RUN.parse_output("* Waiting for client to connect... *\n RDMA_Write BW Test\n")[0].status is Status.UNREADABLE


async def test_an_adapter_is_judged_by_the_better_of_two_peers() -> None:
    """b's adapter is slow, so a and c are slow with b; only b is slow with both."""

    async def say(name: str, host: str, slots: Mapping[str, str]) -> CommandFacts:
        slow = "b" in (host, slots["peer"])
        return CommandFacts((Fact("ibbw", "ib.write_bw", 94.0 if slow else 391.0),), 2.0) if name.startswith("write") else CommandFacts(())

    joint = await run_ring([CheckParticipant(name, name, 8, hcas=("mlx5_0",)) for name in "abcd"], say)
    best = {host: {f.key: f.value for f in found} for host, found in joint.facts.items()}
    assert best["b"] == {"ib.write_bw": 94.0, "ib.write_bw_cuda": 94.0}
    assert all(best[host]["ib.write_bw"] == 391.0 for host in "acd")


async def test_the_sandbox_shows_a_slow_adapter_and_a_missing_module() -> None:
    found = await facts(cluster("N05", "S08@n2", nodes=4), ["ibbw"])
    slow = {(f.host, f.device) for f in found if f.key == "ib.write_bw" and float(str(f.value)) < 200}
    assert slow == {("n1", "mlx5_5")}
    assert {f.host for f in found if f.key == "ib.write_failed"} == {"n2"}
    assert {f.value for f in found if f.key == "ib.write_failed" and f.host == "n2"} <= {"no_gpu_memory", "no_peer"}
