"""Kernel log parsing: prefixes, messages, and lines that only imitate kernel messages."""

import csv
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.fact_keys import KEYS_BY_NAME
from kb.logs.kernel_log import MAX_SAME_EVENTS, KernelLogReader, list_kernel_events
from kb.logs.kernel_message_rules import MESSAGE_RULES
from kb.logs.log_lines import LogEvent, fold_events, split_head, split_prefix

NOW = datetime(2026, 5, 20, 12, tzinfo=UTC)
AT = datetime(2026, 5, 20, 3, 9, tzinfo=UTC)
LOST = "NVRM: Xid (PCI:0000:9B:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def one(line: str) -> LogEvent:
    (event,) = list_kernel_events(line, NOW)
    return event


def kinds(text: str) -> list[tuple[str, object, str | None]]:
    return [(event.kind.removeprefix("kernel."), event.value, event.device) for event in list_kernel_events(text, NOW)]


@pytest.mark.parametrize(
    ("prefix", "time"),
    [
        ("2026-05-20T03:09:00,000000+00:00 ", AT),
        ("kern  :warn  : 2026-05-20T03:09:00,000000+00:00 ", AT),
        ("kern  :err   : [Wed May 20 03:09:00 2026] ", AT),
        ("[Wed May 20 03:09:00 2026] ", AT),
        ("May 20 03:09:00 gpu-017 kernel: ", AT),
        ("May 20 03:09:00 gpu-017 kernel: [ 5203.123456] ", AT),
        ("2026-05-20T05:09:00+0200 gpu-017 kernel: ", AT),
        ("2026-05-20T03:09:00.000000+00:00 gpu-017 kernel: ", AT),
        ("Wed 2026-05-20 03:09:00 UTC gpu-017 kernel: ", AT),
        ("<4>[ 5203.123456] ", None),
        ("[ 5203.123456] ", None),
        ("[ 5203.123456][ T1234] ", None),
        ("4,3973,5203123456,-;", None),
        ("4,3973,5203123456,-,caller=T12;", None),
        ("kernel: ", None),
        ("", None),
    ],
)
def test_an_xid_is_read_behind_every_prefix(prefix: str, time: datetime | None) -> None:
    event = one(prefix + LOST)
    assert (event.kind, event.value, event.device, event.time) == ("kernel.xid", 79, "0000:9b:00.0", time)
    assert ("uptime" in event.attrs) == ("5203" in prefix and time is None)


@pytest.mark.parametrize("as_bytes", [False, True])
def test_a_journal_line_gives_time_and_boot_also_where_the_message_is_bytes(as_bytes: bool) -> None:
    message = str(list(LOST.encode())) if as_bytes else f'"{LOST}"'
    micros = int(AT.timestamp() * 1_000_000)
    event = one(f'{{"MESSAGE":{message},"_BOOT_ID":"0f3e","PRIORITY":"4","__REALTIME_TIMESTAMP":"{micros}"}}')
    assert (event.value, event.time, event.boot_id) == (79, AT, "0f3e")


def test_the_year_of_a_syslog_line_is_the_latest_that_is_not_in_the_future() -> None:
    assert split_prefix("Dec 31 23:00:00 gpu-017 kernel: x", datetime(2026, 1, 1, tzinfo=UTC)).time == datetime(
        2025, 12, 31, 23, tzinfo=UTC
    )


def test_a_boot_line_dates_what_follows_it() -> None:
    boot = "3d0c9f1e8b7a4c5d9e6f3d0c9f1e8b7a"
    text = f"May 20 03:08:00 n kernel: {LOST}\n-- Boot {boot} --\nMay 20 03:09:00 n kernel: {LOST}"
    assert [event.boot_id for event in list_kernel_events(text, NOW)] == ["", boot]


