"""The check catalogue: the rows of the subsystem modules, joined here in the order in which they are cheap and telling."""

from collections.abc import Mapping

from tools.check import Check
from tools.checks import disk, fabric, gpu, job, kernel, memory, modules, nccl, pcie, processes, services

_ROWS = (gpu, kernel, pcie, fabric, services, modules, disk, memory, job, processes, nccl)

CHECKS: Mapping[str, Check] = {row.id: row for module in _ROWS for row in module.CHECKS}
