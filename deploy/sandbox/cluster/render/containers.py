"""The container engine, the job's container and its content, and the scheduler's view of the node."""

import json

from deploy.sandbox.cluster.answer import ShellAnswer, text_answer
from deploy.sandbox.cluster.chance import make_token
from deploy.sandbox.cluster.machines import scheduler
from deploy.sandbox.cluster.render.view import View

HOUR = 3600.0


def render_info(view: View) -> ShellAnswer:
    """`docker info --format '{{json .}}'`, with the fields that are read."""
    if view.node.services["docker"].active != "active":
        return text_answer("", 1, "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n")
    about = {"ID": make_token(view.seed, view.node.name, "docker")[:12], "Containers": 1, "ContainersRunning": 1, "Driver": "overlay2",
             "CgroupDriver": "systemd", "CgroupVersion": "2", "Runtimes": {name: {"path": name} for name in view.node.environment.runtimes},
             "DefaultRuntime": "runc", "ServerVersion": "26.1.3"}  # fmt: skip
    return text_answer(json.dumps(about) + "\n")


def render_list(view: View) -> ShellAnswer:
    """`docker ps --no-trunc --format '{{json .}}'`."""
    if "nvidia" not in view.node.environment.runtimes:
        return text_answer("")
    row = {"ID": _get_container_id(view), "Image": _get_image_name(view), "Names": f"job-{view.job.id}", "State": "running", "Status": "Up"}
    return text_answer(json.dumps(row) + "\n")


def render_inspected(view: View) -> ShellAnswer:
    """`rackmedic-look containers`: the job's container exists as long as its allocation."""
    if "nvidia" not in view.node.environment.runtimes:
        return text_answer("")
    environment, begun = view.node.environment, view.clock(view.job.started)
    row = {"id": _get_container_id(view), "name": f"/job-{view.job.id}", "image": _get_image_name(view), "status": "running", "oom": False,
           "exit": 0, "error": "", "started": f"{begun:%Y-%m-%dT%H:%M:%S}Z", "shm": environment.shm_bytes, "ipc": "private",
           "runtime": "nvidia", "requests": [{"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}], "devices": [], "cuda": environment.image.cuda,
           "cuda_env": [""]}  # fmt: skip
    return text_answer(json.dumps(row) + "\n")


def render_devices(view: View) -> ShellAnswer:
    """`rackmedic-look inside nvidia-smi -L`; does not show faults of the host's GPUs, which the host's own checks
    cover.
    """
    if view.node.environment.devices_lost:
        return _frame_container_output(view, "Failed to initialize NVML: Unknown Error\n", 255)
    if "nvidia" not in view.node.environment.runtimes:
        return text_answer("")
    return _frame_container_output(
        view, "".join(f"GPU {gpu.index}: {view.node.profile.product} (UUID: {gpu.uuid})\n" for gpu in view.node.gpus), 0
    )


def render_host_versions(view: View) -> ShellAnswer:
    """`python3 -c …` on the host, without PyTorch."""
    return text_answer(json.dumps({"error": "error: No module named 'torch'", "rackmedic": "vers"}) + "\n")


def render_image_versions(view: View) -> ShellAnswer:
    """`rackmedic-look inside python3 -c …`."""
    image = view.node.environment.image
    if "nvidia" not in view.node.environment.runtimes:
        return text_answer("")
    row = {"torch": image.torch, "cuda": image.cuda, "cudnn": image.cudnn_error or image.cudnn, "nccl": list(image.nccl), "archs": image.archs,
           "flash_attn": image.flash_attn, "rackmedic": "vers"}  # fmt: skip
    return _frame_container_output(view, json.dumps(row) + "\n", 0)


def render_slurm_node(view: View) -> ShellAnswer:
    """`scontrol -o show node NODE`."""
    node = view.node
    name = view.slots.get("node", node.name)
    if name != node.name:
        return text_answer(f"Node {name} not found\n", 1)
    base = "ALLOCATED" if _is_job_running(view) else "IDLE"
    state = base + ("*" if node.environment.not_responding else "") + scheduler.get_state_flags(node)
    since = view.clock(-30 if node.drain else node.booted)
    why = scheduler.get_drain_reason(node)
    reason = f" Reason={why} [{scheduler.get_reason_user(node)}@{since:%Y-%m-%dT%H:%M:%S}]" if why else ""
    return text_answer(f"NodeName={node.name} Arch=x86_64 CoresPerSocket={node.profile.cpus // 2} CPUTot={node.profile.cpus * 2} Gres=gpu:8 "
                f"NodeAddr={node.address} NodeHostName={node.name} State={state} ThreadsPerCore=2 Weight=1 Partitions=gpu{reason}\n")  # fmt: skip


def render_finished_jobs(view: View) -> ShellAnswer:
    """`sacct -n -P -X -N NODE -S now-1days -o JobID,State,ExitCode,Start,End`."""
    if view.slots.get("node", view.node.name) != view.node.name:
        return text_answer("")
    job, before = view.job, view.job.started - HOUR
    rows = [f"{int(job.id) - 3}|COMPLETED|0:0|{_format_time(view, before - 2 * HOUR)}|{_format_time(view, before)}"]
    state = view.node.environment.last_job or ("RUNNING" if job.ended is None else "FAILED")
    code = {"RUNNING": "0:0", "PREEMPTED": "0:15"}.get(state, "1:0")
    ended = "Unknown" if job.ended is None else _format_time(view, job.ended)
    return text_answer("\n".join([*rows, f"{job.id}|{state}|{code}|{_format_time(view, job.started)}|{ended}"]) + "\n")


def render_running_jobs(view: View) -> ShellAnswer:
    """`squeue -h -w NODE -o %A,%T,%u`."""
    if view.slots.get("node", view.node.name) != view.node.name:
        return text_answer("slurm_load_jobs error: Invalid node name specified\n", 1)
    return text_answer(f"{view.job.id},RUNNING,alice\n" if _is_job_running(view) else "")


def _format_time(view: View, t: float) -> str:
    return f"{view.clock(t):%Y-%m-%dT%H:%M:%S}"


def _is_job_running(view: View) -> bool:
    return view.job.ended is None


def make_container_id(seed: int, node: str, job: str) -> str:
    return make_token(seed, node, job, "container")[:64]


def _get_container_id(view: View) -> str:
    return make_container_id(view.seed, view.node.name, view.job.id)


def _get_image_name(view: View) -> str:
    return f"registry.local/pretrain:cu{view.node.environment.image.cuda.replace('.', '')}"


def _frame_container_output(view: View, text: str, status: int) -> ShellAnswer:
    return text_answer(f"== container {_get_container_id(view)}\n{text}\n== status {status}\n")
