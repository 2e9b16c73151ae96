"""nvidia-smi except `-q -x`: topology, NVLinks, compute processes, and failures of the whole tool."""

from deploy.sandbox.cluster.answer import HANGING, ShellAnswer, text_answer
from deploy.sandbox.cluster.machines.state import GpuState, NodeState
from deploy.sandbox.cluster.render.query import Query

_NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n\n"
)
_LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def find_failure(node: NodeState) -> ShellAnswer | None:
    """Return nvidia-smi's failure before it reads any GPU, or None."""
    if not node.driver:
        return text_answer(_NO_DRIVER, 9)
    if node.driver != node.driver_user:
        library = ".".join(node.driver_user.split(".")[:2])
        return text_answer(f"Failed to initialize NVML: Driver/library version mismatch\nNVML library version: {library}\n", 18)
    return HANGING if any(gpu.hang for gpu in node.gpus) else None


def list_gpus(node: NodeState) -> list[tuple[int, GpuState]]:
    """Return the GPUs the driver enumerates, with nvidia-smi's indices."""
    return list(enumerate(gpu for gpu in node.gpus if not gpu.missing))


def render_topology(query: Query) -> ShellAnswer:
    """`nvidia-smi topo -m`."""
    node = query.node
    if failure := find_failure(node):
        return failure
    gpus = [(number, gpu) for number, gpu in list_gpus(node) if not gpu.lost]
    nics = [hca for hca in node.hcas if hca.present]
    columns = [
        "",
        *(f"GPU{number}" for number, _ in gpus),
        *(f"NIC{i}" for i in range(len(nics))),
        "CPU Affinity",
        "NUMA Affinity",
        "GPU NUMA ID",
    ]
    lines = ["\t".join(columns)]
    for number, gpu in gpus:
        cells = [_describe_gpu_path(node, gpu, other) for _, other in gpus]
        cells += [_describe_nic_path(node, gpu.index, i) for i in range(len(nics))]
        lines.append("\t".join([f"GPU{number}", *cells, _get_cpu_ranges(node, gpu.index), str(_get_socket(node, gpu.index)), "", "N/A"]))
    for i in range(len(nics)):
        cells = [_describe_nic_path(node, gpu.index, i) for _, gpu in gpus]
        cells += [_describe_nic_to_nic_path(node, i, j) for j in range(len(nics))]
        lines.append("\t".join([f"NIC{i}", *cells]))
    legend = "".join(f"  NIC{i}: {hca.name}\n" for i, hca in enumerate(nics))
    return text_answer("\n".join(lines) + "\n" + _LEGEND + f"\nNIC Legend:\n\n{legend}\n")


def render_link_status(query: Query) -> ShellAnswer:
    """`nvidia-smi nvlink -s`."""
    if failure := find_failure(query.node):
        return failure
    lines = []
    for number, gpu in _list_linked_gpus(query.node):
        lines.append(_format_heading(number, gpu, query))
        for i, link in enumerate(gpu.links):
            lines.append(f"\t Link {i}: {query.node.profile.link_speed + ' GB/s' if link.active else '<inactive>'}\n")
    return text_answer("".join(lines))


def render_link_errors(query: Query) -> ShellAnswer:
    """`nvidia-smi nvlink -e`, without inactive links."""
    if failure := find_failure(query.node):
        return failure
    lines = []
    for number, gpu in _list_linked_gpus(query.node):
        lines.append(_format_heading(number, gpu, query))
        for i, link in enumerate(gpu.links):
            if link.active:
                lines.append(
                    f"\t Link {i}: Replay Errors: {link.replay}\n\t Link {i}: Recovery Errors: {link.recovery}\n\t Link {i}: CRC Errors: {link.crc}\n\n"
                )
    return text_answer("".join(lines))


def render_compute_apps(query: Query) -> ShellAnswer:
    """`nvidia-smi --query-compute-apps=gpu_bus_id,pid,process_name,used_memory --format=csv,noheader,nounits`."""
    if failure := find_failure(query.node):
        return failure
    lines = [
        f"0000{gpu.bdf.upper()}, {proc.pid}, {proc.name}, {proc.mib}\n"
        for _, gpu in list_gpus(query.node) if gpu.answers for proc in gpu.procs
    ]  # fmt: skip
    return text_answer("".join(lines))


def render_gpu_users(query: Query) -> ShellAnswer:
    """`nvidia-smi --query-compute-apps=pid --format=csv,noheader [-i BDF]`."""
    if failure := find_failure(query.node):
        return failure
    address = query.slots.get("bdf", "")
    gpus = [gpu for _, gpu in list_gpus(query.node) if gpu.answers and address in ("", gpu.bdf.lower())]
    return text_answer("".join(f"{proc.pid}\n" for gpu in gpus for proc in gpu.procs))


def _list_linked_gpus(node: NodeState) -> list[tuple[int, GpuState]]:
    return [(number, gpu) for number, gpu in list_gpus(node) if gpu.links and not gpu.lost]


def _format_heading(number: int, gpu: GpuState, query: Query) -> str:
    return f"GPU {number}: {query.node.profile.product} (UUID: {gpu.uuid})\n"


def _count_active_links(gpu: GpuState) -> int:
    """Return the GPU's number of NVLinks to the switches."""
    return 0 if gpu.mig else sum(link.active for link in gpu.links)


def _describe_gpu_path(node: NodeState, one: GpuState, other: GpuState) -> str:
    if one is other:
        return " X "
    width = min(_count_active_links(one), _count_active_links(other))
    if width:
        return f"NV{width}"
    return "NODE" if _get_socket(node, one.index) == _get_socket(node, other.index) else "SYS"


def _describe_nic_path(node: NodeState, gpu: int, nic: int) -> str:
    per_nic = len(node.gpus) // len(node.profile.hca_buses)
    if gpu // per_nic == nic:
        return "PIX"
    return "NODE" if _get_socket(node, gpu) == _get_socket(node, nic * per_nic) else "SYS"


def _describe_nic_to_nic_path(node: NodeState, one: int, other: int) -> str:
    if one == other:
        return " X "
    half = max(len(node.profile.hca_buses) // 2, 1)
    return "NODE" if one // half == other // half else "SYS"


def _get_socket(node: NodeState, gpu: int) -> int:
    return gpu * 2 // len(node.gpus)


def _get_cpu_ranges(node: NodeState, gpu: int) -> str:
    cores = node.profile.cpus // 2
    first = _get_socket(node, gpu) * cores
    first_sibling = node.profile.cpus + first  # hyper-threads are numbered after all cores
    return f"{first}-{first + cores - 1},{first_sibling}-{first_sibling + cores - 1}"
