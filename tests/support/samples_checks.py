"""Synthetic, short outputs of every command, for parsers without a published capture."""

import json

from tests.support.samples_exclusive import EXCLUSIVE

SMI_XML = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <timestamp>Wed May 20 03:10:00 2026</timestamp>
  <driver_version>550.90.07</driver_version>
  <cuda_version>12.4</cuda_version>
  <attached_gpus>2</attached_gpus>
  <gpu id="00000000:19:00.0">
    <product_name>NVIDIA H100 80GB HBM3</product_name>
    <persistence_mode>Enabled</persistence_mode>
    <mig_mode><current_mig>Disabled</current_mig><pending_mig>Disabled</pending_mig></mig_mode>
    <mig_devices>None</mig_devices>
    <serial>1650000000001</serial>
    <uuid>GPU-11111111-1111-1111-1111-111111111111</uuid>
    <vbios_version>96.00.74.00.01</vbios_version>
    <gpu_recovery_action>None</gpu_recovery_action>
    <pci>
      <pci_gpu_link_info>
        <pcie_gen><max_link_gen>5</max_link_gen><current_link_gen>5</current_link_gen></pcie_gen>
        <link_widths><max_link_width>16x</max_link_width><current_link_width>16x</current_link_width></link_widths>
      </pci_gpu_link_info>
      <replay_counter>3</replay_counter>
    </pci>
    <clocks_event_reasons>
      <clocks_event_reason_gpu_idle>Not Active</clocks_event_reason_gpu_idle>
      <clocks_event_reason_applications_clocks_setting>Not Active</clocks_event_reason_applications_clocks_setting>
      <clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap>
      <clocks_event_reason_hw_slowdown>Not Active</clocks_event_reason_hw_slowdown>
      <clocks_event_reason_hw_thermal_slowdown>Not Active</clocks_event_reason_hw_thermal_slowdown>
      <clocks_event_reason_hw_power_brake_slowdown>Not Active</clocks_event_reason_hw_power_brake_slowdown>
      <clocks_event_reason_sync_boost>Not Active</clocks_event_reason_sync_boost>
      <clocks_event_reason_sw_thermal_slowdown>Not Active</clocks_event_reason_sw_thermal_slowdown>
    </clocks_event_reasons>
    <fb_memory_usage><total>81559 MiB</total><used>70213 MiB</used><free>11000 MiB</free></fb_memory_usage>
    <compute_mode>Default</compute_mode>
    <utilization><gpu_util>98 %</gpu_util><memory_util>61 %</memory_util></utilization>
    <ecc_mode><current_ecc>Enabled</current_ecc><pending_ecc>Enabled</pending_ecc></ecc_mode>
    <ecc_errors>
      <volatile>
        <sram_correctable>0</sram_correctable>
        <sram_uncorrectable_parity>1</sram_uncorrectable_parity>
        <sram_uncorrectable_secded>2</sram_uncorrectable_secded>
        <dram_correctable>7</dram_correctable>
        <dram_uncorrectable>0</dram_uncorrectable>
      </volatile>
      <aggregate>
        <sram_correctable>0</sram_correctable>
        <sram_uncorrectable_parity>1</sram_uncorrectable_parity>
        <sram_uncorrectable_secded>2</sram_uncorrectable_secded>
        <dram_correctable>12</dram_correctable>
        <dram_uncorrectable>4</dram_uncorrectable>
        <sram_threshold_exceeded>No</sram_threshold_exceeded>
      </aggregate>
    </ecc_errors>
    <retired_pages>
      <multiple_single_bit_retirement><retired_count>N/A</retired_count></multiple_single_bit_retirement>
      <double_bit_retirement><retired_count>N/A</retired_count></double_bit_retirement>
      <pending_retirement>N/A</pending_retirement>
    </retired_pages>
    <remapped_rows>
      <remapped_row_corr>0</remapped_row_corr>
      <remapped_row_unc>1</remapped_row_unc>
      <remapped_row_pending>Yes</remapped_row_pending>
      <remapped_row_failure>No</remapped_row_failure>
      <row_remapper_histogram>
        <row_remapper_histogram_max>2558 bank(s)</row_remapper_histogram_max>
        <row_remapper_histogram_low>1 bank(s)</row_remapper_histogram_low>
        <row_remapper_histogram_none>1 bank(s)</row_remapper_histogram_none>
      </row_remapper_histogram>
    </remapped_rows>
    <temperature>
      <gpu_temp>61 C</gpu_temp>
      <gpu_temp_tlimit>26 C</gpu_temp_tlimit>
      <gpu_temp_slow_tlimit_threshold>-2 C</gpu_temp_slow_tlimit_threshold>
      <memory_temp>70 C</memory_temp>
    </temperature>
    <gpu_power_readings>
      <power_draw>612.30 W</power_draw>
      <current_power_limit>700.00 W</current_power_limit>
      <default_power_limit>700.00 W</default_power_limit>
    </gpu_power_readings>
    <clocks><graphics_clock>1755 MHz</graphics_clock><sm_clock>1755 MHz</sm_clock><mem_clock>2619 MHz</mem_clock></clocks>
    <applications_clocks><graphics_clock>1980 MHz</graphics_clock><mem_clock>2619 MHz</mem_clock></applications_clocks>
    <max_clocks><graphics_clock>1980 MHz</graphics_clock><sm_clock>1980 MHz</sm_clock><mem_clock>2619 MHz</mem_clock></max_clocks>
    <fabric><state>Completed</state><status>Success</status><health><summary>N/A</summary><bandwidth>N/A</bandwidth></health></fabric>
    <supported_clocks><supported_mem_clock><value>2619 MHz</value></supported_mem_clock></supported_clocks>
    <processes><process_info><pid>41</pid><process_name>python3</process_name><used_memory>70000 MiB</used_memory></process_info></processes>
  </gpu>
  <gpu id="00000000:3B:00.0">
    <product_name>NVIDIA H100 80GB HBM3</product_name>
    <uuid>GPU-22222222-2222-2222-2222-222222222222</uuid>
    <clocks_throttle_reasons>
      <clocks_throttle_reason_hw_slowdown>Active</clocks_throttle_reason_hw_slowdown>
      <clocks_throttle_reason_hw_thermal_slowdown>Active</clocks_throttle_reason_hw_thermal_slowdown>
    </clocks_throttle_reasons>
    <ecc_errors>
      <volatile>
        <single_bit><device_memory>5</device_memory><register_file>1</register_file><l1_cache>N/A</l1_cache><total>6</total></single_bit>
        <double_bit><device_memory>2</device_memory><register_file>0</register_file><l2_cache>1</l2_cache><total>3</total></double_bit>
      </volatile>
    </ecc_errors>
    <retired_pages>
      <multiple_single_bit_retirement><retired_count>2</retired_count></multiple_single_bit_retirement>
      <double_bit_retirement><retired_count>1</retired_count></double_bit_retirement>
      <pending_blacklist>Yes</pending_blacklist>
    </retired_pages>
    <remapped_rows>N/A</remapped_rows>
    <temperature><gpu_temp>91 C</gpu_temp><gpu_temp_slow_threshold>89 C</gpu_temp_slow_threshold></temperature>
    <power_readings><power_draw>[Unknown Error]</power_draw><enforced_power_limit>400.00 W</enforced_power_limit></power_readings>
    <processes></processes>
  </gpu>
