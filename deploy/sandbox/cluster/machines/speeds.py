"""Results that load tests would measure on a node: pure functions of its state, without noise."""

from collections.abc import Mapping

from deploy.sandbox.cluster.machines.state import GpuState, HcaState, NodeState

# `gpu_burn -tc` on one GPU, TFLOPS
TFLOPS: Mapping[str, float] = {"dgx-h100-8": 402.0, "hgx-h200-8": 405.0, "hgx-a100-8": 118.0, "pcie-l40s-8": 84.0}
PEER_COPY_RATES: Mapping[str, float] = {"dgx-h100-8": 343.0, "hgx-h200-8": 345.0, "hgx-a100-8": 241.0, "pcie-l40s-8": 23.4}
# all-gather between two nodes, GB/s
ALL_GATHER_RATES: Mapping[str, float] = {"dgx-h100-8": 352.0, "hgx-h200-8": 354.0, "hgx-a100-8": 178.0, "pcie-l40s-8": 21.0}
COPY_RATE_PER_LANE = {3: 0.77, 4: 1.54, 5: 3.42}  # GB/s that a copy reaches per PCIe lane, by generation


def find_cuda_error(node: NodeState, ranks: int) -> str:
    """Return CUDA's error when it cannot start on all GPUs, or ""."""
    if not node.driver:
        return "no CUDA-capable device is detected"
    if node.driver != node.driver_user:
        return "system has unsupported display driver / cuda driver combination"
    if node.fabric_broken and node.profile.switches:
        return "system not yet initialized"
    if sum(gpu.answers for gpu in node.gpus) < ranks or any(gpu.mig for gpu in node.gpus):
        return "invalid device ordinal"
    if any(gpu.compute_mode != "Default" and gpu.procs for gpu in node.gpus):
        return "CUDA-capable device(s) is/are busy or unavailable"
    return next((gpu.broken for gpu in node.gpus if gpu.broken), "")


CODES = {
    "no CUDA-capable device is detected": 100,
    "invalid device ordinal": 101,
    "CUDA-capable device(s) is/are busy or unavailable": 46,
    "system not yet initialized": 802,
    "system has unsupported display driver / cuda driver combination": 803,
    "unspecified launch failure": 719,
    "the launch timed out and was terminated": 702,
    "unknown error": 999,
}


def get_clock_share(gpu: GpuState) -> float:
    """Return the share of full speed under load."""
    reasons = gpu.reasons
    if reasons.app_clocks:
        return 0.2
    if reasons.hw_thermal:
        return 0.4
    if reasons.hw_power_brake:
        return 0.5
    return 0.65 if reasons.sw_power_cap else 1.0


def get_tflops(node: NodeState, gpu: GpuState) -> float:
    return TFLOPS[node.profile.name] * get_clock_share(gpu)


def get_host_copy_rate(gpu: GpuState) -> float:
    """Return host-to-GPU bandwidth in one direction, GB/s."""
    return COPY_RATE_PER_LANE[gpu.pcie_gen] * gpu.pcie_width


def get_peer_copy_rate(node: NodeState, one: GpuState, other: GpuState) -> float | None:
    """Return bandwidth between two GPUs in GB/s; None for a GPU with itself."""
    if one is other:
        return None
    rate = PEER_COPY_RATES[node.profile.name]
    if node.profile.links and any(not link.active for gpu in (one, other) for link in gpu.links):
        return 21.0
    for gpu in (one, other):
        marginal = any(link.crc for link in gpu.links)
        if marginal and {one.index, other.index} == {gpu.index, (gpu.index + 1) % len(node.gpus)}:
            rate *= 0.7
    if node.profile.links:
        return rate
    return rate / 4 if node.acs else min(rate, *(get_host_copy_rate(gpu) for gpu in (one, other)))


def get_all_reduce_rate(node: NodeState) -> float:
    """Return one node's all-reduce bus bandwidth plateau, GB/s."""
    profile = node.profile
    if profile.links and any(not link.active for gpu in node.gpus for link in gpu.links):
        return 19.0
    value = profile.busbw
    if any(link.crc for gpu in node.gpus for link in gpu.links):
        value *= 0.70
    if node.acs and not profile.links:
        value *= 0.35
    return value


def explain_missing_rdma(hca: HcaState) -> str:
    """Return why RDMA over an adapter fails, or ""."""
    if not hca.present:
        return "absent"
    return "" if hca.state == "Active" else hca.state


def get_rdma_write_rate(one: HcaState, other: HcaState) -> float:
    """Return the RDMA write rate between two adapters, Gb/s."""
    return min(_get_adapter_rate(one), _get_adapter_rate(other))


def _get_adapter_rate(hca: HcaState) -> float:
    return hca.rate * 0.978 * (0.6 if hca.counters.get("symbol_error", 0) > 1000 else 1.0)


def is_congested(node: NodeState) -> bool:
    """Return whether the node's leaf has links that wait to send."""
    return any(hca.rising.get("port_xmit_wait", 0) > 1_000_000 for hca in node.hcas)


def is_dropping(node: NodeState) -> bool:
    """Return whether the node's leaf drops packets."""
    return any(hca.rising.get("out_of_sequence", 0) > 100 for hca in node.hcas)


def explain_failed_group(nodes: list[NodeState], ranks: int) -> str:
    """Return why an all-gather over these nodes fails, or ""."""
    for node in nodes:
        if why := find_cuda_error(node, ranks):
            return f"{node.name}: Test CUDA failure common.cu:941 '{why}'"
        if down := next((hca for hca in node.hcas if explain_missing_rdma(hca)), None):
            return f"{node.name}: Test NCCL failure common.cu:1005 'remote process exited or there was a network error', {down.name} {explain_missing_rdma(down)}"
    keys = {hca.pkeys for node in nodes for hca in node.hcas}
    return f"{nodes[0].name}: Test NCCL failure common.cu:1005 'unhandled system error'" if len(keys) > 1 else ""


def get_all_gather_rate(nodes: list[NodeState]) -> float:
    """Return the all-gather rate over several nodes, GB/s, limited by the slowest."""
    rate = min(ALL_GATHER_RATES[node.profile.name] * _get_adapter_share(node) for node in nodes)
    rate = min(rate, *(get_all_reduce_rate(node) for node in nodes))
    inside = sum(is_congested(node) for node in nodes)
    across = {is_dropping(node) for node in nodes}
    return rate * (0.45 if inside > 1 or len(across) > 1 else 1.0)


def _get_adapter_share(node: NodeState) -> float:
    full = node.profile.hca_rate * 0.978
    slowest = min((_get_adapter_rate(hca) for hca in node.hcas), default=full) / full
    return slowest * (1.0 if "nvidia_peermem" in node.modules else 0.45)
