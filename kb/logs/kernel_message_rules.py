"""Kernel message rules; the first matching row wins.

Named groups become attributes (digits as numbers), except `value` and `device`. Patterns start at the message's first
character and every repetition is bounded, so a hostile line costs no more than others.
"""

import re
from dataclasses import dataclass

from kb.needle_search import Needles

BDF_GROUP = r"(?P<device>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"


@dataclass(frozen=True, slots=True)
class MessageRule:
    """One row. `needle` is a cheap necessary condition; `value` applies unless a group provides one."""

    kind: str
    value: str
    needle: str
    pattern: re.Pattern[str]
    sources: frozenset[str] = frozenset({"", "kernel"})


def _build_rule(kind: str, value: str, needle: str, pattern: str, *also: str) -> MessageRule:
    return MessageRule(f"kernel.{kind}", value, needle, re.compile(pattern), frozenset({"", "kernel", *also}))


_MLX5 = rf"mlx5_core {BDF_GROUP}(?: (?P<netdev>[\w-]{{1,40}}(?: \([a-z ]{{1,30}}\))?))?: (?:\w{{1,60}}:\d+:\(pid \d+\): )?"
_TIMEOUT = _MLX5 + r"(?P<command>[A-Z_]{3,60})\(0x[0-9a-f]+\) (?:canceled on out of queue )?timeout"
_FAULTED = r"(?P<process>.{1,80}?)\[(?P<pid>\d+)\]:? "
_THERMAL = rf"(?:NVRM: |nvidia |(?=GPU))(?:GPU (?:at )?(?:PCI:)?{BDF_GROUP}:? ?)?(?P<value>.{{0,80}}\b[Tt]emp(?:erature)?\b.{{0,120}})"

