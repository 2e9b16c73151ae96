"""Shared conditions.

The kit reads node conditions under its lock before the command; RackMedic the controller's before the claim.
"""

from tools.action import Condition

_COMPUTE_PIDS_COMMAND = ("nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader")

IDLE_GPU = Condition("node", "no process uses this GPU", (*_COMPUTE_PIDS_COMMAND, "-i", "{bdf}"), "")
IDLE_NODE = Condition("node", "no process uses a GPU of this node", _COMPUTE_PIDS_COMMAND, "")
# The kernel answers this even if nvidia-smi fails. Every CUDA context holds this module and keeps its device open; the
# kit checks the open device where the kernel lists no modules.
NO_CUDA = Condition("node", "no program uses CUDA on this node", ("@module_users", "nvidia_uvm"), "0")

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
# The kit reads this just before it cancels. scancel prints nothing and exits 0 for an ended or unknown job (22.05),
# which would look like success.
JOB_STILL_THERE = Condition(
    "node",
    "Slurm still has the job",
    ("squeue", "-h", "-j", "{job}", "-o", "%T"),
    "RUNNING*|PENDING*|SUSPENDED*|COMPLETING*|CONFIGURING*",
)

# Prints `schedulable`, `cordoned` or `cordoned by rackmedic:apr-…`. A mark without a cordon has no effect.
CORDONED_TEMPLATE = (
    "{{ if .spec.unschedulable }}cordoned{{ else }}schedulable{{ end }}"
    '{{ with .metadata.annotations }}{{ with index . "rackmedic/drained" }} by {{ . }}{{ end }}{{ end }}'
)

_NODE_STATE_COMMAND = ("kubectl", "get", "node", "{node}", "-o", f"go-template={CORDONED_TEMPLATE}")
_PODS_COMMAND = (
    *("kubectl", "get", "pods", "--all-namespaces", "--no-headers"),
    *("--field-selector", "spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed"),
    *("-o", "custom-columns=OWNER:.metadata.ownerReferences[*].kind,NAMESPACE:.metadata.namespace,POD:.metadata.name"),
)

KUBE_IN_SERVICE = Condition("controller", "nobody else has cordoned the node", _NODE_STATE_COMMAND, "schedulable*")
# Read by the kit under its lock, because the node may be cordoned between the claim and the command.
KUBE_STILL_IN_SERVICE = Condition("node", "nobody has cordoned it when it begins", _NODE_STATE_COMMAND, "schedulable*")

KUBE_CORDONED = Condition("controller", "the node is cordoned", _NODE_STATE_COMMAND, "cordoned*", id="drained")
KUBE_OURS = Condition("controller", "the node was cordoned by RackMedic", _NODE_STATE_COMMAND, "cordoned by rackmedic:apr-*")
KUBE_STILL_OURS = Condition("node", "the cordon is still RackMedic's when it begins", _NODE_STATE_COMMAND, "cordoned by rackmedic:apr-*")
# One row per pod. `Node` owns static pods, which cannot be evicted.
KUBE_EMPTY = Condition(
    "controller", "no pod is left on the node but those of DaemonSets", _PODS_COMMAND, "|DaemonSet *|Node *", id="drained"
)
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
