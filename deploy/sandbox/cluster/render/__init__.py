"""One renderer a command: state in, the bytes the real command would print out. Renderers change nothing and draw no chance of their own."""

from collections.abc import Callable, Mapping

from deploy.sandbox.cluster.answer import Answer
from deploy.sandbox.cluster.render import disks, host, infiniband, job, kernel, modules, nccl, nvidia, pcie, procfs, services, smi_query
from deploy.sandbox.cluster.render.view import View

RENDERERS: Mapping[str, Callable[[View], Answer]] = {
    "smi.query": smi_query.query,
    "topo.matrix": nvidia.topology,
    "nvlink.status": nvidia.link_status,
    "nvlink.errors": nvidia.link_errors,
    "dmesg.ring": kernel.ring,
    "dmesg.journal": kernel.journal,
    "dmesg.boot": kernel.boot_id,
    "lspci.gpus": pcie.gpus,
    "lspci.bridges": pcie.bridges,
    "ibstat.ports": infiniband.ibstat,
    "ibstat.counters": infiniband.counters,
    "sysd.units": services.units,
    "sysd.journal": services.journal,
    "mods.loaded": modules.lsmod,
    "mods.module": modules.loaded_version,
    "mods.installed": modules.modinfo,
    "mods.dkms": modules.dkms,
    "mods.kernel": modules.uname,
    "disk.space": disks.space,
    "disk.inodes": disks.inodes,
    "disk.mounts": disks.mounts,
    "mem.free": host.free,
    "mem.limits": host.memlock,
    "mem.events": host.oom_events,
    "env.job": job.environment,
    "joblog.tail": job.logs,
    "procs.gpus": nvidia.compute_apps,
    "procs.list": host.processes,
    "nccl1.run": nccl.all_reduce,
}

FILES: Mapping[str, Callable[[View], Answer]] = {"procs.stat": procfs.stat}
"""What no check asks for, but a condition of a remedy."""
