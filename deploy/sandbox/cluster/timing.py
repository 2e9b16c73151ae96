"""How long each command takes on the virtual clock: the seconds of its check, shared out among the check's commands."""

from collections.abc import Mapping

SECONDS: Mapping[str, float] = {
    "smi.query": 3.0,
    "topo.matrix": 2.0,
    "nvlink.status": 1.0,
    "nvlink.errors": 1.0,
    "dmesg.ring": 1.6,
    "dmesg.journal": 1.3,
    "dmesg.boot": 0.1,
    "lspci.gpus": 1.2,
    "lspci.bridges": 0.8,
    "ibstat.ports": 0.8,
    "ibstat.counters": 1.2,
    "sysd.units": 1.0,
    "sysd.journal": 2.0,
    "mods.loaded": 0.2,
    "mods.module": 0.1,
    "mods.installed": 0.2,
    "mods.dkms": 0.4,
    "mods.kernel": 0.1,
    "disk.space": 0.8,
    "disk.inodes": 0.6,
    "disk.mounts": 0.6,
    "mem.free": 0.3,
    "mem.limits": 0.2,
    "mem.events": 0.5,
    "env.job": 1.0,
    "joblog.tail": 2.0,
    "procs.gpus": 1.0,
    "procs.list": 1.0,
    "nccl1.run": 40.0,
}

READ_SECONDS = 0.2
"""What a condition reads."""

REFUSED_SECONDS = 0.05
"""A command that does not exist, or that sudo refuses."""
