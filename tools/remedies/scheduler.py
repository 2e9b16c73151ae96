"""Slurm remedies: drain, resume, cancel. `ways` holds the Kubernetes variants."""

from tools.remedies import kubernetes
from tools.remedies.conditions import DRAINED_BY_US, JOB_STILL_THERE, JOB_THERE, NODE_IN_SERVICE
from tools.remedies.remedy import Remedy

ROWS: tuple[Remedy, ...] = (
    Remedy(
        id="drain_node",
        does="Drain {node}",
        at="controller",
        args={"node": "node", "approval": "approval"},
        command=("scontrol", "update", "NodeName={node}", "State=DRAIN", "Reason=rackmedic:{approval}"),
        risk="disruptive",
        limit_seconds=30,
        proof=("sched",),
        blast="one node: running jobs go on, no new one starts there",
        outage="none for running jobs; the node takes no new ones until it is returned",
        waiting="the scheduler can start new jobs on a node with a proven fault",
        files="none on the node; its state in Slurm",
        ends="nothing",
        names_jobs=True,
        conditions=(NODE_IN_SERVICE,),
        undo="resume_node",
        ways={"kubernetes": kubernetes.CORDON},
        refusals={
            "Invalid node state specified": "Slurm does not allow that change from the node's state; look at `scontrol show node`",
            "Access/permission denied": "the account on the controller is no Slurm operator; grant AdminLevel=Operator",
            "Invalid node name": "Slurm does not know this node by that name; compare the inventory with `sinfo -N`",
        },
    ),
    Remedy(
        id="resume_node",
        does="Return {node} to service",
        at="controller",
        args={"node": "node"},
        command=("scontrol", "update", "NodeName={node}", "State=RESUME"),
        risk="disruptive",
        limit_seconds=30,
        proof=("sched",),
        blast="one node takes jobs again",
        outage="none",
        waiting="a node that passed its checks stays idle",
        files="none on the node; its state in Slurm",
        ends="nothing",
        conditions=(DRAINED_BY_US,),
        undo="drain_node",
        ways={"kubernetes": kubernetes.UNCORDON},
        refusals={
            "Invalid node state specified": "the node is not drained any more, or Slurm still sees it down, or finds less in it than "
            "slurm.conf says (`inval`): look at `scontrol show node`"
        },
    ),
    Remedy(
        id="cancel_job",
        does="Cancel job {job}",
        at="controller",
        args={"job": "job"},
        command=("scancel", "{job}"),
        risk="destructive",
        limit_seconds=60,
        proof=("sched",),
        blast="one job on all of its nodes; what it did since its last checkpoint is lost",
        outage="the job ends within 1 min (Slurm sends KILL 30 s after TERM by default) and has to be submitted again",
        waiting="the job holds its nodes without making progress",
        files="none; files that it was writing can stay incomplete",
        ends="every process of job {job}; what it did since its last checkpoint is lost",
        conditions=(JOB_THERE, JOB_STILL_THERE),
        refusals={
            "Invalid job id specified": "Slurm does not know that job any more",
            "Access/permission denied": "the account on the controller may not cancel other people's jobs; grant AdminLevel=Operator",
        },
        only="slurm",
    ),
)
