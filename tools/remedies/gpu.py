"""Remedies for GPUs, least disruptive first."""

from collections.abc import Mapping

from tools.remedies import scripts
from tools.remedies.conditions import IDLE_GPU, SAME_PROCESS
from tools.remedies.remedy import Remedy

IN_USE_HINT = (
    "the GPU is still held by a client: stop nvidia-persistenced, DCGM or the fabric manager's hold on it, or end the process that "
    "`fuser -v /dev/nvidia*` shows; otherwise reboot"
)
LOST_GPU_HINT = "a lost GPU cannot be reset or set: reboot, with power cut if it comes back lost"

IN_USE_REFUSALS: Mapping[str, str] = {"In use by another client": IN_USE_HINT, "currently in use": IN_USE_HINT}
LOST_GPU_REFUSALS: Mapping[str, str] = {"GPU is lost": LOST_GPU_HINT, "Unable to determine the device handle": LOST_GPU_HINT}
NO_RIGHT_REFUSALS: Mapping[str, str] = {"Insufficient Permissions": "the kit's sudoers line is missing or older than the kit"}

ROWS: tuple[Remedy, ...] = (
    Remedy(
        id="reset_clocks",
        does="Reset locked and application clocks of the GPU at {bdf} to their defaults",
        at="target",
        args={"bdf": "bdf"},
        command=("sh", "-c", scripts.RESET_CLOCKS, "reset-clocks", "{bdf}"),
        risk="intrusive",
        limit_seconds=30,
        proof=("smi",),
        blast="one GPU; running work speeds up",
        outage="none: clocks change while work runs",
        waiting="each job that uses this GPU waits for its reduced clock",
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
        outage="none: the limit changes while work runs",
        waiting="each job that uses this node runs at the reduced power limit",
        refusals={"not a valid power limit": "the limit is outside what this GPU allows; compare `nvidia-smi -q -d POWER`"},
    ),
    Remedy(
        id="compute_mode_default",
        does="Set the compute mode of the GPU at {bdf} to Default: any number of processes",
        at="target",
        args={"bdf": "bdf"},
        command=("nvidia-smi", "-i", "{bdf}", "-c", "0"),
        risk="intrusive",
        limit_seconds=30,
        proof=("smi",),
        blast="one GPU; running work goes on, more processes may join it",
        outage="none",
        waiting="jobs that start a second process on this GPU fail",
        refusals={
            "not supported": "this GPU or driver has no compute modes; look at `nvidia-smi -q -d COMPUTE`",
            "GPU instances": "MIG is on, and then the mode cannot be changed: turn MIG off first (mig_off)",
            **LOST_GPU_REFUSALS,
        },
        back="`nvidia-smi -i BDF -c EXCLUSIVE_PROCESS` sets the mode it had",
    ),
    Remedy(
        id="persistence_on",
        does="Keep the driver of every GPU initialised while nothing runs (persistence mode)",
        at="target",
        args={},
        command=("nvidia-smi", "-pm", "1"),
        risk="intrusive",
        limit_seconds=60,
        proof=("smi",),
        blast="all GPUs of one node; running work is not touched; until the next boot",
        outage="none",
        waiting="the driver loads again for each job, which delays its start and can lose settings",
        refusals={"not supported": "this GPU or driver has no persistence mode; start nvidia-persistenced instead", **LOST_GPU_REFUSALS},
        back="`nvidia-smi -pm 0` turns it off",
    ),
    Remedy(
        id="kill_gpu_process",
        does="Send SIG{signal} to process {pid}",
        at="target",
        args={"pid": "pid", "ticks": "ticks", "signal": "signal"},
        command=("kill", "-{signal}", "{pid}"),
        risk="destructive",
        limit_seconds=20,
        proof=("procs", "smi"),
        blast="one process",
        outage="none beyond this process; it ends within 20 s or ignores the signal",
        waiting="its GPU memory stays allocated, so jobs on that GPU run out of memory",
        conditions=(SAME_PROCESS,),
        heavier="kill_gpu_process",
        harder={"signal": "KILL"},
        refusals={"No such process": "the process ended by itself in the meantime"},
    ),
    Remedy(
        id="mig_off",
        does="Remove the MIG instances of the GPU at {bdf} and turn MIG off",
        at="target",
        args={"bdf": "bdf"},
        command=("sh", "-c", scripts.MIG_OFF, "mig-off", "{bdf}"),
        risk="disruptive",
        limit_seconds=120,
        proof=("smi",),
        blast="one GPU and every slice of it; before Hopper it takes effect with the reset that follows",
        outage="one GPU for up to 2 min, before Hopper until the reset that follows",
        waiting="jobs that need the whole GPU fail on this node",
        names_jobs=True,
        then="gpu_reset",
        conditions=(IDLE_GPU,),
        needs=("drained",),
        refusals={
            **IN_USE_REFUSALS,
            "not supported": "this GPU has no MIG, or the driver may not change it here (a guest, for instance)",
            **LOST_GPU_REFUSALS,
            **NO_RIGHT_REFUSALS,
        },
        back="`nvidia-smi -i BDF -mig 1` turns it on again; the instances have to be made anew",
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
        outage="one GPU for up to 3 min (time limit), usually less than 1 min; with NVSwitch its peers too",
        waiting="the GPU stays unusable and its node out of service",
        names_jobs=True,
        conditions=(IDLE_GPU,),
        needs=("drained",),
        heavier="reboot",
        refusals={
            **IN_USE_REFUSALS,
            "persistence mode": "a client holds it in persistence mode: stop nvidia-persistenced on the node, then ask again; otherwise reboot",
            "MIG mode": "the GPU is cut into MIG instances: turn MIG off first (mig_off), then reset",
            "is not supported": "this GPU cannot be reset by itself here (NVLink peers, MIG, or the driver); reboot the node",
            **LOST_GPU_REFUSALS,
            "Insufficient Permissions": "the kit's sudoers line is missing or older than the kit",
        },
    ),
)