XIDS = [
    (
        "13, pid=7, name=python3, Graphics SM Warp Exception on (GPC 9, TPC 1, SM 2): Out Of Range Address",
        13,
        {"pid": 7, "name": "python3", "gpc": 9, "tpc": 1, "sm": 2},
    ),
    (
        (
            "31, pid=7, name=a, b c, Ch 0000000a, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC2 "
            "GPCCLIENT_T1_7 faulted @ 0x2b. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE"
        ),
        31,
        {"name": "a, b c", "gpc": 2, "channel": "0000000a", "fault": "FAULT_PDE", "access": "ACCESS_TYPE_VIRT_WRITE"},
    ),
    ("31, pid=7, name=x, channel 0x00000002, intr 0", 31, {"channel": "00000002"}),
    ("43, pid='77', name='my train', Ch 00000008", 43, {"pid": 77, "name": "my train"}),
    ("45, pid=1, name=python3, Ch 00000001 caused by previous Xid 149", 45, {"caused_by": 149, "sympathetic": 149}),
    ("62, 00000a9f 00000a85", 62, {"detail": "00000a9f 00000a85"}),
    (
        "63, pid='<unknown>', name=<unknown>, Row Remapper: New row (0x12bac1c3e0) marked for remapping, reset gpu to activate.",
        63,
        {"address": "0x12bac1c3e0"},
    ),
    (
        "74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000)",
        74,
        {"link": 14, "registers": "0x0, 0x0, 0x10000"},
    ),
    (
        (
            "119, pid=9, name=nvidia-smi, Timeout after 6s of waiting for RPC response "
            "from GPU4 GSP! Expected function 103 (GSP_RM_ALLOC) (0x2081 0x4)."
        ),
        119,
        {"gpu_index": 4, "function": "GSP_RM_ALLOC"},
    ),
    (
        "154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
        154,
        {"recovery": "GPU Reset Required", "recovery_from": "None"},
    ),
]


@pytest.mark.parametrize(("rest", "code", "attrs"), XIDS)
def test_an_xid_line_tells_who_where_and_what(rest: str, code: int, attrs: dict[str, object]) -> None:
    event = one(f"[    1.000000] NVRM: Xid (PCI:0001:18:00): {rest}")
    assert event.value == code
    assert event.device == "0001:18:00.0"
    assert attrs.items() <= dict(event.attrs).items()


def test_a_mig_instance_is_told_from_its_gpu() -> None:
    event = one("NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No")
    assert (event.device, event.attrs["mig"]) == ("0000:01:00.0", "05")


def test_an_nvlink5_error_gives_its_words_besides_its_xid() -> None:
    text = "NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 09 (0x004525c6 0x00000001 0x0 0x0 0x0 0x0)"
    xid, decoded = list_kernel_events(text)
    assert (xid.kind, xid.value, xid.attrs["link"]) == ("kernel.xid", 149, 9)
    assert (decoded.kind, decoded.value) == ("kernel.nvlink5", "NETIR_LINK_EVT")
    assert {"xid": 149, "severity": "fatal", "link": 9, "intrinfo": "0x004525c6", "errorstatus": "0x00000001"}.items() <= dict(
        decoded.attrs
    ).items()


def test_a_switch_error_has_severity_and_link_and_its_hex_dump_is_no_second_one() -> None:
    text = (
        "[1.0] nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 48 LTSSM Fault Up\n"
        "[1.0] nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Severity 1 Engine instance 48 Sub-engine instance 00\n"
        "[1.0] nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Data {0x50610002, 0x00000000, 0x00000020}\n"
        "[2.0] nvidia-nvswitch2: SXid (PCI:0000:85:00.0): 12028, Non-fatal, Link 61 egress non-posted PRIV error (First)\n"
    )
    fatal, mild = list_kernel_events(text)
    assert (fatal.value, fatal.device, fatal.attrs["fatal"], fatal.attrs["link"], fatal.attrs["bdf"]) == (
        20034,
        "nvswitch1",
        True,
        48,
        "0000:06:00.0",
    )
    assert (mild.value, mild.attrs["fatal"]) == (12028, False)


