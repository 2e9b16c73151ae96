"""Checks of a host's disks, memory, modules, services, bus and fabric."""

import pytest

from tests.support.samples_checks import (
    BRIDGES,
    COUNTERS,
    DF,
    DF_INODES,
    DKMS,
    FABRIC_MANAGER,
    FINDMNT,
    FREE,
    IBSTAT,
    LSMOD,
    LSPCI,
    OOM_EVENTS,
    PROC_VERSION,
    UNIT_JOURNAL,
    UNITS,
    unit_line,
)
from tools.checks import CHECKS
from tools.fact import Fact, Status


def read(check: str, *texts: str) -> list[Fact]:
    row = CHECKS[check]
    facts = [fact for text in texts for fact in row.parse_output(text)]
    return list(row.settle(facts)) if row.settle else facts


def by_device(facts: list[Fact], key: str) -> dict[str | None, object]:
    return {fact.device: fact.value for fact in facts if fact.key == key and fact.status is Status.OK}


def value(facts: list[Fact], key: str) -> object:
    (found,) = by_device(facts, key).values()
    return found


def test_space_is_told_per_mount_and_images_do_not_count() -> None:
    facts = read("disk", DF)
    assert by_device(facts, "disk.used_percent") == {"/": 100, "/dev/shm": 100, "/home": 34}
    assert by_device(facts, "disk.size_bytes")["/dev/shm"] == 67108864
    assert by_device(facts, "disk.free_bytes")["/"] == 0
    kib = DF.replace("1-blocks", "1024-blocks").replace("1000000000000", "1000000000")
    assert by_device(read("disk", kib), "disk.size_bytes")["/"] == 1024 * 10**9


def test_inodes_and_read_only_mounts_are_told() -> None:
    assert by_device(read("disk", DF_INODES), "disk.inodes_percent") == {"/": 2}
    mounts = read("disk", FINDMNT)
    assert by_device(mounts, "disk.readonly") == {"/": False, "/scratch": True}
    assert next(fact.attrs["fstype"] for fact in mounts if fact.device == "/scratch") == "xfs"


def test_a_mount_that_cannot_be_asked_is_not_looked_at_rather_than_fine() -> None:
    facts = read("disk", DF + "df: /mnt/old: Stale file handle\n")
    assert [fact.line for fact in facts if fact.status.blind] == ["df: /mnt/old: Stale file handle"]
    for broken in ("Filesystem Type 1-blocks Used\n", '{"filesystems": [', '{"filesystems": 3}'):
        assert [fact.status for fact in read("disk", broken)] == [Status.UNREADABLE]


def test_memory_swap_and_kills_are_told() -> None:
    facts = read("mem", FREE)
    assert value(facts, "mem.total_bytes") == 2164178862080
    assert value(facts, "mem.available_bytes") == 2050000000000
    assert value(facts, "mem.swap_used_bytes") == 4096
    kills = read("mem", OOM_EVENTS)
    assert value(kills, "mem.oom_kills") == 3
    assert kills[0].attrs["cgroup"] == "/system.slice/slurmstepd.scope/job_812"
    assert value(read("mem", OOM_EVENTS.replace(":oom_kill 3", ":oom_kill 0")), "mem.oom_kills") == 0


def test_a_kill_is_the_hosts_unless_the_group_or_one_around_it_had_come_to_its_own_limit() -> None:
    assert read("mem", OOM_EVENTS)[0].attrs["limit"] is False
    assert read("mem", OOM_EVENTS.replace("job_812/memory.events:oom 0", "job_812/memory.events:oom 2"))[0].attrs["limit"] is True
    older = "".join(line for line in OOM_EVENTS.splitlines(True) if ":oom_kill" in line)
    assert "limit" not in read("mem", older)[0].attrs


@pytest.mark.parametrize(("text", "kib"), [("65536 65536\n", 64), ("unlimited unlimited\n", -1), ("  8388608 unlimited\n", 8192)])
def test_the_locked_memory_limit_is_told_in_kib(text: str, kib: int) -> None:
    assert value(read("mem", text), "mem.memlock_kib") == kib


LIMITS = """\
/proc/1/limits:Max locked memory         8388608              8388608              bytes
/proc/1187/comm:slurmd
/proc/1187/limits:Max locked memory         unlimited            unlimited            bytes
/proc/1203/comm:containerd
/proc/1203/limits:Max locked memory         65536                65536                bytes
/proc/48211/limits:Max locked memory         8388608              8388608              bytes
"""


