"""Readable text of facts, by key (see `kb.fact_keys`).

The host's raw output stays the evidence. Unlike taxonomy clues, these rows only describe a fact and imply no cause.
"""

import re
from collections.abc import Mapping
from typing import Any

from kb.fact_keys import find_key

MAX_READABLE_CHARS = 120  # of a line that people can read

SLOT_PATTERN = re.compile(r"{([a-z_.]+)}")
ATTRS_PATTERN = re.compile(r"{attrs\.([a-z_.]+)}")
# Further slots: `attrs.NAME`, unformatted. `word` is an identifier such as `cable_unplugged` with blanks; `size` is
# bytes in a readable unit.
SLOTS = ("value", "word", "size", "device", "unit", "expected", "majority")


def _parse_rows(text: str) -> Mapping[str, tuple[str, ...]]:
    rows = (line.split("|") for line in filter(None, map(str.strip, text.splitlines())))
    return {key.strip(): tuple(map(str.strip, words)) for key, *words in rows}


# key | words | words where the fact lacks what the first ones name
FACT_TEXTS = _parse_rows("""
    host.reachable                  | the host does not answer
    host.access                     | the host does not let us in: {word}
    smi.error                       | nvidia-smi fails: {word}
    gpu.count                       | nvidia-smi sees {value} GPUs
    gpu.fabric.health               | health of {device}'s NVLink fabric: {value}
    gpu.lost                        | nvidia-smi says that {device} is lost
    gpu.missing                     | nvidia-smi does not list {device}
    gpu.inforom_corrupt             | {device} warns of a corrupted infoROM
    gpu.recovery_action             | the driver asks to recover {device}: {value}
    gpu.mig                         | MIG mode of {device}: {value}
    gpu.compute_mode                | compute mode of {device}: {value}
    gpu.clock.app                   | applications clock of {device}: {value} {unit}
    gpu.power.limit                 | power limit of {device}: {value} {unit}
    gpu.throttle.hw_thermal         | {device} is slowed down by its hardware because of heat
    gpu.throttle.hw_power_brake     | {device} is slowed down by the power brake
    gpu.fabric.state                | NVLink fabric of {device}: {value}
    gpu.ecc.dram_uncorrectable      | {device}: {value} uncorrectable memory errors
    gpu.ecc.sram_uncorrectable      | {device}: {value} uncorrectable errors in its caches
    gpu.ecc.sram_threshold_exceeded | {device} has more cache errors than it may
    gpu.remap.pending               | {device}: a bad memory row waits for the next reset to be replaced
    gpu.repair.channel_pending      | {device}: a memory channel waits for the next reset to be repaired
    gpu.repair.tpc_pending          | {device}: a compute unit waits for the next reset to be repaired
    gpu.memory.unrepairable         | {device}: memory that can be repaired no more
    gpu.remap.failure               | {device}: a bad memory row could not be replaced
    gpu.retired.pending             | {device}: a bad memory page waits for the next reset to be retired
    driver.mismatch                 | the driver in the kernel and its libraries differ
    topo.missing                    | {device} reaches no other GPU over NVLink
    nvlink.inactive                 | {device}: {value} NVLinks are down
    nvlink.crc_errors               | {device}: {value} transmission errors on its NVLinks
    kernel.xid                      | Xid {value} on {device}: {attrs.meaning} | Xid {value} on {device}
    kernel.sxid                     | SXid {value} on {device}: {attrs.meaning} | SXid {value} on {device}
    kernel.nvlink5                  | {device}: NVLink error {value}
    kernel.oom_kill                 | the kernel killed {value} for memory
    kernel.segfault                 | {attrs.process} crashed in {value}
    kernel.mlx5                     | {device}: {word}
    kernel.net                      | network interface {device}: {word}
    kernel.iommu_fault              | the IOMMU denied {device} memory: {value}
    kernel.cpu_thermal              | processor {attrs.cpu} is slowed down by heat ({value})
    kernel.gpu_watchdog             | the driver's watchdog says that a GPU is locked
    kernel.aer                      | {device}: {value} PCIe error
    kernel.pcie_hotplug             | PCIe slot {attrs.slot}: {word} | PCIe slot: {word}
    kernel.soft_lockup              | a processor is stuck in the kernel: {word}
    kernel.nfs_timeout              | file server {value} does not respond
    kernel.fs_readonly              | the kernel made {device} read-only
    kernel.disk_error               | disk {device}: {word}
    kernel.mce                      | the processor reports a hardware error: {value}
    kernel.gpu_thermal              | the driver warns of the temperature of {device}
    kernel.inforom                  | the driver warns of the infoROM of {device}
    kernel.driver_mismatch          | the driver in the kernel and its libraries differ: {value}
    kernel.nouveau                  | the nouveau driver holds the GPUs
    kernel.module_refused           | the driver's module was refused
    kernel.bar_missing              | no room for a GPU's BAR
    gpu.memory.unowned              | memory of a GPU that no listed process holds
    net.mtu_apart                   | MTU smaller than the other host's
    fabric.unmanaged                | no manager for the fabric of the GPUs
    kernel.nvidia_absent            | the NVIDIA driver has not written a line since boot
    kernel.panic                    | the kernel crashed: {value}
    pcie.gpu_count                  | {value} GPUs are on the PCIe bus
    pcie.absent                     | {device} is not on the PCIe bus
    pcie.acs                        | ACS at PCIe bridge {device}: {value}
    pcie.nvswitches                 | NVSwitches that lspci lists: {value}
    pcie.buses                      | PCI buses there are: {value}
    pcie.rev_ff                     | {device} does not answer on the PCIe bus (rev ff)
    pcie.downgraded                 | the PCIe link of {device} runs below what it can
    ib.count                        | {value} InfiniBand adapters are listed
    ib.none                         | there is no RDMA device
    ib.state                        | port {device} is {value}
    ib.rate                         | port {device} runs at {value} {unit}
    ib.error                        | ibstat fails: {word}
    ib.link_downed                  | port {device} lost its link {value} times
    ib.symbol_error                 | port {device}: {value} symbol errors
    ib.link_error_recovery          | port {device} trained its link anew {value} times
    ib.link_integrity_errors        | port {device}: {value} link integrity errors
    ib.ack_timeouts                 | port {device}: {value} acknowledgements came too late
    ib.sequence_errors              | port {device}: {value} packets were asked for again
    ib.roce_adp_retrans             | port {device} sent {value} packets again
    ib.absent                       | adapter {device}, which other hosts have, is not listed
    ib.wait_contrast                | ports here waited {value} times as long to send as on the calmest host
    net.rx_discards                 | {device} threw away {value} packets
    fabric.degraded                 | {attrs.leaf} port {attrs.port}: {attrs.width}, could be {attrs.could} | {value} links of leaf {attrs.leaf} are degraded
    fabric.sm                       | subnet manager: {value}
    module.loaded                   | kernel module {device} loaded: {value}
    cpu.governor                    | processors run with the {value} governor
    proc.orphan                     | process {attrs.pid} of no running job holds {value} {unit} on {device}
    mem.memlock_kib                 | jobs may lock {value} {unit} of memory only
    mem.oom_kills                   | {value} processes were killed for memory
    ipmi.sensor                     | the BMC's sensor {attrs.sensor} is beyond its limit: {attrs.text}
    ipmi.inlet                      | inlet air has {value} °{unit}
    ipmi.event                      | hardware event{attrs.when}: {attrs.sensor}, {attrs.text} | hardware event: {value}
    env.NCCL_P2P_DISABLE            | the job sets NCCL_P2P_DISABLE={value}
    env.NCCL_IB_DISABLE             | the job sets NCCL_IB_DISABLE={value}
    vers.arch_missing               | PyTorch of the image was not built for {value}
    vers.extension_mismatch         | {value} was built for PyTorch {attrs.built_for}, the image has {attrs.torch}
    service.event                   | service {device}: {word}
    service.state                   | service {device} is {attrs.trouble} ({value}) | service {device} is {value}
    proc.stopped                    | a signal stopped {value} ({attrs.pid}) of {attrs.unit} | a signal stopped {value} ({attrs.pid}) of job {attrs.job}
    disk.readonly                   | {device} ({attrs.fstype}) is mounted read-only | {device} is mounted read-only
    proc.blocked                    | process {value} ({attrs.pid}) waits in the kernel, {attrs.looks} looks long | process {value} waits in the kernel
    disk.used_percent               | {device} is {value} {unit} full
    disk.inodes_percent             | {device} has used {value} {unit} of its inodes
    job.error                       | the job's log: {word}
    check.not_understood            | {value} {attrs.of} that I do not know: {attrs.first} | {value} lines may tell of trouble and are of no kind that I know: {attrs.first} | I cannot read this kind of output
    docker.nvidia_runtime           | container runtime for NVIDIA known: {value}
    time.offset                     | the clock is off by {value} {unit}
    sched.state                     | out of service, {value}: {attrs.why} | out of service, {value}
    sched.reason                    | the scheduler has the node out of service: {value}
    sched.gpus                      | Kubernetes can give out {value} GPUs of {attrs.capacity}
    store.mount                     | shared file system {device}: {value}
    base.broken                     | {device}: {word}
    base.answer                     | {device} is answered with {word}
    base.count                      | {device}: {value}
    proc.hog                        | {device} uses {value} cores and belongs to no job
    peer.differs                    | {device}: {value} here, {attrs.most} on {attrs.hosts} of {attrs.of} hosts
    past.differs                    | {device}: {value} now, {attrs.before} before
    cuda.ok                         | CUDA works on {device}: {value}
    sdc.mismatches                  | {device} computed the same thing {value} times with other results
    gemm.errors                     | {value} results of {device} differ under load
    gemm.died                       | the load ended on {device} before its time
    dcgm.failed                     | DCGM fails on {device}: {value}
    nccl.suspect                    | all-gathers with this host: {value}
    nccl.slow_leaf                  | all-gathers behind leaf switch {value} are slow
    nccl.wrong                      | all-reduce counted {value} wrong elements
    nccl.busbw_max                  | all-reduce reaches {value} {unit}
    nccl.failure                    | nccl-tests did not run: {word}
    expect.compute                  | {device} at an SM clock of {attrs.clock} of {attrs.usual} MHz: {attrs.seen} TFLOP/s of {attrs.expected} expected
    expect.gemm                     | {device} computes {attrs.seen} TFLOP/s of {attrs.expected} expected
    expect.h2d                      | copies to {device} reach {attrs.seen} GB/s of {attrs.expected} expected over {attrs.link}
    expect.d2h                      | copies from {device} reach {attrs.seen} GB/s of {attrs.expected} expected over {attrs.link}
    expect.busbw                    | all-reduce of {attrs.ranks} GPUs reaches {attrs.seen} GB/s of {attrs.expected} expected
    step.diverged                   | the same training steps give another loss on {device}
    bw.h2d                          | copies to {device} reach {value} {unit}
    bw.d2h                          | copies from {device} reach {value} {unit}
    p2p.bw                          | {device} reaches its best peer at {value} {unit}
    ib.write_bw                     | RDMA writes over {device} reach {value} {unit}
""")