</nvidia_smi_log>
"""

SMI_TEXT = """
==============NVSMI LOG==============

Timestamp                                 : Wed May 20 03:10:00 2026
Driver Version                            : 535.161.08
CUDA Version                              : 12.2

Attached GPUs                             : 1
GPU 00000000:9B:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    GPU UUID                              : GPU-33333333-3333-3333-3333-333333333333
    MIG Mode
        Current                           : Disabled
        Pending                           : Disabled
    GPU Reset Status
        Reset Required                    : Yes
        Drain and Reset Recommended       : No
    Clocks Event Reasons
        Idle                              : Not Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Not Active
            HW Power Brake Slowdown       : Active
    ECC Errors
        Volatile
            SRAM Uncorrectable Parity     : 0
            SRAM Uncorrectable SEC-DED    : 4
            DRAM Uncorrectable            : 9
    Remapped Rows
        Pending                           : Yes
        Remapping Failure Occurred        : No
    GPU Power Readings
        Power Draw                        : 67.74 W
    Module Power Readings
        Power Draw                        : N/A
    Processes
        GPU instance ID                   : N/A
        Process ID                        : 4242
            Name                          : python3
"""

SMI_TABLE = """\
Wed May 20 03:10:00 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.90.07              Driver Version: 550.90.07      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:19:00.0 Off |                    3 |
| N/A   27C    P0             72W /  700W |       1MiB /  81559MiB |      0%   E. Process |
|                                         |                        |             Enabled* |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA H100 80GB HBM3          On  |   00000000:3B:00.0 Off |                    0 |
| N/A   ERR!   P0             ERR! / 700W |       1MiB /  81559MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
"""

TOPO = (
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\x1b[0m\n"
    "GPU0\t X \tNV18\tSYS\tPIX\t0-55\t0\n"
    "GPU1\tNV18\t X \tSYS\tPXB\t0-55\t0\n"
    "GPU2\tSYS\tSYS\t X \tSYS\t56-111\t1\n"
    "NIC0\tPIX\tPXB\tSYS\t X \n\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n\nNIC Legend:\n\n  NIC0: mlx5_0\n"
)

NVLINK_STATUS = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-11111111-1111-1111-1111-111111111111)
\t Link 0: 26.562 GB/s
\t Link 1: 25.781 GB/s
\t Link 2: <inactive>
GPU 1: NVIDIA L40S (UUID: GPU-22222222-2222-2222-2222-222222222222)
Device does not have or support Nvlink
GPU 2: NVIDIA H100 80GB HBM3 (UUID: GPU-33333333-3333-3333-3333-333333333333)
NVML: Unable to retrieve NVLink information as all links are inActive
"""