def test_the_memlock_limit_is_that_of_the_job_starter_and_not_of_the_caller() -> None:
    (fact,) = read("mem", LIMITS)
    assert (fact.key, fact.value, fact.attrs) == ("mem.memlock_kib", -1, {"of": "slurmd"})
    (fact,) = read("mem", LIMITS.replace("comm:slurmd", "comm:python3"))
    assert (fact.value, fact.attrs) == (64, {"of": "containerd"})


def test_where_nothing_starts_jobs_no_limit_is_told() -> None:
    (fact,) = read("mem", LIMITS.replace("slurmd", "sshd").replace("containerd", "sshd"))
    assert (fact.key, fact.status, fact.value) == ("mem.memlock_kib", Status.ABSENT, None)


def process(pid: int, parent: int, soft: str, name: str = "", uid: int = 0, cgroup: str = "") -> str:
    """Return what find and grep print about one process."""
    lines = [f"/proc/{pid}/comm:{name}"] if name else []
    lines += [f"/proc/{pid}/status:PPid:\t{parent}"] + ([f"/proc/{pid}/status:Uid:\t0\t0\t0\t0"] if uid == 0 else [])
    lines += [f"/proc/{pid}/cgroup:5:memory:{cgroup}"] if cgroup else []
    return "\n".join([*lines, f"/proc/{pid}/limits:Max locked memory         {soft:<20} {soft:<20} bytes     "]) + "\n"


SLURMD = process(1187, 1, "unlimited", "slurmd")
STEP = process(4000, 1187, "unlimited", "slurmstepd")


def test_a_running_job_has_the_limit_of_its_own_processes() -> None:
    script = process(4010, 4000, "65536", uid=2000)
    ranks = process(4020, 4010, "65536", uid=2000) + process(4021, 4010, "unlimited", uid=2000)
    (fact,) = read("mem", SLURMD + STEP + script + ranks)
    assert (fact.key, fact.value, fact.attrs) == ("mem.memlock_kib", 64, {"of": "job", "pid": 4020, "processes": 2})
    assert "slurmd: /proc/1187/limits:Max locked memory         unlimited" in fact.line


def test_who_only_waits_and_slurms_own_step_are_no_processes_of_a_job() -> None:
    waiting = process(4011, 4000, "65536", "srun", uid=2000)
    extern = process(4012, 4000, "65536", uid=2000, cgroup="/slurm/uid_2000/job_812/step_extern/task_0")
    (fact,) = read("mem", SLURMD + STEP + waiting + extern)
    assert (fact.value, fact.attrs) == (-1, {"of": "slurmd"})
    (fact,) = read("mem", SLURMD + STEP + waiting + extern + process(4013, 4000, "131072", uid=2000))
    assert (fact.value, fact.attrs["of"], fact.attrs["pid"]) == (128, "job", 4013)


def test_a_tenant_that_calls_itself_a_daemon_starts_nothing() -> None:
    posing = process(5000, 1, "65536", "slurmstepd", uid=2000) + process(5001, 5000, "65536", uid=2000)
    posing += process(5002, 1, "65536", "slurmd", uid=2000)
    (fact,) = read("mem", posing + SLURMD)
    assert (fact.value, fact.attrs) == (-1, {"of": "slurmd"})


def test_containers_that_agree_have_what_they_were_given_and_others_prove_nothing() -> None:
    engine, shim = process(1311, 1, "65536", "dockerd"), process(6000, 1, "65536", "containerd-shim")
    (fact,) = read("mem", engine + shim + process(6001, 6000, "unlimited"))
    assert (fact.value, fact.attrs["of"]) == (-1, "container")
    other = process(6100, 1, "65536", "containerd-shim") + process(6101, 6100, "65536")
    (fact,) = read("mem", engine + shim + process(6001, 6000, "unlimited") + other)
    assert (fact.status, fact.value) == (Status.ABSENT, None)
    assert "65536, unlimited" in fact.line


def test_modules_that_matter_are_loaded_or_not() -> None:
    loaded = by_device(read("mods", LSMOD), "module.loaded")
    assert loaded["nvidia"] is True
    assert loaded["nvidia_peermem"] is False
    assert loaded["nouveau"] is False


