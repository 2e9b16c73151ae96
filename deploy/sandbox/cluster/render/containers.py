"""The container engine, the job's container and its content, and the scheduler's view of the node."""

import json

from deploy.sandbox.cluster.answer import ShellAnswer, text_answer
from deploy.sandbox.cluster.machines import scheduler
from deploy.sandbox.cluster.render.query import Query
from deploy.sandbox.cluster.seeded_random import make_token

HOUR = 3600.0


def render_info(query: Query) -> ShellAnswer:
    """`docker info --format '{{json .}}'`, with the fields that are read."""
    if query.node.services["docker"].active != "active":
        return text_answer("", 1, "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n")
    info = {"ID": make_token(query.seed, query.node.name, "docker")[:12], "Containers": 1, "ContainersRunning": 1, "Driver": "overlay2",
             "CgroupDriver": "systemd", "CgroupVersion": "2", "Runtimes": {name: {"path": name} for name in query.node.environment.runtimes},
             "DefaultRuntime": "runc", "ServerVersion": "26.1.3"}  # fmt: skip
    return text_answer(json.dumps(info) + "\n")


def render_list(query: Query) -> ShellAnswer:
    """`docker ps --no-trunc --format '{{json .}}'`."""
    if "nvidia" not in query.node.environment.runtimes:
        return text_answer("")
    container = {
        "ID": _get_container_id(query),
        "Image": _get_image_name(query),
        "Names": f"job-{query.job.id}",
        "State": "running",
        "Status": "Up",
    }
    return text_answer(json.dumps(container) + "\n")


def render_inspected(query: Query) -> ShellAnswer:
    """`rackmedic-look containers`: the job's container exists as long as its allocation."""
    if "nvidia" not in query.node.environment.runtimes:
        return text_answer("")
    environment = query.node.environment
    started = query.clock(query.job.started)
    container = {"id": _get_container_id(query), "name": f"/job-{query.job.id}", "image": _get_image_name(query), "status": "running", "oom": False,
           "exit": 0, "error": "", "started": f"{started:%Y-%m-%dT%H:%M:%S}Z", "shm": environment.shm_bytes, "ipc": "private",
           "runtime": "nvidia", "requests": [{"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}], "devices": [], "cuda": environment.image.cuda,
           "cuda_env": [""]}  # fmt: skip
    return text_answer(json.dumps(container) + "\n")


def render_devices(query: Query) -> ShellAnswer:
    """`rackmedic-look inside nvidia-smi -L`.

    It does not show faults of the host's GPUs, which the host's own checks cover.
    """
    if query.node.environment.devices_lost:
        return _frame_container_output(query, "Failed to initialize NVML: Unknown Error\n", 255)
    if "nvidia" not in query.node.environment.runtimes:
        return text_answer("")
    lines = [f"GPU {gpu.index}: {query.node.profile.product} (UUID: {gpu.uuid})\n" for gpu in query.node.gpus]
    return _frame_container_output(query, "".join(lines), 0)


def render_host_versions(query: Query) -> ShellAnswer:
    """`python3 -c …` on the host, without PyTorch."""
    return text_answer(json.dumps({"error": "error: No module named 'torch'", "rackmedic": "vers"}) + "\n")


def render_image_versions(query: Query) -> ShellAnswer:
    """`rackmedic-look inside python3 -c …`."""
    image = query.node.environment.image
    if "nvidia" not in query.node.environment.runtimes:
        return text_answer("")
    versions = {"torch": image.torch, "cuda": image.cuda, "cudnn": image.cudnn_error or image.cudnn, "nccl": list(image.nccl), "archs": image.archs,
           "flash_attn": image.flash_attn, "rackmedic": "vers"}  # fmt: skip
    return _frame_container_output(query, json.dumps(versions) + "\n", 0)


def render_slurm_node(query: Query) -> ShellAnswer:
    """`scontrol -o show node NODE`."""
    node = query.node
    name = query.slots.get("node", node.name)
    if name != node.name:
        return text_answer(f"Node {name} not found\n", 1)
    base = "ALLOCATED" if _is_job_running(query) else "IDLE"
    state = base + ("*" if node.environment.not_responding else "") + scheduler.get_state_flags(node)
    drained_at = query.clock(-30 if node.drain else node.booted)
    drain_reason = scheduler.get_drain_reason(node)
    reason_field = f" Reason={drain_reason} [{scheduler.get_reason_user(node)}@{drained_at:%Y-%m-%dT%H:%M:%S}]" if drain_reason else ""
    return text_answer(f"NodeName={node.name} Arch=x86_64 CoresPerSocket={node.profile.cpus // 2} CPUTot={node.profile.cpus * 2} Gres=gpu:8 "
                f"NodeAddr={node.address} NodeHostName={node.name} State={state} ThreadsPerCore=2 Weight=1 Partitions=gpu{reason_field}\n")  # fmt: skip


def render_finished_jobs(query: Query) -> ShellAnswer:
    """`sacct -n -P -X -N NODE -S now-1days -o JobID,State,ExitCode,Start,End`."""
    if query.slots.get("node", query.node.name) != query.node.name:
        return text_answer("")
    job = query.job
    previous_end = job.started - HOUR
    previous = f"{int(job.id) - 3}|COMPLETED|0:0|{_format_time(query, previous_end - 2 * HOUR)}|{_format_time(query, previous_end)}"
    state = query.node.environment.last_job or ("RUNNING" if job.ended is None else "FAILED")
    code = {"RUNNING": "0:0", "PREEMPTED": "0:15"}.get(state, "1:0")
    ended = "Unknown" if job.ended is None else _format_time(query, job.ended)
    return text_answer("\n".join([previous, f"{job.id}|{state}|{code}|{_format_time(query, job.started)}|{ended}"]) + "\n")


def render_running_jobs(query: Query) -> ShellAnswer:
    """`squeue -h -w NODE -o %A,%T,%u`."""
    if query.slots.get("node", query.node.name) != query.node.name:
        return text_answer("slurm_load_jobs error: Invalid node name specified\n", 1)
    return text_answer(f"{query.job.id},RUNNING,alice\n" if _is_job_running(query) else "")


def _format_time(query: Query, t: float) -> str:
    return f"{query.clock(t):%Y-%m-%dT%H:%M:%S}"


def _is_job_running(query: Query) -> bool:
    return query.job.ended is None


def make_container_id(seed: int, node: str, job: str) -> str:
    return make_token(seed, node, job, "container")[:64]


def _get_container_id(query: Query) -> str:
    return make_container_id(query.seed, query.node.name, query.job.id)


def _get_image_name(query: Query) -> str:
    return f"registry.local/pretrain:cu{query.node.environment.image.cuda.replace('.', '')}"


def _frame_container_output(query: Query, text: str, status: int) -> ShellAnswer:
    return text_answer(f"== container {_get_container_id(query)}\n{text}\n== status {status}\n")