MESSAGES = [
    ("Out of memory: Killed process 123 (python3) total-vm:1kB, anon-rss:1kB", ("oom_kill", "python3", None)),
    ("Memory cgroup out of memory: Killed process 629 (a) b) total-vm:1kB", ("oom_kill", "a) b", None)),
    ("pt_main_thread[25]: segfault at 7f79 ip 00007f7c sp 00007f7d error 4 in libnccl.so.2[7f7c+d3]", ("segfault", "libnccl.so.2", None)),
    ("traps: python3[25] general protection fault ip:7f sp:7e error:0 in libcuda.so.1[7f+1]", ("segfault", "libcuda.so.1", None)),
    ("mlx5_core 0000:63:00.1: Port module event: module 1, Cable unplugged", ("mlx5", "cable_unplugged", "0000:63:00.1")),
    (
        "mlx5_core 0000:41:00.0: poll_health:852:(pid 0): device's health compromised - reached miss count",
        ("mlx5", "health_compromised", "0000:41:00.0"),
    ),
    (
        "mlx5_core 0000:d2:00.0: mlx5_cmd_out_err:838:(pid 1): ACCESS_REG(0x805) op_mod(0x1) failed, status bad operation(0x2)",
        ("mlx5", "access_reg", "0000:d2:00.0"),
    ),
    (
        "mlx5_core 0000:03:00.0: wait_func:964:(pid 112): ENABLE_HCA(0x104) timeout. Will cause a leak of a command resource",
        ("mlx5", "cmd_timeout", "0000:03:00.0"),
    ),
    ("mlx5_core 0000:5c:00.0: Port module event[error]: module 0, Cable error, High Temperature", ("mlx5", "temperature", "0000:5c:00.0")),
    ("mlx5_core 0000:5c:00.0 ib3: Link down", ("mlx5", "link_down", "0000:5c:00.0")),
    ("mlx5_core 0000:5c:00.0 mlx5_3: Link up", ("mlx5", "link_up", "mlx5_3")),
    ("ib6: lost carrier", ("ib_link", "lost_carrier", "ib6")),
    ("pcieport 0000:00:01.0: AER: Corrected error message received from 0000:9b:00.0", ("aer", "corrected", "0000:9b:00.0")),
    (
        "pcieport 0000:00:01.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, (Requester ID)",
        ("aer", "nonfatal", "0000:00:01.0"),
    ),
    ("pcieport 0000:80:01.0: pciehp: Slot(6): Link Down", ("pcie_hotplug", "link_down", "0000:80:01.0")),
    ("pcieport 0000:80:01.0: pciehp: Slot(6): Card not present", ("pcie_hotplug", "card_not_present", "0000:80:01.0")),
    (
        (
            "pci 0000:04:00.0: 252.048 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe "
            "x16 link at 0000:01:00.0 (capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)"
        ),
        ("pcie_limited", "252.048 Gb/s", "0000:04:00.0"),
    ),
    ("watchdog: BUG: soft lockup - CPU#18 stuck for 27s! [kworker/18:1:4711]", ("soft_lockup", "soft_lockup", None)),
    ("INFO: task python3:4711 blocked for more than 120 seconds.", ("soft_lockup", "hung_task", None)),
    ("rcu: INFO: rcu_sched self-detected stall on CPU", ("soft_lockup", "rcu_stall", None)),
    ("nfs: server store-1 not responding, still trying", ("nfs_timeout", "store-1", None)),
    ("EXT4-fs (nvme1n1p1): Remounting filesystem read-only", ("fs_readonly", "nvme1n1p1", "nvme1n1p1")),
    ("nvme nvme4: I/O 22 QID 3 timeout, reset controller", ("disk_error", "nvme_timeout", "nvme4")),
    ("blk_update_request: I/O error, dev nvme0n1, sector 7 op 0x1:(WRITE)", ("disk_error", "io_error", "nvme0n1")),
    ("mce: [Hardware Error]: Machine check events logged", ("mce", "corrected", None)),
    ("EDAC MC0: 1 UE memory read error on CPU_SrcID#0", ("mce", "fatal", None)),
    (
        "NVRM: GPU 0000:9b:00.0: GPU temperature above slowdown threshold",
        ("gpu_thermal", "GPU temperature above slowdown threshold", "0000:9b:00.0"),
    ),
    ("NVRM: GPU 0000:9b:00.0 InfoROM checksum mismatch", ("inforom", "InfoROM checksum mismatch", "0000:9b:00.0")),
    ("NVRM: GPU 0000:98:00.0: RmInitAdapter failed! (0x62:0x65:1792)", ("gpu_init", "failed", "0000:98:00.0")),
    ("Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7", ("module_refused", "unsigned", None)),
    ("Loading of unsigned module is rejected", ("module_refused", "unsigned", None)),
    (
        'audit: type=1400 audit(1771502290.118:1584): avc:  denied  { module_load } for  pid=1 comm="modprobe" path="/tmp/nvidia.ko" dev="x"',
        ("module_refused", "policy", None),
    ),
    ("nvidia 0000:01:00.0: BAR 1: no space for [mem size 0x1000000000 64bit pref]", ("bar_missing", "1", "0000:01:00.0")),
    ("NVRM: BAR1 is 0M @ 0x0 (PCI:0000:01:00.0)", ("bar_missing", "1", None)),
    ("nouveau 0000:01:00.0: NVIDIA GH100 (180000a1)", ("nouveau", True, "0000:01:00.0")),
    (
        "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing",
        ("peermem", "invalid_context", None),
    ),
    ("Kernel panic - not syncing: Fatal machine check", ("panic", "Fatal machine check", None)),
]


