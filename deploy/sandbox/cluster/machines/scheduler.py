"""Slurm commands: node states, job states, drain, resume and cancel."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from deploy.sandbox.cluster.answer import ShellAnswer, said
from deploy.sandbox.cluster.machines import kubernetes
from deploy.sandbox.cluster.machines.state import ClusterState, NodeState
from deploy.sandbox.cluster.plan import Deed

KEPT_SECONDS = 300.0  # how long squeue knows a job after its end

NO_JOB = "slurm_load_jobs error: Invalid job id specified\n"


def node_state(node: NodeState, world: ClusterState) -> str:
    """Return the state as `sinfo -o %T` prints it; `inval` for a node that registered too few GPUs."""
    silent = "" if node.reachable else "*"
    if too_few(node):
        return "inval"
    if node.drain:
        return ("draining" if silent == "" and _allocated(world) else "drained") + silent
    if silent:
        return "down*"
    return "allocated" if _allocated(world) else "idle"


def whole_state(node: NodeState, world: ClusterState) -> str:
    """Return the state and flags as `sinfo -O StateComplete` prints them."""
    base = "down"
    if node.reachable:
        base = "allocated" if _allocated(world) else "idle"
    flags = (("drain", out_of_service(node)), ("invalid_reg", too_few(node)), ("not_responding", not node.reachable))
    return "+".join([base, *(name for name, is_so in flags if is_so)])


def too_few(node: NodeState) -> str:
    """Return slurmctld's message for a node whose slurmd counted too few GPUs at its start, or ""."""
    has = node.registered_gpus
    return f"gres/gpu count reported lower than configured ({has} < {len(node.gpus)})" if has is not None and has < len(node.gpus) else ""


def out_of_service(node: NodeState) -> str:
    """Return the reason of a drain, else Slurm's own reason, else ""."""
    return node.drain or too_few(node)


def job_state(world: ClusterState) -> str:
    """Return the state as `squeue -o %T` would print it."""
    if world.job.ended is None:
        return "RUNNING"
    return "CANCELLED" if world.job.stopped else "FAILED"


def nodes(world: ClusterState, at: float, slots: Mapping[str, str]) -> ShellAnswer:
    """`sinfo -h -N -n NODE -o FORMAT`; no row for an unknown node."""
    node = world.nodes.get(slots["node"])
    if node is None:
        return said("")
    state = node_state(node, world)
    values = {"T": state, "t": _short(state), "E": out_of_service(node) or "none", "N": node.name, "n": node.name, "P": "gpu*", "a": "up"}
    return said(_formatted(slots["format"], values) + "\n")


def standing(world: ClusterState, at: float, slots: Mapping[str, str]) -> ShellAnswer:
    """`sinfo -h -N -n NODE -O StateLong:20,StateComplete:80`: columns of those widths."""
    node = world.nodes.get(slots["node"])
    return said(f"{node_state(node, world):<20}{whole_state(node, world):<80}\n" if node else "")


def job(world: ClusterState, at: float, slots: Mapping[str, str]) -> ShellAnswer:
    """`squeue -h -j JOB -o FORMAT`: empty for a job that just ended, an error for one long gone."""
    if slots["job"] != world.job.id:
        return said("", 1, NO_JOB)
    return _queue(world, at, slots["format"], missing=said("", 1, NO_JOB))


def jobs_on(world: ClusterState, at: float, slots: Mapping[str, str]) -> ShellAnswer:
    """`squeue -h -w NODE -o FORMAT`."""
    if slots["node"] not in world.nodes:
        return said("", 1, f"squeue: error: Invalid node name {slots['node']}\n")
    return _queue(world, at, slots["format"], missing=said(""))


def _queue(world: ClusterState, at: float, shape: str, missing: ShellAnswer) -> ShellAnswer:
    run, names = world.job, list(world.nodes)
    if run.ended is not None:
        return said("") if at - run.ended < KEPT_SECONDS else missing
    values = {"T": "RUNNING", "t": "R", "i": run.id, "A": run.id, "j": "pretrain", "u": "alice", "D": str(len(names)), "N": ",".join(names),
              "R": ",".join(names), "M": _elapsed(at - run.started), "P": "gpu", "r": "None"}  # fmt: skip
    return said(_formatted(shape, values) + "\n")


def show_node(world: ClusterState, at: float, slots: Mapping[str, str]) -> ShellAnswer:
    """`scontrol show node NODE`."""
    node = world.nodes.get(slots["node"])
    if node is None:
        return said(f"Node {slots['node']} not found\n", 1)
    busy = node.reachable and _allocated(world)
    base = "DOWN*"
    if node.reachable:
        base = "ALLOCATED" if busy else "IDLE"
    rows = [
        f"NodeName={node.name} Arch=x86_64 CoresPerSocket={node.profile.cpus // 2}",
        f"   CPUAlloc={node.profile.cpus if busy else 0} CPUTot={node.profile.cpus} CPULoad=0.00",
        f"   Gres=gpu:{len(node.gpus)} NodeAddr={node.address} NodeHostName={node.name}",
        f"   State={base}{flags_of(node)} ThreadsPerCore=1 TmpDisk=0 Weight=1",
        "   Partitions=gpu",
    ]
    return said("\n".join([*rows, *([f"   Reason={out_of_service(node)} [{whose(node)}]"] if out_of_service(node) else [])]) + "\n\n")


