"""Faults outside the machines: scheduler, services, cooling, an unreachable node."""

from deploy.sandbox.cluster.faults.context import LOADING, FaultContext
from deploy.sandbox.cluster.faults.registry import register_fault
from deploy.sandbox.cluster.machines.log_lines import JournalLine


@register_fault("O01", "OTHER.INFRA.Node_Unreachable", "Node does not answer at all", "node", "dies")
def node_unreachable(context: FaultContext) -> None:
    context.node.reachable = False
    context.disconnect_peers(context.job.of(context.node.name), 5)


@register_fault("O02", "OTHER.INFRA.Rack_Cooling", "A rack is too hot", "rack", "slows")
def rack_cooling(context: FaultContext) -> None:
    for node in context.nodes:
        node.environment.inlet = int(context.get_number("inlet", 43))
        for gpu in node.gpus:
            gpu.temp = 88 + context.dice.randrange(4)
            gpu.memory_temp = 94
            gpu.sm_clock = 720 + 15 * context.dice.randrange(6)
            gpu.power_draw = round(node.profile.busy_watts * 0.5, 2)
            gpu.reasons.sw_thermal = gpu.reasons.hw_thermal = gpu.reasons.hw_slowdown = True
            gpu.reasons.idle = False


@register_fault("O03", "OTHER.SCHED.Planned_Maintenance", "Planned maintenance took the node", "node", "dies")
def planned_maintenance(context: FaultContext) -> None:
    change = str(context.args.get("change", "CHG-20417"))
    context.node.drain = f"maintenance {change}"
    context.log_journal(
        "slurmd", f"slurmd: launch of new jobs stopped, node set to drain by root, reason: maintenance {change}", -30, 6, "slurmd"
    )
    for rank in context.job.ranks:
        context.write_log(
            rank,
            f"slurmstepd: error: *** STEP {context.job.id}.0 ON {rank.node} CANCELLED DUE TO NODE MAINTENANCE {change} ***",
            f"[rank{rank.rank}] received SIGTERM, stopping",
            dt=1,
        )


@register_fault("O04", "OTHER.SERVICE.Auxiliary_Service_Down", "Experiment tracker is down", "cluster", "dies")
def auxiliary_service_down(context: FaultContext) -> None:
    rank = context.job.ranks[0]
    host = str(context.args.get("host", "tracker.svc.cluster"))
    for node in context.nodes:
        node.environment.tracker = "refused"
    frames = (("/workspace/train.py", 309, "main", "run.log(metrics, step=step)"),)
    context.raise_exception(
        rank,
        (
            f"requests.exceptions.ConnectionError: HTTPSConnectionPool(host={host!r}, port=443): Max retries exceeded "
            "with url: /api/runs/log (Caused by NewConnectionError('<urllib3.connection.HTTPSConnection object at "
            "0x7f21c8>: Failed to establish a new connection: [Errno 111] Connection refused'))"
        ),
        frames,
    )
    context.disconnect_peers([rank])


@register_fault("O05", "OTHER.SERVICE.Object_Storage_Throttled", "Object storage throttles the job", "cluster", "dies")
def object_storage_throttled(context: FaultContext) -> None:
    frames = (*LOADING, ("/workspace/data/remote.py", 44, "read_shard", "return client.get_object(Bucket=bucket, Key=key)['Body'].read()"))
    dead = context.job.ranks[::5]
    for node in context.nodes:
        node.environment.store = "throttled"
    for rank in dead:
        context.write_log(rank, f"[rank{rank.rank}] retry 4/5: 503 SlowDown on shard {context.dice.randrange(9000)}", dt=-20)
        context.raise_exception(
            rank,
            (
                "botocore.exceptions.ClientError: An error occurred (SlowDown) when calling the GetObject operation "
                "(reached max retries: 4): Please reduce your request rate. (503)"
            ),
            frames,
        )
    context.disconnect_peers(dead, 4)


@register_fault("O06", "OTHER.SCHED.Preemption", "Scheduler preempted the job", "job", "dies")
def preemption(context: FaultContext) -> None:
    by = int(context.get_number("by", 812))
    for node in context.world.nodes.values():
        text = f"[{context.job.id}.0] preempted by job {by}, sending signal 15"
        node.journal.append(JournalLine(context.t, "slurmd.service", "slurmd", 6, text))
        node.environment.last_job = "PREEMPTED"
    for rank in context.job.ranks:
        context.write_log(
            rank,
            f"slurmstepd: error: *** JOB {context.job.id} ON {rank.node} CANCELLED DUE TO PREEMPTION ***",
            f"[rank{rank.rank}] received SIGTERM, stopping",
            dt=1,
        )
