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
    "docker.info": 0.8,
    "docker.list": 0.4,
    "docker.inspected": 0.8,
    "docker.devices": 2.0,
    "vers.host": 2.0,
    "vers.images": 6.0,
    "cpu.cores": 1.0,
    "cpu.frequencies": 2.0,
    "time.tracking": 0.4,
    "time.sync": 0.4,
    "time.clock": 0.2,
    "net.links": 0.6,
    "net.adapters": 1.2,
    "net.master": 1.2,
    "fabric.manager": 1.0,
    "fabric.links": 7.0,
    "sched.shown": 1.0,
    "sched.ended": 1.0,
    "store.mounts": 5.0,
    "ipmi.events": 2.4,
    "ipmi.temperatures": 1.2,
    "ipmi.fans": 1.2,
    "ipmi.power": 1.2,
    "nccl1.run": 40.0,
}

READ_SECONDS = 0.2
"""What a condition reads."""

REFUSED_SECONDS = 0.05
"""A command that does not exist, or that sudo refuses."""
