"""Repair the simulated cluster: build real actions, check preconditions, and run them with the node kit's scripts."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.machines import speeds
from tests.support.clock import PATIENCE, SetClock
from tools.action import Action
from tools.execution.build import ActionRequest, HostIdentity, build_action
from tools.execution.kit import KitAnswer, ask_kit
from tools.inventory.inventory import Host, Scheduler
from tools.nodekit.generate import ACT_COMMAND
from tools.remedies import REMEDIES
from tools.transport import CommandResult, Transport

BOOT = ("cat", "/proc/sys/kernel/random/boot_id")
# for a moment after an action ended, its runner still holds the host lock
BUSY = "another action is running on this host"
NODE, CONTROL = "gpu-001", "ctl-1"


START = datetime(2026, 6, 1, 12, 0, 30, tzinfo=UTC)  # start of a live cluster: 30 s past a full hour


def live(
    *, nodes: int = 2, profile: str = "dgx-h100-8", seed: int = 0, pace: float = 0.0, clock: Callable[[], datetime] | None = None
) -> Cluster:
    """Return a healthy cluster with a controller, where remedies take no time."""
    names = [f"gpu-{n:03d}" for n in range(1, nodes + 1)]
    return Cluster.of(profile, names, job="4711", seed=seed, clock=clock or SetClock(START).now, controller=CONTROL, pace=pace)


@dataclass
class Repairs:
    """A cluster and a transport to it."""

    of: Cluster
    transport: Transport
    seen: Mapping[str, HostIdentity] = field(default_factory=dict)
    scheduler: Scheduler = "slurm"

    async def boot(self, host: str = NODE) -> str:
        return (await self.transport.run(host, BOOT, timeout=PATIENCE, cap=100)).text.strip()

    async def action(self, remedy: str, target: str = NODE, **args: str) -> Action:
        """Return the remedy's action as it would be proposed now."""
        via = CONTROL if REMEDIES[remedy].at == "controller" else target
        row = Host(name=target, address="127.0.0.1", controller=CONTROL, scheduler=self.scheduler)
        seen = self.seen.get(via) or HostIdentity(await self.boot(via))
        wanted = ActionRequest(remedy, args, incident="inc-1")
        return build_action(wanted, row, Host(name=via, address="127.0.0.1"), seen, policy="p", catalogue="c")

    async def start(self, action: Action) -> KitAnswer:
        """Start the action as `tools.execution.runner` does, without a claim."""
        return await ask_kit(action.via, ("start", action.digest, action.boot_id, *action.argv), self.transport, ACT_COMMAND)

    async def settle(self, action: Action) -> KitAnswer:
        return await ask_kit(action.via, ("settle", action.digest), self.transport, ACT_COMMAND)

    async def ended(self, action: Action) -> KitAnswer:
        """Settle until it no longer runs."""
        while (said := await self.settle(action)).word == "running":
            pass
        return said

    async def do(self, remedy: str, target: str = NODE, **args: str) -> KitAnswer:
        """Start the remedy and return its final answer."""
        action = await self.action(remedy, target, **args)
        while (said := await self.start(action)).says == BUSY:
            pass
        return said if said.word == "refused" else await self.ended(action)

    async def unmet(self, action: Action) -> list[str]:
        """Return the controller preconditions that do not hold."""
        missing = []
        for row in action.conditions:
            if row.kind == "controller":
                found = (await self.read(CONTROL, *row.argv)).text.strip()
                missing += [] if any(fnmatchcase(found, pattern) for pattern in row.expects.split("|")) else [f"{row.says}: {found}"]
        return missing

    async def read(self, host: str, *argv: str) -> CommandResult:
        return await self.transport.run(host, argv, timeout=PATIENCE, cap=1 << 20)

    def bdf(self, gpu: int, host: str = NODE) -> str:
        return self.of.world().nodes[host].gpus[gpu].bdf


def do(of: Cluster, command: str, host: str = NODE) -> int:
    """Run a kit tool directly, without the scripts, and return its exit status."""
    argv = tuple(command.format(bdf=of.world().nodes[NODE].gpus[5].bdf).split())
    if argv == ("systemctl", "reboot"):
        of.go_down(host, "rebooting")
        of.come_up(host)
        return 0
    done = of.carry_out(CONTROL if argv[0] in ("scontrol", "scancel") else host, argv)
    assert done is not None, command
    return done.answer.status


def faults_of(of: Cluster, host: str = NODE) -> list[str]:
    """Return the fault ids that the page shows for a node."""
    rows = {row["name"]: row for row in of.state_summary()["nodes"]}
    return [fault["id"] for fault in rows[host]["faults"]]


def condition_of(of: Cluster, host: str = NODE) -> str:
    return str({row["name"]: row for row in of.state_summary()["nodes"]}[host]["state"])


def unsound(of: Cluster, host: str = NODE) -> list[str]:
    """Return the machine's problems, read from its state and not from its fault list."""
    node = of.world().nodes[host]
    slow = ("app_clocks", "sw_power_cap", "hw_slowdown", "hw_thermal", "hw_power_brake", "sw_thermal")
    rows = {
        "cuda": speeds.find_cuda_error(node, len(node.gpus)),
        "row remap": any(gpu.remap.pending or gpu.remap.failure for gpu in node.gpus),
        "ecc": any(gpu.volatile.dram_unc or gpu.sram_threshold_exceeded or gpu.aggregate.dram_corr > 10_000 for gpu in node.gpus),
        "inforom": not all(gpu.inforom_ok for gpu in node.gpus),
        "clocks": any(getattr(gpu.reasons, name) for gpu in node.gpus for name in slow),
        "power limit": any(gpu.power_limit != node.profile.power_limit for gpu in node.gpus),
        "settings": any(gpu.mig or gpu.compute_mode != "Default" or gpu.hang or gpu.power_unknown for gpu in node.gpus),
        "pcie": any((gpu.pcie_gen, gpu.pcie_width) != (node.profile.pcie_gen, 16) for gpu in node.gpus) or node.acs,
        "nvlink": any(not link.active or link.crc for gpu in node.gpus for link in gpu.links),
        "adapters": any(not hca.present or hca.state != "Active" or hca.rate != node.profile.hca_rate or hca.pkeys != ("0xffff", "0x8001")
                        or set(hca.rising) > {"port_rcv_data", "port_xmit_data"} for hca in node.hcas),
        "software": node.driver != node.driver_user or node.fm_version != node.driver or not {"nvidia", "nvidia_peermem"} <= set(node.modules),
        "services": any(service.active == "failed" for service in node.services.values()),
        "memory": bool(sum(node.oom_kills.values())) or node.memlock_kib >= 0,
        "disks": any(mount.used >= mount.size or mount.options.startswith("ro") for mount in node.mounts),
        "clock": bool(node.skew) or not node.environment.synchronised,
        "containers": node.environment.devices_lost or "nvidia" not in node.environment.runtimes,
        "governor": node.environment.governor != "performance",
        "processes": any(proc.user == "bob" or "kworker" in proc.comm for proc in node.procs),
    }  # fmt: skip
    return [name for name, wrong in rows.items() if wrong]


DIGESTS = itertools.count(1)


def some_digest() -> str:
    return f"{next(DIGESTS):064x}"
