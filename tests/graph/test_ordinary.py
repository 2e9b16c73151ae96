"""Ordinary host breakages: each leads to its cause on its host and to no other host."""

from dataclasses import replace

import pytest

from graph.engine.assessment import Assessment, assess_facts
from graph.engine.reference_data import ReferenceData
from kb.taxonomy.loader import load_taxonomy
from tests.support.clock import T0
from tools.checks import CHECKS
from tools.fact import Fact

HOSTS = ("n1", "n2", "n3", "n4")
TAXONOMY = load_taxonomy().decidable
S, I, O = "SYSTEM_SOFTWARE.", "INTERCONNECT.", "OTHER."  # noqa: E741
USUAL = """system\tkernel\t5.15.0-107
system\ttime zone\tEtc/UTC +0000
system\tmemory\t2000 GiB
system\tcpus\t0-127 of 0-127
cmdline\tiommu\tpt
sysctl\tvm.swappiness\t60
module\tnvidia_peermem\t570.1
mount\t/\text4 rw
mount\t/data\tnfs4 rw hard nas1:/data
route\tdefault\tvia a gateway dev eth0
link\teth0\tup 25000 Mb/s full
resolver\tnameserver\t10.0.0.2
hosts\tctl\t10.0.0.9
device\t/dev/nvidia\t8 device 666
device\t/dev/infiniband/uverbs\t8 device 666
library\tlibcuda.so.1\tlibcuda.so.570.1 29453200 bytes 0011223344
library\tlibnccl.so.2\tlibnccl.so.2.21.5 220000000 bytes 5566778899
package\tslurm-smd-slurmd\t23.11.4-1
config\t/etc/slurm/slurm.conf\t1211 bytes aabbccddee
limit\tslurmd processes\t16508430
service\tssd\tactive
service\tsssd\tactive
service\trpcbind\tactive
service\tnode_exporter\tactive
daemon\tslurmd\truns
count\tzombie\t0
answer\tmunge\tok
answer\tname of controller ctl\tok 10.0.0.9
answer\tport of controller ctl\tok
answer\tnameserver 10.0.0.2\tok
"""


def looked(host: str, changes: str = "") -> list[Fact]:
    """Return a host's baseline facts; a changed row replaces the usual one, a value `=` removes it."""
    rows = {tuple(line.split("\t")[:2]): line for line in USUAL.strip().split("\n")}
    for line in filter(None, changes.split("\n")):
        kind, name, value = line.split("|")
        rows[kind, name] = f"{kind}\t{name}\t{value}"
        if value == "=":
            del rows[kind, name]
    text = "\n".join(("== baseline 1", *rows.values(), "== end", ""))
    return [replace(fact, host=host, time=T0) for fact in CHECKS["base"].parse_output(text)]


def judged(changes: str, *facts: Fact) -> Assessment:
    """Assess four hosts of which the second is broken; all other passive checks are healthy."""
    well = [Fact(name, "check.looked", None, host=host, time=T0) for host in HOSTS for name, check in CHECKS.items() if not check.exclusive]
    well = [replace(fact, key="", status=fact.status.ABSENT) for fact in well if fact.check != "base"]
    seen = [fact for host in HOSTS for fact in looked(host, changes if host == "n2" else "")]
    return assess_facts(
        [*well, *seen, *(replace(fact, host="n2", time=T0) for fact in facts)], ReferenceData(TAXONOMY, CHECKS), HOSTS, None, T0
    )


def unit(name: str, value: str, **attrs: object) -> list[Fact]:
    return [Fact("sysd", "service.state", value, name, attrs=attrs)]


