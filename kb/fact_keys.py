"""Vocabulary of facts: every key that a parser may emit and a taxonomy expression may read.

Both are checked against this table, so a typo cannot become a silent "healthy".
"""

from dataclasses import dataclass
from typing import Literal

ValueKind = Literal["bool", "int", "float", "str", "list"]
KeyScope = Literal["host", "gpu", "link", "hca", "bridge", "service", "module", "mount", "process", "nvswitch", "disk", "netdev", "rank"]
IDENTIFIER_KEYS = frozenset({"kernel.xid", "nvlink.worst_link", "kernel.sxid"})  # integers that identify something


@dataclass(frozen=True, slots=True)
class FactKey:
    """A name ending in `.*` admits any last part (job environment variables)."""

    name: str
    kind: ValueKind
    scope: KeyScope
    unit: str
    means: str
    text: bool = False  # a tenant can write the value (log text, process names, environment): low trust

    @property
    def is_quantity(self) -> bool:
        """Codes and link numbers are identifiers."""
        return self.kind in ("int", "float") and self.name not in IDENTIFIER_KEYS


def _parse_keys(text: str) -> tuple[FactKey, ...]:
    rows = []
    for line in filter(None, (line.strip() for line in text.splitlines())):
        name, kind, scope, unit, means = (part.strip() for part in line.split("|"))
        low_trust = name.startswith(("job.", "env.", "vers.", "container.", "site.log.")) or (name.startswith("proc.") and kind == "str")
        rows.append(FactKey(name, kind, scope, unit, means, low_trust))  # type: ignore[arg-type]  # a test checks every row
    return tuple(rows)


