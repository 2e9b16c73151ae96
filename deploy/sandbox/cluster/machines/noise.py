"""Log lines of healthy machines: boot, unit starts, harmless kernel messages. None may look like a fault."""

from deploy.sandbox.cluster.machines.log_lines import Job, JournalLine, KernelLine, Level
from deploy.sandbox.cluster.machines.profiles import Profile
from deploy.sandbox.cluster.seeded_random import make_random

DAY = 86400.0
HOUR = 3600.0

_HARMLESS_MESSAGES: tuple[tuple[Level, str], ...] = (
    ("info", "docker0: port {n}(veth{h}) entered forwarding state"),
    ("info", "docker0: port {n}(veth{h}) entered disabled state"),
    ("info", "IPv6: ADDRCONF(NETDEV_CHANGE): veth{h}: link becomes ready"),
    ("info", "perf: interrupt took too long ({k} > {j}), lowering kernel.perf_event_max_sample_rate to {k}00"),
    ("info", "audit: type=1400 audit(17477{k}.211:{n}): apparmor=\"STATUS\" operation=\"profile_replace\" name=\"docker-default\""),
    ("info", "overlayfs: lowerdir is in-use as upperdir/workdir of another mount, accessing files from both mounts will result in undefined behavior."),
    ("info", "eth0: renamed from veth{h}"),
)  # fmt: skip

_MLX5_REGISTER_ERROR = (
    "mlx5_core 0000:{bus}:00.0: mlx5_cmd_out_err:838:(pid {pid}): ACCESS_REG(0x805) op_mod(0x1) failed, "
    "status bad operation(0x2), syndrome (0x305684), err(-22)"
)


def build_boot_lines(profile: Profile, name: str, booted: float, driver: str) -> list[KernelLine]:
    """Return the kernel's boot messages, one every few hundred milliseconds."""
    messages: list[tuple[Level, str]] = [
        ("notice", "Linux version 5.15.0-107-generic (buildd@lcy02-amd64-012) (gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0) #117-Ubuntu SMP"),
        ("info", "Command line: BOOT_IMAGE=/boot/vmlinuz-5.15.0-107-generic root=/dev/nvme0n1p2 ro iommu=pt console=ttyS0"),
        ("info", f"smpboot: Allowing {profile.cpus * 2} CPUs, 0 hotplug CPUs"),
        ("info", f"Memory: {profile.memory_gib << 20}K/{profile.memory_gib << 20}K available"),
        ("info", "PCI: Using configuration type 1 for base access"),
        ("info", "nvme nvme0: pci function 0000:01:00.0" if profile.links else "nvme nvme0: pci function 0000:05:00.0"),
        ("info", "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Quota mode: none."),
        ("info", f"systemd[1]: Hostname set to <{name}>."),
        ("info", f"mlx5_core 0000:{profile.hca_buses[0]}:00.0: firmware version: {profile.hca_firmware}"),
        *(("info", f"mlx5_core 0000:{bus}:00.0: {_describe_pcie_bandwidth(profile)}") for bus in profile.hca_buses),
        *(
            ("info", f"mlx5_core 0000:{bus}:00.0: Rate limit: 127 rates are supported, range: 0Mbps to 97656Mbps")
            for bus in profile.hca_buses
        ),
        ("info", "nvidia-nvlink: Nvlink Core is being initialized, major device number 510"),
        ("warn", f"NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  {driver}  Release Build  (dvs-builder@U16-I3-B03-4-5)"),
        *(("info", f"nvidia 0000:{bus}:00.0: enabling device (0000 -> 0002)") for bus in profile.buses),
        ("info", f"nvidia-modeset: Loading NVIDIA UNIX Open Kernel Mode Setting Driver for x86_64  {driver}"),
        ("info", "nvidia-uvm: Loaded the UVM driver, major device number 508."),
        ("info", "XFS (md0): Ending clean mount"),
        ("info", "RPC: Registered tcp transport module."),
        ("info", "docker0: port 1(veth3f2a1c) entered blocking state"),
    ]
    return [KernelLine(booted + 0.412 * i, level, text) for i, (level, text) in enumerate(messages)]


def build_harmless_lines(name: str, seed: int, age: float = 0.0, count: int = 24) -> list[KernelLine]:
    """Return harmless kernel lines over the last days."""
    random = make_random(seed, name, "quiet")
    lines = [
        KernelLine(
            -5400 - age,
            "warn",
            f"perf: interrupt took too long ({random.randrange(4000, 6000)} > 3962), lowering kernel.perf_event_max_sample_rate to 41000",
        )
    ]
    for _ in range(count):
        level, text = random.choice(_HARMLESS_MESSAGES)
        values = {
            "n": random.randrange(1, 9),
            "h": f"{random.randrange(1 << 28):07x}",
            "k": random.randrange(2500, 9000),
            "j": random.randrange(1500, 2500),
        }
        lines.append(KernelLine(random.uniform(-6 * DAY, -60) - age, level, text.format(**values)))
    return lines


def build_register_errors(name: str, seed: int, bus: str, count: int) -> list[KernelLine]:
    """Return the adapter's harmless register error `count` times."""
    random = make_random(seed, name, "flood")
    lines = [
        KernelLine(random.uniform(-20 * HOUR, -30), "err", _MLX5_REGISTER_ERROR.format(bus=bus, pid=random.randrange(2000, 400000)))
        for _ in range(count)
    ]
    return sorted(lines, key=lambda line: line.t)


def build_harmless_journal(profile: Profile, booted: float, driver: str, job: Job) -> list[JournalLine]:
    """Return unit starts at boot and everyday journal lines."""
    lines = [
        JournalLine(booted + 31, "nvidia-persistenced.service", "nvidia-persistenced", 6, "Started (1322)"),
        JournalLine(booted + 33, "docker.service", "dockerd", 6, 'level=info msg="API listen on /run/docker.sock"'),
        JournalLine(booted + 40, "slurmd.service", "slurmd", 6, "slurmd: slurmd started on boot"),
        JournalLine(job.started - 2, "slurmd.service", "slurmd", 6, f"launch task StepId={job.id}.0 request from UID:2071 GID:2071 HOST:10.20.9.2 PORT:46712"),
        JournalLine(-5 * HOUR, "docker.service", "dockerd", 6, 'level=info msg="ignoring event" module=libcontainerd topic=/tasks/delete'),
    ]  # fmt: skip
    if profile.switches:
        unit, identifier = "nvidia-fabricmanager.service", "nv-fabricmanager"
        lines.append(
            JournalLine(
                booted + 52, unit, identifier, 6, f"Fabric Manager version {driver} is running with the following configuration options"
            )
        )
        lines.append(
            JournalLine(
                booted + 58, unit, identifier, 6, "Successfully configured all the available NVSwitches to route GPU NVLink traffic."
            )
        )
    return lines


def _describe_pcie_bandwidth(profile: Profile) -> str:
    gen5_text = "504.112 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x16 link)"
    return gen5_text if profile.pcie_gen == 5 else "252.048 Gb/s available PCIe bandwidth (16.0 GT/s PCIe x16 link)"