PROVEN = [
    ("slurmd frozen", "broken|daemon slurmd|frozen", [], S + "SERVICE.Slurmd_Stopped"),
    ("slurmd failed", "daemon|slurmd|=", unit("slurmd", "failed", result="exit-code"), S + "SERVICE.Slurmd_Stopped"),
    ("slurmd stopped, the node missed", "", [*unit("slurmd", "inactive"), Fact("sched", "sched.state", "DOWN+NOT_RESPONDING")], S + "SERVICE.Slurmd_Stopped"),
    ("munge frozen", "answer|munge|timeout\nbroken|daemon munged|frozen", [], S + "SERVICE.Munge_Not_Answering"),
    ("munge refuses", "answer|munge|refused", [], S + "SERVICE.Munge_Not_Answering"),
    ("docker failed", "", unit("docker", "failed"), S + "SERVICE.Container_Engine_Stopped"),
    ("containerd frozen", "broken|daemon containerd|frozen", [], S + "SERVICE.Container_Engine_Stopped"),
    ("chronyd frozen", "broken|daemon chronyd|frozen", [], S + "SERVICE.Daemon_Frozen"),
    ("sssd stopped, as systemd says", "", unit("sssd", "inactive", trouble="stopped"), S + "SERVICE.Users_Unknown"),
    ("autofs failed", "", unit("autofs", "failed", trouble="failed"), S + "SERVICE.Mount_Helper_Stopped"),
    ("kubelet failed", "", unit("kubelet", "failed", trouble="failed"), S + "SERVICE.Stopped_Unlike_Peers"),
    ("munge masked", "", unit("munge", "inactive", trouble="masked", load="masked"), S + "SERVICE.Munge_Not_Answering"),
    ("sssd frozen", "broken|daemon sssd|frozen", [], S + "SERVICE.Users_Unknown"),
    ("a unit in a loop", "", unit("nvidia-dcgm", "activating", sub="auto-restart"), S + "SERVICE.Restart_Loop"),
    ("systemd frozen", "answer|systemd|timeout", [], S + "SERVICE.Systemd_Not_Answering"),
    ("nologin", "broken|/run/nologin|nobody may log in", [], S + "LOGIN.Nologin"),
    ("zombies", "count|zombie|212 212 python3 below slurmstepd", [], S + "PROCESS.Zombies"),
    ("stopped processes", "count|stopped|16 16 python3", [], S + "PROCESS.Stopped_By_Signal"),
    ("a hog", "hog|stress-ng|96.0 of 128 cores, 96 processes of uid 1002", [], S + "PROCESS.CPU_Hog_Beside_Job"),
    ("no process ids left", "count|pids percent|97", [], S + "PROCESS.PIDs_Exhausted"),
    ("a limit of processes", "broken|/etc/security/limits.d/x.conf: * hard nproc|process_limit 64", [], S + "LIMITS.Process_Count_Low"),
    ("a cgroup at its limit", "broken|tasks of slurmd.service|process_limit 64 of 64", [], S + "LIMITS.Process_Count_Low"),
    ("no open files left", "count|open files percent|99", [], S + "LIMITS.Open_Files_Exhausted"),
    ("shm full", "", [Fact("disk", "disk.used_percent", 100, "/dev/shm", unit="%")], S + "STORAGE.Shm_Full"),
    ("a volume full", "", [Fact("disk", "disk.used_percent", 100, "/nvme/cache", unit="%")], S + "STORAGE.Mount_Full"),
    ("inodes gone", "", [Fact("disk", "disk.inodes_percent", 100, "/nvme/cache", unit="%")], S + "STORAGE.Mount_Full"),
    ("tmp closed", "broken|/tmp|mode 755", [], S + "STORAGE.Tmp_Unusable"),
    ("shm not mounted", "broken|/dev/shm|not_mounted", [], S + "STORAGE.Mount_Missing"),
    ("data not mounted", "mount|/data|=\nbroken|mount /data|not_mounted", [], S + "STORAGE.Mount_Missing"),
    ("sshfs silent", "", [Fact("store", "store.mount", "timeout", "/mnt/x", attrs={"fstype": "fuse.sshfs"})], S + "STORAGE.Fuse_Mount_Silent"),
    ("an array without a disk", "broken|array md0|degraded [U_]", [], S + "STORAGE.Array_Degraded"),
    ("disks overloaded", "count|io pressure|85", [], S + "STORAGE.Disk_Overloaded"),
    ("a GPU's node gone", "broken|/dev/nvidia3|no_device\ndevice|/dev/nvidia|7 device 666", [], S + "DEVICE.GPU_Nodes_Missing"),
    ("nvidia-uvm gone", "broken|/dev/nvidia-uvm|no_device", [], S + "DEVICE.GPU_Nodes_Missing"),
    ("an adapter's node gone", "broken|/dev/infiniband/uverbs1|no_device", [], S + "DEVICE.RDMA_Nodes_Missing"),
    ("null is a file", "broken|/dev/null|no_device", [], S + "DEVICE.Basic_Device_Replaced"),
    ("libcuda empty", "broken|/usr/lib64/libcuda.so.1|empty", [], S + "DRIVER.Library_Damaged"),
    ("nvidia-ml dangling", "broken|/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1|dangling", [], S + "DRIVER.Library_Damaged"),
    ("libibverbs truncated", "broken|/usr/lib64/libibverbs.so.1|no_library", [], S + "PACKAGE.Library_Damaged"),
    ("dpkg broke off", "broken|package nvidia-dkms-570|half-configured", [], S + "PACKAGE.Half_Installed"),
    ("preloaded", "broken|/etc/ld.so.preload|preloads /usr/lib/x.so", [], S + "PACKAGE.Library_Preloaded"),
    ("connections full", "count|conntrack percent|99", [], S + "KERNEL.Conntrack_Full"),
    ("huge pages", "count|huge pages percent|80", [], S + "MEMORY.Huge_Pages_Take_Memory"),
    ("left shared memory", "count|shared memory percent|71", [], S + "MEMORY.Shared_Memory_Left"),
    ("slab", "count|kernel memory percent|66", [], S + "MEMORY.Kernel_Takes_Memory"),
    ("thrashing", "count|memory pressure|88", [], S + "MEMORY.Under_Pressure"),
    ("a black hole", "broken|route 10.9.0.0/16|blackhole", [], I + "ETH.Route_Blackholed"),
    ("its name at another host", "broken|/etc/hosts n2|another_address 10.0.0.77", [], I + "ETH.Hosts_File_Wrong"),
    ("dead nameserver", "answer|nameserver 10.0.0.2|timeout", [], I + "ETH.DNS_Failure"),
    ("the controller has no name", "answer|name of controller ctl|no_name", [], I + "ETH.DNS_Failure"),
    ("edac", "broken|memory controller mc0|uncorrectable 3", [], O + "HARDWARE.DIMM_Errors"),
    ("drained by hand", "", [Fact("sched", "sched.reason", "bob is testing things", attrs={"by": "bob"})], O + "SCHED.Drained_By_Hand"),
    ("another host key", "", [Fact("ssh", "host.access", "changed_key")], O + "INFRA.Host_Key_Changed"),
]  # fmt: skip
LIKELY = [
    ("sssd stopped", "service|sssd|inactive", S + "SERVICE.Users_Unknown"),
    ("rpcbind gone", "service|rpcbind|=", S + "SERVICE.Mount_Helper_Stopped"),
    ("another service stopped", "service|node_exporter|failed", S + "SERVICE.Stopped_Unlike_Peers"),
    ("masked", "service|node_exporter|masked", S + "SERVICE.Unit_Masked"),
    ("limits", "limit|slurmd processes|100", S + "LIMITS.Process_Count_Low"),
    ("mount gone", "mount|/data|=", S + "STORAGE.Mount_Missing"),
    ("mount read-only", "mount|/data|nfs4 ro soft nas1:/data", S + "STORAGE.Mount_Options_Differ"),
    ("node count", "device|/dev/nvidia|6 device 666", S + "DEVICE.GPU_Nodes_Missing"),
    ("libcuda of another size", "library|libcuda.so.1|libcuda.so.570.1 1024 bytes 99", S + "DRIVER.Library_Damaged"),
    ("nccl of another build", "library|libnccl.so.2|libnccl.so.2.18.1 2 bytes 11", S + "PACKAGE.Library_Differs"),
    ("package", "package|slurm-smd-slurmd|22.05.1", S + "PACKAGE.Versions_Differ"),
    ("slurm.conf", "config|/etc/slurm/slurm.conf|1300 bytes 77", S + "CONFIG.File_Differs"),
    ("kernel", "system|kernel|6.8.0", S + "KERNEL.Release_Differs"),
    ("iommu", "cmdline|iommu|=", S + "KERNEL.Command_Line_Differs"),
    ("sysctl", "sysctl|vm.swappiness|100", S + "KERNEL.Setting_Differs"),
    ("module", "module|nvidia_peermem|=", S + "KERNEL.Module_Differs"),
    ("memory", "system|memory|1000 GiB", O + "HARDWARE.DIMM_Errors"),
    ("cores", "system|cpus|0-63 of 0-127", S + "CPU.Cores_Offline"),
    ("no default route", "route|default|=", I + "ETH.Route_Missing"),
    ("static neighbour", "route|neighbour 10.0.0.7|permanent 02:00:00:00:00:01", I + "ETH.Static_Neighbour"),
    ("wrong hosts entry", "hosts|ctl|10.0.0.250", I + "ETH.Hosts_File_Wrong"),
    ("another nameserver", "resolver|nameserver|8.8.8.8", I + "ETH.Resolver_Differs"),
    ("slow link", "link|eth0|up 1000 Mb/s full", I + "ETH.Link_Differs"),
]