# name | kind | scope | unit | means
KEYS = _parse_keys("""
    host.boot_id                     | str   | host    |      | kernel boot id at the time of looking
    host.booted_at                   | str   | host    |      | ISO time of the last boot
    host.reachable                   | bool  | host    |      | false when no session could be had although other hosts of the incident answered
    host.access                      | str   | host    |      | what keeps us out of a host that may be well: changed_key unlisted_key refused login_refused our_side
    driver.version                   | str   | host    |      | NVIDIA driver as nvidia-smi or the module reports it
    driver.cuda_version              | str   | host    |      | newest CUDA the driver supports
    driver.library_version           | str   | host    |      | user-space NVML/libcuda version
    driver.module_version            | str   | host    |      | version of the loaded nvidia kernel module
    driver.installed_version         | str   | host    |      | version of the nvidia module on disk for this kernel
    driver.mismatch                  | bool  | host    |      | user-space and loaded module differ
    driver.fabricmanager_version     | str   | host    |      | version of the fabric manager's program
    driver.fabricmanager_mismatch    | bool  | host    |      | that version is neither the loaded module's nor that of the one on disk
    smi.error                        | str   | host    |      | nvidia-smi failed as a whole: driver_library_mismatch driver_not_loaded no_devices gpu_lost unknown_error insufficient_permissions hang
    gpu.count                        | int   | host    |      | GPUs nvidia-smi can talk to
    gpu.bdf                          | str   | gpu     |      | PCI address, domain:bus:device.function in lower case
    gpu.uuid                         | str   | gpu     |      | UUID
    gpu.product                      | str   | gpu     |      | product name
    gpu.serial                       | str   | gpu     |      | serial number
    gpu.part                         | str   | gpu     |      | part number of the board
    gpu.module                       | str   | gpu     |      | number of the module on its baseboard (NVIDIA's Module ID)
    gpu.vbios                        | str   | gpu     |      | VBIOS version
    gpu.lost                         | bool  | gpu     |      | nvidia-smi says that the GPU is lost or answers ERR for every field
    gpu.inforom_corrupt              | bool  | gpu     |      | infoROM warning
    gpu.field_errors                 | list  | gpu     |      | fields that nvidia-smi answers with Unknown Error, ERR! or "GPU requires reset"
    gpu.missing                      | bool  | gpu     |      | a GPU of this host that nvidia-smi does not list although it lists others
    gpu.recovery_action              | str   | gpu     |      | action the driver asks for: None Reset Reboot Drain_P2P Drain_and_Reset
    gpu.ecc.enabled                  | bool  | gpu     |      | ECC mode now
    gpu.ecc.dram_uncorrectable       | int   | gpu     |      | volatile uncorrectable DRAM errors
    gpu.ecc.dram_correctable         | int   | gpu     |      | volatile correctable DRAM errors
    gpu.ecc.sram_uncorrectable       | int   | gpu     |      | volatile uncorrectable SRAM errors (parity plus SEC-DED)
    gpu.ecc.sram_correctable         | int   | gpu     |      | volatile correctable SRAM errors
    gpu.ecc.dram_uncorrectable_total | int   | gpu     |      | aggregate uncorrectable DRAM errors
    gpu.ecc.dram_correctable_total   | int   | gpu     |      | aggregate correctable DRAM errors
    gpu.ecc.sram_uncorrectable_total | int   | gpu     |      | aggregate uncorrectable SRAM errors
    gpu.ecc.sram_correctable_total   | int   | gpu     |      | aggregate correctable SRAM errors
    gpu.ecc.sram_threshold_exceeded  | bool  | gpu     |      | SRAM error threshold exceeded
    gpu.remap.pending                | bool  | gpu     |      | a row remap waits for the next reset
    gpu.repair.channel_pending       | bool  | gpu     |      | a repair of a memory channel waits for the next reset (Blackwell)
    gpu.repair.tpc_pending           | bool  | gpu     |      | a repair of a compute unit waits for the next reset (Blackwell)
    gpu.memory.unrepairable          | bool  | gpu     |      | memory that the GPU can repair no more (Blackwell)
    gpu.remap.failure                | bool  | gpu     |      | a row remap failed
    gpu.remap.correctable            | int   | gpu     |      | rows remapped for correctable errors
    gpu.remap.uncorrectable          | int   | gpu     |      | rows remapped for uncorrectable errors
    gpu.remap.bank_low               | int   | gpu     |      | banks with low or no remap rows left
    gpu.retired.pending              | bool  | gpu     |      | page retirement pending (before Ampere)
    gpu.retired.pages                | int   | gpu     |      | pages retired (before Ampere)
    gpu.clock.sm                     | int   | gpu     | MHz  | SM clock now
    gpu.clock.sm_max                 | int   | gpu     | MHz  | SM clock at most
    gpu.clock.memory                 | int   | gpu     | MHz  | memory clock now
    gpu.clock.app                    | int   | gpu     | MHz  | applications clock, graphics
    gpu.throttle.hw_slowdown         | bool  | gpu     |      | clocks event reason
    gpu.throttle.hw_thermal          | bool  | gpu     |      | clocks event reason
    gpu.throttle.hw_power_brake      | bool  | gpu     |      | clocks event reason
    gpu.throttle.sw_power_cap        | bool  | gpu     |      | clocks event reason
    gpu.throttle.sw_thermal          | bool  | gpu     |      | clocks event reason
    gpu.throttle.applications_clocks | bool  | gpu     |      | clocks event reason: applications clocks setting
    gpu.throttle.sync_boost          | bool  | gpu     |      | clocks event reason
    gpu.throttle.idle                | bool  | gpu     |      | clocks event reason
    gpu.temp.core                    | int   | gpu     | C    | core temperature
    gpu.temp.memory                  | int   | gpu     | C    | memory temperature
    gpu.temp.slowdown                | int   | gpu     | C    | temperature at which the hardware slows down
    gpu.power.draw                   | float | gpu     | W    | power drawn
    gpu.power.limit                  | float | gpu     | W    | power limit in force
    gpu.power.default                | float | gpu     | W    | default power limit
    gpu.pcie.gen                     | int   | gpu     |      | PCIe generation now (drops when idle: compare under load or with lspci)
    gpu.pcie.gen_max                 | int   | gpu     |      | PCIe generation at most
    gpu.pcie.width                   | int   | gpu     |      | PCIe lanes now
    gpu.pcie.width_max               | int   | gpu     |      | PCIe lanes at most
    gpu.pcie.replay                  | int   | gpu     |      | PCIe replays
    gpu.compute_mode                 | str   | gpu     |      | Default Exclusive_Process Prohibited
    gpu.mig                          | bool  | gpu     |      | MIG enabled now
    gpu.persistence                  | bool  | gpu     |      | persistence mode
    gpu.fabric.state                 | str   | gpu     |      | Completed In Progress Not Started Not Supported
    gpu.fabric.status                | str   | gpu     |      | Success or the error
    gpu.fabric.health                | str   | gpu     |      | fabric health summary where the driver prints one
    gpu.memory.used                  | int   | gpu     | MiB  | frame buffer used
    gpu.memory.unowned               | int   | gpu     | MiB  | frame buffer used on a GPU of which the same look lists no process
    gpu.memory.total                 | int   | gpu     | MiB  | frame buffer in all
    gpu.util                         | int   | gpu     | %    | GPU utilisation
    gpu.processes                    | int   | gpu     |      | processes nvidia-smi lists on the GPU
    topo.nvlinked                    | int   | gpu     |      | peer GPUs it reaches over NVLink
    topo.peers                       | int   | gpu     |      | peer GPUs in the matrix
    topo.nvlink_width                | int   | gpu     |      | fewest NVLinks to any NVLinked peer (NV18 = 18)
    topo.missing                     | bool  | gpu     |      | the GPU reaches no peer over NVLink although others do
    topo.nics                        | int   | host    |      | NICs in the matrix
    nvlink.active                    | int   | gpu     |      | links that are up
    nvlink.inactive                  | int   | gpu     |      | links that are down
    nvlink.speed                     | float | gpu     | GB/s | speed of the slowest link that is up
    nvlink.crc_errors                | int   | gpu     |      | CRC errors over all links
    nvlink.replay_errors             | int   | gpu     |      | replay errors over all links
    nvlink.recovery_errors           | int   | gpu     |      | recovery errors over all links
    nvlink.worst_link                | int   | gpu     |      | link with the most errors
    kernel.xid                       | int   | gpu     |      | Xid code; attrs: bdf pid name count first last detail gpc tpc sm link mig recovery sympathetic meaning resolution
    kernel.xid_repeat                | str   | gpu     |      | repeat rule over Xid 13 and 31 of this boot: same_tpc same_gpu scattered; attrs: xid count gpus (kb.catalogues.xid.classify_repeats)
    kernel.sxid                      | int   | nvswitch|      | NVSwitch SXid; attrs: fatal link count first last detail meaning unit listed
    kernel.nvlink5                   | str   | gpu     |      | decoded NVLink5 Xid 144-150: unit and error; attrs: xid severity link resolution
    kernel.oom_kill                  | str   | host    |      | process killed for memory; attrs: pid cgroup(bool) count first last
    kernel.segfault                  | str   | host    |      | library in which a process crashed; attrs: process pid count
    kernel.mlx5                      | str   | hca     |      | cable_unplugged module_removed link_down link_up health_compromised access_reg cmd_timeout fw_fatal temperature tx_timeout; attrs: count queue
    kernel.net                       | str   | host    |      | tx_timeout bond_down bond_slave_down of a network interface; attrs: driver queue slave count
    kernel.iommu_fault               | str   | bridge  |      | a device was denied memory by the IOMMU: which access; attrs: reason count
    kernel.cpu_thermal               | str   | host    |      | a processor is slowed down by heat: Core or Package; attrs: cpu count
    kernel.gpu_watchdog              | str   | host    |      | the driver's watchdog calls a GPU locked; attrs: count
    kernel.ib_link                   | str   | hca     |      | lost_carrier or gained_carrier of an IB device; attrs: count
    kernel.aer                       | str   | bridge  |      | PCIe AER severity: corrected nonfatal fatal; attrs: error count
    kernel.pcie_hotplug              | str   | bridge  |      | link_down or card_not_present; attrs: slot
    kernel.pcie_limited              | str   | gpu     |      | "available PCIe bandwidth, limited by": the bandwidth said
    kernel.soft_lockup               | str   | host    |      | soft_lockup hard_lockup hung_task rcu_stall; attrs: cpu process seconds
    kernel.nfs_timeout               | str   | host    |      | NFS or Lustre server not responding; attrs: count
    kernel.fs_readonly               | str   | mount   |      | filesystem remounted read-only
    kernel.disk_error                | str   | disk    |      | nvme_timeout nvme_reset io_error
    kernel.mce                       | str   | host    |      | machine check: corrected or fatal
    kernel.gpu_thermal               | str   | gpu     |      | GPU temperature message of the driver
    kernel.inforom                   | str   | gpu     |      | infoROM message of the driver
    kernel.gpu_init                  | str   | gpu     |      | the driver could not start a GPU: failed or probe_failed; attrs: code
    kernel.driver_mismatch           | str   | host    |      | "API mismatch" versions
    kernel.nouveau                   | bool  | host    |      | nouveau claimed the GPU
    kernel.module_refused            | str   | host    |      | the kernel or a security policy refused the driver's module: unsigned or policy
    kernel.bar_missing               | str   | gpu     |      | number of the BAR for which the firmware left no room
    kernel.nvidia_absent             | bool  | host    |      | no NVRM line since boot although the log reaches back to it
    kernel.peermem                   | str   | host    |      | nvidia-peermem message
    kernel.panic                     | str   | host    |      | kernel panic or oops
    fabric.unmanaged                 | bool  | host    |      | GPUs wait for their fabric and its manager does not run
    pcie.gpu_count                   | int   | host    |      | NVIDIA display or 3D functions that lspci lists
    pcie.absent                      | bool  | gpu     |      | a GPU of the SKU's bus table that lspci does not list although it lists others
    pcie.rev_ff                      | bool  | gpu     |      | lspci prints rev ff: the device does not answer
    pcie.speed                       | float | gpu     | GT/s | link speed now (LnkSta)
    pcie.speed_max                   | float | gpu     | GT/s | link speed the device can (LnkCap)
    pcie.width                       | int   | gpu     |      | lanes now (LnkSta)
    pcie.width_max                   | int   | gpu     |      | lanes the device can (LnkCap)
    pcie.downgraded                  | bool  | gpu     |      | LnkSta width below LnkCap, or speed marked downgraded
    pcie.acs                         | bool  | bridge  |      | ACS source validation on
    pcie.nvswitches                  | list  | host    |      | PCI addresses of the NVSwitches that lspci lists
    pcie.buses                       | list  | host    |      | PCI buses with a bridge on them or behind one, as 0000:17
    ib.count                         | int   | host    |      | HCAs that ibstat lists
    ib.state                         | str   | hca     |      | Active Down Initializing Armed
    ib.phys_state                    | str   | hca     |      | LinkUp Disabled Polling Sleep
    ib.rate                          | int   | hca     | Gb/s | rate
    ib.link_layer                    | str   | hca     |      | InfiniBand or Ethernet
    ib.lid                           | int   | hca     |      | base LID
    ib.sm_lid                        | int   | hca     |      | LID of the subnet manager, 0 when there is none
    ib.firmware                      | str   | hca     |      | firmware version
    ib.guid                          | str   | hca     |      | GUID of the port
    ib.bdf                           | str   | hca    |      | PCI address
    ib.none                          | bool  | host    |      | the kernel has no RDMA device at all
    ib.absent                        | bool  | hca     |      | an adapter of the other hosts that is missing between two that ibstat lists here
    ib.wait_contrast                 | float | host    |      | how many times longer the ports here waited to send than those of the calmest host; attrs: ticks
    ib.error                         | str   | host    |      | ibstat failed: ibpanic no_devices
    ib.pkeys                         | list  | hca     |      | partition keys
    ib.link_downed                   | int   | hca     |      | counter
    ib.symbol_error                  | int   | hca     |      | counter
    ib.link_error_recovery           | int   | hca     |      | counter: how often the port trained its link anew; 255 is its end
    ib.link_integrity_errors         | int   | hca     |      | counter: local_link_integrity_errors
    ib.ack_timeouts                  | int   | hca     |      | counter: acknowledgements that did not come in time (local_ack_timeout_err)
    ib.sequence_errors               | int   | hca     |      | counter: packets that were asked for again (packet_seq_err)
    ib.port_rcv_errors               | int   | hca     |      | counter
    ib.port_xmit_wait                | int   | hca     |      | counter
    ib.out_of_sequence               | int   | hca     |      | counter
    ib.roce_adp_retrans              | int   | hca     |      | counter
    service.state                    | str   | service |      | active inactive failed activating deactivating not-found; attrs: sub result trouble (what is wrong with it: failed masked broken restarting frozen starting stopping stopped) restarts
    service.event                    | str   | service |      | fm_version_mismatch fm_nvswitch_fatal fm_nothing_to_do fm_killed oom_killed upgrade_ran daemon_reload no_gpu_driver driver_timed_out config_error failed_start slurmd_fatal module_missing imex_error fm_error munge_error; attrs: text
    module.loaded                    | bool  | module  |      | kernel module loaded
    module.dkms                      | str   | module  |      | dkms state: installed built added failed
    kernel.release                   | str   | host    |      | uname -r
    disk.used_percent                | int   | mount   | %    | space used
    disk.free_bytes                  | int   | mount   | B    | space free
    disk.size_bytes                  | int   | mount   | B    | size
    disk.inodes_percent              | int   | mount   | %    | inodes used
    disk.readonly                    | bool  | mount   |      | mounted read-only
    mem.total_bytes                  | int   | host    | B    | memory
    mem.available_bytes              | int   | host    | B    | memory available
    mem.swap_used_bytes              | int   | host    | B    | swap used
    mem.memlock_kib                  | int   | host    | KiB  | locked-memory limit of jobs' own processes, or of what starts jobs; -1 for unlimited; attrs: of pid processes
    mem.oom_kills                    | int   | host    |      | oom_kill events over job cgroups; attrs: cgroup limit(bool: a group had come to its own limit)
    env.*                            | str   | host    |      | one variable of the job's environment (NCCL_*, CUDA_VISIBLE_DEVICES, MASTER_*, WORLD_SIZE, RANK, LD_LIBRARY_PATH …)
    job.error                        | str   | rank    |      | error class in the job's log; attrs: first(bool: earliest rank) time rank detail plus what the class carries
    job.ranks                        | int   | host    |      | ranks whose logs were seen
    job.first_error_rank             | str   | host    |      | rank with the earliest error
    job.nccl_version                 | str   | rank    |      | NCCL version a rank prints; attrs: rank
    job.log                          | bool  | host    |      | a job log was found
    proc.hog                         | float | process |      | cores that processes of one name use beside any job; attrs: share(of all cores) processes uid
    base.rows                        | list  | host    |      | what the host looks like in one respect, as NAME = VALUE; the device is the kind: system sysctl module mount route service …
    base.count                       | int   | host    |      | zombie blocked stopped processes, and per cents of what may run out; the device says which
    base.answer                      | str   | host    |      | what a question was answered with: ok timeout refused no_name no_answer servfail error; the device is the question
    base.broken                      | str   | host    |      | what is wrong with a part of the host whatever its peers have: frozen missing empty no_device not_mounted …; the device is the part
    peer.differs                     | str   | host    |      | what the host has where most of its peers have something else; the device is KIND NAME; attrs: most of hosts
    past.differs                     | str   | host    |      | what the host has where it had something else when it was last seen; the device is KIND NAME; attrs: before since
    proc.listed                      | int   | host    |      | processes that ps lists
    proc.gpu_memory                  | int   | gpu     | MiB  | memory one process holds; attrs: pid name job ppid user
    proc.orphan                      | int   | gpu     | MiB  | memory held by a process of no running job; attrs: pid name user
    proc.blocked                     | str   | process |      | process in uninterruptible sleep; attrs: pid looks(int: in how many looks, one after the other)
    proc.stopped                     | str   | process |      | process that was stopped by a signal and does not run; attrs: pid user unit job
    proc.busy_kernel                 | str   | process |      | kernel thread at 100 % CPU
    nccl.busbw_avg                   | float | host    | GB/s | average bus bandwidth
    nccl.busbw_max                   | float | host    | GB/s | plateau: best bus bandwidth
    nccl.busbw_at                    | float | host    | GB/s | bus bandwidth of one size; attrs: size
    nccl.wrong                       | int   | host    |      | wrong elements
    nccl.ranks                       | int   | host    |      | ranks that took part
    nccl.degenerate                  | bool  | host    |      | one rank only: the figures mean nothing
    nccl.failure                     | str   | host    |      | why it did not run: cuda_802 devices_busy nvml_not_found not_enough_slots init_failed below_minimum missing_tool other
    nccl.pair_busbw                  | float | host    | GB/s | best all-gather bandwidth of the small groups this host was tested in; attrs: with round
    nccl.suspect                     | str   | host    |      | what the two-round test makes of this host: clean slow failed; attrs: with
    nccl.slow_leaf                   | str   | host    |      | its group was slow inside one leaf switch and no single host is to blame: the leaf
    cuda.devices                     | int   | host    |      | GPUs that CUDA counts
    cuda.ok                          | bool  | gpu     |      | CUDA made a context there, wrote memory and read the same back
    cuda.error                       | str   | gpu     |      | CUDA's error by name: no_device invalid_device mismatch not_ready unavailable ecc launch_failed unknown other; attrs: code step
    cuda.mig                         | bool  | gpu     |      | CUDA sees a slice where a whole GPU should be
    cuda.compute_mode                | str   | gpu     |      | whom CUDA lets in: Default Exclusive_Thread Prohibited Exclusive_Process
    bw.h2d                           | float | gpu     | GB/s | host to GPU copy, pinned memory
    bw.d2h                           | float | gpu     | GB/s | GPU to host copy, pinned memory
    p2p.bw                           | float | gpu     | GB/s | best copy between this GPU and a peer, reading; attrs: worst worst_peer
    p2p.worst                        | float | gpu     | GB/s | slowest copy between this GPU and a peer, reading; attrs: peer
    gemm.tflops                      | float | gpu     |      | matrix products under full load, TFLOP/s
    gemm.share                       | float | gpu     |      | the same as a share of the median GPU of the run
    expect.compute                   | float | gpu     |      | part of its speed that a GPU has at the SM clock it shows while it is not idle; attrs: clock usual seen expected
    expect.gemm                      | float | gpu     |      | matrix products against those of most GPUs of the same model; attrs: seen expected clock usual
    expect.h2d                       | float | gpu     |      | copies from the host against what the GPU's link carries; attrs: seen expected link
    expect.d2h                       | float | gpu     |      | copies to the host against what the GPU's link carries; attrs: seen expected link
    expect.busbw                     | float | host    |      | bus bandwidth within the host against what its NVLinks carry; attrs: seen expected ranks
    gemm.temp                        | int   | gpu     | C    | core temperature at the end of the load
    gemm.errors                      | int   | gpu     |      | results that differ from the first one of the same product
    gemm.died                        | bool  | gpu     |      | the load ended on this GPU before its time
    sdc.mismatches                   | int   | gpu     |      | results that differ between repeats of one computation
    dcgm.failed                      | str   | gpu     |      | a DCGM test that failed; attrs: level reason text
    dcgm.reason                      | str   | gpu     |      | why: row_remap_pending row_remap_failure sram_threshold inforom dbe thermal cuda_init pcie memory nvlink power memory_in_use setting other
    dcgm.passed                      | int   | host    |      | DCGM tests that passed
    dcgm.not_run                     | list  | host    |      | DCGM tests that were skipped: neither passed nor failed
    dcgm.error                       | str   | host    |      | DCGM itself did not run: no_engine busy unsupported other
    ib.write_bw                      | float | hca     | Gb/s | RDMA writes from host memory, best of the peers tried; attrs: peer
    ib.write_bw_cuda                 | float | hca     | Gb/s | RDMA writes from GPU memory, best of the peers tried; attrs: peer
    ib.write_failed                  | str   | hca     |      | RDMA writes did not run: no_peer no_device no_completion no_gpu_memory other; attrs: peer cuda
    step.ms                          | float | gpu     | ms   | one step of a small training loop
    step.share                       | float | gpu     |      | the same as a multiple of the median GPU of the run
    step.data_share                  | float | host    |      | part of the loop's time that the processors needed to make the data
    step.diverged                    | bool  | gpu     |      | the same steps gave another loss than on the other GPUs
    check.no_target                  | str   | host    |      | a setting of the inventory that a question needs and nobody has set: it was not asked
    check.left_out                   | str   | host    |      | a command whose output was too long to be taken whole: read was only what matters of it
    check.not_understood             | int   | host    |      | lines of an output that no reader knows and that may tell of trouble; attrs: lines(first three) of(what they are)
    check.foreign                    | int   | host    |      | events in a text that was handed in, of GPUs that no host of the incident has; attrs: bdf(of the first)
    check.skipped                    | str   | host    |      | why a check was not run: busy not_known no_tool no_device; attrs: text
    docker.runtimes                  | list  | host    |      | runtimes the container engine knows
    docker.nvidia_runtime            | bool  | host    |      | an NVIDIA runtime is among them
    docker.cgroup_driver             | str   | host    |      | systemd or cgroupfs
    container.status                 | str   | process |      | created running exited dead of a GPU container; attrs: name image exit oom started
    container.shm_bytes              | int   | process | B    | size of /dev/shm of a GPU container of its own
    container.cuda                   | str   | process |      | CUDA of a container's image by its labels and variables
    container.nvml                   | str   | process |      | nvidia-smi inside a GPU container: ok unknown_error no_devices driver_library_mismatch failed
    vers.torch                       | str   | process |      | PyTorch of the job's image; device is the container, none for the host
    vers.cuda                        | str   | process |      | CUDA that PyTorch was built for
    vers.cudnn                       | str   | process |      | cuDNN that is loaded
    vers.cudnn_mismatch              | bool  | process |      | another cuDNN is loaded than PyTorch was built with; attrs: built
    vers.nccl                        | str   | process |      | NCCL of the image
    vers.nccl_known_bad              | str   | process |      | what the NCCL of the image is known for: crash hang corruption slow; attrs: version fixed where meaning source
    vers.archs                       | list  | process |      | GPU architectures PyTorch was built for: sm_90 compute_90
    vers.arch_missing                | str   | process |      | architecture of this host's GPUs that PyTorch was not built for
    vers.cuda_too_new                | str   | process |      | CUDA of the image, newer than the driver supports; attrs: supported major(bool)
    vers.extension_mismatch          | str   | process |      | extension built for another PyTorch; attrs: built_for torch
    cpu.governor                     | str   | host    |      | frequency governor most CPUs use; attrs: driver cpus
    cpu.mhz                          | int   | host    | MHz  | median frequency of the CPUs now
    cpu.count                        | int   | host    |      | logical CPUs
    cpu.numa_nodes                   | int   | host    |      | NUMA nodes
    time.synchronised                | bool  | host    |      | the clock is kept by a time source
    time.offset                      | float | host    | s    | how far the clock is off: by its time source, else against the clock of RackMedic; attrs: against
    time.clock                       | float | host    | s    | the node's clock, seconds since 1970
    net.state                        | str   | netdev  |      | UP DOWN UNKNOWN
    net.mtu_apart                    | int   | netdev  |      | MTU of an interface that is smaller than that of the only other host seen; attrs: other peer
    net.mtu                          | int   | netdev  |      | MTU
    net.rx_dropped                   | int   | netdev  |      | packets received and dropped by the host
    net.rx_errors                    | int   | netdev  |      | receive errors
    net.rx_discards                  | int   | netdev  |      | packets received and discarded by the adapter
    net.pause                        | int   | netdev  |      | pause frames received and sent
    net.tracker                      | str   | host    |      | the site's experiment tracker, asked for headers with a time limit: ok throttled error refused timeout no_name tls other; attrs: status
    net.master_reach                 | str   | host    |      | reaching the job's master from here: ok refused filtered no_name
    fabric.sm                        | str   | host    |      | subnet manager as seen from here: MASTER STANDBY none
    fabric.leaf                      | str   | host    |      | leaf switch behind the first InfiniBand port
    fabric.degraded                  | int   | host    |      | links of the leaf to other switches that run narrower or slower than they can; attrs: leaf
    sched.state                      | str   | host    |      | state the scheduler gives the node, parts joined by +; attrs: reason by since why
    sched.reason                     | str   | host    |      | reason the scheduler gives for the node's state; attrs: told (in words of Slurm itself: gpus_missing kill_task_failed not_responding batch_job_failure prolog_failed rebooted hardware_missing, or of a kubelet: not_responding runtime_down) by since
    sched.partitions                 | list  | host    |      | partitions that Slurm counts the node to
    sched.job                        | str   | host    |      | how the scheduler ended the latest job here: COMPLETED FAILED CANCELLED PREEMPTED NODE_FAIL OUT_OF_MEMORY TIMEOUT DEADLINE RUNNING; attrs: job exit uid(of who cancelled it)
    sched.running                    | list  | host    |      | ids of the jobs that the scheduler runs on the node; attrs: users
    sched.pods                       | list  | host    |      | pods on the node, as namespace/name, but those that stay; attrs: gpus count owners
    sched.gpus                       | int   | host    |      | GPUs that Kubernetes can give to pods there; attrs: capacity
    store.mount                      | str   | mount   |      | shared file system, asked with a time limit: ok timeout stale error; attrs: fstype text
    store.object                     | str   | host    |      | the site's object store, asked for headers with a time limit: ok throttled error refused timeout no_name tls other; attrs: status
    ipmi.inlet                       | int   | host    | C    | inlet air temperature
    ipmi.event                       | str   | host    |      | hardware event of the BMC: psu fan pcie memory cpu temperature voltage watchdog os_stop leak drive cable firmware; attrs: text sensor count when
    ipmi.sensor                      | str   | host    |      | a fan, power supply or temperature sensor in trouble: psu fan temperature; attrs: sensor text
    site.log.*                       | str   | host    |      | what a rule of the site itself found in a log of a job or of the kernel; attrs: count first last rank wrong
    site.*                           | str   | host    |      | what a check of the site itself found; its file says the kind; attrs: wrong
""")

KEYS_BY_NAME = {key.name: key for key in KEYS}


def find_key(name: str) -> FactKey | None:
    """Return the row that admits `name`, or None."""
    if name in KEYS_BY_NAME:
        return KEYS_BY_NAME[name]
    return KEYS_BY_NAME.get(name.rpartition(".")[0] + ".*")
