"""The container engine, the job's container and its content, and the scheduler's view of the node."""

import json

from deploy.sandbox.cluster.answer import ShellAnswer, said
from deploy.sandbox.cluster.chance import token
from deploy.sandbox.cluster.machines import scheduler
from deploy.sandbox.cluster.render.view import View

HOUR = 3600.0


def info(view: View) -> ShellAnswer:
    """`docker info --format '{{json .}}'`, with the fields that are read."""
    if view.node.services["docker"].active != "active":
        return said("", 1, "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n")
    about = {"ID": token(view.seed, view.node.name, "docker")[:12], "Containers": 1, "ContainersRunning": 1, "Driver": "overlay2",
             "CgroupDriver": "systemd", "CgroupVersion": "2", "Runtimes": {name: {"path": name} for name in view.node.around.runtimes},
             "DefaultRuntime": "runc", "ServerVersion": "26.1.3"}  # fmt: skip
    return said(json.dumps(about) + "\n")


def listed(view: View) -> ShellAnswer:
    """`docker ps --no-trunc --format '{{json .}}'`."""
    if "nvidia" not in view.node.around.runtimes:
        return said("")
    row = {"ID": _id(view), "Image": _image(view), "Names": f"job-{view.job.id}", "State": "running", "Status": "Up"}
    return said(json.dumps(row) + "\n")


def inspected(view: View) -> ShellAnswer:
    """`rackmedic-look containers`: the job's container exists as long as its allocation."""
    if "nvidia" not in view.node.around.runtimes:
        return said("")
    around, begun = view.node.around, view.clock(view.job.started)
    row = {"id": _id(view), "name": f"/job-{view.job.id}", "image": _image(view), "status": "running", "oom": False,
           "exit": 0, "error": "", "started": f"{begun:%Y-%m-%dT%H:%M:%S}Z", "shm": around.shm_bytes, "ipc": "private",
           "runtime": "nvidia", "requests": [{"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}], "devices": [], "cuda": around.image.cuda,
           "cuda_env": [""]}  # fmt: skip
    return said(json.dumps(row) + "\n")


def devices(view: View) -> ShellAnswer:
    """`rackmedic-look inside nvidia-smi -L`; does not show faults of the host's GPUs, which the host's own checks
    cover.
    """
    if view.node.around.devices_lost:
        return _inside(view, "Failed to initialize NVML: Unknown Error\n", 255)
    if "nvidia" not in view.node.around.runtimes:
        return said("")
    return _inside(view, "".join(f"GPU {gpu.index}: {view.node.profile.product} (UUID: {gpu.uuid})\n" for gpu in view.node.gpus), 0)


def host_versions(view: View) -> ShellAnswer:
    """`python3 -c …` on the host, without PyTorch."""
    return said(json.dumps({"error": "error: No module named 'torch'", "rackmedic": "vers"}) + "\n")


def image_versions(view: View) -> ShellAnswer:
    """`rackmedic-look inside python3 -c …`."""
    image = view.node.around.image
    if "nvidia" not in view.node.around.runtimes:
        return said("")
    row = {"torch": image.torch, "cuda": image.cuda, "cudnn": image.cudnn_error or image.cudnn, "nccl": list(image.nccl), "archs": image.archs,
           "flash_attn": image.flash_attn, "rackmedic": "vers"}  # fmt: skip
    return _inside(view, json.dumps(row) + "\n", 0)


def shown(view: View) -> ShellAnswer:
    """`scontrol -o show node NODE`."""
    node = view.node
    name = view.slots.get("node", node.name)
    if name != node.name:
        return said(f"Node {name} not found\n", 1)
    base = "ALLOCATED" if _running(view) else "IDLE"
    state = base + ("*" if node.around.not_responding else "") + scheduler.flags_of(node)
    since = view.clock(-30 if node.drain else node.booted)
    why = scheduler.out_of_service(node)
    reason = f" Reason={why} [{scheduler.whose(node)}@{since:%Y-%m-%dT%H:%M:%S}]" if why else ""
    return said(f"NodeName={node.name} Arch=x86_64 CoresPerSocket={node.profile.cpus // 2} CPUTot={node.profile.cpus * 2} Gres=gpu:8 "
                f"NodeAddr={node.address} NodeHostName={node.name} State={state} ThreadsPerCore=2 Weight=1 Partitions=gpu{reason}\n")  # fmt: skip


def jobs(view: View) -> ShellAnswer:
    """`sacct -n -P -X -N NODE -S now-1days -o JobID,State,ExitCode,Start,End`."""
    if view.slots.get("node", view.node.name) != view.node.name:
        return said("")
    job, before = view.job, view.job.started - HOUR
    rows = [f"{int(job.id) - 3}|COMPLETED|0:0|{_stamp(view, before - 2 * HOUR)}|{_stamp(view, before)}"]
    state = view.node.around.last_job or ("RUNNING" if job.ended is None else "FAILED")
    code = {"RUNNING": "0:0", "PREEMPTED": "0:15"}.get(state, "1:0")
    ended = "Unknown" if job.ended is None else _stamp(view, job.ended)
    return said("\n".join([*rows, f"{job.id}|{state}|{code}|{_stamp(view, job.started)}|{ended}"]) + "\n")


def running(view: View) -> ShellAnswer:
    """`squeue -h -w NODE -o %A,%T,%u`."""
    if view.slots.get("node", view.node.name) != view.node.name:
        return said("slurm_load_jobs error: Invalid node name specified\n", 1)
    return said(f"{view.job.id},RUNNING,alice\n" if _running(view) else "")


def _stamp(view: View, t: float) -> str:
    return f"{view.clock(t):%Y-%m-%dT%H:%M:%S}"


def _running(view: View) -> bool:
    return view.job.ended is None


def container_id(seed: int, node: str, job: str) -> str:
    return token(seed, node, job, "container")[:64]


def _id(view: View) -> str:
    return container_id(view.seed, view.node.name, view.job.id)


def _image(view: View) -> str:
    return f"registry.local/pretrain:cu{view.node.around.image.cuda.replace('.', '')}"


def _inside(view: View, text: str, status: int) -> ShellAnswer:
    return said(f"== container {_id(view)}\n{text}\n== status {status}\n")
