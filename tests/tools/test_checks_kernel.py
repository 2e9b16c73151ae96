"""Kernel logs: repeats are one fact, ring buffer and journal are one log, earlier boots are stale."""

from datetime import UTC, datetime

from tests.support.samples_checks import BOOT_ID, JOURNAL, RING, journal_line, ring_line, sm_exception
from tools.checks import CHECKS
from tools.checks.kernel import merge_kernel_logs
from tools.fact import Fact, Status

DMESG = CHECKS["dmesg"]


def read(*texts: str) -> list[Fact]:
    """Parse each command alone, then settle all, as the fleet does."""
    facts = [fact for text in texts for fact in DMESG.parse_output(text)]
    assert DMESG.settle is not None
    return list(DMESG.settle(facts))


def of(facts: list[Fact] | tuple[Fact, ...], key: str) -> list[Fact]:
    return [fact for fact in facts if fact.key == key]


def test_repeats_become_one_fact_with_pids_names_and_place() -> None:
    (fact,) = [fact for fact in of(DMESG.parse_output(RING), "kernel.xid") if fact.value == 13]
    assert fact.device == "0000:9b:00.0"
    assert fact.attrs["count"] == 3
    assert fact.attrs["pids"] == [900, 901, 977]
    assert fact.attrs["names"] == ["python3", "infer"]
    assert (fact.attrs["gpc"], fact.attrs["tpc"], fact.attrs["sms"]) == (2, 1, [0, 1])
    assert fact.time == datetime(2026, 5, 20, 3, 1, 10, 120000, tzinfo=UTC)


def test_errors_of_one_place_are_recognised_as_such() -> None:
    (fact,) = of(read(RING, BOOT_ID), "kernel.xid_repeat")
    assert (fact.value, fact.device) == ("same_tpc", "0000:9b:00.0")
    assert fact.attrs["count"] == 3
    spread = ring_line("notice", "00:00:00", "Linux version 5.15 NVRM") + "".join(
        ring_line("warn", f"03:0{n}:10", sm_exception(900 + n, "train", n, bus=bus, tpc=n))
        for n, bus in enumerate(("19", "3b", "4c", "5d"))
    )
    assert {fact.value for fact in of(read(spread, BOOT_ID), "kernel.xid_repeat")} == {"scattered"}


def test_a_line_in_ring_and_journal_counts_once() -> None:
    facts = read(RING, JOURNAL, BOOT_ID)
    (fact,) = [fact for fact in of(facts, "kernel.xid") if fact.value == 13]
    assert fact.attrs["count"] == 3
    assert fact.attrs["pids"] == [900, 901, 977]
    assert not fact.stale


def test_the_journal_adds_what_the_ring_has_lost() -> None:
    old = "".join(journal_line(sm_exception(pid, "python3", 0), 1779246070120000 + pid) for pid in range(5))
    facts = read(RING, old, BOOT_ID)
    (fact,) = [fact for fact in of(facts, "kernel.xid") if fact.value == 13]
    assert fact.attrs["count"] == 5


def test_another_boot_is_stale_and_this_one_is_not() -> None:
    facts = read(RING, JOURNAL, BOOT_ID)
    assert {(fact.value, fact.stale) for fact in of(facts, "kernel.xid")} == {(13, False), (145, False), (79, True)}


def test_without_a_boot_id_the_journal_s_latest_boot_is_now() -> None:
    assert {(fact.value, fact.stale) for fact in of(read(JOURNAL), "kernel.xid")} == {(13, False), (79, True)}


def test_what_is_older_than_the_boot_is_stale_even_without_boot_ids() -> None:
    facts = merge_kernel_logs(DMESG.parse_output(RING), booted_at=datetime(2026, 5, 20, 3, 4, tzinfo=UTC))
    assert {(fact.value, fact.stale) for fact in of(facts, "kernel.xid")} == {(13, True), (145, False)}


def test_no_xid_is_an_answer_and_an_empty_log_is_none() -> None:
    quiet = ring_line("notice", "00:00:00", "Linux version 5.15") + ring_line(
        "info", "00:00:09", "NVRM: loading NVIDIA UNIX x86_64 Kernel Module"
    )
    assert [fact.status for fact in of(DMESG.parse_output(quiet), "kernel.xid")] == [Status.ABSENT]
    (empty,) = DMESG.parse_output("")
    assert empty.status is Status.UNREADABLE
    assert not [fact for fact in read(quiet, "", BOOT_ID) if fact.status.blind]
    assert [fact.status for fact in read("")] == [Status.UNREADABLE]


def test_only_stale_xids_leave_the_present_without_one() -> None:
    quiet = ring_line("notice", "00:00:00", "Linux version 5.15") + ring_line("info", "00:00:09", "NVRM: loading")
    past = journal_line("NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=x, GPU has fallen off the bus.", 1, "7c9e6679f4b24d2a9f0e1d6a3a1b2c3d")
    facts = of(read(quiet, past, BOOT_ID), "kernel.xid")
    assert {(fact.value, fact.stale, fact.status) for fact in facts} == {(79, True, Status.OK), (None, False, Status.ABSENT)}