def test_versions_are_compared_when_both_are_known() -> None:
    facts = read("mods", PROC_VERSION, "550.90.07\n", "5.15.0-107-generic\n", DKMS)
    assert value(facts, "driver.mismatch") is True
    assert by_device(facts, "driver.module_version") == {None: "550.54.15"}
    assert [(fact.value, fact.attrs["kernel"]) for fact in facts if fact.key == "module.dkms"] == [("installed", "5.15.0-107-generic")]
    assert value(read("mods", PROC_VERSION, "550.54.15\n"), "driver.mismatch") is False
    assert not by_device(read("mods", PROC_VERSION), "driver.mismatch")


def test_the_fabric_managers_version_is_compared_with_the_module_that_runs() -> None:
    facts = read("mods", PROC_VERSION, FABRIC_MANAGER)
    assert value(facts, "driver.fabricmanager_version") == "550.54.14"
    assert value(facts, "driver.fabricmanager_mismatch") is True
    assert next(fact.line for fact in facts if fact.key == "driver.fabricmanager_mismatch") == "loaded 550.54.15, fabric manager 550.54.14"
    assert value(read("mods", PROC_VERSION, FABRIC_MANAGER.replace("54.14", "54.15")), "driver.fabricmanager_mismatch") is False
    assert not by_device(read("mods", FABRIC_MANAGER, "550.90.07\n"), "driver.fabricmanager_mismatch")


def test_a_fabric_manager_that_fits_the_driver_on_disk_waits_for_that_driver_and_is_not_what_is_wrong() -> None:
    upgraded = read("mods", PROC_VERSION, "550.90.07\n", FABRIC_MANAGER.replace("54.14", "90.07"))
    assert (value(upgraded, "driver.mismatch"), value(upgraded, "driver.fabricmanager_mismatch")) == (True, False)
    alone = read("mods", PROC_VERSION, "550.90.07\n", FABRIC_MANAGER)
    assert (value(alone, "driver.mismatch"), value(alone, "driver.fabricmanager_mismatch")) == (True, True)


def test_a_module_that_is_not_there_is_absent() -> None:
    missing = ("cat: /proc/driver/nvidia/version: No such file or directory\n", "modinfo: ERROR: Module nvidia not found.\n")
    assert [fact.status for fact in read("mods", *missing)] == [Status.ABSENT, Status.ABSENT]
    open_kernel = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build\n"
    assert value(read("mods", open_kernel), "driver.module_version") == "560.35.03"


def test_units_are_called_without_their_suffix() -> None:
    facts = read("sysd", UNITS)
    assert by_device(facts, "service.state") == {"nvidia-fabricmanager": "failed", "openibd": "not-found"}
    assert facts[0].attrs["result"] == "exit-code"
    assert read("sysd", UNITS.split("ActiveState")[0])[0].status is Status.UNREADABLE


@pytest.mark.parametrize(
    ("chronyd", "chrony", "told"),
    [
        ("loaded", "not-found", {"chronyd": "active"}),
        ("not-found", "loaded", {"chrony": "active"}),
        ("not-found", "not-found", {"chronyd": "not-found"}),
    ],
)
def test_a_unit_that_distributions_call_differently_is_told_once(chronyd: str, chrony: str, told: dict[str, str]) -> None:
    units = {"chronyd": chronyd, "chrony": chrony}
    blocks = "\n".join(f"Id={name}.service\nLoadState={load}\nActiveState=active\n" for name, load in units.items())
    assert by_device(read("sysd", blocks), "service.state") == told