NVLINK_ERRORS = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-11111111-1111-1111-1111-111111111111)
\t Link 0: Replay Errors: 4
\t Link 0: Recovery Errors: 1
\t Link 0: CRC Errors: 0
\t Link 1: Replay Errors: 0
\t Link 1: Recovery Errors: 0
\t Link 1: CRC Errors: 9000
"""


def ring_line(level: str, clock: str, message: str) -> str:
    return f"kern  :{level:<6}: 2026-05-20T{clock},120000+00:00 {message}\n"


def sm_exception(pid: int, name: str, sm: int, bus: str = "9b", tpc: int = 1) -> str:
    where = f"(GPC 2, TPC {tpc}, SM {sm})"
    return f"NVRM: Xid (PCI:0000:{bus}:00): 13, pid={pid}, name={name}, Graphics SM Warp Exception on {where}: Illegal Instruction Encoding"


_WORDS = "(0x0409a0c2 0x00000008 0x00000001 0x00000000 0x00100000 0x00000004)"
_SIZES = "total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0"
RING = (
    ring_line("notice", "00:00:00", "Linux version 5.15.0-107-generic (build@host) #117 SMP")
    + ring_line("warn", "03:01:10", sm_exception(900, "python3", 0))
    + ring_line("warn", "03:01:20", sm_exception(901, "python3", 1))
    + ring_line("warn", "03:02:20", sm_exception(977, "infer", 1))
    + ring_line("warn", "03:05:00", f"NVRM: Xid (PCI:0000:19:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 {_WORDS}")
    + ring_line("err", "03:05:01", f"Out of memory: Killed process 4100 (python3) {_SIZES}")
)

BOOT_ID = "0f8fad5b-d9cb-469f-a165-70867728950e\n"
_NOW, _BEFORE = "0f8fad5bd9cb469fa16570867728950e", "7c9e6679f4b24d2a9f0e1d6a3a1b2c3d"


def journal_line(message: str, micros: int, boot: str = _NOW) -> str:
    return f'{{"__REALTIME_TIMESTAMP":"{micros}","_BOOT_ID":"{boot}","PRIORITY":"4","MESSAGE":"{message}"}}\n'


JOURNAL = journal_line(
    "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=x, GPU has fallen off the bus.", 1779150000000000, _BEFORE
) + journal_line(
    "NVRM: Xid (PCI:0000:9b:00): 13, pid=900, name=python3, Graphics SM Warp Exception on (GPC 2, TPC 1, SM 0): Illegal Instruction Encoding",
    1779246070120000,
)

LSPCI = """\
0000:19:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)
\tSubsystem: NVIDIA Corporation Device 16c1
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 32GT/s, Width x16
\t\t\tTrErr- Train- SlotClk+ DLActive- BWMgmt- ABWMgmt-
0000:3b:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 8GT/s (downgraded), Width x8 (downgraded)
0000:4c:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev ff) (prog-if ff)
\t!!! Unknown header type 7f
0000:83:00.0 Bridge: NVIDIA Corporation GH100 [H100 NVSwitch] (rev a1)
"""

BRIDGES = """\
0000:17:00.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0) (prog-if 00 [Normal decode])
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16
\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+
\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
0000:18:00.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0) (prog-if 00 [Normal decode])
\t\tACSCtl:\tSrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-
"""

IBSTAT = """\
CA 'mlx5_0'
\tCA type: MT4129
\tNumber of ports: 1
\tFirmware version: 28.39.3004
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 400
\t\tBase lid: 17
\t\tLMC: 0
\t\tSM lid: 1
\t\tLink layer: InfiniBand
CA 'mlx5_1'
\tCA type: MT4125
\tNumber of ports: 2
\tFirmware version: 22.39.1002
\tPort 1:
\t\tState: Initializing
\t\tPhysical state: LinkUp
\t\tRate: 200
\t\tBase lid: 65535
\t\tSM lid: 0
\t\tLink layer: InfiniBand
\tPort 2:
\t\tState: Down
\t\tPhysical state: Polling
\t\tRate: 40
\t\tBase lid: 0
\t\tSM lid: 0
\t\tLink layer: Ethernet
"""

COUNTERS = """\
/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed:37
/sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error:5
/sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_errors:2
/sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_wait:73
/sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data:9999
/sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence:11
/sys/class/infiniband/mlx5_0/ports/1/hw_counters/roce_adp_retrans:12
/sys/class/infiniband/mlx5_0/ports/1/pkeys/0:0x7FFF
/sys/class/infiniband/mlx5_0/ports/1/pkeys/1:0x8001
/sys/class/infiniband/mlx5_0/ports/1/pkeys/2:0x0000
grep: /sys/class/infiniband/mlx5_0/ports/1/counters/odd: Invalid argument
"""

UNITS = """\
Result=exit-code
ExecMainStatus=1
Id=nvidia-fabricmanager.service
LoadState=loaded
ActiveState=failed
SubState=failed