MESSAGE_RULES = (
    _build_rule("oom_kill", "", "ut of memory",
         r"(?P<scope>Memory cgroup out of memory|Out of memory)(?: \([^)]{0,40}\))?: Kill(?:ed)? process (?P<pid>\d+)"
                                r"(?:, UID \d+,)? \((?P<value>.{0,64}?)\)(?= total-vm|,| score|\.?$)"),
    _build_rule("oom_kill", "", "oom-kill:", r"oom-kill:constraint=(?P<scope>\w+),.{0,4000}?\btask=(?P<value>.{0,64}?),pid=(?P<pid>\d+),uid="),
    _build_rule("segfault", "", "segfault at", _FAULTED + r"segfault at [0-9a-f]+ ip \S+ sp \S+ error \w+(?: in (?P<value>[^\[]{1,120})\[)?"),
    _build_rule("segfault", "", "general protection",
         r"traps: " + _FAULTED + r"general protection (?:fault )?ip:\S+ sp:\S+ error:\w+(?: in (?P<value>[^\[]{1,120})\[)?"),
    _build_rule("pcie_limited", "", "limited by", rf"\S{{1,40}} {BDF_GROUP}[^:]{{0,40}}: (?P<value>[\d.]{{1,12}} Gb/s) available PCIe bandwidth, "
                                           r"limited by (?P<limit>.{1,40}?) link at (?P<at>\S{1,20})(?: \(capable of (?P<capable>[\d.]{1,12} Gb/s))?"),
    _build_rule("mlx5", "cable_unplugged", "Cable unplugged",
         _MLX5 + r"Port module event(?:\[error\])?: module (?P<module>\d+), Cable unplugged"),
    _build_rule("mlx5", "temperature", "emperature", _MLX5 + r".{0,80}[Hh]igh [Tt]emperature"),
    _build_rule("mlx5", "cable_error", "Port module event", _MLX5 + r"Port module event\[error\]: module (?P<module>\d+), (?P<detail>.{1,120})"),
    _build_rule("mlx5", "health_compromised", "health compromised", _MLX5 + r".{0,40}health compromised"),
    _build_rule("mlx5", "fw_fatal", "atal", _MLX5 + r"(?P<detail>.{0,120}(?:[Ff]atal error|FW fatal|fw fatal|[Ff]irmware fatal).{0,80})"),
    _build_rule("mlx5", "fw_fatal", "nrecoverable hardware error", _MLX5 + r"(?P<detail>.{0,120}[Uu]nrecoverable hardware error)"),
    _build_rule("mlx5", "fw_fatal", "irmware internal error", _MLX5 + r"(?P<detail>.{0,120}[Ff]irmware internal error)"),
    _build_rule("mlx5", "access_reg", "ACCESS_REG", _MLX5 + r"ACCESS_REG\(0x805\) .{0,80}failed, (?P<detail>.{1,160})"),
    _build_rule("mlx5", "cmd_timeout", ") timeout", _TIMEOUT),
    _build_rule("mlx5", "cmd_timeout", "queue timeout", _TIMEOUT),
    _build_rule("mlx5", "cmd_timeout", "Will cause a leak", _MLX5 + r"(?P<detail>.{0,160})Will cause a leak of a command resource"),
    _build_rule("mlx5", "tx_timeout", "NETDEV WATCHDOG", _MLX5 + r".{0,40}NETDEV WATCHDOG.{0,80}"),
    _build_rule("mlx5", "tx_timeout", "TX timeout", _MLX5 + r"TX timeout (?:detected|on queue: (?P<queue>\d{1,6}))"),
    _build_rule("mlx5", "tx_timeout", "NETDEV WATCHDOG", r"NETDEV WATCHDOG: (?P<device>[\w.-]{1,40}) \(mlx5_core\): transmit queue (?P<queue>\d{1,6}) timed out"),
    # other drivers; since Linux 6.8 the line begins with the driver, the address and the name of the interface
    _build_rule("net", "tx_timeout", "NETDEV WATCHDOG",
         r"NETDEV WATCHDOG: (?P<device>[\w.-]{1,40}) \((?P<driver>[\w-]{1,40})\): transmit queue (?P<queue>\d{1,6}) timed out"),
    _build_rule("net", "tx_timeout", "NETDEV WATCHDOG",
         r"(?P<driver>[\w-]{1,40}) [0-9a-f:.]{7,16} (?P<device>[\w.-]{1,40}): NETDEV WATCHDOG: .{0,60}transmit queue (?P<queue>\d{1,6}) timed out"),
    _build_rule("net", "tx_timeout", "TX timeout", r"(?P<driver>[\w-]{1,40}) [0-9a-f:.]{7,16}(?: (?P<device>[\w.-]{1,40}))?: .{0,40}TX timeout"),
    _build_rule("net", "bond_down", "without any active interface", r"(?P<device>[\w.-]{1,40}): now running without any active interface"),
    _build_rule("net", "bond_slave_down", "efinitely down",
         r"(?P<device>[\w.-]{1,40}): (?:\(slave (?P<slave>[\w.-]{1,40})\): )?link status definitely down"),
    _build_rule("mlx5", "insufficient_power", "insufficient power", _MLX5 + r"Detected insufficient power on the PCIe slot(?P<detail>.{0,40})"),
    _build_rule("mlx5", "link_down", "ink down", _MLX5 + r"[Ll]ink down"),
    _build_rule("mlx5", "link_up", "ink up", _MLX5 + r"[Ll]ink up"),
    _build_rule("mlx5", "module_removed", "emov", _MLX5 + r".{0,80}(?:[Rr]emoved|Removing|device removal)"),
    _build_rule("ib_link", "lost_carrier", "ost carrier", r"(?P<device>ib[\w.-]{1,20}): [Ll]ost carrier", "systemd-networkd", "NetworkManager"),
    _build_rule("ib_link", "gained_carrier", "ained carrier",
         r"(?P<device>ib[\w.-]{1,20}): [Gg]ained carrier", "systemd-networkd", "NetworkManager"),
    _build_rule("ib_link", "lost_carrier", "ink is not ready", r"(?:IPv6: )?ADDRCONF\(\w+\): (?P<device>ib[\w.-]{1,20}): link is not ready"),
    _build_rule("ib_link", "gained_carrier", "ink becomes ready", r"(?:IPv6: )?ADDRCONF\(\w+\): (?P<device>ib[\w.-]{1,20}): link becomes ready"),
    _build_rule("aer", "", "PCIe Bus Error",
         rf"\S{{1,40}} {BDF_GROUP}: (?:AER: )?PCIe Bus Error: severity=(?P<value>Corrected|Uncorrected \((?:Non-)?Fatal\)|"
         rf"Uncorrectable \((?:Non-)?Fatal\)), type=(?P<layer>[^,]{{1,60}})"),
    _build_rule("aer", "", ": AER: ",
         r"\S{1,40} (?P<root>\S{1,20}): AER: (?:Multiple )?(?P<value>Corrected|Correctable|Uncorrected \((?:Non-)?Fatal\)|"
         r"Uncorrectable \((?:Non-)?Fatal\)) error (?:message )?received"
                             r"(?:(?: from)?:? (?P<device>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]))?"),
    _build_rule("pcie_hotplug", "link_down", "Link Down", rf"pcieport {BDF_GROUP}: pciehp: Slot\((?P<slot>[\w-]{{1,20}})\): Link Down"),
    _build_rule("pcie_hotplug", "card_not_present", "ard not present",
         rf"pcieport {BDF_GROUP}: pciehp: Slot\((?P<slot>[\w-]{{1,20}})\): Card not present"),
    _build_rule("soft_lockup", "soft_lockup", "soft lockup",
         r"(?:NMI )?(?:watchdog: )?BUG: soft lockup - CPU#(?P<cpu>\d+) stuck for (?P<seconds>\d+)s! \[(?P<process>.{0,64}):"
         r"(?P<pid>\d+)\]"),
    _build_rule("soft_lockup", "hard_lockup", "LOCKUP", r"(?:NMI )?(?:watchdog: )?(?:Watchdog detected|BUG:) hard LOCKUP on cpu (?P<cpu>\d+)"),
    _build_rule("soft_lockup", "hung_task", "blocked for more than",
         r"INFO: task (?P<process>.{1,64}):(?P<pid>\d+) blocked for more than (?P<seconds>\d+) seconds"),
    _build_rule("soft_lockup", "rcu_stall", "INFO: rcu_", r"(?:rcu: )?INFO: rcu_\w{1,20} (?:self-)?detected (?:expedited )?stalls? on CPUs?"),
    _build_rule("nfs_timeout", "", "not responding", r"nfs4?: server (?P<value>\S{1,255}) not responding, (?P<detail>[\w ]{1,40})"),
    _build_rule("nfs_timeout", "", "was lost; in progress",
         r"Lustre: .{0,200}?Connection to (?P<value>[\w.-]{1,120}) \(at (?P<server>[^)]{1,80})\) was lost; in progress"),
    _build_rule("nfs_timeout", "", "has timed out for",
         r"Lustre: .{0,200}?Request sent has timed out for \w{1,20} \w{1,20}: .{0,200}?->(?P<value>[\w.-]{1,120})@"),
    _build_rule("nfs_timeout", "", "LustreError",
         r"LustreError: .{0,200}? operation \w{1,40} to node (?P<value>\S{1,80}) failed: rc = -(?:107|110)\b"),
    _build_rule("nfs_timeout", "", "hung", r"ceph: (?P<value>mds\d+) hung"),
    _build_rule("nfs_timeout", "", "caps stale", r"ceph: (?P<value>mds\d{1,6}) caps stale"),
    _build_rule("nfs_timeout", "", "has not responded in", r"(?:CIFS: )?(?:VFS: )?(?P<value>\\\\\S{1,120}) has not responded in \d{1,6} seconds"),
    _build_rule("nfs_timeout", "", "eeGFS", r"BeeGFS:? .{0,160}(?:Communication error|[Cc]onnect(?:ion)? failed|[Tt]imed out|[Uu]nable to connect).{0,200}?"
                                      r"(?:Peer|Node|node):? (?P<value>[\w.-]{1,80})"),
    _build_rule("nfs_timeout", "", "beegfs", r"beegfs:? .{0,160}(?:Communication error|[Cc]onnect(?:ion)? failed|[Tt]imed out|[Uu]nable to connect).{0,200}?"
                                       r"(?:Peer|Node|node):? (?P<value>[\w.-]{1,80})"),
    *(_build_rule("nfs_timeout", "weka", name, r"(?i:weka\w{0,8})\b.{0,200}(?i:timed? ?out|not responding|stuck|disconnected|unreachable)")
      for name in ("weka", "WEKA", "Weka")),
    *(_build_rule("nfs_timeout", "gpfs", name, r"(?:mmfs|GPFS)\b.{0,200}(?:not responding|lost (?:membership|connection)|expelled|[Tt]imed out|stale NFS file handle)")
      for name in ("mmfs", "GPFS")),
    _build_rule("nfs_timeout", "", "was evicted by",
         r"LustreError: .{0,200}?This client was evicted by (?P<value>[\w.-]{1,120})"),
    _build_rule("fs_readonly", "", "emount",
         r"(?P<fs>EXT[34]-fs|XFS|BTRFS|F2FS-fs)[^:]{0,20} \((?:device )?(?P<value>[\w.-]{1,40})\)?.{0,120}?[Rr]emounting "
         r"filesystem read-only"),
    _build_rule("fs_readonly", "", "forced readonly",
         r"(?P<fs>BTRFS)[^:]{0,20} \(device (?P<value>[\w.-]{1,40})[^)]{0,40}\).{0,120}?forced readonly"),
    _build_rule("fs_readonly", "", "hutting down", r"(?P<fs>XFS) \((?P<value>[\w.-]{1,40})\): .{0,160}[Ss]hutting down (?:the )?filesystem"),
    _build_rule("fs_readonly", "", "has been shut down", r"(?P<fs>XFS) \((?P<value>[\w.-]{1,40})\): [Ff]ilesystem has been shut down"),
    _build_rule("disk_error", "nvme_timeout", "timeout, ", r"nvme (?P<device>nvme\d+)(?:n\d+)?: .{0,120}timeout, (?P<detail>[\w ]{1,40})"),
    _build_rule("disk_error", "nvme_reset", "nvme",
         r"nvme (?P<device>nvme\d+)(?:n\d+)?: (?P<detail>resetting controller|controller is down; will reset|Device not "
         r"ready|Removing after probe failure|Disabling device after reset failure)"),
    _build_rule("disk_error", "io_error", "I/O error",
         r"(?:blk_update_request: |Buffer |print_req_error: )?(?:critical )?I/O error,? (?:on )?dev(?:ice)? "
         r"(?P<device>[\w-]{1,32}?)(?:p\d+)?,"),
    _build_rule("disk_error", "io_error", "medium error", r"(?:blk_update_request: )?critical medium error, dev (?P<device>[\w-]{1,32}),"),
    _build_rule("panic", "", "Kernel panic", r"Kernel panic - not syncing: (?P<value>.{1,160})"),
    _build_rule("mce", "", "[Hardware Error]",
         r"(?:mce: |EDAC [\w ]{1,20}: |\{\d+\})?\[Hardware Error\]: ?(?P<value>Machine check events logged|.{0,60}event "
         r"severity: \w+|.{0,40}Uncorrected.{0,60}|Corrected error.{0,60}|CPU \d+: Machine Check(?: Exception)?: .{0,80})"),
    _build_rule("mce", "", "EDAC", r"EDAC \w{1,8}\d*: (?P<count>\d+) (?P<value>CE|UE) (?P<detail>.{1,160})"),
    _build_rule("inforom", "", "nfoROM", rf"NVRM: (?:GPU (?:at )?(?:PCI:)?{BDF_GROUP}:? ?)?(?P<value>.{{0,80}}[Ii]nfo(?:ROM|rom|Rom).{{0,120}})"),
    _build_rule("gpu_init", "failed", "RmInitAdapter failed", rf"NVRM: GPU {BDF_GROUP}: RmInitAdapter failed! \((?P<code>[0-9a-fx:]{{1,40}})\)"),
    _build_rule("gpu_init", "probe_failed", "probe routine failed", r"NVRM: The NVIDIA probe routine failed for (?P<devices>\d+) device"),
    _build_rule("gpu_thermal", "", " temp", _THERMAL),
    _build_rule("gpu_thermal", "", "Temp", _THERMAL),
    _build_rule("nouveau", "", "nouveau", rf"nouveau {BDF_GROUP}: (?P<detail>.{{1,120}})"),
    _build_rule("module_refused", "unsigned", "unsigned module", r"Lockdown: [\w.-]{1,40}: unsigned module loading is restricted"),
    _build_rule("module_refused", "unsigned", "is rejected",
         r"(?:nvidia: )?Loading of (?:unsigned module|module with unavailable key) is rejected"),
    _build_rule("module_refused", "policy", "{ module_load }",
         r"audit: type=1400 audit\([\d.:]{1,40}\): avc: {1,2}denied {1,2}\{ module_load \} for .{0,200}/nvidia[\w-]{0,20}\.ko"),
    _build_rule("bar_missing", "", "nvidia 0", rf"nvidia {BDF_GROUP}: BAR (?P<value>\d): (?:no space for|failed to assign|can't assign)"),
    _build_rule("bar_missing", "", "is 0M @ 0x0", r"NVRM: BAR(?P<value>\d) is 0M @ 0x0"),
    _build_rule("peermem", "invalid_context", "invalid context", r"nv(?:idia)?[-_]peer[-_]?mem\w* .{0,80}detected invalid context"),
    *(_build_rule("peermem", "", name, r"nv(?:idia)?[-_]peer[-_]?mem:? (?P<value>.{1,120})") for name in ("peermem", "peer_mem", "peer-mem")),
    _build_rule("gpu_watchdog", "locked", "RC watchdog", rf"NVRM: (?:GPU (?:at )?(?:PCI:)?{BDF_GROUP}:? ?)?.{{0,40}}RC watchdog: GPU is probably locked"),
    _build_rule("iommu_fault", "", "fault addr",
         r"DMAR: \[(?P<value>[\w ]{1,30})\] Request device \[(?P<device>[0-9a-f:.]{7,16})\] .{0,40}fault addr \S{1,20}"
         r"(?: \[fault reason (?P<reason>\w{1,6})\])?"),
    _build_rule("iommu_fault", "page fault", "IO_PAGE_FAULT",
         r"(?:\S{1,40} (?P<device>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): )?AMD-Vi: Event logged \[IO_PAGE_FAULT"),
    _build_rule("cpu_thermal", "", "temperature above threshold",
         r"(?:mce: )?CPU(?P<cpu>\d{1,5}): (?P<value>Core|Package) temperature above threshold, cpu clock(?: is)? throttled"),
    _build_rule("panic", "oops", "Oops", r"(?:Internal error: )?Oops: (?P<detail>.{1,80})"),
    _build_rule("panic", "oops", "unable to handle", r"BUG: unable to handle (?P<detail>.{1,120})"),
)  # fmt: skip

NEEDLES = tuple(dict.fromkeys(row.needle for row in MESSAGE_RULES))
_RULE_PLACES = {needle: [place for place, row in enumerate(MESSAGE_RULES) if row.needle == needle] for needle in NEEDLES}
_NEEDLES = Needles(NEEDLES)


def list_eligible_rules(message: str) -> tuple[MessageRule, ...]:
    """Return rows whose needle occurs, in order."""
    return tuple(
        MESSAGE_RULES[place] for place in sorted(place for needle in _NEEDLES.find_in_line(message) for place in _RULE_PLACES[needle])
    )
