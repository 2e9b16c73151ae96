"""Logs longer than the output cap: relevant lines are read newest first, and what was left out is reported."""

import os
import re
import subprocess
from collections.abc import Mapping

import pytest

from deploy.sandbox.cluster.access.in_process import InProcessTransport
from kb.logs.kernel_log import NEEDED_TEXTS
from tests.support.clock import SetClock
from tests.support.fakes_cluster import cluster, fleet
from tests.support.samples_checks import JOURNAL, RING, journal_line, ring_line
from tests.tools.test_fleet import HOSTS, FakeHosts
from tools.checks import CHECKS
from tools.checks.kernel import KERNEL_GREP_PATTERN
from tools.evidence import MemoryEvidence
from tools.fact import Fact, Status
from tools.fleet.answers import CheckAnswer, CheckRequest
from tools.fleet.fleet import Fleet
from tools.transport import CommandResult

BOOT = "3f2a9c1e5b7d4e6f8a0b1c2d3e4f5a6b"
START = journal_line("Linux version 5.15.0 NVRM", 1779246000000000, BOOT)
XID = journal_line("NVRM: Xid (PCI:0000:9b:00): 79, pid=7, name=x, GPU has fallen off the bus.", 1779246070000000, BOOT)
FLOOD = ring_line(
    "err", "03:00:00", "mlx5_core 0000:dc:00.0: mlx5_cmd_out_err:838:(pid 7): ACCESS_REG(0x805) op_mod(0x1) failed, status bad"
)
CUT = CommandResult(FLOOD.encode() * 3, truncated=True, exit_status=None)


def node(rans: Mapping[str, CommandResult]) -> tuple[Fleet, FakeHosts]:
    """Return a host with the kit and these kernel logs."""
    hosts = FakeHosts(
        lambda host, argv: rans.get(argv[-1].removeprefix("dmesg."), CommandResult(b"", b"No journal files were found.\n", 1))
    )
    return Fleet(hosts, HOSTS, CHECKS, MemoryEvidence(), SetClock()), hosts


async def look(it: Fleet) -> CheckAnswer:
    (answer,) = (await it.run_checks("inc-1", [CheckRequest("n1", "dmesg")])).answers
    return answer


def of(answer: CheckAnswer, key: str) -> list[Fact]:
    return [fact for fact in answer.facts if fact.key == key]


WELL = {"journal": CommandResult(START.encode()), "/proc/sys/kernel/random/boot_id": CommandResult(f"{BOOT}\n".encode())}


async def test_a_log_that_fits_is_taken_whole_and_nothing_else_is_asked() -> None:
    it, hosts = node({**WELL, "ring": CommandResult(RING.encode())})
    answer = await look(it)
    assert {argv[-1] for _, argv in hosts.asked} == {"dmesg.ring", "dmesg.journal", "/proc/sys/kernel/random/boot_id"}
    assert not of(answer, "check.left_out")


async def test_of_a_log_that_is_too_long_what_matters_is_read_and_the_rest_is_said_to_be_left_out() -> None:
    it, hosts = node({**WELL, "ring": CUT, "newest": CommandResult((XID + START).encode())})
    answer = await look(it)
    assert answer.could_not == ""
    assert [(fact.value, fact.device, fact.stale) for fact in of(answer, "kernel.xid")] == [(79, "0000:9b:00.0", False)]
    assert [fact.value for fact in of(answer, "kernel.mlx5")] == ["access_reg"]
    (left,) = of(answer, "check.left_out")
    assert left.line.startswith("dmesg.ring is longer than 4194304 bytes: read were only the newest lines on the GPU driver")
    assert (left.value, left.host) == ("ring", "n1")
    assert [argv[-1] for _, argv in hosts.asked].count("dmesg.newest") == 1


async def test_where_even_what_matters_is_too_long_the_newest_is_read_and_the_host_counts_as_not_looked_at() -> None:
    it, _ = node({**WELL, "ring": CUT, "newest": CommandResult((XID * 3 + START[:40]).encode(), truncated=True, exit_status=None)})
    answer = await look(it)
    assert [fact.value for fact in of(answer, "kernel.xid")] == [79]
    assert answer.could_not == "dmesg.newest: output cut at 4194304 bytes; what is older was left out"