def format_fact(
    key: str, value: object, device: str | None = None, unit: str = "", attrs: Mapping[str, Any] | None = None, line: str = ""
) -> str:
    """Use its row, else its readable source line, else its key's meaning."""
    has = attrs or {}
    row = next((row for row in FACT_TEXTS.get(key, ()) if all(name in has for name in ATTRS_PATTERN.findall(row))), None)
    if row is not None:
        return " ".join(fill_slots(row, value, device, unit, has).split())[: 2 * MAX_READABLE_CHARS]
    if line and is_readable_line(line):
        return line.strip()
    known_key = find_key(key)
    meaning = f"{known_key.means.partition(';')[0].partition(':')[0]}: " if known_key else f"{key}: "
    return f"{f'{device}: ' if device else ''}{meaning}{_format_value(value)} {unit}".strip()[: 2 * MAX_READABLE_CHARS]


def fill_slots(
    words: str, value: object, device: str | None, unit: str, attrs: Mapping[str, Any] | None = None, expected: object = None,
    majority: object = None,
) -> str:  # fmt: skip
    """Fill a text's slots; unknown values read `?`."""
    word = value.replace("_", " ") if isinstance(value, str) else value
    slot_values = {"value": value, "word": word, "device": device or "the host", "unit": unit, "expected": expected, "majority": majority}

    def of(slot: re.Match[str]) -> str:
        name = slot[1]
        if name == "size":
            return _format_bytes(value)
        if name.startswith("attrs."):
            attribute = (attrs or {}).get(name.removeprefix("attrs."))
            return "?" if attribute is None else str(attribute)
        return "?" if slot_values[name] is None else _format_value(slot_values[name])

    return SLOT_PATTERN.sub(of, words)


def is_readable_line(line: str) -> bool:
    """Return whether a raw line is short, and no XML, /sys path, JSON, table row or kernel prefix."""
    row = line.strip()
    strange = ("</", "/>", "/sys/", '{"', '":', " ==(", "|", "kern  :", "  ")
    return (
        0 < len(row) <= MAX_READABLE_CHARS and not row.startswith("<") and not any(mark in row for mark in strange) and row.count(",") < 4
    )


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if value == round(value) else f"{value:,.3g}" if abs(value) < 100 else f"{value:,.1f}"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _format_bytes(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "?"
    amount, units = float(value), ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while abs(amount) >= 1024 and len(units) > 1:
        amount, units = amount / 1024, units[1:]
    return f"{amount:.0f} {units[0]}" if amount == round(amount) else f"{amount:.1f} {units[0]}"