@pytest.mark.parametrize(
    ("unit", "writer", "message", "event"),
    [
        (
            "nvidia-fabricmanager.service",
            "nv-fabricmanager",
            "GPU driver interface version 550.54.15 don't match with driver 550.90",
            "fm_version_mismatch",
        ),
        (
            "nvidia-fabricmanager.service",
            "nv-fabricmanager",
            "detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id x",
            "fm_nvswitch_fatal",
        ),
        (
            "nvidia-fabricmanager.service",
            "nv-fabricmanager",
            "failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]",
            "fm_nothing_to_do",
        ),
        ("init.scope", "systemd", "nvidia-fabricmanager.service: Main process exited, code=killed, status=9/KILL", "fm_killed"),
        ("init.scope", "systemd", "slurmd.service: Failed with result 'oom-kill'.", "oom_killed"),
        ("init.scope", "systemd", "Reloading requested from client PID 210331 ('systemctl')...", "daemon_reload"),
        ("init.scope", "systemd", "openibd.service: Failed with result 'exit-code'.", "failed_start"),
        (
            "docker.service",
            "dockerd",
            "unable to configure the Docker daemon with file /etc/docker/daemon.json: invalid character",
            "config_error",
        ),
        (
            "docker.service",
            "dockerd",
            (
                'time="2026-05-20T03:00:01Z" level=error msg="Handler for POST /v1.45/containers/2beccdd2495f/start returned error: '
                'could not select device driver \\"\\" with capabilities: [[gpu]]"'
            ),
            "no_gpu_driver",
        ),
        (
            "docker.service",
            "dockerd",
            (
                'level=error msg="Handler for POST /v1.37/containers/3d396bcc61c0/start returned error: OCI runtime create failed: '
                'nvidia-container-cli: initialization error: driver error: timed out: unknown"'
            ),
            "driver_timed_out",
        ),
        ("unattended-upgrades.service", "unattended-upgrade", "Packages that will be upgraded: nvidia-utils-550", "upgrade_ran"),
    ],
)
def test_sentences_of_units_are_events(unit: str, writer: str, message: str, event: str) -> None:
    (fact,) = read("sysd", unit_line(unit, writer, message))
    assert fact.value == event
    assert fact.time is not None


def test_ordinary_sentences_and_other_units_words_are_no_events() -> None:
    for unit, writer, message in (
        ("nvidia-fabricmanager.service", "nv-fabricmanager", "detected NVSwitch non-fatal error 12028 on NVSwitch pci bus id x"),
        ("docker.service", "dockerd", "version mismatch between client and server"),
        ("init.scope", "systemd", "nvidia-fabricmanager.service: Main process exited, code=killed, status=15/TERM"),
        ("slurmd.service", "slurmd", "launched task 3"),
        (
            "docker.service",
            "dockerd",
            (
                'level=warning msg="container label note=level=error msg=\\"Handler for POST /v1.45/containers/create returned error: '
                'could not select device driver \\"\\" with capabilities: [[gpu]]"'
            ),
        ),
    ):
        assert [fact.status for fact in read("sysd", unit_line(unit, writer, message))] == [Status.ABSENT], message
    assert by_device(read("sysd", UNIT_JOURNAL), "service.event") == {
        "nvidia-fabricmanager": "fm_killed",
        "unattended-upgrades": "upgrade_ran",
    }


def test_a_narrow_link_and_a_dead_gpu_are_told_apart() -> None:
    facts = read("lspci", LSPCI)
    assert value(facts, "pcie.gpu_count") == 3
    assert by_device(facts, "pcie.rev_ff") == {"0000:19:00.0": False, "0000:3b:00.0": False, "0000:4c:00.0": True}
    assert by_device(facts, "pcie.width") == {"0000:19:00.0": 16, "0000:3b:00.0": 8}
    assert by_device(facts, "pcie.speed_max") == {"0000:19:00.0": 32.0, "0000:3b:00.0": 32.0}
    assert by_device(facts, "pcie.downgraded") == {"0000:19:00.0": False, "0000:3b:00.0": True}
    narrow = next(fact for fact in facts if fact.key == "pcie.downgraded" and fact.value)
    assert narrow.attrs == {"width": True, "speed": True}


def test_bridges_tell_acs_and_count_no_gpus() -> None:
    facts = read("lspci", BRIDGES)
    assert by_device(facts, "pcie.acs") == {"0000:17:00.0": True, "0000:18:00.0": False}
    assert not by_device(facts, "pcie.gpu_count")


def test_nvswitches_and_buses_are_listed_whole() -> None:
    behind = "0000:17:00.0 PCI bridge: Broadcom / LSI PEX890xx\n\tBus: primary=17, secondary=18, subordinate=1a, sec-latency=0\n"
    assert value(read("lspci", LSPCI), "pcie.nvswitches") == ["0000:83:00.0"]
    assert not by_device(read("lspci", LSPCI), "pcie.buses")
    assert value(read("lspci", behind), "pcie.buses") == ["0000:17", "0000:18", "0000:19", "0000:1a"]
    assert not by_device(read("lspci", BRIDGES), "pcie.buses"), "a bridge that does not say what is behind it may lead anywhere"
    assert not by_device(read("lspci", behind), "pcie.nvswitches")


def test_capabilities_that_need_root_are_not_looked_at() -> None:
    text = "0000:19:00.0 3D controller: NVIDIA Corporation GH100 (rev a1)\n\tCapabilities: <access denied>\n"
    facts = read("lspci", text)
    assert [fact.status for fact in facts if not fact.key] == [Status.DENIED]
    assert not by_device(facts, "pcie.width")


