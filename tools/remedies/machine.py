"""Remedies for a whole machine, lightest first, and the exclusive check."""

from tools.remedies import scripts
from tools.remedies.conditions import BMC_ANSWERS
from tools.remedies.remedy import Completion, Remedy

# remedies that a reboot makes unnecessary
COVERED_BY_REBOOT = (
    "gpu_reset", "reload_driver", "restart_fabricmanager", "restart_service", "reset_clocks", "modprobe_peermem", "power_limit_default",
    "compute_mode_default", "kill_gpu_process",
)  # fmt: skip

ROWS: tuple[Remedy, ...] = (
    Remedy(
        id="reboot",
        does="Reboot the node (warm)",
        at="target",
        args={},
        command=("systemctl", "reboot"),
        risk="destructive",
        limit_seconds=60,
        proof=("smi", "dmesg"),
        blast="one node and every job on it; kernel messages of this boot leave the ring buffer (the evidence is stored)",
        outage="the node for 5 to 15 min: firmware and memory tests of a GPU server take minutes; reported as lost after 15 min",
        waiting="the node and all of its GPUs stay out of service",
        files="deletes none on disk; what is kept in memory (/dev/shm, tmpfs) is lost",
        ends="every process on the node; what a job there did since its last checkpoint is lost",
        names_jobs=True,
        completion=Completion("new_boot", 900),
        needs=("drained",),
        covers=COVERED_BY_REBOOT,
        refusals={
            "inhibit": "somebody holds a shutdown inhibitor: `systemd-inhibit --list`",
            "Access denied": "polkit lets root not reboot this host; look at its rules",
        },
    ),
    Remedy(
        id="power_cycle",
        does="Power-cycle the node through its BMC (cold)",
        at="target",
        args={},
        command=("sh", "-c", scripts.POWER_CYCLE, "power-cycle"),
        risk="destructive",
        limit_seconds=60,
        proof=("smi", "dmesg", "lspci"),
        blast="one node goes dark without shutting down: what is not on disk is lost, and if it does not come back somebody has to go there",
        outage="the node for 10 to 25 min: a cold start tests memory and trains all links anew; reported as lost after 25 min",
        waiting="the node and all of its GPUs stay out of service",
        files="deletes none on disk; what was not written to disk or is kept in memory (/dev/shm, tmpfs) is lost",
        ends="every process on the node, without shutting down; what a job there did since its last checkpoint is lost",
        names_jobs=True,
        conditions=(BMC_ANSWERS,),
        completion=Completion("new_boot", 1500),
        needs=("drained",),
        covers=("reboot", *COVERED_BY_REBOOT),
        refusals={
            "Could not open device": "the node has no BMC interface (ipmi_si, ipmi_devintf): cut the power from outside",
            "Insufficient privilege": "the BMC lets the host not switch itself: cut the power from outside",
            "Unable to send command": "the BMC does not answer: cut the power from outside",
            "ipmitool: not found": "ipmitool is not installed on this node: cut the power from outside",
        },
        back="nothing: it has booted",
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
        outage="no node leaves service; its GPUs are busy for up to 10 min",
        waiting="the suspected cause stays unproven",
        files="none; what it prints is stored as evidence",
        ends="nothing",
        names_jobs=True,
    ),
)