Result=success
ExecMainStatus=0
Id=openibd.service
LoadState=not-found
ActiveState=inactive
SubState=dead
"""

UNIT_JOURNAL = journal_line(
    "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=x, GPU has fallen off the bus.", 1779150000000000, _BEFORE
) + journal_line(sm_exception(900, "python3", 0), 1779246070120000)

LSPCI = """\
0000:19:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)
\tSubsystem: NVIDIA Corporation Device 16c1
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 32GT/s, Width x16
\t\t\tTrErr- Train- SlotClk+ DLActive- BWMgmt- ABWMgmt-
0000:3b:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 8GT/s (downgraded), Width x8 (downgraded)
0000:4c:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev ff) (prog-if ff)
\t!!! Unknown header type 7f
0000:83:00.0 Bridge: NVIDIA Corporation GH100 [H100 NVSwitch] (rev a1)
"""

BRIDGES = """\
0000:17:00.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0) (prog-if 00 [Normal decode])
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16
\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+
\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
0000:18:00.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0) (prog-if 00 [Normal decode])
\t\tACSCtl:\tSrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-
"""

IBSTAT = """\
CA 'mlx5_0'
\tCA type: MT4129
\tNumber of ports: 1
\tFirmware version: 28.39.3004
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 400
\t\tBase lid: 17
\t\tLMC: 0
\t\tSM lid: 1
\t\tLink layer: InfiniBand
CA 'mlx5_1'
\tCA type: MT4125
\tNumber of ports: 2
\tFirmware version: 22.39.1002
\tPort 1:
\t\tState: Initializing
\t\tPhysical state: LinkUp
\t\tRate: 200
\t\tBase lid: 65535
\t\tSM lid: 0
\t\tLink layer: InfiniBand
\tPort 2:
\t\tState: Down
\t\tPhysical state: Polling
\t\tRate: 40
\t\tBase lid: 0
\t\tSM lid: 0
\t\tLink layer: Ethernet
"""

COUNTERS = """\
/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed:37
/sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error:5
/sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_errors:2
/sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_wait:73
/sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data:9999
/sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence:11
/sys/class/infiniband/mlx5_0/ports/1/hw_counters/roce_adp_retrans:12
/sys/class/infiniband/mlx5_0/ports/1/pkeys/0:0x7FFF
/sys/class/infiniband/mlx5_0/ports/1/pkeys/1:0x8001
/sys/class/infiniband/mlx5_0/ports/1/pkeys/2:0x0000
grep: /sys/class/infiniband/mlx5_0/ports/1/counters/odd: Invalid argument
"""

UNITS = """\
Result=exit-code
ExecMainStatus=1
Id=nvidia-fabricmanager.service
LoadState=loaded
ActiveState=failed
SubState=failed