@pytest.mark.parametrize(("changes", "facts", "label"), [pytest.param(*row[1:], id=row[0]) for row in PROVEN])
def test_what_does_not_work_is_found_and_no_other_host_accused(changes: str, facts: list[Fact], label: str) -> None:
    now = judged(changes, *facts)
    assert label in {row.label for row in now.roots}, [(row.label, round(row.posterior, 2)) for row in now.beliefs[:4]]
    assert [row.label for row in now.roots] == [label]
    assert {host for row in now.roots for host in row.accused} <= {"n2"}


@pytest.mark.parametrize(("changes", "label"), [pytest.param(*row[1:], id=row[0]) for row in LIKELY])
def test_what_only_differs_is_likely_and_proven_nowhere(changes: str, label: str) -> None:
    now = judged(changes)
    assert now.roots == ()
    assert now.finding == "abstained"
    assert now.beliefs[0].label == label, [(row.label, round(row.posterior, 2)) for row in now.beliefs[:4]]
    assert now.beliefs[0].subject.hosts == ("n2",)
    assert 0.5 <= now.beliefs[0].posterior <= 0.6


def test_a_well_group_is_well() -> None:
    now = judged("")
    assert now.roots == ()
    assert now.abnormal_facts == ()
    assert now.suspects == ()
    for label, leaf in TAXONOMY.leaves.items():
        if all(clue.key == "peer.differs" for clue in leaf.evidence if clue.weight > 0):
            assert now.label_verdicts[label].verdict == "rejected"


