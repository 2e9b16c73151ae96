"""A machine's true state for the inspector page: GPUs, adapters, services, job."""

from typing import Any

from deploy.sandbox.cluster.machines.state import ClusterState, EventReasons, GpuState, HcaState, NodeState

_SLOWDOWN_NAMES = {
    "sw_power_cap": "power cap",
    "hw_slowdown": "hardware slowdown",
    "hw_thermal": "too hot",
    "hw_power_brake": "power brake",
    "sw_thermal": "thermal limit",
    "app_clocks": "application clocks",
}


def inspect_node(node: NodeState, world: ClusterState) -> dict[str, Any]:
    """Return what the page shows of a node beside its summary."""
    ranks = [rank.rank for rank in world.job.of(node.name)]
    return {
        "driver": node.driver,
        "kernel": node.kernel,
        "up_hours": round(-node.booted / 3600, 1),
        "gpus": [_inspect_gpu(gpu) for gpu in node.gpus],
        "adapters": [_inspect_adapter(hca) for hca in node.hcas if hca.present],
        "services": [
            {"name": name, "state": f"{row.active} ({row.sub})", "well": row.active == "active"}
            for name, row in sorted(node.services.items())
            if row.load != "not-found"
        ],
        "job": {"id": world.job.id, "ranks": ranks, "running": world.job.ended is None},
    }


def _inspect_gpu(gpu: GpuState) -> dict[str, Any]:
    row: dict[str, Any] = {"index": gpu.index, "bus": gpu.bdf, "state": _describe_troubles(gpu)}
    if not gpu.answers:
        return row
    links = sum(link.active for link in gpu.links)
    errors = gpu.volatile.dram_unc + gpu.volatile.sram_unc_parity + gpu.volatile.sram_unc_secded
    return row | {
        "temp": gpu.temp,
        "watts": round(gpu.power_draw),
        "clock": gpu.sm_clock,
        "util": gpu.util,
        "links": f"{links}/{len(gpu.links)}" if gpu.links else "–",
        "errors": errors,
        "processes": len(gpu.procs),
    }


def _describe_troubles(gpu: GpuState) -> str:
    """Return the GPU's visible troubles in a few words, or ""."""
    if not gpu.answers:
        return "not on the bus" if gpu.missing else "does not answer"
    troubles = {
        "hangs": gpu.hang,
        "CUDA fails": bool(gpu.broken),
        "uncorrected memory errors": bool(gpu.volatile.dram_unc or gpu.volatile.sram_unc_parity or gpu.volatile.sram_unc_secded),
        "remap pending": gpu.remap.pending,
        "remap failed": gpu.remap.failure,
        "NVLinks down": any(not link.active for link in gpu.links),
        "corrupts data": gpu.corrupts,
        _describe_slowdown(gpu.reasons): bool(_describe_slowdown(gpu.reasons)),
    }
    return ", ".join(words for words, so in troubles.items() if so)


def _describe_slowdown(reasons: EventReasons) -> str:
    return ", ".join(words for name, words in _SLOWDOWN_NAMES.items() if getattr(reasons, name))


def _inspect_adapter(hca: HcaState) -> dict[str, Any]:
    up = hca.state == "Active"
    return {"name": hca.name, "state": f"{hca.state} ({hca.link_layer}, {hca.rate} Gb/s)" if up else f"{hca.state}, {hca.phys}", "well": up}