def flags_of(node: NodeState) -> str:
    """Return the flags that `scontrol show node` appends to the state."""
    return ("+DRAIN" if out_of_service(node) else "") + ("+INVALID_REG" if too_few(node) else "")


def whose(node: NodeState) -> str:
    """Return the user who set the out-of-service reason."""
    return "root" if node.drain else "slurm"


def show_job(world: ClusterState, at: float, slots: Mapping[str, str]) -> ShellAnswer:
    """`scontrol show job JOB`."""
    run = world.job
    forgotten = slots["job"] != run.id or (run.ended is not None and at - run.ended >= KEPT_SECONDS)
    if forgotten and slots["job"] != (world.reported_job or None):
        return said("", 1, NO_JOB)
    rows = (
        f"JobId={slots['job']} JobName=pretrain",
        "   UserId=alice(2071) GroupId=ml(2000)",
        f"   JobState={job_state(world)} Reason=None",
        f"   RunTime={_elapsed((at if run.ended is None else run.ended) - run.started)}",
        f"   Partition=gpu NodeList={','.join(world.nodes)}",
        f"   NumNodes={len(world.nodes)} NumTasks={sum(len(node.gpus) for node in world.nodes.values())}",
    )
    return said("\n".join(rows) + "\n\n")


def accounted(world: ClusterState, at: float, slots: Mapping[str, str]) -> ShellAnswer:
    """`sacct -n -P -X -a -j JOB -o JobID,State,NodeList`: accounting keeps every job."""
    if slots["job"] not in (world.job.id, world.reported_job or None):
        return said("")
    return said(f"{slots['job']}|{job_state(world)}|{','.join(world.nodes)}\n")


READS: Mapping[str, Callable[[ClusterState, float, Mapping[str, str]], ShellAnswer]] = {
    "sched.node": nodes,
    "sched.nodes": nodes,
    "sched.standing": standing,
    "sched.job": job,
    "sched.tasks": job,
    "sched.jobs": jobs_on,
    "sched.show_node": show_node,
    "sched.show_job": show_job,
    "sched.accounted": accounted,
    **kubernetes.READS,
}


@dataclass(frozen=True, slots=True)
class SlurmReply:
    """A changing command's answer and, if it changes anything, its deed."""

    answer: ShellAnswer
    deed: Deed | None = None


def drain(world: ClusterState, at: float, slots: Mapping[str, str], refuses: str) -> SlurmReply:
    """`scontrol update NodeName=NODE State=DRAIN Reason=…`; a second drain replaces the reason, as in Slurm."""
    if refusal := _refusal(world, slots["node"], refuses):
        return SlurmReply(refusal)
    return SlurmReply(said(""), Deed("drain", slots["node"], at, {"reason": slots["reason"]}))


def resume(world: ClusterState, at: float, slots: Mapping[str, str], refuses: str) -> SlurmReply:
    """`scontrol update NodeName=NODE State=RESUME`."""
    if refusal := _refusal(world, slots["node"], refuses):
        return SlurmReply(refusal)
    node = world.nodes[slots["node"]]
    if not node.drain or too_few(node):
        return SlurmReply(said("", 1, "slurm_update error: Invalid node state specified\n"))
    return SlurmReply(said(""), Deed("resume", slots["node"], at))


def cancel(world: ClusterState, at: float, slots: Mapping[str, str], refuses: str) -> SlurmReply:
    """`scancel JOB`; silent success for an ended or unknown job, as in 22.05."""
    if refuses:
        return SlurmReply(said("", 1, f"scancel: error: Kill job error on job id {slots['job']}: {refuses}\n"))
    run = world.job
    return SlurmReply(said(""), Deed("cancel", "", at) if slots["job"] == run.id and run.ended is None else None)


def _refusal(world: ClusterState, name: str, refuses: str) -> ShellAnswer | None:
    if refuses:
        return said("", 1, f"slurm_update error: {refuses}\n")
    return None if name in world.nodes else said("", 1, "slurm_update error: Invalid node name specified\n")


def _allocated(world: ClusterState) -> bool:
    return world.job.ended is None


def _short(state: str) -> str:
    return {"draining": "drng", "drained": "drain", "drained*": "drain*", "allocated": "alloc"}.get(state, state)


def _formatted(shape: str, values: Mapping[str, str]) -> str:
    text = shape
    for letter, value in values.items():
        text = text.replace(f"%{letter}", value.replace("%", ""))
    return text


def _elapsed(seconds: float) -> str:
    days, rest = divmod(max(int(seconds), 0), 86400)
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}-{clock}" if days else clock
