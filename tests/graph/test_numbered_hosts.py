"""Hosts that are named by number alone, after a host word or a known name's beginning, and numbers that name none."""

import pytest

from graph.extraction.hosts import expand_host_numbers, find_hosts
from tests.graph.test_host_lists import BARE, FULL, GPU, MIXED, NODE, RACK, gpus

GPU2 = tuple(f"gpu-{n:02}" for n in range(1, 25))
R7 = RACK[16:]
WITH_LOGIN = (*R7, "login-01", "login-02")
FOUR = gpus(1, 2, 3, 4)
R7_FOUR = R7[:4]
R7_LIST = tuple(R7[n - 1] for n in (3, 7, 12, 15))

NAMED = [
    (R7, "b200-r7-01..04 hang", R7_FOUR),
    (R7, "b200-r7-01–04 hang", R7_FOUR),
    (R7, "b200-r7-01 through 04 hang", R7_FOUR),
    (NODE, "node-a1..a4 hang", NODE[:4]),
    (NODE, "node-a1–a4 hang", NODE[:4]),
    (NODE, "node-a1 through a4 hang", NODE[:4]),
    (GPU2, "gpu-03/07/12/15 hang", tuple(GPU2[n - 1] for n in (3, 7, 12, 15))),
    (R7, "nodes 03/07/12/15 hang", R7_LIST),
    (R7, "hosts 03, 07, 12 and 15 hang", R7_LIST),
    (R7, "affected nodes: 03/07/12/15", R7_LIST),
    (R7, "nodes affected: 03/07/12/15", R7_LIST),
    (R7, "hosts involved: 03, 07, 12, 15", R7_LIST),
    (R7, "nodes: 01 to 04", R7_FOUR),
    (R7, "hosts: 01–04", R7_FOUR),
    (R7, "hosts = 01..04", R7_FOUR),
    (R7, "the hosts are 01 to 04", R7_FOUR),
    (R7, "nodes from 01 to 04 hang", R7_FOUR),
    (R7, "nodes between 01 and 04 hang", R7_FOUR),
    (R7, "nodes numbered 01 through 04 hang", R7_FOUR),
    (R7, "node numbers 01 to 04", R7_FOUR),
    (R7, "hosts no. 01 to 04", R7_FOUR),
    (R7, "our nodes, 01 to 04, hang", R7_FOUR),
    (R7, "the nodes (01 to 04) hang", R7_FOUR),
    (R7, "nodes [01-04] hang", R7_FOUR),
    (R7, "nodes 01 to 04 UTM fails", R7_FOUR),
    (R7, "Knoten von 01 bis 04 hängen", R7_FOUR),
    (R7, "Knoten 01 – 04 hängen", R7_FOUR),
    (R7, "servers 01–04 hang", R7_FOUR),
    (R7, "machines 01 thru 04", R7_FOUR),
    (GPU2, "gpu 01 to 04 hang", GPU2[:4]),
    (GPU2, "gpu 01–04 hang", GPU2[:4]),
    (GPU2, "gpu 01 through 04 hang", GPU2[:4]),
    (GPU2, "gpu 03/07/12/15 hang", tuple(GPU2[n - 1] for n in (3, 7, 12, 15))),
    (GPU2, "GPU nodes 01 to 04 hang", GPU2[:4]),
    (GPU2, "gpus 01 to 04 dropped off the fabric", GPU2[:4]),
    (GPU, "gpu 001 to 004 hang", FOUR),
    (RACK, "b200-r7 01 to 04 hang", R7_FOUR),
    (RACK, "b200-r7 nodes 01 to 04 hang", R7_FOUR),
    (RACK, "b200-r7: 01, 02, 03 and 04 hang", R7_FOUR),
    (FULL, "dgx 01 to 04 hang", FULL[:4]),
    (BARE, "nodes: 01 to 04", BARE[:4]),
    (WITH_LOGIN, "hosts 01 to 04 hang", R7_FOUR),
    (WITH_LOGIN, "nodes 1, 2 and 3 hang", R7[:3]),
    (MIXED, "nodes 1-4 hang", FOUR),
]


@pytest.mark.parametrize(("fleet", "text", "hosts"), NAMED)
def test_numbers_after_a_host_word_or_a_name_are_hosts(fleet: tuple[str, ...], text: str, hosts: tuple[str, ...]) -> None:
    named = find_hosts(text, fleet, domains=("dc1.example.com",) if fleet is FULL else ())
    assert (named.hosts, named.unknown) == (hosts, ())