def test_ports_are_told_with_their_link_layer() -> None:
    facts = read("ibstat", IBSTAT)
    assert by_device(facts, "ib.state") == {"mlx5_0": "Active", "mlx5_1": "Initializing", "mlx5_1/2": "Down"}
    assert by_device(facts, "ib.sm_lid") == {"mlx5_0": 1, "mlx5_1": 0, "mlx5_1/2": 0}
    assert value(facts, "ib.count") == 2
    assert {fact.attrs["link_layer"] for fact in facts if fact.device == "mlx5_1/2"} == {"Ethernet"}
    assert by_device(facts, "ib.firmware")["mlx5_0"] == "28.39.3004"


def test_counters_and_partition_keys_are_told() -> None:
    facts = read("ibstat", COUNTERS)
    assert {fact.key: fact.value for fact in facts} == {
        "ib.link_downed": 37,
        "ib.symbol_error": 5,
        "ib.port_rcv_errors": 2,
        "ib.port_xmit_wait": 73,
        "ib.out_of_sequence": 11,
        "ib.roce_adp_retrans": 12,
        "ib.pkeys": ["0x7fff", "0x8001"],
    }


COUNTED = {
    "counters/link_error_recovery": "ib.link_error_recovery",
    "counters/local_link_integrity_errors": "ib.link_integrity_errors",
    "hw_counters/local_ack_timeout_err": "ib.ack_timeouts",
    "hw_counters/packet_seq_err": "ib.sequence_errors",
}
UNKNOWN = ["counters/port_xmit_discards", "counters/excessive_buffer_overrun_errors", "hw_counters/implied_nak_seq_err", "hw_counters/req_remote_access_errors",
           "counters/port_rcv_remote_physical_errors", "hw_counters/rnr_nak_retry_err", "counters/VL15_dropped"]  # fmt: skip
HARMLESS = [
    "hw_counters/req_cqe_flush_error",
    "hw_counters/duplicate_request",
    "hw_counters/np_cnp_sent",
    "counters/port_rcv_data",
    "hw_counters/lifespan",
]


@pytest.mark.parametrize("name", COUNTED)
def test_counters_of_a_bad_link_are_facts(name: str) -> None:
    (fact,) = read("ibstat", f"/sys/class/infiniband/mlx5_2/ports/1/{name}:40110\n")
    assert (fact.key, fact.value, fact.device) == (COUNTED[name], 40110, "mlx5_2")


@pytest.mark.parametrize("count", [7, 0])
@pytest.mark.parametrize("name", [*UNKNOWN, *HARMLESS])
def test_an_error_counter_that_no_reader_takes_is_named_once_it_counts(name: str, count: int) -> None:
    text = f"/sys/class/infiniband/mlx5_2/ports/1/counters/link_downed:0\n/sys/class/infiniband/mlx5_2/ports/1/{name}:{count}\n"
    told = [fact.line for fact in read("ibstat", text) if fact.key == "check.not_understood"]
    assert told == ([f"mlx5_2 {name.split('/')[1]}: 7"] if count and name in UNKNOWN else [])


SERVICE_LINES = [
    ("slurmd[4410]: slurmd: fatal: Unable to determine this slurmd's NodeName", "slurmd_fatal"),
    ("slurmd[4410]: fatal: Could not open file /etc/slurm/slurm.conf", "slurmd_fatal"),
    ("nvidia-imex[512]: [ERROR] [tid 512] Failed to allocate Imex session: NV_ERR_IN_USE", "imex_error"),
    ("nvidia-fabricmanager-start.sh[77]: Error: ib_umad module is not loaded", "module_missing"),
    ("openibd[77]: modprobe: FATAL: Module mlx5_ib not found", "module_missing"),
    ('munged[77]: error: Keyfile is insecure: "/etc/munge/munge.key" should not be readable', "munge_error"),
    ('dcgm-exporter[77]: level=fatal msg="error starting the host engine"', None),
    ("kubelet[77]: E0326 failed to get the container runtime's status", None),
    ("chronyd[77]: Fatal error : Could not open /var/run/chrony.drift", None),
]


