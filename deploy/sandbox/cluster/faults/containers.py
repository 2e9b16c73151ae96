"""The container runtime on a node."""

from deploy.sandbox.cluster.faults.context import FaultContext
from deploy.sandbox.cluster.faults.registry import register_fault


@register_fault("S06", "SYSTEM_SOFTWARE.CONTAINER.Cgroup_Device_Loss", "Container lost its GPUs after a daemon-reload", "job", "dies")
def cgroup_device_loss(context: FaultContext) -> None:
    context.log_journal(
        "docker", "systemd[1]: Reloading requested from client PID 210331 ('systemctl') (unit session-418.scope)...", -30, 6, "systemd"
    )
    context.log_journal("docker", "systemd[1]: Reloading finished in 412 ms.", -29.6, 6, "systemd")
    context.node.environment.devices_lost = True
    dead = context.job.of(context.node.name)
    for rank in dead:
        context.write_log(rank, "Failed to initialize NVML: Unknown Error", dt=0.4)
        context.raise_exception(
            rank,
            "RuntimeError: CUDA error: no CUDA-capable device is detected",
            (("/workspace/train.py", 301, "main", "torch.cuda.empty_cache()"),),
        )
    context.disconnect_peers(dead, 4)


@register_fault("S07", "SYSTEM_SOFTWARE.CONTAINER.NVIDIA_Runtime_Missing", "Container runtime knows no NVIDIA GPUs", "node", "never starts")
def nvidia_runtime_missing(context: FaultContext) -> None:
    context.node.environment.runtimes = tuple(name for name in context.node.environment.runtimes if name != "nvidia")
    text = 'could not select device driver "" with capabilities: [[gpu]]'
    context.log_journal("docker", f'level=error msg="Handler for POST /v1.45/containers/create returned error: {text}"', 4, 3, "dockerd")
    dead = context.job.of(context.node.name)
    for rank in dead:
        rank.lines.clear()
        context.write_log(rank, f"docker: Error response from daemon: {text}.", dt=4)
    context.disconnect_peers(dead, 12)
