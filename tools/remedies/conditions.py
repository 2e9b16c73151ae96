"""What must be true, as conditions that several remedies share. A node condition is read by the kit under its lock just before the command;
a controller condition by RackMedic just before the claim.
"""

from tools.action import Condition

_COMPUTE_PIDS_COMMAND = ("nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader")

IDLE_GPU = Condition("node", "no process uses this GPU", (*_COMPUTE_PIDS_COMMAND, "-i", "{bdf}"), "")
IDLE_NODE = Condition("node", "no process uses a GPU of this node", _COMPUTE_PIDS_COMMAND, "")
NO_CUDA = Condition("node", "no program uses CUDA on this node", ("@module_users", "nvidia_uvm"), "0")
"""Told by the kernel, so it can be asked where nvidia-smi does not work. Every CUDA context holds this module, and has its device open, which is
what the kit looks for where the kernel lists no modules."""

PEERMEM_ABSENT = Condition("node", "nvidia-peermem is not loaded", ("@module_loaded", "nvidia_peermem"), "no")
DRIVER_ABSENT = Condition("node", "the NVIDIA driver is not loaded", ("@module_loaded", "nvidia"), "no")
SAME_PROCESS = Condition("node", "the process is still the one that was looked at", ("@proc_start", "{pid}"), "{ticks}")
LOST_ITS_GPUS = Condition("node", "the container runs and has lost its GPUs", ("@container_gpus", "{container}"), "lost")
DISK_FULL = Condition("node", "the root file system is nearly full", ("df", "--output=pcent,ipcent", "/"), "*9[5-9]%*|*100%*")
BMC_ANSWERS = Condition("node", "the node's BMC answers from inside", ("ipmitool", "chassis", "power", "status"), "Chassis Power is on")

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
JOB_STILL_THERE = Condition(
    "node",
    "Slurm still has the job",
    ("squeue", "-h", "-j", "{job}", "-o", "%T"),
    "RUNNING*|PENDING*|SUSPENDED*|COMPLETING*|CONFIGURING*",
)
"""Asked again by the kit itself just before it cancels: of a job that has ended or never was scancel says nothing and ends with 0 (22.05), so
that would look like a job cancelled."""

CORDONED_TEMPLATE = (
    "{{ if .spec.unschedulable }}cordoned{{ else }}schedulable{{ end }}"
    '{{ with .metadata.annotations }}{{ with index . "rackmedic/drained" }} by {{ . }}{{ end }}{{ end }}'
)
"""`schedulable`, `cordoned`, `cordoned by rackmedic:apr-…`. A mark without a cordon holds nothing."""

_NODE_STATE_COMMAND = ("kubectl", "get", "node", "{node}", "-o", f"go-template={CORDONED_TEMPLATE}")
_PODS_COMMAND = (
    *("kubectl", "get", "pods", "--all-namespaces", "--no-headers"),
    *("--field-selector", "spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed"),
    *("-o", "custom-columns=OWNER:.metadata.ownerReferences[*].kind,NAMESPACE:.metadata.namespace,POD:.metadata.name"),
)

KUBE_IN_SERVICE = Condition("controller", "nobody else has cordoned the node", _NODE_STATE_COMMAND, "schedulable*")
KUBE_STILL_IN_SERVICE = Condition("node", "nobody has cordoned it when it begins", _NODE_STATE_COMMAND, "schedulable*")
"""The same, read by the kit under its lock: between the claim and the command somebody else may be quicker."""

KUBE_CORDONED = Condition("controller", "the node is cordoned", _NODE_STATE_COMMAND, "cordoned*", id="drained")
KUBE_OURS = Condition("controller", "the node was cordoned by RackMedic", _NODE_STATE_COMMAND, "cordoned by rackmedic:apr-*")
KUBE_STILL_OURS = Condition("node", "the cordon is still RackMedic's when it begins", _NODE_STATE_COMMAND, "cordoned by rackmedic:apr-*")
KUBE_EMPTY = Condition(
    "controller", "no pod is left on the node but those of DaemonSets", _PODS_COMMAND, "|DaemonSet *|Node *", id="drained"
)
"""A row for each pod; `Node` owns the static ones, which nothing evicts."""
KUBE_SCHEDULABLE = Condition("controller", "the node takes pods", _NODE_STATE_COMMAND, "schedulable*")
KUBE_MARK = Condition(
    "controller",
    "whose mark the node carries",
    (
        "kubectl",
        "get",
        "node",
        "{node}",
        "-o",
        'go-template={{ with .metadata.annotations }}{{ with index . "rackmedic/drained" }}{{ . }}{{ end }}{{ end }}',
    ),
    "rackmedic:*",
)
