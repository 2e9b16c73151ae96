"""The fault catalogue: adding a fault means adding one function to one module of this room. May import machines alone."""

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
from deploy.sandbox.cluster.faults.registry import FAULTS, Fault

__all__ = ["FAULTS", "Fault", "containers", "fabric", "framework", "gpu_bus", "gpu_config", "gpu_execution", "gpu_memory",
           "infiniband", "network", "other", "software", "storage", "user_code", "user_config"]  # fmt: skip