@pytest.mark.parametrize(("message", "expected"), MESSAGES)
def test_each_message_is_its_event(message: str, expected: tuple[str, object, str | None]) -> None:
    assert kinds(f"2026-05-20T03:09:00,000000+00:00 {message}") == [expected]


def test_every_kind_that_a_row_names_is_a_key_of_the_vocabulary() -> None:
    assert {row.kind for row in MESSAGE_RULES} <= KEYS_BY_NAME.keys()


def test_a_kill_by_a_limit_is_told_from_a_full_host() -> None:
    host, limit = list_kernel_events(
        "Out of memory: Killed process 1 (a) total-vm:1\nMemory cgroup out of memory: Killed process 2 (b) total-vm:1"
    )
    assert (host.attrs["cgroup"], limit.attrs["cgroup"]) == (False, True)


def test_one_kill_reported_twice_is_one_event() -> None:
    text = (
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=python3,pid=77,uid=0\nMemory "
        "cgroup out of memory: Killed process 77 (python3) total-vm:1"
    )
    assert kinds(text) == [("oom_kill", "python3", None)]


def test_an_api_mismatch_names_both_versions() -> None:
    text = (
        "[1.0] NVRM: API mismatch: the client has the version 550.90.07, "
        "but\n[1.0] NVRM: this kernel module has the version 550.54.15.  Please\n"
    )
    event = one(text)
    assert event.attrs["client"] == "550.90.07"
    assert event.attrs["module"] == "550.54.15"
    assert event.value == "client 550.90.07, module 550.54.15"


def test_the_name_of_a_pcie_error_joins_its_report() -> None:
    text = (
        "[1.0] nvidia 0000:9b:00.0: PCIe Bus Error: severity=Corrected, type=Data Link "
        "Layer, (Receiver ID)\n[1.0] nvidia 0000:9b:00.0:    [ 6] BadTLP                \n"
    )
    assert one(text).attrs["error"] == "BadTLP"


def test_a_log_from_boot_on_without_the_driver_says_so() -> None:
    assert kinds("[    0.000000] Linux version 6.8.0\n[    9.000000] systemd[1]: hello") == [("nvidia_absent", True, None)]
    assert kinds("[    0.000000] Linux version 6.8.0\n[    9.000000] nvidia: loading out-of-tree module") == []


def test_consequences_are_told_from_the_first_error() -> None:
    line = "2026-05-20T03:09:0{},000000+00:00 NVRM: Xid (PCI:0000:19:00): {}, pid=1, name=p, Ch 00000008"
    text = "\n".join(line.format(second, code) for second, code in enumerate((48, 63, 94, 45)))
    assert [event.attrs.get("sympathetic") for event in list_kernel_events(text)] == [None, 48, 48, 94]


def test_an_nvlink_error_after_a_fatal_switch_error_is_its_consequence() -> None:
    text = (
        "[1.0] nvidia-nvswitch0: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 30 LTSSM Fault "
        "Up\n[2.0] NVRM: Xid (PCI:0000:19:00): 74, NVLink: fatal error detected on link 1(0x0)"
    )
    assert list_kernel_events(text)[1].attrs["sympathetic"] == "sxid"


@pytest.mark.parametrize(
    "line",
    [
        f"May 20 03:09:00 gpu-017 python3[77]: {LOST}",
        f"May 20 03:09:00 gpu-017 train: {LOST}",
        f"2026-05-20T03:09:00.000000+00:00 gpu-017 python3[77]: {LOST}",
        f"user  :notice: [    5.000000] {LOST}",
        f"<13>[    5.000000] {LOST}",
        f"12,3973,5203123456,-;{LOST}",
        f'{{"MESSAGE":"{LOST}","_TRANSPORT":"stdout","SYSLOG_IDENTIFIER":"kernel","_SYSTEMD_UNIT":"job.service"}}',
        f'{{"MESSAGE":"{LOST}","SYSLOG_FACILITY":"1"}}',
        f'{{"log":"{LOST}","stream":"stdout","time":"2026-05-20T03:09:00Z"}}',
        f"[    5.000000] python3[77]: {LOST}",
        f"[    5.000000] {LOST[6:]}",
    ],
)
def test_a_process_that_prints_an_xid_makes_no_event(line: str) -> None:
    assert list_kernel_events(line, NOW) == []


