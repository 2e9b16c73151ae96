"""`nvidia-smi -q -x`, in the layout of the node's driver branch."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from deploy.sandbox.cluster.answer import ShellAnswer, text_answer
from deploy.sandbox.cluster.machines.profiles import CUDA_OF_BRANCH, get_driver_branch
from deploy.sandbox.cluster.machines.state import EccCounts, GpuState, NodeState
from deploy.sandbox.cluster.render.nvidia import find_failure, list_gpus
from deploy.sandbox.cluster.render.query import Query

LOST_TEXT = "GPU is lost"
# one `gpu` element; a line starting with `FROM-TO|` exists only in those driver branches
TEMPLATE = Path(__file__).with_name("smi_query.tmpl")


def render_query(query: Query) -> ShellAnswer:
    """Render all GPUs. Every value of a lost one is "GPU is lost"; a corrupt infoROM causes a warning on stderr."""
    node = query.node
    if trouble := find_failure(node):
        return trouble
    gpus = list_gpus(node)
    dtd = "v13" if get_driver_branch(node.driver) >= 580 else "v12"
    head = (
        '<?xml version="1.0" ?>\n'
        f'<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_{dtd}.dtd">\n'
        "<nvidia_smi_log>\n"
        f"\t<timestamp>{query.now:%a %b %e %H:%M:%S %Y}</timestamp>\n"
        f"\t<driver_version>{node.driver}</driver_version>\n"
        f"\t<cuda_version>{CUDA_OF_BRANCH[get_driver_branch(node.driver)]}</cuda_version>\n"
        f"\t<attached_gpus>{len(gpus)}</attached_gpus>\n"
    )
    bodies = [_render_gpu(node, number, gpu) for number, gpu in gpus]
    warnings = "".join(f"WARNING: infoROM is corrupted at gpu {gpu.bdf.upper()}\n" for _, gpu in gpus if not gpu.inforom_ok)
    return text_answer(head + "\n".join(bodies) + "\n</nvidia_smi_log>\n", 14 if warnings else 0, warnings)


def _render_gpu(node: NodeState, number: int, gpu: GpuState) -> str:
    layout = _read_layout(get_driver_branch(node.driver), node.profile.absolute_temps)
    if gpu.lost:
        only_names = {"bus_id": f"0000{gpu.bdf.upper()}", "processes": "", "mig_devices": LOST_TEXT}
        return layout.format_map(_LostGpuValues(only_names))
    return layout.format_map(_build_values(node, number, gpu))


class _LostGpuValues(dict[str, str]):
    """Values of a lost GPU: all but the given ones are LOST_TEXT."""

    def __missing__(self, key: str) -> str:
        return LOST_TEXT


@cache
def _read_layout(branch: int, absolute: bool) -> str:
    """Return a branch's template: temperature limits are absolute before Ada and Hopper, margins from then on."""
    lines = []
    for template_line in TEMPLATE.read_text().splitlines():
        scope, bar, text = template_line.partition("|")
        if not bar:
            lines.append(template_line)
            continue
        first, _, rest = scope.partition("-")
        last, _, kind = rest.partition("/")
        if int(first) <= branch <= int(last or 999) and kind in ("", "absolute" if absolute else "margin"):
            lines.append(text)
    return "\n".join(lines)


