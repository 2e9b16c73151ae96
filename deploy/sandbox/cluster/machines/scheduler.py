"""Slurm commands: node states, job states, drain, resume and cancel."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from deploy.sandbox.cluster.answer import ShellAnswer, text_answer
from deploy.sandbox.cluster.machines import kubernetes
from deploy.sandbox.cluster.machines.state import ClusterState, NodeState
from deploy.sandbox.cluster.plan import MachineAction

MIN_JOB_AGE_SECONDS = 300.0  # how long squeue knows a job after its end

NO_JOB = "slurm_load_jobs error: Invalid job id specified\n"


def get_node_state(node: NodeState, world: ClusterState) -> str:
    """Return the state as `sinfo -o %T` prints it; `inval` for a node that registered too few GPUs."""
    not_responding = "" if node.reachable else "*"
    if explain_invalid_registration(node):
        return "inval"
    if node.drain:
        return ("draining" if node.reachable and _is_allocated(world) else "drained") + not_responding
    if not_responding:
        return "down*"
    return "allocated" if _is_allocated(world) else "idle"


def get_complete_state(node: NodeState, world: ClusterState) -> str:
    """Return the state and flags as `sinfo -O StateComplete` prints them."""
    base = "down"
    if node.reachable:
        base = "allocated" if _is_allocated(world) else "idle"
    flags = {
        "drain": get_drain_reason(node),
        "invalid_reg": explain_invalid_registration(node),
        "not_responding": not node.reachable,
    }
    return "+".join([base, *(name for name, is_set in flags.items() if is_set)])


def explain_invalid_registration(node: NodeState) -> str:
    """Return slurmctld's message for a node whose slurmd counted too few GPUs at its start, or ""."""
    registered = node.registered_gpus
    if registered is None or registered >= len(node.gpus):
        return ""
    return f"gres/gpu count reported lower than configured ({registered} < {len(node.gpus)})"


def get_drain_reason(node: NodeState) -> str:
    """Return the reason of a drain, else Slurm's own reason, else ""."""
    return node.drain or explain_invalid_registration(node)


def get_job_state(world: ClusterState) -> str:
    """Return the state as `squeue -o %T` would print it."""
    if world.job.ended is None:
        return "RUNNING"
    return "CANCELLED" if world.job.stopped else "FAILED"


def show_nodes(world: ClusterState, at: float, slots: Mapping[str, str]) -> ShellAnswer:
    """`sinfo -h -N -n NODE -o FORMAT`; no row for an unknown node."""
    node = world.nodes.get(slots["node"])
    if node is None:
        return text_answer("")
    state = get_node_state(node, world)
    values = {
        "T": state,
        "t": _abbreviate_state(state),
        "E": get_drain_reason(node) or "none",
        "N": node.name,
        "n": node.name,
        "P": "gpu*",
        "a": "up",
    }
    return text_answer(_fill_format(slots["format"], values) + "\n")


def show_node_states(world: ClusterState, at: float, slots: Mapping[str, str]) -> ShellAnswer:
    """`sinfo -h -N -n NODE -O StateLong:20,StateComplete:80`: columns of those widths."""
    node = world.nodes.get(slots["node"])
    return text_answer(f"{get_node_state(node, world):<20}{get_complete_state(node, world):<80}\n" if node else "")


def show_queued_job(world: ClusterState, at: float, slots: Mapping[str, str]) -> ShellAnswer:
    """`squeue -h -j JOB -o FORMAT`: empty for a job that just ended, an error for one long gone."""
    if slots["job"] != world.job.id:
        return text_answer("", 1, NO_JOB)
    return _show_queue(world, at, slots["format"], missing=text_answer("", 1, NO_JOB))


def show_jobs_on_node(world: ClusterState, at: float, slots: Mapping[str, str]) -> ShellAnswer:
    """`squeue -h -w NODE -o FORMAT`."""
    if slots["node"] not in world.nodes:
        return text_answer("", 1, f"squeue: error: Invalid node name {slots['node']}\n")
    return _show_queue(world, at, slots["format"], missing=text_answer(""))


def _show_queue(world: ClusterState, at: float, format_text: str, missing: ShellAnswer) -> ShellAnswer:
    job, names = world.job, list(world.nodes)
    if job.ended is not None:
        return text_answer("") if at - job.ended < MIN_JOB_AGE_SECONDS else missing
    values = {"T": "RUNNING", "t": "R", "i": job.id, "A": job.id, "j": "pretrain", "u": "alice", "D": str(len(names)), "N": ",".join(names),
              "R": ",".join(names), "M": _format_elapsed(at - job.started), "P": "gpu", "r": "None"}  # fmt: skip
    return text_answer(_fill_format(format_text, values) + "\n")


def show_node(world: ClusterState, at: float, slots: Mapping[str, str]) -> ShellAnswer:
    """`scontrol show node NODE`."""
    node = world.nodes.get(slots["node"])
    if node is None:
        return text_answer(f"Node {slots['node']} not found\n", 1)
    busy = node.reachable and _is_allocated(world)
    base = "DOWN*"
    if node.reachable:
        base = "ALLOCATED" if busy else "IDLE"
    lines = [
        f"NodeName={node.name} Arch=x86_64 CoresPerSocket={node.profile.cpus // 2}",
        f"   CPUAlloc={node.profile.cpus if busy else 0} CPUTot={node.profile.cpus} CPULoad=0.00",
        f"   Gres=gpu:{len(node.gpus)} NodeAddr={node.address} NodeHostName={node.name}",
        f"   State={base}{get_state_flags(node)} ThreadsPerCore=1 TmpDisk=0 Weight=1",
        "   Partitions=gpu",
    ]
    if reason := get_drain_reason(node):
        lines.append(f"   Reason={reason} [{get_reason_user(node)}]")
    return text_answer("\n".join(lines) + "\n\n")


