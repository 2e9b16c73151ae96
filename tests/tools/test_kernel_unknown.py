"""Unknown kernel lines of level err or worse are counted; known ones, their dumps, boot noise and lines without a level
are not.
"""

import json
import os
from pathlib import Path

import pytest

from tools.checks import CHECKS
from tools.checks.not_understood import NOT_UNDERSTOOD_KEY
from tools.fact import Fact

DMESG = CHECKS["dmesg"]
FOLDER = Path(os.environ.get("RACKMEDIC_CAPTURES", Path(__file__).parents[3] / "shared/captures")) / "dmesg"


def unknown(text: str) -> list[tuple[object, str]]:
    return [(fact.value, str(fact.attrs["first"])) for fact in DMESG.parse_output(text) if fact.key == NOT_UNDERSTOOD_KEY]


def decoded(*messages: str, level: str = "err", facility: str = "kern") -> str:
    return "".join(f"{facility:<6}:{level:<6}: 2026-05-20T02:41:1{n % 10},000000+00:00 {message}\n" for n, message in enumerate(messages))


def journal(message: str, priority: int = 3, boot: str = "a" * 32, **more: str) -> str:
    row = {"_BOOT_ID": boot, "PRIORITY": str(priority), "SYSLOG_IDENTIFIER": "kernel", "__REALTIME_TIMESTAMP": "1779244870000000", **more}
    return json.dumps({**row, "MESSAGE": message}, separators=(",", ":")) + "\n"


UNKNOWN = [
    "BUG: Bad page state in process python3  pfn:1a2b3c",
    "BUG: kernel NULL pointer dereference, address: 0000000000000008",
    "EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm ls: reading directory lblock 0",
    'XFS (dm-0): metadata I/O error in "xfs_imap_to_bp" at daddr 0x40 len 32 error 5',
    "sd 0:0:0:0: [sda] tag#0 FAILED Result: hostbyte=DID_OK driverbyte=DRIVER_SENSE",
    "VFS: file-max limit 9223372 reached",
    "TCP: out of memory -- consider tuning tcp_mem",
    "/dev/disk/by-label/data: Can't lookup blockdev",
    "bnxt_en 0000:19:00.0 ens1: hwrm error 0x4 on command 0x16",
    "frobnicator: the flux is lost",
]
KNOWN = [
    "BUG: unable to handle page fault for address: ffffb1",
    "INFO: task python3:4711 blocked for more than 120 seconds.",
    '"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.',
    "      Not tainted 5.15.0-113-generic #123-Ubuntu",
    "Memory cgroup out of memory: Killed process 4711 (python3) total-vm:1kB, anon-rss:1kB",
    "blk_update_request: I/O error, dev nvme4n1, sector 1946157056 op 0x1:(WRITE)",
    "mlx5_core 0000:4d:00.0: ACCESS_REG(0x805) op_mod(0x0) failed, status bad operation(0x2), syndrome (0x305684)",
    "mlx5_core 0000:4d:00.0: print_health_info:423:(pid 0): assert_var[0] 0x00000001",
    "mce: [Hardware Error]: PROCESSOR 0:606a6 TIME 1716172870",
    "ACPI Error: No handler for Region [SYSI] (00000000780feec6) [IPMI] (20210730/evregion-130)",
    "ACPI BIOS Error (bug): Could not resolve symbol [\\_SB.PCI0]",
    "i8042: No controller found",
    "integrity: Problem loading X.509 certificate -65",
    "ip_local_port_range: prefer different parity for start/end values.",
    "pci 0000:00:1c.0: BAR 13: no space for [io  size 0x1000]",
    "RIP: 0010:native_safe_halt+0xb/0x10",
    "RAX: 0000000000000000 RBX: 0000000000000001",
]