@pytest.mark.parametrize(
    "text",
    [
        "01 to 04",
        "01 to 04 UTC",
        "nodes 01 to 04 UTC were slow",
        "nodes hung from 01 to 04 UTC",
        "nodes from 01 to 04 UTC",
        "nodes between 01 and 04 CET",
        "nodes from 01 to 04 am",
        "nodes, 01 to 04 o'clock",
        "Knoten von 01 bis 04 Uhr",
        "hosts from 01:00 to 04:00",
        "hosts from 01h to 04h",
        "nodes from 01 to 04 August",
        "nodes, 01/04",
        "nodes, 01/04/2026",
        "nodes 01/04/2026",
        "hosts 2026-01-04",
        "nodes: 2026-01-04 to 2026-01-09",
        "nodes 01.04.2026",
        "nodes on 01/04",
        "hosts: 10.0.0.1 to 10.0.0.4",
        "hosts 10.0.0.1-10.0.0.4",
        "hosts: 0000:01:00.0 to 0000:04:00.0",
        "node 0000:03:00.0",
        "nodes 8/8 up",
        "nodes: 8/8",
        "nodes: 08/08",
        "nodes 7/8 healthy",
        "nodes 3/8 down",
        "hosts 2/4 ready",
        "machines 03/08 reachable",
        "8/8 nodes",
        "8/8",
        "nodes: 4",
        "nodes: 3-6",
        "Nodes: 03",
        "--nodes=3-6",
        "nodes = 04",
        "4 nodes: 01 to 04 UTC",
        "nodes v01 to v04",
        "nodes version 01.02",
        "driver 01.04 to 01.07 on hosts",
        "hosts: /var/log/01/04",
        "nodes: /dev/nvme01",
        "nodes: 01 to 04 GPUs each",
        "nodes: 01-04%",
        "nodes: 01 to 04 minutes late",
        "nodes: 01 to 04 seconds",
        "nodes: 01 to 04 ms",
        "nodes: 01 to 04 °C",
        "gpu 0 to 7",
        "GPU 3/5/7",
        "gpu 00 to 07",
        "gpu 01",
        "gpus 1, 2 and 3",
        "gpu 0/1/2/3",
        "GPU 01 to 04 on the node",
        "gpu 01 to 04 of that host",
        "gpu 01 to 04 UTC",
        "gpu 01/04",
        "gpu 01/04/2026",
        "rack 01 to 04",
        "ranks 01 to 04",
        "port 01/04",
        "slot 01, 02 and 03",
        "batch 01 to 04",
        "lanes 01/02/03/04",
        "gpu: 01:00.0 to 04:00.0",
    ],
)
@pytest.mark.parametrize("fleet", [GPU, GPU2])
def test_numbers_that_count_or_date_are_no_hosts(text: str, fleet: tuple[str, ...]) -> None:
    named = find_hosts(text, fleet, domains=())
    assert (named.hosts, named.unknown) == ((), ())
    assert expand_host_numbers(text, fleet) == text


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("gpu-03: gpu 01 to 04 lost", ("gpu-03",)),
        ("gpu 01, 02 and 03 fell off gpu-07", ("gpu-07",)),
        ("on gpu-07 GPU 03/07 are gone", ("gpu-07",)),
    ],
)
def test_devices_of_a_named_host_are_no_hosts(text: str, hosts: tuple[str, ...]) -> None:
    assert find_hosts(text, GPU2, domains=()).hosts == hosts


@pytest.mark.parametrize(
    ("fleet", "text", "hosts", "unknown"),
    [
        (R7, "nodes: 15 to 17", (), ()),
        (R7, "nodes affected: 15 to 17", R7[14:], ("b200-r7-17",)),
        (R7, "hosts 15 to 17", R7[14:], ("b200-r7-17",)),
        (RACK, "b200-r7 09 to 18", R7[8:], ("b200-r7-17", "b200-r7-18")),
        (GPU2, "gpu 08, 09 and 31", GPU2[7:9], ("gpu-31",)),
        (GPU2, "gpu 031 to 034", (), ()),
        (RACK, "hosts 01 to 04", (), ()),
    ],
)
def test_of_numbers_the_unknown_are_named_beside_the_known(
    fleet: tuple[str, ...], text: str, hosts: tuple[str, ...], unknown: tuple[str, ...]
) -> None:
    named = find_hosts(text, fleet, domains=())
    assert (named.hosts, named.unknown) == (hosts, unknown)


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("hosts affected: 01 to 03", "hosts affected: gpu-001, gpu-002, gpu-003"),
        ("hosts 1-3", "hosts gpu-001, gpu-002, gpu-003"),
        ("nodes 1-3", "gpu-001, gpu-002, gpu-003"),
        ("nodes: 01 to 99", "nodes: 01 to 99"),
    ],
)
def test_numbers_are_written_out_behind_their_words(text: str, expanded: str) -> None:
    assert expand_host_numbers(text, GPU) == expanded