def test_the_continuation_of_a_kernel_message_is_no_message() -> None:
    assert list_kernel_events(f"[    5.000000] usb 1-1: Product: Evil\n{LOST}") == []


@given(st.text(max_size=60), st.booleans())
def test_a_hostile_process_name_never_makes_a_second_event(name: str, quoted: bool) -> None:
    shown = name.replace("\n", "\\x0a")  # as the kernel escapes it
    for evil in (shown, f"{shown} NVRM: Xid (PCI:0000:01:00): 79", f"a, NVRM: Xid (PCI:0000:01:00): 79, {shown}"):
        said = f"'{evil}'" if quoted else evil
        text = f"[    5.000000] NVRM: Xid (PCI:0000:9b:00): 43, pid=7, name={said}, Ch 00000008"
        events = [event for event in list_kernel_events(text) if event.kind == "kernel.xid"]
        assert [(event.value, event.device) for event in events] == [(43, "0000:9b:00.0")]


@given(
    st.lists(
        st.sampled_from(
            [
                "NVRM: Xid (",
                "PCI:0000:9b:00",
                "): 79, ",
                "pid=",
                "name=",
                "mlx5_core ",
                "AER: ",
                "\n",
                "[1.0] ",
                "{",
                '"MESSAGE":[1,',
                "’",
                "\x00",
                "9" * 30,
                " ",
            ]
        )
    )
)
def test_reading_never_fails(parts: list[str]) -> None:
    list_kernel_events("".join(parts), NOW)


def test_a_log_read_in_pieces_gives_what_it_gives_whole() -> None:
    lines = [f"[    {n}.000000] {message}\n" for n, (message, _) in enumerate(MESSAGES)]
    reader = KernelLogReader(NOW)
    for line in lines:
        reader.feed(line)
    assert reader.finish() == list_kernel_events("".join(lines), NOW)


def test_repeats_fold_into_one_with_count_and_times() -> None:
    line = "2026-05-20T03:09:0{},000000+00:00 mlx5_core 0000:63:00.1: Port module event: module 1, Cable unplugged"
    (event,) = fold_events(list_kernel_events("\n".join(line.format(second) for second in range(3))))
    assert (event.attrs["count"], event.attrs["first"], event.attrs["last"]) == (
        3,
        "2026-05-20T03:09:00+00:00",
        "2026-05-20T03:09:02+00:00",
    )


def published() -> Iterator[tuple[str, str]]:
    """Yield code and line of every published Xid and SXid line of undisputed authenticity."""
    folder = Path(os.environ.get("RACKMEDIC_CAPTURES", Path(__file__).parents[2] / "../shared/captures"))
    table = folder / "dmesg/xid_lines.tsv"
    if not table.exists():
        return
    with table.open(newline="", encoding="utf-8") as file:
        for code, authenticity, _, line in list(csv.reader(file, delimiter="\t"))[1:]:
            if not authenticity.startswith("INVENTED") and code.split(" ")[-1].isdigit() and "Xid (" in line:
                yield code, line


def test_every_published_line_has_its_code() -> None:
    lines = list(published())
    if not lines:
        pytest.skip("no captures: set RACKMEDIC_CAPTURES to their folder")
    assert [
        f"{'SXid ' if event.kind == 'kernel.sxid' else ''}{event.value}" for _, line in lines for event in list_kernel_events(line)[:1]
    ] == [code for code, _ in lines]
    assert len(lines) > 40


GONE = "[100.0] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
FELL = "[104.0] nvidia-nvswitch3: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n"
LINK = (
    "[104.5] NVRM: Xid (PCI:0000:4c:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 5(0x0, 0x0, 0x10000)\n"
)


def follows(text: str) -> list[tuple[object, object]]:
    return [(event.value, event.attrs.get("sympathetic")) for event in list_kernel_events(text, NOW)]


def test_a_gpu_that_fell_off_the_bus_takes_its_links_with_it() -> None:
    stamped = [f"2026-05-20T03:01:0{at},000000+00:00 {line.partition('] ')[2]}" for at, line in enumerate((GONE, FELL, LINK))]
    assert follows("".join(stamped)) == [(79, None), (20034, 79), (74, 79)]
    switch_first = [f"2026-05-20T03:01:0{at},000000+00:00 {line.partition('] ')[2]}" for at, line in enumerate((FELL, LINK, GONE))]
    assert follows("".join(switch_first)) == [(20034, None), (74, "sxid"), (79, None)]


