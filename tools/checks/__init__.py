"""The check catalogue: the rows of the subsystem modules, joined here in the order in which they are cheap and telling."""

from collections.abc import Mapping

from tools.check import Check
from tools.checks import (
    bmc,
    clock,
    containers,
    disk,
    fabric,
    gpu,
    job,
    kernel,
    memory,
    modules,
    nccl,
    network,
    pcie,
    processes,
    processor,
    scheduler,
    services,
    storage,
    subnet,
    versions,
)

_ROWS = (
    *(gpu, kernel, pcie, fabric, services, modules, disk, memory, job, processes),
    *(containers, clock, scheduler, processor, network, storage, bmc, versions, subnet),
    nccl,
)

CHECKS: Mapping[str, Check] = {row.id: row for module in _ROWS for row in module.CHECKS}
