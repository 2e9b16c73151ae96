"""Tables of kernel lines: networks, file servers, IOMMU, heat, and GPUs that are gone or locked."""

import pytest

from kb.logs.kernel_log import list_kernel_events

# wording of the kernel's sources (net/sched/sch_generic.c, drivers/net/bonding, drivers/iommu, arch/x86 therm_throt.c) and of the vendors' drivers
LINES: list[tuple[str, str, str, str | None]] = [
    ("NETDEV WATCHDOG: ens4f1np1 (mlx5_core): transmit queue 7 timed out 5030 ms", "mlx5", "tx_timeout", "ens4f1np1"),
    ("NETDEV WATCHDOG: eth2 (mlx5_core): transmit queue 0 timed out", "mlx5", "tx_timeout", "eth2"),
    ("mlx5_core 0000:4d:00.0 ens4f1np1: NETDEV WATCHDOG: CPU: 3: transmit queue 7 timed out 5030 ms", "mlx5", "tx_timeout", "0000:4d:00.0"),
    ("mlx5_core 0000:4d:00.0 ens4f1np1: TX timeout detected", "mlx5", "tx_timeout", "0000:4d:00.0"),
    ("mlx5_core 0000:4d:00.0 ens4f1np1: TX timeout on queue: 7, SQ: 0x1a2b, CQ: 0x8e, SQ Cons: 0x1 SQ Prod: 0x4", "mlx5", "tx_timeout", "0000:4d:00.0"),
    ("NETDEV WATCHDOG: eno1 (bnxt_en): transmit queue 3 timed out", "net", "tx_timeout", "eno1"),
    ("NETDEV WATCHDOG: eth0 (ice): transmit queue 12 timed out 6100 ms", "net", "tx_timeout", "eth0"),
    ("i40e 0000:18:00.0 eno1: NETDEV WATCHDOG: CPU: 9: transmit queue 12 timed out 6100 ms", "net", "tx_timeout", "eno1"),
    ("bond0: now running without any active interface!", "net", "bond_down", "bond0"),
    ("bond0: (slave ens4f0): link status definitely down, disabling slave", "net", "bond_slave_down", "bond0"),
    ("DMAR: [DMA Read NO_PASID] Request device [17:00.0] fault addr 0x7f0000 [fault reason 0x06] PTE Read access is not set", "iommu_fault",
     "DMA Read NO_PASID", "17:00.0"),
    ("DMAR: [DMA Write] Request device [3b:00.0] fault addr bc000000 [fault reason 05] PTE Write access is not set", "iommu_fault", "DMA Write", "3b:00.0"),
    ("nvidia 0000:c1:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x000e address=0xfc000000 flags=0x0020]", "iommu_fault", "page fault", "0000:c1:00.0"),
    ("AMD-Vi: Event logged [IO_PAGE_FAULT device=c1:00.0 domain=0x000e address=0xfc000000 flags=0x0020]", "iommu_fault", "page fault", None),
    ("CPU3: Core temperature above threshold, cpu clock throttled (total events = 1)", "cpu_thermal", "Core", None),
    ("mce: CPU64: Package temperature above threshold, cpu clock throttled (total events = 9)", "cpu_thermal", "Package", None),
    ("CPU3: Core temperature above threshold, cpu clock is throttled (total events = 41)", "cpu_thermal", "Core", None),
    ("NVRM: RC watchdog: GPU is probably locked!  Notify Timeout Seconds: 7", "gpu_watchdog", "locked", None),
    ("ceph: mds0 caps stale", "nfs_timeout", "mds0", None),
    ("CIFS: VFS: \\\\filer1 has not responded in 180 seconds. Reconnecting...", "nfs_timeout", "\\\\filer1", None),
    ("beegfs: kworker/1:2(123): Messaging (RPC): Communication error: Receive from peer failed. Peer: stor01", "nfs_timeout", "stor01", None),
    ("BeeGFS: Connect failed, Node: meta02", "nfs_timeout", "meta02", None),
    ("wekafs: read on inode 77 timed out", "nfs_timeout", "weka", None),
    ("mmfs: Lost connection to file system daemon; node expelled", "nfs_timeout", "gpfs", None),
    ("LustreError: 167-0: scratch-MDT0000-mdc-ffff8: This client was evicted by scratch-MDT0000; in progress operations will fail.", "nfs_timeout",
     "scratch-MDT0000", None),
]  # fmt: skip
NO_EVENTS = [
    "CPU3: Core temperature/speed normal (total events = 1)",
    "bond0: (slave ens4f0): link status definitely up, 100000 Mbps full duplex",
    "DMAR: DRHD base: 0x000000fed90000 flags: 0x0",
    "AMD-Vi: IOMMU performance counters supported",
    "libceph: mon0 (1)10.0.0.1:6789 session established",
    "libceph: osd3 (1)10.0.0.1:6801 socket closed (con state OPEN)",
    "beegfs: File system mounted",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.105.08",
]
GONE = [
    [
        "NVRM: The NVIDIA GPU 0000:3b:00.0",
        "NVRM: (PCI ID: 10de:2330) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
    ],
    [
        "NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:2330)",
        "NVRM: installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
    ],
    ["NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus."],
]


@pytest.mark.parametrize("prefix", ["", "[ 8120.440100] ", "Aug 30 21:10:01 gpu-001 kernel: "], ids=["bare", "ring", "syslog"])
@pytest.mark.parametrize(("line", "kind", "value", "device"), LINES, ids=range(len(LINES)))
def test_each_line_is_its_event(line: str, kind: str, value: str, device: str | None, prefix: str) -> None:
    (event,) = list_kernel_events(prefix + line)
    assert (event.kind, event.value) == (f"kernel.{kind}", value)
    assert event.device == device or (device is not None and str(event.device).endswith(device))


@pytest.mark.parametrize("line", NO_EVENTS)
def test_what_tells_of_no_trouble_is_no_event(line: str) -> None:
    assert list_kernel_events(f"[ 8120.440100] {line}") == []


@pytest.mark.parametrize("lines", GONE, ids=["three", "two", "one"])
def test_a_gpu_that_left_the_bus_is_an_xid_79_however_many_lines_say_it(lines: list[str]) -> None:
    (event,) = list_kernel_events("\n".join(f"[   12.{number}] {line}" for number, line in enumerate(lines, 100000)))
    assert (event.kind, event.value, event.device) == ("kernel.xid", 79, "0000:3b:00.0")
