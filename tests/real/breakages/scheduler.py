"""The scheduler: drained, down, reserved or misconfigured nodes, and jobs that cannot start or end."""

from typing import Literal

from tests.real.breakages.breakage import Breakage, Step, base
from tests.real.breakages.services import MUNGE, SLURM_CONF

OUT_OF_SERVICE = ("SCHED.Drained_By_Hand", "SCHED.Planned_Maintenance", "sched.*")
RESUME = "scontrol update NodeName={} State=RESUME"

CHANGED_SLURM_CONF = (
    "cp -p /etc/slurm/slurm.conf /root/ && sed -i '/^SlurmctldHost/a SlurmctldPort=6999' /etc/slurm/slurm.conf; systemctl restart slurmd"
)
RESTORED_SLURM_CONF = "mv /root/slurm.conf /etc/slurm/slurm.conf; systemctl restart slurmd"
HOOK = (
    "cp -p /etc/slurm/slurm.conf /root/ && printf '#!/bin/sh\\n{body}\\n' > /etc/slurm/{name}.sh; chmod 755 /etc/slurm/{name}.sh; "
    "echo '{Name}=/etc/slurm/{name}.sh' >> /etc/slurm/slurm.conf; systemctl restart slurmd"
)
UNHOOKED = "mv /root/slurm.conf /etc/slurm/slurm.conf; rm /etc/slurm/{}.sh; pkill -x sleep; systemctl restart slurmd"
SUBMIT = "cd /shared && runuser -u trainer -- sbatch --parsable --chdir=/shared -o /dev/null --nodelist={} --wrap true"


def _drained(id_: str, host: str, state: str, reason: str, report: str, *, tier: Literal[2, 3] = 3, kind: int = 2) -> Breakage:
    return Breakage(
        id=id_,
        area="scheduler",
        kind=kind,
        tier=tier,
        report=report,
        at_fault=host,
        do=(Step("ctl", f"scontrol update NodeName={host} State={state} Reason='{reason}'"),),
        undo=(Step("ctl", RESUME.format(host)),),
        sign=Step("ctl", f"sinfo -hN -n {host} -o %T | grep -qiE '{state}'"),
        right=OUT_OF_SERVICE,
    )


