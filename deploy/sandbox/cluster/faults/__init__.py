"""The fault catalogue. To add a fault, add one function to one module of this package. May import only `machines`."""

from deploy.sandbox.cluster.faults import (
    containers,
    fabric,
    framework,
    gpu_bus,
    gpu_config,
    gpu_execution,
    gpu_memory,
    infiniband,
    network,
    other,
    software,
    storage,
    user_code,
    user_config,
)
from deploy.sandbox.cluster.faults.row import FAULTS, Fault

__all__ = ["FAULTS", "Fault", "containers", "fabric", "framework", "gpu_bus", "gpu_config", "gpu_execution", "gpu_memory",
           "infiniband", "network", "other", "software", "storage", "user_code", "user_config"]  # fmt: skip
