"""The check catalogue: the rows of the subsystem modules, joined here in the order in which they are cheap and telling.

May import facts, devices, evidence and kb; knows no host and opens nothing.
"""

from collections.abc import Mapping

from tools.checks import (
    baseline,
    bmc,
    clock,
    containers,
    disk,
    fabric,
    job,
    kernel,
    memory,
    modules,
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
from tools.checks.check_types import Check
from tools.checks.exclusive import bandwidth, burn, cuda, dcgm, ibbw, nccl, nccl_pairs, step
from tools.checks.smi import smi_checks

_ROWS = (
    *(smi_checks, kernel, pcie, fabric, services, modules, disk, memory, job, processes),
    *(containers, clock, scheduler, processor, network, storage, bmc, versions, subnet, baseline),
    *(cuda, dcgm, bandwidth, nccl, burn, ibbw, nccl_pairs, step),
)

CHECKS: Mapping[str, Check] = {row.id: row for module in _ROWS for row in module.CHECKS}
