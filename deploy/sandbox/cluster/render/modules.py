"""Kernel modules and the kernel itself."""

from deploy.sandbox.cluster.answer import ShellAnswer, text_answer
from deploy.sandbox.cluster.machines.state import NodeState
from deploy.sandbox.cluster.render.query import Query

_MODULE_USERS = {
    "nvidia": "nvidia_uvm,nvidia_peermem,gdrdrv,nvidia_modeset", "nvidia_modeset": "nvidia_drm", "mlx5_core": "mlx5_ib",
    "ib_core": "rdma_cm,ib_ipoib,nvidia_peermem,rdma_ucm,ib_uverbs,mlx5_ib", "ib_uverbs": "nvidia_peermem,rdma_ucm,mlx5_ib",
    "rdma_cm": "rdma_ucm", "nvme_core": "nvme", "sunrpc": "nfsv4,nfs", "nfs": "nfsv4", "mlxfw": "mlx5_core", "psample": "mlx5_core",
    "ipmi_msghandler": "ipmi_si", "drm": "nvidia,nvidia_drm",
}  # fmt: skip


def render_lsmod(query: Query) -> ShellAnswer:
    """`lsmod`."""
    loaded = query.node.modules
    lines = ["Module                  Size  Used by"]
    for name, size in loaded.items():
        users = [user for user in _MODULE_USERS.get(name, "").split(",") if user in loaded]
        lines.append(f"{name:<20} {size:>8}  {len(users)} {','.join(users)}".rstrip())
    return text_answer("\n".join(lines) + "\n")


def render_loaded_version(query: Query) -> ShellAnswer:
    """`cat /proc/driver/nvidia/version`: the module in the kernel."""
    if not query.node.driver:
        return text_answer("", 1, "cat: /proc/driver/nvidia/version: No such file or directory\n")
    version = (
        f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {query.node.driver}  Release Build  "
        "(dvs-builder@U16-I3-B03-4-5)  Thu May  8 00:51:08 UTC 2025\n"
    )
    return text_answer(version + "GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)\n")


def render_modinfo(query: Query) -> ShellAnswer:
    """`modinfo -F version nvidia`: the module on disk for this kernel."""
    if not query.node.driver_disk:
        return text_answer("", 1, "modinfo: ERROR: Module nvidia not found.\n")
    return text_answer(query.node.driver_disk + "\n")


def render_dkms(query: Query) -> ShellAnswer:
    """`dkms status`."""
    return text_answer("".join(f"{line}\n" for line in query.node.dkms))


def render_fabric_manager_version(query: Query) -> ShellAnswer:
    """`nv-fabricmanager --version`: the program on disk, on nodes with NVSwitches."""
    if not query.node.profile.switches:
        return text_answer("", 127, "bash: line 1: nv-fabricmanager: command not found\n")
    return text_answer(f"Fabric Manager version is : {query.node.fm_version}\n")


def render_uname(query: Query) -> ShellAnswer:
    """`uname -r`."""
    return text_answer(query.node.kernel + "\n")


def render_module_table(query: Query) -> ShellAnswer:
    """`cat /proc/modules`."""
    return text_answer(format_proc_modules(query.node))


def format_proc_modules(node: NodeState) -> str:
    """Return /proc/modules; every CUDA program holds nvidia_uvm."""
    users = {"nvidia_uvm": sum(len(gpu.procs) for gpu in node.gpus)}
    return "".join(f"{name} {size} {users.get(name, 0)} - Live 0x0000000000000000\n" for name, size in node.modules.items())
