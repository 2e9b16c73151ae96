"""Faults outside the machines: scheduler, services, cooling, an unreachable node."""

from deploy.sandbox.cluster.faults.row import fault
from deploy.sandbox.cluster.faults.scene import LOADING, Scene
from deploy.sandbox.cluster.machines.lines import JournalLine


@fault("O01", "OTHER.INFRA.Node_Unreachable", "Node does not answer at all", "node", "dies")
def node_unreachable(s: Scene) -> None:
    s.node.reachable = False
    s.peers_lose(s.job.of(s.node.name), 5)


@fault("O02", "OTHER.INFRA.Rack_Cooling", "A rack is too hot", "rack", "slows")
def rack_cooling(s: Scene) -> None:
    for node in s.nodes:
        node.around.inlet = int(s.number("inlet", 43))
        for gpu in node.gpus:
            gpu.temp = 88 + s.dice.randrange(4)
            gpu.memory_temp = 94
            gpu.sm_clock = 720 + 15 * s.dice.randrange(6)
            gpu.power_draw = round(node.profile.busy_watts * 0.5, 2)
            gpu.reasons.sw_thermal = gpu.reasons.hw_thermal = gpu.reasons.hw_slowdown = True
            gpu.reasons.idle = False


@fault("O03", "OTHER.SCHED.Planned_Maintenance", "Planned maintenance took the node", "node", "dies")
def planned_maintenance(s: Scene) -> None:
    change = str(s.args.get("change", "CHG-20417"))
    s.node.drain = f"maintenance {change}"
    s.journal("slurmd", f"slurmd: launch of new jobs stopped, node set to drain by root, reason: maintenance {change}", -30, 6, "slurmd")
    for rank in s.job.ranks:
        s.says(
            rank,
            f"slurmstepd: error: *** STEP {s.job.id}.0 ON {rank.node} CANCELLED DUE TO NODE MAINTENANCE {change} ***",
            f"[rank{rank.rank}] received SIGTERM, stopping",
            dt=1,
        )


@fault("O04", "OTHER.SERVICE.Auxiliary_Service_Down", "Experiment tracker is down", "cluster", "dies")
def auxiliary_service_down(s: Scene) -> None:
    rank = s.job.ranks[0]
    host = str(s.args.get("host", "tracker.svc.cluster"))
    for node in s.nodes:
        node.around.tracker = "refused"
    frames = (("/workspace/train.py", 309, "main", "run.log(metrics, step=step)"),)
    s.raises(
        rank,
        (
            f"requests.exceptions.ConnectionError: HTTPSConnectionPool(host={host!r}, port=443): Max retries exceeded "
            "with url: /api/runs/log (Caused by NewConnectionError('<urllib3.connection.HTTPSConnection object at "
            "0x7f21c8>: Failed to establish a new connection: [Errno 111] Connection refused'))"
        ),
        frames,
    )
    s.peers_lose([rank])


@fault("O05", "OTHER.SERVICE.Object_Storage_Throttled", "Object storage throttles the job", "cluster", "dies")
def object_storage_throttled(s: Scene) -> None:
    frames = (*LOADING, ("/workspace/data/remote.py", 44, "read_shard", "return client.get_object(Bucket=bucket, Key=key)['Body'].read()"))
    dead = s.job.ranks[::5]
    for node in s.nodes:
        node.around.store = "throttled"
    for rank in dead:
        s.says(rank, f"[rank{rank.rank}] retry 4/5: 503 SlowDown on shard {s.dice.randrange(9000)}", dt=-20)
        s.raises(
            rank,
            (
                "botocore.exceptions.ClientError: An error occurred (SlowDown) when calling the GetObject operation "
                "(reached max retries: 4): Please reduce your request rate. (503)"
            ),
            frames,
        )
    s.peers_lose(dead, 4)


@fault("O06", "OTHER.SCHED.Preemption", "Scheduler preempted the job", "job", "dies")
def preemption(s: Scene) -> None:
    by = int(s.number("by", 812))
    for node in s.world.nodes.values():
        text = f"[{s.job.id}.0] preempted by job {by}, sending signal 15"
        node.journal.append(JournalLine(s.t, "slurmd.service", "slurmd", 6, text))
        node.around.last_job = "PREEMPTED"
    for rank in s.job.ranks:
        s.says(
            rank,
            f"slurmstepd: error: *** JOB {s.job.id} ON {rank.node} CANCELLED DUE TO PREEMPTION ***",
            f"[rank{rank.rank}] received SIGTERM, stopping",
            dt=1,
        )