def get_state_flags(node: NodeState) -> str:
    """Return the flags that `scontrol show node` appends to the state."""
    return ("+DRAIN" if get_drain_reason(node) else "") + ("+INVALID_REG" if explain_invalid_registration(node) else "")


def get_reason_user(node: NodeState) -> str:
    """Return the user who set the out-of-service reason."""
    return "root" if node.drain else "slurm"


def show_job(world: ClusterState, at: float, slots: Mapping[str, str]) -> ShellAnswer:
    """`scontrol show job JOB`."""
    job = world.job
    forgotten = slots["job"] != job.id or (job.ended is not None and at - job.ended >= MIN_JOB_AGE_SECONDS)
    if forgotten and slots["job"] != (world.reported_job or None):
        return text_answer("", 1, NO_JOB)
    lines = (
        f"JobId={slots['job']} JobName=pretrain",
        "   UserId=alice(2071) GroupId=ml(2000)",
        f"   JobState={get_job_state(world)} Reason=None",
        f"   RunTime={_format_elapsed((at if job.ended is None else job.ended) - job.started)}",
        f"   Partition=gpu NodeList={','.join(world.nodes)}",
        f"   NumNodes={len(world.nodes)} NumTasks={sum(len(node.gpus) for node in world.nodes.values())}",
    )
    return text_answer("\n".join(lines) + "\n\n")


def show_accounting(world: ClusterState, at: float, slots: Mapping[str, str]) -> ShellAnswer:
    """`sacct -n -P -X -a -j JOB -o JobID,State,NodeList`: accounting keeps every job."""
    if slots["job"] not in (world.job.id, world.reported_job or None):
        return text_answer("")
    return text_answer(f"{slots['job']}|{get_job_state(world)}|{','.join(world.nodes)}\n")


READ_COMMANDS: Mapping[str, Callable[[ClusterState, float, Mapping[str, str]], ShellAnswer]] = {
    "sched.node": show_nodes,
    "sched.nodes": show_nodes,
    "sched.standing": show_node_states,
    "sched.job": show_queued_job,
    "sched.tasks": show_queued_job,
    "sched.jobs": show_jobs_on_node,
    "sched.show_node": show_node,
    "sched.show_job": show_job,
    "sched.accounted": show_accounting,
    **kubernetes.READ_COMMANDS,
}


@dataclass(frozen=True, slots=True)
class SlurmReply:
    """A changing command's answer and, if it changes anything, the action."""

    answer: ShellAnswer
    action: MachineAction | None = None


def drain_node(world: ClusterState, at: float, slots: Mapping[str, str], refuses: str) -> SlurmReply:
    """`scontrol update NodeName=NODE State=DRAIN Reason=…`; a second drain replaces the reason, as in Slurm."""
    if refusal := _find_refusal(world, slots["node"], refuses):
        return SlurmReply(refusal)
    return SlurmReply(text_answer(""), MachineAction("drain", slots["node"], at, {"reason": slots["reason"]}))


def resume_node(world: ClusterState, at: float, slots: Mapping[str, str], refuses: str) -> SlurmReply:
    """`scontrol update NodeName=NODE State=RESUME`."""
    if refusal := _find_refusal(world, slots["node"], refuses):
        return SlurmReply(refusal)
    node = world.nodes[slots["node"]]
    if not node.drain or explain_invalid_registration(node):
        return SlurmReply(text_answer("", 1, "slurm_update error: Invalid node state specified\n"))
    return SlurmReply(text_answer(""), MachineAction("resume", slots["node"], at))


def cancel_job(world: ClusterState, at: float, slots: Mapping[str, str], refuses: str) -> SlurmReply:
    """`scancel JOB`; silent success for an ended or unknown job, as in 22.05."""
    if refuses:
        return SlurmReply(text_answer("", 1, f"scancel: error: Kill job error on job id {slots['job']}: {refuses}\n"))
    job = world.job
    return SlurmReply(text_answer(""), MachineAction("cancel", "", at) if slots["job"] == job.id and job.ended is None else None)


def _find_refusal(world: ClusterState, name: str, refuses: str) -> ShellAnswer | None:
    if refuses:
        return text_answer("", 1, f"slurm_update error: {refuses}\n")
    return None if name in world.nodes else text_answer("", 1, "slurm_update error: Invalid node name specified\n")


def _is_allocated(world: ClusterState) -> bool:
    return world.job.ended is None


def _abbreviate_state(state: str) -> str:
    return {"draining": "drng", "drained": "drain", "drained*": "drain*", "allocated": "alloc"}.get(state, state)


def _fill_format(format_text: str, values: Mapping[str, str]) -> str:
    text = format_text
    for letter, value in values.items():
        text = text.replace(f"%{letter}", value.replace("%", ""))
    return text


def _format_elapsed(seconds: float) -> str:
    days, remaining = divmod(max(int(seconds), 0), 86400)
    clock = f"{remaining // 3600:02d}:{remaining // 60 % 60:02d}:{remaining % 60:02d}"
    return f"{days}-{clock}" if days else clock