@pytest.mark.parametrize(
    "stand_in",
    [
        CommandResult(b"-- No entries --\n", b"", 1),
        CommandResult(b"", b"", 1),
        CommandResult(b"", b"Compiled without pattern matching support\n", 1),
        CommandResult(b"", b"rackmedic-look: no such question: this kit is 0123456789ab\n", 2),
        CommandResult(b"", b"bash: line 1: journalctl: command not found\n", 127),
    ],
)
async def test_a_long_log_without_a_filter_is_unobserved(stand_in: CommandResult) -> None:
    it, _ = node({**WELL, "ring": CUT, "newest": stand_in})
    answer = await look(it)
    assert "dmesg.ring: output cut at 4194304 bytes" in answer.could_not
    assert not of(answer, "check.left_out")


async def test_a_journal_that_holds_nothing_else_is_an_answer_too() -> None:
    it, _ = node({**WELL, "ring": CommandResult(RING.encode()), "journal": CUT, "recent": CommandResult(b"-- No entries --\n", b"", 1)})
    answer = await look(it)
    assert answer.could_not == ""
    assert [fact.value for fact in of(answer, "check.left_out")] == ["journal"]


def test_the_newest_first_is_read_as_the_oldest_first() -> None:
    rows = [
        *JOURNAL.splitlines(keepends=True),
        journal_line("pcieport 0000:80:01.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer", 1779246070200000, BOOT),
        journal_line("pcieport 0000:80:01.0:    [14] CmpltTO                (First)", 1779246070200001, BOOT),
    ]
    told = [CHECKS["dmesg"].parse_output("".join(order)) for order in (rows, rows[::-1])]
    assert told[0] == told[1]
    assert "CmpltTO" in str(told[1])


def test_a_journal_without_entries_is_an_answer_and_no_fact() -> None:
    assert [CHECKS[check].parse_output("-- No entries --\n") for check in ("dmesg", "sysd")] == [(), ()]


def test_every_line_that_the_reader_looks_at_is_asked_for_but_the_chronic_ones() -> None:
    matters = re.compile(KERNEL_GREP_PATTERN)
    spoken = [needle for needle in NEEDED_TEXTS if not needle.startswith(('"', "-- "))]
    unasked = {needle for needle in spoken if not matters.search(f"[12.5] {needle} x")}
    assert unasked == {"ACCESS_REG", "] BadTLP", "] BadDLLP", "] RxErr", "] Rollover", "] Timeout"}
    assert not matters.search(FLOOD)
    assert not matters.search("pcieport 0000:80:01.0: AER: Multiple Corrected error received: 0000:81:00.0")
    assert matters.search("pcieport 0000:80:01.0: AER: Uncorrected (Non-Fatal) error received: 0000:81:00.0")
    assert matters.search("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.183.01")


def test_the_pattern_means_to_perl_s_expressions_what_it_means_to_python_s() -> None:
    lines = [
        *RING.splitlines(),
        *(f"[12.5] {needle} x" for needle in NEEDED_TEXTS),
        FLOOD.strip(),
        "usb 1-1: new device",
        "[UFW BLOCK] IN=eth0",
    ]
    asked = subprocess.run(
        ["grep", "-P", KERNEL_GREP_PATTERN],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=False,
        env={"LC_ALL": "C", "PATH": os.environ["PATH"]},
    )  # the library of journalctl and GNU grep
    assert asked.stderr == ""
    assert asked.stdout.splitlines() == [line for line in lines if re.search(KERNEL_GREP_PATTERN, line)]


async def test_a_gpu_s_error_is_found_under_a_day_of_an_adapter_s_complaints() -> None:
    of_node = cluster("G10@n1", modifiers=["R2(lines=30000)@n1"])
    (answer,) = (await fleet(of_node, InProcessTransport(of_node)).run_checks("inc-1", [CheckRequest("n1", "dmesg")])).answers
    assert answer.could_not == ""
    assert [fact.value for fact in of(answer, "kernel.xid") if fact.status is Status.OK] == [119]
    assert {fact.value for fact in of(answer, "check.left_out")} == {"ring", "journal"}