Result=success
ExecMainStatus=0
Id=openibd.service
LoadState=not-found
ActiveState=inactive
SubState=dead
"""


def unit_line(unit: str, identifier: str, message: str, micros: int = 1779246070120000) -> str:
    cells = {"__REALTIME_TIMESTAMP": str(micros), "_BOOT_ID": _NOW, "PRIORITY": "4", "SYSLOG_IDENTIFIER": identifier, "_SYSTEMD_UNIT": unit}
    return json.dumps(cells | {"MESSAGE": message}) + "\n"


UNIT_JOURNAL = unit_line(
    "init.scope", "systemd", "nvidia-fabricmanager.service: Main process exited, code=killed, status=9/KILL"
) + unit_line("unattended-upgrades.service", "unattended-upgrade", "Packages that were upgraded: libnvidia-compute-550")

LSMOD = """\
Module                  Size  Used by
nvidia_uvm           1515520  4
nvidia              56778752  142 nvidia_uvm
mlx5_core            2088960  1 mlx5_ib
"""
FABRIC_MANAGER = "Fabric Manager version is : 550.54.14\n"
PROC_VERSION = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version:  gcc version 11.4.0\n"
DKMS = "nvidia/550.90.07, 5.15.0-107-generic, x86_64: installed\nnvidia/550.54.15, 5.15.0-60-generic, x86_64: built\n"

DF = """\
Filesystem         Type        1-blocks          Used     Available Capacity Mounted on
/dev/nvme0n1p2     ext4   1000000000000 1000000000000             0     100% /
tmpfs              tmpfs       67108864      67100000          8864     100% /dev/shm
/dev/loop3         squashfs    64000000      64000000             0     100% /snap/core20/1
nfs-a:/export/home nfs4  90000000000000 30000000000000 60000000000000      34% /home
"""
DF_INODES = """\
Filesystem           Inodes   IUsed     IFree IUse% Mounted on
/dev/nvme0n1p2    119537664 1412317 118125347    2% /
tmpfs                     0       0         0     - /sys/x
"""
FINDMNT = """{
   "filesystems": [
      {"target": "/", "source": "/dev/nvme0n1p2", "fstype": "ext4", "options": "rw,relatime",
         "children": [
            {"target": "/scratch", "source": "/dev/md0", "fstype": "xfs", "options": "ro,noatime"},
            {"target": "/sys/fs/cgroup", "source": "cgroup2", "fstype": "cgroup2", "options": "ro,nosuid"}
         ]
      }
   ]
}
"""

FREE = """\
               total        used        free      shared  buff/cache   available
Mem:    2164178862080 91234567890 1900000000000  1234567890 172944294190 2050000000000
Swap:    8589934592        4096  8589930496
"""
OOM_EVENTS = """\
/sys/fs/cgroup/system.slice/memory.events:oom 4
/sys/fs/cgroup/system.slice/memory.events:oom_kill 3
/sys/fs/cgroup/system.slice/memory.events:oom_group_kill 0
/sys/fs/cgroup/system.slice/slurmstepd.scope/job_812/memory.events:oom 0
/sys/fs/cgroup/system.slice/slurmstepd.scope/job_812/memory.events:oom_kill 3
/sys/fs/cgroup/system.slice/slurmstepd.scope/job_812/memory.events:oom_group_kill 0
/sys/fs/cgroup/user.slice/memory.events:oom 0
/sys/fs/cgroup/user.slice/memory.events:oom_kill 0
/sys/fs/cgroup/user.slice/memory.events:oom_group_kill 0
"""

ENV = """\
41233 NCCL_IB_HCA=mlx5_0,mlx5_1
41233 RANK=0
41234 NCCL_IB_HCA=mlx5_0,mlx5_1
41234 RANK=1
41234 AWS_SECRET_ACCESS_KEY=not-to-be-read
"""

_WATCHDOG = (
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1041, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000)"
)
JOB_LOG = f"""\
==> /var/log/jobs/812/rank_00.log <==
NCCL version 2.21.5+cuda12.4
[rank0]:[E520 03:08:00.123456789 ProcessGroupNCCL.cpp:616] [Rank 0] {_WATCHDOG} ran for 600010 milliseconds before timing out.

==> /var/log/jobs/812/rank_01.log <==
2026-05-20 02:58:00,000 INFO step 100
Traceback (most recent call last):
  File "/opt/train.py", line 10, in <module>
    main()
