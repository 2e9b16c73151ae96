"""Read-only disks, processes stuck in the kernel, BMC events and hanging mounts appear in the diagnosis."""

from dataclasses import replace
from datetime import timedelta

import pytest

from graph.engine.abnormal_facts import MIN_BLOCKED_OBSERVATIONS, is_abnormal
from graph.engine.assessment import Assessment, assess_facts
from graph.engine.fact_preparation import prepare_facts
from graph.engine.reference_data import ReferenceData
from graph.incident.context import merge_facts
from kb.taxonomy.loader import load_taxonomy
from tests.support.clock import T0
from tests.support.fakes_graph import healthy, lens
from tools.checks import CHECKS
from tools.fact import Fact

HOSTS = ("n1", "n2", "n3")
WHOLE = ReferenceData(load_taxonomy(), CHECKS)
FILE_SERVER = "SYSTEM_SOFTWARE.STORAGE.NFS_Server_Not_Responding"


def looked(*facts: Fact) -> Assessment:
    return assess_facts([*healthy(*HOSTS), *facts], lens(), HOSTS, {}, T0)


def mounted(device: str, fstype: str, value: bool = True) -> Fact:
    return Fact("disk", "disk.readonly", value, device, line=f"{device} {fstype} ro", host="n2", time=T0, attrs={"fstype": fstype})


@pytest.mark.parametrize("fstype", ["ext4", "xfs", "btrfs", "ext3", "zfs", "f2fs"])
@pytest.mark.parametrize("device", ["/", "/scratch", "/var", "/home", "/data"])
def test_a_disk_that_cannot_be_written_is_never_no_fault(device: str, fstype: str) -> None:
    assert looked(mounted(device, fstype)).finding == "abstained"


@pytest.mark.parametrize(
    ("device", "fstype"), [("/snap/core/1", "squashfs"), ("/boot", "ext4"), ("/usr", "btrfs"), ("/nix/store", "ext4"), ("/sw", "nfs4")]
)
def test_what_is_meant_to_be_read_only_is_well(device: str, fstype: str) -> None:
    assert looked(mounted(device, fstype)).finding == "no_fault"
    assert not is_abnormal(mounted("/", "ext4", value=False))


def stuck(pid: int = 812, at: int = 0, host: str = "n2") -> Fact:
    return Fact("procs", "proc.blocked", "python3", host=host, time=T0 + timedelta(seconds=at), attrs={"pid": pid, "seconds": 90})


def seen(*looks: list[Fact]) -> list[Fact]:
    facts: list[Fact] = []
    for look in looks:
        facts = merge_facts(facts, look)
    return facts


def test_a_process_that_waits_in_the_kernel_look_after_look_is_never_no_fault() -> None:
    facts = seen(*([stuck(at=at)] for at in range(MIN_BLOCKED_OBSERVATIONS)))
    assert [fact.attrs["looks"] for fact in facts] == [MIN_BLOCKED_OBSERVATIONS]
    now = looked(*facts)
    assert (now.finding, now.abnormal_facts[0].key) == ("abstained", "proc.blocked")


@pytest.mark.parametrize(
    "looks",
    [
        [[stuck()]],
        [[stuck()], [stuck(at=1)]],
        [[stuck(pid)] for pid in range(MIN_BLOCKED_OBSERVATIONS)],
        [[stuck()] for _ in range(9)],
        [[stuck()], [stuck(at=1)], [replace(stuck(at=2), key="proc.listed", value=3)], [stuck(at=3)]],
    ],
)
def test_one_that_waits_now_and_then_is_no_finding(looks: list[list[Fact]]) -> None:
    assert looked(*seen(*looks)).finding == "no_fault"


def event(value: str, days: int) -> Fact:
    at = T0 - timedelta(days=days)
    return Fact(
        "ipmi", "ipmi.event", value, line="Uncorrectable ECC", host="n2", time=at, attrs={"sensor": "DIMM A1", "text": "Uncorrectable ECC"}
    )


@pytest.mark.parametrize("value", ["memory", "psu", "fan"])
@pytest.mark.parametrize("days", [0, 2, 180])
def test_hardware_events_that_stand_are_told_however_old_they_are(value: str, days: int) -> None:
    (found,) = prepare_facts([event(value, days)], T0)
    assert is_abnormal(found)


@pytest.mark.parametrize("value", ["pcie", "cpu"])
def test_a_moment_of_long_ago_is_the_past(value: str) -> None:
    assert [is_abnormal(prepare_facts([event(value, days)], T0)[0]) for days in (0, 180)] == [True, False]


@pytest.mark.parametrize("value", ["memory", "cpu"])
def test_an_uncorrectable_error_that_the_bmc_logged_is_the_machines(value: str) -> None:
    now = assess_facts([event(value, 0)], WHOLE, HOSTS, {}, T0)
    assert [(row.label, row.hosts) for row in now.list_root_causes()] == [("OTHER.HARDWARE.Machine_Check", ("n2",))]


def mount(host: str, value: str, fstype: str) -> Fact:
    return Fact("store", "store.mount", value, "/data", line=f"/data {value}", host=host, time=T0, attrs={"fstype": fstype})


@pytest.mark.parametrize("value", ["timeout", "stale", "error"])
@pytest.mark.parametrize(
    "fstype", ["nfs4", "fuse.sshfs", "fuse.juicefs", "beegfs", "ceph", "wekafs", "lustre", "gpfs", "fuse.s3fs", "cifs"]
)
def test_a_mount_without_an_answer_on_one_host_is_told_and_rules_no_file_server_out(value: str, fstype: str) -> None:
    facts = [mount(host, value if host == "n2" else "ok", fstype) for host in HOSTS]
    now = assess_facts(facts, WHOLE, HOSTS, {FILE_SERVER: 1.0}, T0)
    assert ("n2", "store.mount") in {(fact.host, fact.key) for fact in now.abnormal_facts}
    assert now.label_verdicts[FILE_SERVER].verdict != "rejected" or value == "error"
    assert FILE_SERVER not in {row.label for row in now.list_ruled_out()} or value == "error"


def test_a_mount_that_answers_everywhere_rules_it_out() -> None:
    facts = [mount(host, "ok", "nfs4") for host in HOSTS]
    facts += [Fact(check, "kernel.booted", True, host=host, time=T0) for host in HOSTS for check in ("dmesg", "procs")]
    assert assess_facts(facts, WHOLE, HOSTS, {FILE_SERVER: 1.0}, T0).label_verdicts[FILE_SERVER].verdict in ("rejected", "open")