def test_a_driver_that_never_spoke_is_told() -> None:
    silent = ring_line("notice", "00:00:00", "Linux version 5.15") + ring_line("info", "00:00:09", "usb 1-1: new device")
    assert [fact.value for fact in of(DMESG.parse_output(silent), "kernel.nvidia_absent")] == [True]
    assert not of(DMESG.parse_output(silent.split("\n", 1)[1]), "kernel.nvidia_absent")


def test_nvlink5_words_are_decoded_beside_the_line() -> None:
    (fact,) = of(DMESG.parse_output(RING), "kernel.nvlink5")
    assert (fact.value, fact.attrs["severity"], fact.attrs["link"]) == ("RLW_RXPIPE", "nonfatal", 13)
    assert fact.attrs["resolution"]


def test_xid_and_sxid_say_what_the_catalogues_know_of_them_and_an_unknown_code_nothing() -> None:
    text = (
        ring_line("err", "03:00:00", "NVRM: Xid (PCI:0000:9b:00): 79, pid=7, name=x, GPU has fallen off the bus.")
        + ring_line("err", "03:00:01", "nvidia-nvswitch1: SXid (PCI:0000:85:00.0): 20034, Fatal, Link 30 LTSSM Fault Up")
        + ring_line("err", "03:00:02", "NVRM: Xid (PCI:0000:9b:00): 999, pid=7, name=x, something new")
    )
    known, unknown = (next(fact for fact in of(DMESG.parse_output(text), "kernel.xid") if fact.value == code) for code in (79, 999))
    (switch,) = of(DMESG.parse_output(text), "kernel.sxid")
    assert (known.attrs["meaning"], known.attrs["resolution"]) == ("GPU fell off the PCIe bus: driver reads all ones", "RESTART_BM")
    assert (switch.attrs["unit"], switch.attrs["fatal"], switch.attrs["listed"]) == ("link data layer", True, "no")
    assert "meaning" not in unknown.attrs


def test_a_kill_by_a_job_s_limit_is_another_fact_than_one_by_the_host() -> None:
    sizes = "total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0"
    text = ring_line("err", "03:00:00", f"Memory cgroup out of memory: Killed process 11 (python3) {sizes}") + RING
    assert {fact.attrs["cgroup"] for fact in of(DMESG.parse_output(text), "kernel.oom_kill")} == {True, False}


def test_a_consequence_stays_one_only_if_every_line_is() -> None:
    text = (
        ring_line("warn", "03:00:00", "NVRM: Xid (PCI:0000:19:00): 45, pid=1, name=a, Ch 00000001")
        + ring_line("warn", "03:01:00", "NVRM: Xid (PCI:0000:3b:00): 48, pid=2, name=b, Ch 00000001")
        + ring_line("warn", "03:01:01", "NVRM: Xid (PCI:0000:3b:00): 45, pid=2, name=b, Ch 00000001")
    )
    facts = {fact.device: fact.attrs for fact in of(DMESG.parse_output(text), "kernel.xid") if fact.value == 45}
    assert "sympathetic" in facts["0000:3b:00.0"]
    assert "sympathetic" not in facts["0000:19:00.0"]


def test_a_program_s_log_is_not_the_kernel_s() -> None:
    for text in (
        "2026-05-20 03:00:00,000 INFO step 100 loss 2.1\n",
        "[May 20 2026 03:00:00] [INFO] [tid 7] fabric manager started\n",
        "May 20 03:00:00 host sshd[1]: Accepted publickey\n",
        '{"level":"info","msg":"started"}\n',
    ):
        assert [fact.status for fact in DMESG.parse_output(text)] == [Status.UNREADABLE], text


def sm_error(hour: int, mig: str) -> str:
    return (
        f"kern  :warn  : 2026-05-20T0{hour}:01:00,000000+00:00 NVRM: Xid (PCI:0000:3b:00{mig}): 13, pid={100 + hour}, name=a, "
        "Graphics SM Warp Exception on (GPC 0, TPC 0, SM 0): Illegal Instruction Encoding\n"
    )


def test_places_inside_different_mig_instances_are_not_one_place() -> None:
    def how(*migs: str) -> list[object]:
        facts = CHECKS["dmesg"].parse_output("".join(sm_error(hour, mig) for hour, mig in enumerate(migs)))
        settle = CHECKS["dmesg"].settle
        assert settle is not None
        return [fact.value for fact in settle(facts) if fact.key == "kernel.xid_repeat"]

    assert how("", "", "", "") == ["same_tpc"]
    assert how(*[" GPU-I:05"] * 4) == ["same_tpc"]
    assert how(" GPU-I:01", " GPU-I:02", " GPU-I:03", " GPU-I:04") == ["same_gpu"]


def test_the_last_recovery_action_that_the_driver_asked_for_counts() -> None:
    def asked(*steps: str) -> object:
        lines = [
            f"kern  :warn  : 2026-05-20T03:01:0{at},000000+00:00 NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to "
            f"0x1 ({step})\n"
            for at, step in enumerate(steps)
        ]
        (fact,) = [fact for fact in CHECKS["dmesg"].parse_output("".join(lines)) if fact.value == 154]
        return fact.attrs["recovery"]

    assert asked("GPU Reset Required") == "GPU Reset Required"
    assert asked("GPU Reset Required", "Node Reboot Required") == "Node Reboot Required"
    assert asked("Node Reboot Required", "GPU Reset Required", "None") == "None"
    assert asked("None", "GPU Reset Required", "None", "GPU Reset Required") == "GPU Reset Required"