def test_a_controller_that_is_away_for_all_is_found_by_what_does_not_work() -> None:
    facts = [fact for host in HOSTS for fact in looked(host, "answer|port of controller ctl|refused")]
    now = assess_facts(facts, ReferenceData(TAXONOMY, CHECKS), HOSTS, None, T0)
    assert [row.label for row in now.roots] == [O + "SCHED.Controller_Down"]


def test_unresolvable_names_are_found_even_on_all_hosts() -> None:
    facts = [fact for host in HOSTS for fact in looked(host, "answer|nameserver 10.0.0.2|timeout")]
    now = assess_facts(facts, ReferenceData(TAXONOMY, CHECKS), HOSTS, None, T0)
    assert {row.label for row in now.roots} == {I + "ETH.DNS_Failure"}
    assert not [fact for fact in now.abnormal_facts if fact.key == "peer.differs"]


def test_processes_in_the_kernel_are_a_sign_and_no_cause() -> None:
    now = judged("count|blocked|24 24 cp")
    assert now.roots == ()
    assert (now.beliefs[0].label, now.beliefs[0].subject.hosts) == (S + "PROCESS.Blocked_In_Kernel", ("n2",))
    assert now.finding == "abstained"


def test_another_time_zone_is_told_and_likely_only_where_the_words_fit() -> None:
    facts = [fact for host in HOSTS for fact in looked(host, "system|time zone|America/New_York -0400" if host == "n2" else "")]
    label = S + "TIME.Time_Zone_Differs"
    quiet = assess_facts(facts, ReferenceData(TAXONOMY, CHECKS), HOSTS, None, T0)
    assert [(fact.host, fact.device) for fact in quiet.differing] == [("n2", "system time zone")]
    assert quiet.suspects == ()
    named = assess_facts(facts, ReferenceData(TAXONOMY, CHECKS), HOSTS, {label: 2.0}, T0)
    assert [row.label for row in named.suspects] == [label]
