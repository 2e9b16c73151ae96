"""The check catalogue: the rows of the subsystem modules, joined here in the order in which they are cheap and telling."""

from collections.abc import Mapping

from tools.check import Check
from tools.checks import (
    bandwidth,
    bmc,
    burn,
    clock,
    containers,
    cuda,
    dcgm,
    disk,
    fabric,
    gpu,
    ibbw,
    job,
    kernel,
    memory,
    modules,
    nccl,
    nccl_pairs,
    network,
    pcie,
    processes,
    processor,
    scheduler,
    services,
    step,
    storage,
    subnet,
    versions,
)

_ROWS = (
    *(gpu, kernel, pcie, fabric, services, modules, disk, memory, job, processes),
    *(containers, clock, scheduler, processor, network, storage, bmc, versions, subnet),
    *(cuda, dcgm, bandwidth, nccl, burn, ibbw, nccl_pairs, step),
)

CHECKS: Mapping[str, Check] = {row.id: row for module in _ROWS for row in module.CHECKS}