KeyError: 'labels'
"""

APPS = """\
00000000:9B:00.0, 41233, python3, 61234
00000000:BB:00.0, 50000, /usr/bin/python3, 1000
00000000:CB:00.0, 60000, gone, 2048
00000000:DB:00.0, 70000, monitor, [N/A]
"""


def ps_row(pid: int, ppid: int, user: str, stat: str, cpu: str, cgroup: str, comm: str, args: str) -> str:
    return f"{pid:>7} {ppid:>7} {user:<32} {stat:<4} {900:>7} {cpu:>4} {'0::' + cgroup:<160} {comm:<32} {args}\n"


PS = (
    f"{'PID':>7} {'PPID':>7} {'USER':<32} {'STAT':<4} {'ELAPSED':>7} {'%CPU':>4} {'CGROUP':<160} {'COMMAND':<32} COMMAND\n"
    + ps_row(2, 0, "root", "S", "0.0", "/", "kthreadd", "[kthreadd]")
    + ps_row(77, 2, "root", "R", "99.7", "/", "kworker/3:1", "[kworker/3:1+events]")
    + ps_row(900, 1, "root", "Sl", "0.1", "/system.slice/slurmstepd.scope/job_813/step_0", "slurmstepd", "slurmstepd: [813.0]")
    + ps_row(41233, 1, "alice", "Sl", "0.0", "/user.slice/user-1000.slice/session-5.scope", "python3", "python3 train.py")
    + ps_row(50000, 900, "bob", "Rl", "99.0", "/system.slice/slurmstepd.scope/job_813/step_0/user/task_0", "python3", "python3 -u train.py")
    + ps_row(70000, 1, "root", "Ssl", "0.1", "/system.slice/monitor.service", "monitor", "/usr/bin/monitor")
    + ps_row(80000, 900, "bob", "D", "0.0", "/system.slice/slurmstepd.scope/job_813/step_0/user/task_1", "tmux: server", "python3 load.py")
)

NCCL = """\
# nThread 1 nGpus 8 minBytes 536870912 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid  100 on gpu-001 device  0 [0x19] NVIDIA H100 80GB HBM3
#  Rank  7 Group  0 Pid  100 on gpu-001 device  7 [0xdb] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
   536870912     134217728     float     sum      -1   2080.1  258.10  451.67      0   2079.0  258.24  451.92      0
  8589934592    2147483648     float     sum      -1  31400.0  273.56  478.73      0  31390.0  273.65  478.89      3
