"""The remedies as a table, least disruptive first within a subsystem.
A node condition is read by the kit under its lock just before the command; a controller condition by RackMedic just before the claim.
"""

from tools.action import Condition
from tools.remedy import Completion, Remedy

IDLE_GPU = Condition(
    "node",
    "no process uses this GPU",
    ("nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader", "-i", "{bdf}"),
    "",
)
IDLE_NODE = Condition("node", "no process uses a GPU of this node", ("nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"), "")
PEERMEM_ABSENT = Condition("node", "nvidia-peermem is not loaded", ("@module_loaded", "nvidia_peermem"), "no")
SAME_PROCESS = Condition("node", "the process is still the one that was looked at", ("@proc_start", "{pid}"), "{ticks}")
NODE_IN_SERVICE = Condition(
    "controller",
    "nobody else has drained the node",
    ("sinfo", "-h", "-N", "-n", "{node}", "-o", "%T"),
    "idle*|mixed*|allocated*|completing*|planned*|reserved*|down*",
)
DRAINED_BY_US = Condition(
    "controller", "the node was drained by RackMedic", ("sinfo", "-h", "-N", "-n", "{node}", "-o", "%E"), "rackmedic:*"
)
JOB_THERE = Condition(
    "controller", "the job has not ended", ("squeue", "-h", "-j", "{job}", "-o", "%T"), "RUNNING|PENDING|SUSPENDED|COMPLETING|CONFIGURING"
)

IN_USE = (
    "the GPU is still held by a client: stop nvidia-persistenced, DCGM or the fabric manager's hold on it, or end the process that "
    "`fuser -v /dev/nvidia*` shows; otherwise reboot"
)

REMEDIES_ROWS: tuple[Remedy, ...] = (
    Remedy(
        id="drain_node",
        does="Drain {node}: running jobs go on, no new one starts there",
        at="controller",
        args={"node": "node", "approval": "approval"},
        command=("scontrol", "update", "NodeName={node}", "State=DRAIN", "Reason=rackmedic:{approval}"),
        risk="disruptive",
        limit_seconds=30,
        proof=("sched",),
        blast="one node out of the scheduler; running jobs are not touched",
        conditions=(NODE_IN_SERVICE,),
        undo="resume_node",
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
        conditions=(DRAINED_BY_US,),
        undo="drain_node",
        refusals={"Invalid node state specified": "the node is not drained any more, or Slurm still sees it down; nothing to resume"},
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
        conditions=(JOB_THERE,),
        refusals={
            "Invalid job id specified": "Slurm does not know that job any more",
            "Access/permission denied": "the account on the controller may not cancel other people's jobs; grant AdminLevel=Operator",
        },
    ),
    Remedy(
        id="reset_clocks",
        does="Reset locked and application clocks of the GPU at {bdf} to their defaults",
        at="target",
        args={"bdf": "bdf"},
        command=("sh", "-c", 'nvidia-smi -i "$1" -rgc && nvidia-smi -i "$1" -rac', "reset-clocks", "{bdf}"),
        risk="intrusive",
        limit_seconds=30,
        proof=("smi",),
        blast="one GPU; running work speeds up",
        refusals={"not supported": "this GPU or driver has no such setting; the clocks are held low by something else"},
    ),
    Remedy(
        id="power_limit_default",
        does="Set the power limit of all GPUs back to {watts} W, the default",
        at="target",
        args={"watts": "watts"},
        command=("nvidia-smi", "-pl", "{watts}"),
        risk="intrusive",
        limit_seconds=30,
        proof=("smi",),
        blast="all GPUs of one node; running work speeds up, the rack draws more power",
        refusals={"not a valid power limit": "the limit is outside what this GPU allows; compare `nvidia-smi -q -d POWER`"},
    ),
    Remedy(
        id="kill_gpu_process",
        does="Send SIG{signal} to process {pid}, which holds GPU memory for no running job",
        at="target",
        args={"pid": "pid", "ticks": "ticks", "signal": "signal"},
        command=("kill", "-{signal}", "{pid}"),
        risk="destructive",
        limit_seconds=20,
        proof=("procs", "smi"),
        blast="one process",
        conditions=(SAME_PROCESS,),
        heavier="kill_gpu_process",
        refusals={"No such process": "the process ended by itself in the meantime"},
    ),
    Remedy(
        id="modprobe_peermem",
        does="Load the nvidia-peermem kernel module",
        at="target",
        args={},
        command=("modprobe", "nvidia-peermem"),
        risk="intrusive",
        limit_seconds=30,
        proof=("mods",),
        blast="one node; jobs that start afterwards use GPUDirect RDMA",
        conditions=(PEERMEM_ABSENT,),
        refusals={
            "Invalid argument": "the module does not fit the loaded RDMA stack: reinstall the driver after MOFED, or load it in that order",
            "not found": "the driver was installed without nvidia-peermem for this kernel",
        },
    ),
    Remedy(
        id="restart_fabricmanager",
        does="Restart the NVIDIA fabric manager",
        at="target",
        args={},
        command=("systemctl", "restart", "nvidia-fabricmanager.service"),
        risk="disruptive",
        limit_seconds=90,
        proof=("sysd", "smi"),
        blast="all GPUs of one node; CUDA work that runs there fails",
        conditions=(IDLE_NODE,),
        heavier="reboot",
        refusals={
            "not found": "the fabric manager is not installed on this node",
            "control process exited": "it fails again: its version and the driver's must be the same; look at `journalctl -u nvidia-fabricmanager`",
        },
    ),
    Remedy(
        id="gpu_reset",
        does="Reset the GPU at {bdf}",
        at="target",
        args={"bdf": "bdf"},
        command=("nvidia-smi", "--gpu-reset", "-i", "{bdf}"),
        risk="disruptive",
        limit_seconds=180,
        proof=("smi", "dmesg", "nvlink"),
        blast="one GPU, and with NVSwitch every GPU that talks to it while it resets",
        conditions=(IDLE_GPU,),
        needs=("drained",),
        heavier="reboot",
        refusals={
            "In use by another client": IN_USE,
            "currently in use": IN_USE,
            "is not supported": "this GPU cannot be reset by itself here (NVLink peers, MIG, or the driver); reboot the node",
            "GPU is lost": "a lost GPU cannot be reset: reboot, with power cut if it comes back lost",
            "Unable to determine the device handle": "a lost GPU cannot be reset: reboot, with power cut if it comes back lost",
            "Insufficient Permissions": "the kit's sudoers line is missing or older than the kit",
        },
    ),
    Remedy(
        id="reboot",
        does="Reboot the node",
        at="target",
        args={},
        command=("systemctl", "reboot"),
        risk="destructive",
        limit_seconds=60,
        proof=("smi", "dmesg"),
        blast="one node and every job on it; kernel messages of this boot leave the ring buffer (the evidence is stored)",
        completion=Completion("new_boot", 900),
        needs=("drained",),
        covers=("gpu_reset", "restart_fabricmanager", "reset_clocks", "modprobe_peermem", "power_limit_default", "kill_gpu_process"),
        refusals={
            "inhibit": "somebody holds a shutdown inhibitor: `systemd-inhibit --list`",
            "Access denied": "polkit lets root not reboot this host; look at its rules",
        },
    ),
    Remedy(
        id="run_check",
        does="Run the exclusive check {check}",
        at="fleet",
        args={"check": "check"},
        command=("{check}",),
        risk="intrusive",
        limit_seconds=600,
        proof=(),
        blast="the GPUs of the named hosts are busy while it runs; work that shares them slows down",
    ),
)