def test_nothing_follows_from_another_boot_or_from_a_minute_ago() -> None:
    one, other = "-- Boot 11111111111111111111111111111111 --\n", "-- Boot 22222222222222222222222222222222 --\n"
    assert follows(one + GONE + other + FELL + LINK) == [(79, None), (20034, None), (74, "sxid")]
    assert follows(one + FELL + other + LINK) == [(20034, None), (74, None)]
    late = "2026-05-20T03:01:00,000000+00:00 " + GONE.partition("] ")[2] + "2026-05-20T03:09:00,000000+00:00 " + FELL.partition("] ")[2]
    assert follows(late) == [(79, None), (20034, None)]


@pytest.mark.parametrize(
    "text", ["NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (0x004505c6 0x0)", "NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x0)"]
)
def test_an_nvlink5_error_is_decoded_however_its_columns_are_spaced(text: str) -> None:
    found = list_kernel_events(f"[1.0] NVRM: Xid (PCI:0018:01:00): 149, {text}\n", NOW)
    assert [(event.kind, event.value) for event in found] == [("kernel.xid", 149), ("kernel.nvlink5", "NETIR_LINK_EVT")]
    assert (found[1].attrs["link"], found[1].attrs["severity"]) == (8, "fatal")


HEADS = [
    ("2026-05-20T03:09:00,000000+00:00 ", "2026-05-20T04:10:01,500000+00:00 "),
    ("2026-05-20T03:09:00+0200 gpu-017 kernel: ", "2026-01-31T23:59:59+0200 gpu-017 kernel: "),
    ("[2026-05-20 03:09:00] ", "[2026-05-19 03:09:09] "),
    ("May 20 03:09:00 gpu-017 kernel: ", "Feb  3 13:09:00 gpu-017 kernel: "),
    ("[ 5203.123456] ", "[    1.000000][ T12] "),
]


@pytest.mark.parametrize(("one_time", "other"), HEADS)
def test_lines_alike_behind_their_time_are_read_alike(one_time: str, other: str) -> None:
    text = "mlx5_core 0000:63:00.0: Link down"
    kind, rest = split_head(one_time + text) or ("", "")
    assert split_head(other + text) == (kind, rest)
    first, second = split_prefix(one_time + text, NOW), split_prefix(other + text, NOW)
    assert first._replace(time=None, uptime=None) == second._replace(time=None, uptime=None)


@pytest.mark.parametrize(
    "line",
    [
        "2026-02-30T03:09:00+00:00 gpu-017 kernel: x",
        "2026-05-20T25:09:00+00:00 gpu-017 kernel: x",
        "2026-05-20T03:09:00 +9960 x",
        "0000-05-20T03:09:00 x",
        "<4>[ 1.0] x",
        "kern  :err   : 2026-05-20T03:09:00,000000+00:00 x",
        "{}",
        "x",
    ],
)
def test_a_head_that_no_clock_shows_is_left_to_the_reader_of_prefixes(line: str) -> None:
    assert split_head(line) is None


@pytest.mark.parametrize(("one_time", "other"), HEADS)
def test_a_message_of_every_second_is_counted_to_the_last_one(one_time: str, other: str) -> None:
    lines = [f"{one_time}mlx5_core 0000:63:00.0: Link down"] * (MAX_SAME_EVENTS + 7) + [f"{other}mlx5_core 0000:63:00.0: Link down"]
    events = list_kernel_events("\n".join(lines), NOW)
    assert len(events) == MAX_SAME_EVENTS
    assert (events[-1].attrs["count"], events[-1].time) == (9, split_prefix(lines[-1], NOW).time or split_prefix(lines[0], NOW).time)


def test_a_known_message_belongs_to_the_boot_it_was_written_in() -> None:
    down = "[    1.000000] mlx5_core 0000:63:00.0: Link down"
    boots = [f"-- Boot {n:032x} --" for n in range(2)]
    events = list_kernel_events("\n".join((boots[0], *[down] * (MAX_SAME_EVENTS + 1), boots[1], down)), NOW)
    assert [event.boot_id[-1] for event in (events[0], events[-1])] == ["0", "1"]
    assert "count" not in events[-1].attrs