SCHEDULER = (
    _drained(
        "drained-by-an-administrator", "gpu-002", "DRAIN", "bob: swapping fan tray tomorrow", "why is nothing scheduled on gpu-002?", tier=2
    ),
    _drained("drained-and-asked-whether-healthy", "gpu-003", "DRAIN", "ticket 4711, ask jane", "is gpu-003 healthy?"),
    _drained("set-down-by-an-administrator", "gpu-001", "DOWN", "do not touch", "jobs skip gpu-001", kind=0),
    _drained("set-failed-by-an-administrator", "gpu-002", "FAIL", "flaky", "gpu-002 looks idle to me but gets no work", kind=0),
    Breakage(
        id="partition-down",
        area="scheduler",
        report="all my jobs sit pending, gpu-[001-003] are idle",
        at_fault="ctl",
        do=(Step("ctl", "scontrol update PartitionName=train State=DOWN"),),
        undo=(Step("ctl", "scontrol update PartitionName=train State=UP"),),
        sign=Step("ctl", "sinfo -h -o %a | grep -q down"),
        right=OUT_OF_SERVICE,
        known_wrong="the scheduler is asked for nodes and jobs, never for partitions (tools/checks/scheduler.py)",
    ),
    Breakage(
        id="maintenance-reservation",
        area="scheduler",
        report="why does nothing start on gpu-002, the node is up",
        at_fault="gpu-002",
        do=(
            Step(
                "ctl",
                "scontrol create reservation ReservationName=upkeep StartTime=now Duration=60 Users=root Nodes=gpu-002 Flags=maint; sleep 1",
            ),
        ),
        undo=(Step("ctl", "scontrol delete ReservationName=upkeep"),),
        sign=Step("ctl", "scontrol show node gpu-002 | grep -q MAINT"),
        right=OUT_OF_SERVICE,
    ),
    Breakage(
        id="fewer-gpus-registered",
        area="scheduler",
        report="gpu-001 drained itself over night",
        at_fault="gpu-001",
        do=(Step("gpu-001", "sed -i 's/\\[0-7\\]/[0-5]/' /etc/slurm/gres.conf && systemctl restart slurmd"),),
        undo=(Step("gpu-001", "sed -i 's/\\[0-5\\]/[0-7]/' /etc/slurm/gres.conf && systemctl restart slurmd"),),
        sign=Step("gpu-001", "sinfo -hN -n gpu-001 -o %T | grep -q inval"),
        right=(*OUT_OF_SERVICE, "CONFIG.File_Differs", *base("gres.conf")),
    ),
    Breakage(
        id="other-slurm-conf",
        area="scheduler",
        report="gpu-002 went down* after the config push, the others took it fine",
        at_fault="gpu-002",
        do=(Step("gpu-002", CHANGED_SLURM_CONF),),
        undo=(Step("gpu-002", RESTORED_SLURM_CONF),),
        sign=Step("gpu-002", "grep -q 6999 /etc/slurm/slurm.conf"),
        right=(*OUT_OF_SERVICE, *SLURM_CONF, *base("port of controller")),
    ),
    Breakage(
        id="other-munge-key",
        area="scheduler",
        report="nothing ever starts on gpu-001, other nodes fine",
        at_fault="gpu-001",
        do=(
            Step(
                "gpu-001",
                "cp -p /etc/munge/munge.key /root/ && head -c 1024 /dev/urandom > /tmp/k && cat /tmp/k > /etc/munge/munge.key; rm /tmp/k; "
                "systemctl restart munge; systemctl restart slurmd || true",
            ),
        ),
        undo=(
            Step(
                "gpu-001",
                "cat /root/munge.key > /etc/munge/munge.key; rm /root/munge.key; systemctl restart munge; systemctl restart slurmd",
            ),
        ),
        sign=Step("ctl", "sinfo -hN -n gpu-001 -o %T | grep -qiE '[*]|down'"),
        sign_seconds=90,
        right=(*MUNGE, *OUT_OF_SERVICE, "CONFIG.File_Differs", "service.event:slurmd"),
    ),
    Breakage(
        id="epilog-hangs",
        area="scheduler",
        report="gpu-001 is stuck in comp for ages",
        at_fault="gpu-001",
        do=(
            Step("gpu-001", HOOK.format(name="epilog", Name="Epilog", body="exec sleep 900")),
            Step("ctl", SUBMIT.format("gpu-001")),
        ),
        undo=(
            Step("ctl", "scancel --user trainer"),
            Step("gpu-001", UNHOOKED.format("epilog")),
            Step("ctl", "scontrol update NodeName=gpu-001 State=DOWN Reason=x; scontrol update NodeName=gpu-001 State=RESUME"),
        ),
        sign=Step("ctl", "sinfo -hN -n gpu-001 -o %T | grep -q compl"),
        right=(*OUT_OF_SERVICE, *SLURM_CONF, *base("port of controller")),
        known_wrong="COMPLETING is what any node is for seconds, and sched.state has no time (graph/engine/abnormal_facts.py)",
    ),
    Breakage(
        id="prolog-fails",
        area="scheduler",
        report="every job I send to gpu-003 bounces right back",
        at_fault="gpu-003",
        do=(
            Step("gpu-003", HOOK.format(name="prolog", Name="Prolog", body="exit 1")),
            Step("ctl", SUBMIT.format("gpu-003")),
        ),
        undo=(
            Step("ctl", "scancel --user trainer"),
            Step("gpu-003", UNHOOKED.format("prolog")),
            Step("ctl", "scontrol update NodeName=gpu-003 State=RESUME"),
        ),
        sign=Step("ctl", "sinfo -hN -n gpu-003 -o %T | grep -q drain"),
        right=(*OUT_OF_SERVICE, *SLURM_CONF, *base("port of controller")),
    ),
    Breakage(
        id="controller-cannot-be-reached-from-a-node",
        area="scheduler",
        report="gpu-003 shows as down* but I can ssh in",
        at_fault="gpu-003",
        do=(Step("gpu-003", "ip route add blackhole $(getent hosts ctl | cut -d' ' -f1)/32"),),
        undo=(Step("gpu-003", "ip route del blackhole $(getent hosts ctl | cut -d' ' -f1)/32"),),
        sign=Step("gpu-003", "ip route | grep -q blackhole"),
        right=("ETH.Route_Blackholed", "ETH.Route_Missing", "ETH.Rendezvous_Port_Blocked", *base("route", "ctl", "slurmctld")),
    ),
)
