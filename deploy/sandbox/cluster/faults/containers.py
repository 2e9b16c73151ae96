"""The container runtime on a node."""

from deploy.sandbox.cluster.faults.row import fault
from deploy.sandbox.cluster.faults.scene import Scene


@fault("S06", "SYSTEM_SOFTWARE.CONTAINER.Cgroup_Device_Loss", "Container lost its GPUs after a daemon-reload", "job", "dies")
def cgroup_device_loss(s: Scene) -> None:
    s.journal(
        "docker", "systemd[1]: Reloading requested from client PID 210331 ('systemctl') (unit session-418.scope)...", -30, 6, "systemd"
    )
    s.journal("docker", "systemd[1]: Reloading finished in 412 ms.", -29.6, 6, "systemd")
    s.node.around.devices_lost = True
    dead = s.job.of(s.node.name)
    for rank in dead:
        s.says(rank, "Failed to initialize NVML: Unknown Error", dt=0.4)
        s.raises(
            rank,
            "RuntimeError: CUDA error: no CUDA-capable device is detected",
            (("/workspace/train.py", 301, "main", "torch.cuda.empty_cache()"),),
        )
    s.peers_lose(dead, 4)


@fault("S07", "SYSTEM_SOFTWARE.CONTAINER.NVIDIA_Runtime_Missing", "Container runtime knows no NVIDIA GPUs", "node", "never starts")
def nvidia_runtime_missing(s: Scene) -> None:
    s.node.around.runtimes = tuple(name for name in s.node.around.runtimes if name != "nvidia")
    text = 'could not select device driver "" with capabilities: [[gpu]]'
    s.journal("docker", f'level=error msg="Handler for POST /v1.45/containers/create returned error: {text}"', 4, 3, "dockerd")
    dead = s.job.of(s.node.name)
    for rank in dead:
        rank.lines.clear()
        s.says(rank, f"docker: Error response from daemon: {text}.", dt=4)
    s.peers_lose(dead, 12)