@pytest.mark.parametrize("message", UNKNOWN)
@pytest.mark.parametrize("level", ["emerg", "alert", "crit", "err"])
def test_a_line_that_no_reader_knows_is_counted_and_told(message: str, level: str) -> None:
    assert unknown(decoded(message, "usb 1-1: ok", level=level)) == [(1, message[:80])]


@pytest.mark.parametrize("message", KNOWN)
def test_known_lines_their_dumps_and_boot_noise_are_not_counted(message: str) -> None:
    assert unknown(decoded(message)) == []


@pytest.mark.parametrize("level", ["warn", "notice", "info", "debug"])
def test_a_lower_level_is_not_counted(level: str) -> None:
    assert unknown(decoded(UNKNOWN[0], level=level)) == []


def test_a_line_of_another_facility_is_no_line_of_the_kernel() -> None:
    assert unknown(decoded("usb 1-1: ok") + decoded("user lost", facility="user")) == []


@pytest.mark.parametrize(
    "text",
    [
        "[  12.000000] frobnicator: the flux is lost\n[  13.000000] usb 1-1: ok\n",
        "[Wed May 20 02:41:10 2026] frobnicator: the flux is lost\n",
        "2026-05-20T02:41:10+00:00 gpu-001 kernel: frobnicator: the flux is lost\n",
        "May 20 02:41:10 gpu-001 kernel: frobnicator: the flux is lost\n",
    ],
)
def test_a_log_that_tells_no_level_counts_none(text: str) -> None:
    assert unknown(text) == []


@pytest.mark.parametrize("text", ["<3>[  12.000000] frobnicator: the flux is lost\n", "3,812,12000000,-;frobnicator: the flux is lost\n"])
def test_raw_logs_of_the_kernel_tell_the_level_too(text: str) -> None:
    assert unknown(text) == [(1, "frobnicator: the flux is lost")]
    assert unknown(text.replace("<3>", "<6>").replace("3,812", "6,812")) == []


def test_lines_alike_are_one_kind_and_all_of_them_count() -> None:
    assert unknown(decoded(*(f"frobnicator {n}: the flux is lost" for n in range(40)))) == [(40, "frobnicator 0: the flux is lost")]


def test_a_journal_counts_for_each_boot_and_only_the_one_that_runs_is_kept() -> None:
    new, old = journal("frobnicator: lost", boot="a" * 32), journal("another: lost", boot="b" * 32)
    facts = DMESG.parse_output(old * 3 + new * 2)
    assert [(fact.value, fact.boot_id[:1]) for fact in facts if fact.key == NOT_UNDERSTOOD_KEY] == [(3, "b"), (2, "a")]
    assert DMESG.settle is not None
    kept = DMESG.settle([*facts, *DMESG.parse_output(decoded("frobnicator: lost")), Fact("dmesg", "host.boot_id", "a" * 32)])
    assert [fact.value for fact in kept if fact.key == NOT_UNDERSTOOD_KEY] == [2]


def test_a_message_cannot_pose_as_a_level() -> None:
    assert unknown(journal('x "PRIORITY":"3" y', priority=6)) == []
    assert unknown(journal("frobnicator: lost", _SYSTEMD_UNIT="user.service", SYSLOG_IDENTIFIER="logger") + journal("ok", 6)) == []


def test_what_is_told_is_short_and_says_that_it_is_not_known() -> None:
    (fact,) = (fact for fact in DMESG.parse_output(decoded("lost " * 4000)) if fact.key == NOT_UNDERSTOOD_KEY)
    assert fact.format_sentence().startswith("1 kernel lines of level err or worse that I do not know: lost lost")
    assert len(fact.format_sentence()) < 200


@pytest.mark.skipif(not FOLDER.is_dir(), reason="no captures beside the repository: set RACKMEDIC_CAPTURES")
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.*g*")), ids=lambda path: path.name)
def test_captures_of_known_kinds_hold_no_unknown_line(path: Path) -> None:
    assert [row for row in unknown(path.read_text()) if row[1] != "test"] == []