def _build_values(node: NodeState, number: int, gpu: GpuState) -> dict[str, str]:
    profile, remap = node.profile, gpu.remap
    used = sum(proc.mib for proc in gpu.procs)
    spare = profile.banks - remap.high - remap.partial - remap.low - remap.none
    power = "Unknown Error" if gpu.power_unknown else f"{gpu.power_draw:.2f} W"
    return {
        "bus_id": f"0000{gpu.bdf.upper()}",
        "bus": gpu.bdf[5:7].upper(),
        "product": profile.product,
        "architecture": profile.architecture,
        "persistence": _format_enabled(gpu.persistence),
        "mig": _format_enabled(gpu.mig),
        "mig_devices": _render_mig_devices(profile.memory_mib) if gpu.mig else "\n\t\t\tNone\n\t\t",
        "serial": gpu.serial,
        "uuid": gpu.uuid,
        "number": str(number),
        "vbios": profile.vbios,
        "board": profile.board,
        "part": f"{profile.pci_device.upper()}-885-A1",
        "module": str(gpu.index + 1),
        "image": "N/A" if not gpu.inforom_ok else f"G{profile.board[5:8]}.0200.00.05",
        "needs_reset": "Yes" if gpu.recovery_action != "None" or remap.pending else "No",
        "recovery": gpu.recovery_action,
        "driver": node.driver,
        "device": profile.pci_device.upper() + "10DE",
        "subsystem": profile.pci_subsystem.upper() + "10DE",
        "gen": str(gpu.pcie_gen),
        "gen_max": str(profile.pcie_gen),
        "width": f"{gpu.pcie_width}x",
        "replay": str(gpu.pcie_replay),
        "pstate": "P0",
        **_build_clock_reasons(gpu),
        "fb_total": f"{profile.memory_mib} MiB",
        "fb_reserved": f"{profile.reserved_mib} MiB",
        "fb_used": f"{used} MiB",
        "fb_free": f"{max(profile.memory_mib - profile.reserved_mib - used, 0)} MiB",
        "bar1": f"{profile.bar1_mib} MiB",
        "bar1_free": f"{profile.bar1_mib - 1} MiB",
        "compute_mode": gpu.compute_mode,
        "util": f"{gpu.util} %",
        "memory_util": f"{gpu.util * 2 // 5} %",
        **_build_ecc_counts("v", gpu.volatile),
        **_build_ecc_counts("a", gpu.aggregate),
        "threshold": _format_yes(gpu.sram_threshold_exceeded),
        "remap_corr": str(remap.corr),
        "remap_unc": str(remap.unc),
        "remap_pending": _format_yes(remap.pending),
        "remap_failure": _format_yes(remap.failure),
        "banks_max": str(spare),
        "banks_high": str(remap.high),
        "banks_partial": str(remap.partial),
        "banks_low": str(remap.low),
        "banks_none": str(remap.none),
        "temp": f"{gpu.temp} C",
        "margin": f"{87 - gpu.temp} C",
        "memory_temp": f"{gpu.memory_temp} C",
        "power": power,
        "limit": f"{gpu.power_limit:.2f} W",
        "default_limit": f"{profile.power_limit:.2f} W",
        "min_limit": f"{profile.power_min:.2f} W",
        "sm": f"{gpu.sm_clock} MHz",
        "mem": f"{gpu.mem_clock} MHz",
        "app": f"{gpu.app_clock} MHz",
        "app_default": f"{profile.app_clock} MHz",
        "sm_max": f"{profile.sm_max} MHz",
        "mem_max": f"{profile.mem_clock} MHz",
        "fabric_state": gpu.fabric_state,
        "fabric_status": gpu.fabric_status,
        "processes": "".join(_render_process(proc.pid, proc.name, proc.mib) for proc in gpu.procs),
    }


def _build_clock_reasons(gpu: GpuState) -> dict[str, str]:
    reasons = gpu.reasons
    active_by_name = {
        "idle": reasons.idle, "app_clocks": reasons.app_clocks, "sw_power_cap": reasons.sw_power_cap, "hw_slowdown": reasons.hw_slowdown,
        "hw_thermal": reasons.hw_thermal, "hw_power_brake": reasons.hw_power_brake, "sync_boost": reasons.sync_boost, "sw_thermal": reasons.sw_thermal,
    }  # fmt: skip
    return {f"r_{name}": "Active" if active else "Not Active" for name, active in active_by_name.items()}


def _build_ecc_counts(prefix: str, counts: EccCounts) -> dict[str, str]:
    return {
        f"{prefix}_sram_corr": str(counts.sram_corr),
        f"{prefix}_sram_unc": str(counts.sram_unc_parity + counts.sram_unc_secded),
        f"{prefix}_sram_parity": str(counts.sram_unc_parity),
        f"{prefix}_sram_secded": str(counts.sram_unc_secded),
        f"{prefix}_dram_corr": str(counts.dram_corr),
        f"{prefix}_dram_unc": str(counts.dram_unc),
    }


def _render_process(pid: int, name: str, mib: int) -> str:
    escaped_name = name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    values = {
        "gpu_instance_id": "N/A",
        "compute_instance_id": "N/A",
        "pid": pid,
        "type": "C",
        "process_name": escaped_name,
        "used_memory": f"{mib} MiB",
    }
    return _render_element("process_info", 3, values)


def _render_mig_devices(memory_mib: int) -> str:
    total = memory_mib // 8
    memory = {"total": f"{total} MiB", "used": "12 MiB", "free": f"{total - 12} MiB"}
    slices = (
        {
            "index": i,
            "gpu_instance_id": i + 7,
            "compute_instance_id": 0,
            "device_attributes": {"shared": {"multiprocessor_count": 16, "copy_engine_count": 1}},
            "ecc_error_count": {"volatile_count": {"sram_uncorrectable": 0}},
            "fb_memory_usage": memory,
        }
        for i in range(7)
    )
    return "".join(_render_element("mig_device", 3, values) for values in slices) + "\n\t\t"


def _render_element(name: str, depth: int, children: Mapping[str, Any]) -> str:
    tabs = "\t" * depth
    inner = "".join(
        _render_element(key, depth + 1, value) if isinstance(value, dict) else f"\n{tabs}\t<{key}>{value}</{key}>"
        for key, value in children.items()
    )
    return f"\n{tabs}<{name}>{inner}\n{tabs}</{name}>"


def _format_enabled(on: bool) -> str:
    return "Enabled" if on else "Disabled"


def _format_yes(on: bool) -> str:
    return "Yes" if on else "No"
