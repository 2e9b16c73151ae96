"""Hosts that a text calls healthy are not the hosts it asks about."""

from datetime import UTC, datetime

import pytest

from graph.extraction.host_index import HostIndex
from graph.extraction.hosts import find_hosts_called_healthy
from graph.extraction.reports import parse_report

NOW = datetime(2026, 5, 20, 9, 30, tzinfo=UTC)
FLEET = tuple(f"gpu-{n:03}" for n in range(1, 25))
BOOK = HostIndex(FLEET, ())


def gpus(*numbers: int) -> frozenset[str]:
    return frozenset(f"gpu-{n:03}" for n in numbers)


@pytest.mark.parametrize(
    ("text", "fine"),
    [
        ("gpu-020 is fine but gpu-021 hangs", gpus(20)),
        ("gpu-021 hangs, gpu-020 is fine", gpus(20)),
        ("it hangs on gpu-021, gpu-020 is fine", gpus(20)),
        ("gpu-005 works", gpus(5)),
        ("all but gpu-003", gpus(3)),
        ("all but gpu-003 hang", gpus(3)),
        ("everything except gpu-003 and gpu-004 is slow", gpus(3, 4)),
        ("gpu-020 and gpu-021 are fine, gpu-022 hangs", gpus(20, 21)),
        ("gpu-[001-003] are ok, gpu-004 is slow", gpus(1, 2, 3)),
        ("gpu-001..003 are fine; gpu-004 is down", gpus(1, 2, 3)),
        ("gpu-020 works fine, gpu-021 doesn't", gpus(20)),
        ("gpu-020 looks healthy. gpu-021 has xid 79.", gpus(20)),
        ("gpu-021 hangs, unlike gpu-020", gpus(20)),
        ("the job hangs on gpu-021 but not on gpu-020", gpus(20)),
        ("gpu-021 is slow compared to gpu-020", gpus(20)),
        ("it works on gpu-020 but hangs on gpu-021", gpus(20)),
        ("gpu-020 has no errors, gpu-021 has many", gpus(20)),
        ("gpu-020 ist in Ordnung, gpu-021 hängt", gpus(20)),
        ("gpu-020 funktioniert, gpu-021 nicht", gpus(20)),
        ("alle außer gpu-003 hängen", gpus(3)),
        ("the healthy node gpu-020 finishes, gpu-021 does not", gpus(20)),
        ("`gpu-020` is ok, `gpu-021` is not ok", gpus(20)),
        ("gpu-020, gpu-021 and gpu-022 are all fine, gpu-023 hangs", gpus(20, 21, 22)),
        ("gpu-020 does not hang, gpu-021 does", gpus(20)),
        ("gpu-020 is not affected, gpu-021 is", gpus(20)),
        ("nothing wrong on others, gpu-021 hangs", gpus()),
        ("is gpu-020 fine?", gpus()),
        ("gpu-020 is not fine", gpus()),
        ("my fine-tuning run on gpu-020 dies", gpus()),
        ("our jobs run on gpu-020", gpus()),
        ("the job runs fine on gpu-020, not on gpu-021", gpus(20)),
        ("gpu-020 isn't ok", gpus()),
        ("check whether gpu-020 is fine", gpus()),
        ("check if gpu-005 works", gpus()),
        ("gpu-020 was fine yesterday", gpus()),
        ("gpu-020 was fine until 10:00, now it hangs", gpus()),
        ("nvidia-smi is fine on gpu-020 but training hangs", gpus()),
        ("gpu-020 looks fine but jobs hang there", gpus()),
        ("gpu-020 works until step 400", gpus()),
        ("gpu-020 works alone", gpus()),
        ("gpu-020 is fine. gpu-020 hangs at night", gpus()),
        ("all are fine except gpu-003", gpus()),
        ("all but gpu-003 are fine", gpus()),
        ("everything works except gpu-003", gpus()),
        ("everything is fine but gpu-003", gpus()),
        ("gpu-003 and gpu-004 hang", gpus()),
        ("gpu-020 hangs, how is gpu-021?", gpus()),
        ("gpu-020 ok?", gpus()),
        ("works on gpu-001 only sometimes", gpus()),
        ("gpu-003 never works", gpus()),
        ("gpu-003 no longer works", gpus()),
        ("gpu-003 is up", gpus()),
        ("gpu-003 only works with 4 GPUs", gpus()),
        ("nothing works on gpu-003", gpus()),
        ("gpu-003 is good for nothing", gpus()),
        ("training no longer works on gpu-003", gpus()),
        ("nothing runs on gpu-003", gpus()),
        ("nothing is fine on gpu-003", gpus()),
        ("the job runs on gpu-003 and hangs", gpus()),
        ("the job is on gpu-003", gpus()),
        ("job 4711 runs on gpu-[001-004] and hangs", gpus()),
        ("gpu-003 is fine, why does it not accept jobs?", gpus()),
        ("GPU 3 on gpu-003 is fine but GPU 4 is not", gpus()),
        ("all jobs on gpu-003 fail", gpus()),
        ("it is slow on gpu-003", gpus()),
        ("not on gpu-003", gpus(3)),
        ("all on gpu-003", gpus()),
        ("nccl works on gpu-001, gpu-002 but fails on gpu-003", gpus(1, 2)),
        ("everything but gpu-003 works", gpus()),
        ("we see errors on all nodes other than gpu-004", gpus(4)),
        ("is anything wrong with gpu-003? gpu-004 is fine", gpus(4)),
    ],
)
def test_hosts_are_called_fine_in_many_ways(text: str, fine: frozenset[str]) -> None:
    assert find_hosts_called_healthy(text, BOOK) == fine


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("gpu-020 is fine but gpu-021 hangs", ("gpu-021",)),
        ("gpu-021..023 hang, gpu-020 and gpu-024 are ok", ("gpu-021", "gpu-022", "gpu-023")),
        ("all but gpu-003 hang", ()),
        ("gpu-005 works", ()),
        ("is gpu-020 fine?", ("gpu-020",)),
    ],
)
def test_a_host_called_fine_is_not_asked_about(text: str, hosts: tuple[str, ...]) -> None:
    assert parse_report(text, FLEET, NOW).hosts == hosts