@pytest.mark.parametrize(("line", "event"), SERVICE_LINES)
def test_what_services_complain_of_is_known_or_named(line: str, event: str | None) -> None:
    facts = read("sysd", f"Aug 30 21:10:01 gpu-001 {line}\n")
    assert not [fact for fact in facts if fact.status is Status.ABSENT]
    assert [(fact.key, fact.value) for fact in facts] == ([("service.event", event)] if event else [("check.not_understood", 1)])


@pytest.mark.parametrize("priority", range(8))
def test_in_a_journal_the_priority_says_what_is_an_error(priority: int) -> None:
    line = f'{{"MESSAGE":"something nobody has seen","_SYSTEMD_UNIT":"slurmd.service","PRIORITY":"{priority}"}}\n'
    assert [fact.key for fact in read("sysd", line)] == (["check.not_understood"] if priority <= 3 else ["service.event"])


SEL = [
    ("Voltage P1V05_STBY | Lower Critical going low ", "voltage"),
    ("Voltage #0x60 | Upper Non-recoverable going high", "voltage"),
    ("Watchdog2 #0xca | Hard reset", "watchdog"),
    ("Watchdog2 #0xca | Timer expired", "watchdog"),
    ("OS Critical Stop #0x46 | Run-time critical stop", "os_stop"),
    ("OS Stop/Shutdown #0x46 | Run-time critical stop", "os_stop"),
    ("Cooling Device LEAK_SENS_2 | State Asserted", "leak"),
    ("Drive Slot / Bay #0x0b | Drive Fault", "drive"),
    ("Drive Slot / Bay #0x0b | Predictive Failure", "drive"),
    ("Cable/Interconnect #0x90 | Config Error", "cable"),
    ("Memory #0x02 | Uncorrectable ECC", "memory"),
    ("Power Supply PSU2 | Failure detected", "psu"),
    ("Fan FAN3 | Lower Critical going low ", "fan"),
    ("Critical Interrupt #0x21 | PCI SERR", "pcie"),
    ("Processor CPU1 | IERR", "cpu"),
    ("Microcontroller GB_FPGA | Transition to Critical from less severe", None),
    ("Module/Board HGX | State Asserted", None),
    ("System Event #0x12 | Undetermined system hardware failure", None),
]
SEL_ORDINARY = [
    "Event Logging Disabled SEL | Log area reset/cleared",
    "System Event #0x12 | Timestamp Clock Sync",
    "System Boot Initiated #0x1 | Initiated by power up",
    "Power Unit #0x1 | Power off/down",
    "OS Boot #0x1 | C: boot completed",
    "Button #0x1 | Power Button pressed",
    "Memory #0x02 | Correctable ECC",
]


@pytest.mark.parametrize(("row", "kind"), SEL)
def test_each_row_of_the_bmcs_log_is_of_a_known_kind_or_named(row: str, kind: str | None) -> None:
    facts = read("ipmi", f"  2c | 08/30/2026 | 21:14:07 | {row} | Asserted\n")
    assert [(fact.key, fact.value) for fact in facts] == ([("ipmi.event", kind)] if kind else [("check.not_understood", 1)])


@pytest.mark.parametrize("row", SEL_ORDINARY)
def test_an_ordinary_row_of_the_bmcs_log_is_clean(row: str) -> None:
    facts = read("ipmi", f"  2c | 08/30/2026 | 21:14:07 | {row} | Asserted\n")
    assert [fact.status for fact in facts] == [Status.ABSENT]


def test_a_machine_without_rdma_devices_says_so_and_one_with_them_does_not() -> None:
    none = "ls: cannot access '/sys/class/infiniband': No such file or directory\n"
    assert value(read("ibstat", none), "ib.none") is True
    assert not [fact for fact in read("ibstat", IBSTAT) if fact.key == "ib.none"]


def test_a_port_that_breaks_off_is_not_called_anything() -> None:
    facts = read("ibstat", IBSTAT[: IBSTAT.index("Rate: 200")])
    assert set(by_device(facts, "ib.state")) == {"mlx5_0"}
    assert [fact.line for fact in facts if fact.status.blind] == ["the output breaks off in mlx5_1"]


def test_a_panic_keeps_the_ports_before_it() -> None:
    facts = read("ibstat", IBSTAT + "ibpanic: [77] main: stat of IB device 'mlx5_2' failed: No such file or directory\n")
    assert value(facts, "ib.error") == "ibpanic"
    assert len(by_device(facts, "ib.state")) == 3
    assert next(fact.attrs for fact in facts if fact.key == "ib.count") == {"partial": True}