# Out of bounds values : 3 FAILED
# Avg bus bandwidth    : 465.303
#
"""
NCCL_FAILED = "gpu-001: Test CUDA failure common.cu:941 'system not yet initialized'\n .. gpu-001 pid 7: Test failure common.cu:891\n"

DOCKER_INFO = (
    json.dumps({"ID": "a1", "Runtimes": {"nvidia": {}, "runc": {}}, "CgroupDriver": "systemd", "CDISpecDirs": ["/etc/cdi"]}) + "\n"
)
CONTAINER = "3f2a" + "0" * 60
DOCKER_PS = json.dumps({"ID": CONTAINER, "Image": "train:1", "Names": "job-812", "State": "running"}) + "\n"
DOCKER_INSPECT = (
    f'{{"id":"{CONTAINER}","name":"/job-812","image":"train:1","status":"exited","oom":true,"exit":137,"error":"","started":"2026-05-20T01:00:00Z",'
    '"shm":67108864,"ipc":"private","runtime":"runc","requests":[{"Driver":"","Count":-1,"Capabilities":[["gpu"]]}],"devices":[],"cuda":"","cuda_env":["12.8.1",""]}\n'
    '{"id":"77aa00000000","name":"/web","image":"web","status":"running","started":"x","shm":67108864,"ipc":"private","runtime":"runc","requests":null,"devices":[],"cuda":"","cuda_env":[""]}\n'
)
INSIDE = (
    f"== container {CONTAINER}\nFailed to initialize NVML: Unknown Error\n\n== status 255\n"
    f"== container {CONTAINER[::-1]}\nGPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n\n== status 0\n"
)
VERSIONS = (
    '{"torch": "2.3.1+cu121", "cuda": "12.1", "cudnn": 8902, "nccl": [2, 20, 5], "archs": "sm_80 sm_90 compute_90", "flash_attn": "2.5.8+cu122torch2.1", '
    '"rackmedic": "vers"}\n'
)
CUDNN_WORDS = "error: cuDNN version incompatibility: PyTorch was compiled  against (9, 1, 0) but found runtime version (8, 9, 2). PyTorch"
IMAGE_VERSIONS = (
    f'== container {CONTAINER}\n{{"torch": "2.5.1", "cuda": "12.4", "cudnn": "{CUDNN_WORDS}", "nccl": 2708, "archs": "sm_90", "flash_attn": "error: no", '
    '"rackmedic": "vers"}\n\n== status 0\n'
)
GOVERNORS = "".join(
    f"/sys/devices/system/cpu/cpufreq/policy{i}/scaling_{name}:{value}\n"
    for i in range(4)
    for name, value in (("cur_freq", 1200000 + i), ("driver", "intel_pstate"), ("governor", "powersave" if i else "performance"))
)
CPUPOWER = (
    "analyzing CPU 0:\n  current policy: frequency should be within 800 MHz and 3.80 GHz.\n"
    '                  The governor "powersave" may decide which speed to use\n                  within this range.\n'
)
LSCPU = json.dumps(
    {"lscpu": [{"field": "CPU(s):", "data": "224"}, {"field": "NUMA:", "data": "", "children": [{"field": "NUMA node(s):", "data": "2"}]}]}
)
CHRONY = "0A140902,10.20.9.2,3,1779246569.123000000,-412.000012411,-0.000003271,0.000021914,-11.204,0.001,0.021,0.0004,0.0003,64.4,Not synchronised\n"
CHRONY_NO_SOURCE = (
    "00000000,,0,0.000000000,0.000000003,0.000000000,0.000000000,-0.003,0.000,0.000,1.000000000,1.000000000,0.0,Not synchronised\n"
)
CHRONY_NO_SOURCE_TEXT = (
    "Reference ID    : 00000000 ()\nSystem time     : 0.000000003 seconds slow of NTP time\nLeap status     : Not synchronised\n"
)
CHRONY_TEXT = "Reference ID    : 0A140902 (ntp1)\nStratum         : 3\nSystem time     : 3.000012411 seconds slow of NTP time\nLeap status     : Normal\n"
IP_LINK = json.dumps(
    [
        {"ifname": "lo", "mtu": 65536, "operstate": "UNKNOWN", "link_type": "loopback"},
        {"ifname": "eth0", "mtu": 9000, "operstate": "UP", "link_type": "ether", "stats64": {"rx": {"dropped": 7, "errors": 1}}},
        {"ifname": "docker0", "mtu": 1500, "operstate": "UP", "link_type": "ether", "linkinfo": {"info_kind": "bridge"}},
        {"ifname": "eth1", "mtu": 1500, "operstate": "DOWN", "link_type": "ether"},
    ]
)
IP_LINK_TEXT = "2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc mq state UP mode DEFAULT group default qlen 1000\n    link/ether 00:11:22:33:44:55\n"
ADAPTERS = "== eth2\n     rx_discards_phy: 912334\n     rx_prio3_pause: 12\n     tx_prio3_pause: 30\n== eth3\n     rx_discards_phy: 0\n"
MASTERS = "master 10.20.0.11 29500 ok\nmaster gpu-001 29501 no_name\n"
SMINFO = "sminfo: sm lid 1 sm guid 0xb8cef60300a1b2c4, activity count 194213 priority 15 state 3 SMINFO_MASTER\n"
NO_SM = "ibwarn: [48211] mad_rpc: _do_madrpc failed; dport (Lid 0)\nsminfo: iberror: failed: query\n"
IBLINKINFO = (
    '0xa088c20300000001 " gpu-017 mlx5_0" 17    1[  ] ==( 4X    106.25 Gbps Active/  LinkUp)==> 0xb8cef60300f0a111 4   18[  ] "leaf-2" ( )\n'
    '0xb8cef60300f0a111 "   leaf-2" 4   18[  ] ==( 4X    106.25 Gbps Active/  LinkUp)==> 0xa088c20300000001 17    1[  ] "gpu-017 mlx5_0" ( )\n'
    '0xb8cef60300f0a111 "   leaf-2" 4   19[  ] ==(  Down/ Polling)==>   [  ] "" ( )\n'
    '0xb8cef60300f0a111 "   leaf-2" 4   33[  ] ==( 2X    106.25 Gbps Active/  LinkUp)==> 0xb8cef60300f0b222 9    4[  ] "spine-1" ( Could be 4X )\n'
    '0xb8cef60300f0a111 "   leaf-2" 4   34[  ] ==( 4X    106.25 Gbps Active/  LinkUp)==> 0xb8cef60300f0b223 10    4[  ] "spine-2" ( )\n'
)
NODE = "NodeName=gpu-017 Arch=x86_64 CPUTot=224 State=ALLOCATED*+DRAIN ThreadsPerCore=2 Partitions=gpu Reason=maintenance CHG-204 [root@2026-05-20T03:01:00]\n"
NODE_JSON = (
    json.dumps({"meta": {}, "nodes": [{"name": "gpu-017", "state": ["IDLE", "DRAIN"], "reason": "planned work"}], "errors": []}) + "\n"
)
SQUEUE = "812,RUNNING,alice\n"
SACCT = "809|COMPLETED|0:0|2026-05-19T01:00:00|2026-05-19T05:00:00\n812|PREEMPTED|0:15|2026-05-20T01:00:00|2026-05-20T03:00:00\n"
HCA_LINKS = "total 0\n" + "".join(
    f"lrwxrwxrwx 1 root root 0 May 20 02:11 {name} -> ../../devices/pci0000:58/0000:58:01.0/{bdf}/infiniband/{name}\n"
    for name, bdf in (("mlx5_0", "0000:5c:00.0"), ("mlx5_1", "0000:9a:00.0"), ("rocep186s0", "0000:ba:00.0"))
)
HEADERS = "HTTP/1.1 403 Forbidden\r\nx-amz-request-id: 16F2A3B9\r\nServer: objects\r\n\r\n"
HEADERS_SLOW = "HTTP/1.1 503 Slow Down\r\nRetry-After: 1\r\n\r\n"
HEADERS_PROXY = "HTTP/1.1 200 Connection established\r\n\r\nHTTP/2 502 \r\nserver: envoy\r\n\r\n"
CURL_REFUSED = "\ncurl: (7) Failed to connect to tracker.example port 443 after 1 ms: Connection refused\n"
CURL_NO_NAME = "\ncurl: (6) Could not resolve host: objects.example\n"
SHARED_MOUNTS = "mount /home nfs4\nanswer /home ok \nmount /old nfs\nanswer /old stale stat: Stale file handle\nmount /data nfs4\n"
SEL = (
    "   1 | 05/20/2026 | 02:00:00 | Fan Fan3 | Lower Critical going low  | Asserted\n"
    "   2 | 05/20/2026 | 02:10:00 | Fan Fan3 | Lower Critical going low  | Deasserted\n"
    "   7 | 05/20/2026 | 03:01:22 | Power Supply PSU2 Status | Failure detected | Asserted\n"
    "   8 | 05/20/26 | 03:01:23 UTC | Critical Interrupt PCIe Slot 7 | Bus Fatal Error | Asserted\n"
    "   9 |  Pre-Init  |0000000012| System Event | OEM System boot event | Asserted\n"
)
SDR = "Inlet Temp | 05h | nc  |  7.1 | 43 degrees C\nExhaust Temp     | 01h | ok  |  7.1 | 58 degrees C\nRiser Temp       | 02h | ns  | 7.1 | No Reading\n"
SDR_POWER = (
    "PSU1 Status      | 61h | ok  | 10.1 | Presence detected\nPSU2 Status      | 62h | cr  | 10.2 | Presence detected, Failure detected\n"
)

BASELINE = """== baseline 1
system\tkernel\t5.15.0-107-generic
system\ttime zone\tEtc/UTC +0000
mount\t/data\tnfs4 rw hard nas1:/export/data
service\tsssd\tactive
count\tprocesses\t2311
count\tzombie\t212 212 python3 below slurmstepd
answer\tname of this host\tok 127.0.1.1
answer\tnameserver 10.0.0.2\ttimeout
broken\tdaemon slurmd\tfrozen
hog\tstress-ng\t64.0 of 128 cores, 64 processes of uid 1002
== end
"""

SAMPLES: dict[str, tuple[str, ...]] = {
    "smi": (SMI_XML, SMI_TEXT, SMI_TABLE, "No devices were found\n"),
    "topo": (TOPO,),
    "nvlink": (NVLINK_STATUS, NVLINK_ERRORS),
    "dmesg": (RING, JOURNAL, BOOT_ID),
    "lspci": (LSPCI, BRIDGES),
    "ibstat": (IBSTAT, COUNTERS, HCA_LINKS),
    "sysd": (UNITS, UNIT_JOURNAL),
    "mods": (LSMOD, PROC_VERSION, "550.90.07\n", DKMS, "5.15.0-107-generic\n", FABRIC_MANAGER),
    "disk": (DF, DF_INODES, FINDMNT),
    "mem": (FREE, "65536 unlimited\n", OOM_EVENTS),
    "env": (ENV,),
    "joblog": (JOB_LOG,),
    "procs": (APPS, PS),
    "docker": (DOCKER_INFO, DOCKER_PS, DOCKER_INSPECT, INSIDE),
    "vers": (VERSIONS, IMAGE_VERSIONS),
    "cpu": (LSCPU, GOVERNORS, CPUPOWER),
    "time": (CHRONY, CHRONY_TEXT, "506 Cannot talk to daemon\n", "NTP=yes\nNTPSynchronized=yes\n", "1779246600.120000000\n"),
    "net": (IP_LINK, IP_LINK_TEXT, ADAPTERS, MASTERS, HEADERS, HEADERS_PROXY, CURL_REFUSED),
    "fabric": (SMINFO, NO_SM, IBLINKINFO),
    "sched": (NODE, NODE_JSON, SACCT, SQUEUE),
    "store": (SHARED_MOUNTS, HEADERS, HEADERS_SLOW, CURL_NO_NAME),
    "base": (BASELINE,),
    "ipmi": (SEL, SDR, SDR_POWER),
    "nccl1": (NCCL, NCCL_FAILED),
}
SAMPLES |= EXCLUSIVE
