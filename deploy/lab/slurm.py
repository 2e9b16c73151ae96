"""Slurm's configuration for a rack: real daemons, plain files in place of GPU devices."""

from deploy.lab.layout import CONTROLLER, GPUS, NODES, Role

# Slurm needs a file per GPU; `Count=` alone registers none (22.05: "count reported lower than configured").
GPU_FILES = "/run/lab/gpu"

# `config_overrides`: nodes claim what is written here, not what the host has. `MessageTimeout`: how long commands look
# for a missing controller (default ten seconds each).
SETTINGS = f"""\
ClusterName=lab
SlurmctldHost={CONTROLLER.name}
SlurmUser=slurm
AuthType=auth/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmdSpoolDir=/var/lib/slurm/slurmd
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
SlurmdParameters=config_overrides
ReturnToService=1
SlurmctldTimeout=30
SlurmdTimeout=30
MessageTimeout=5
KillWait=2
AccountingStorageType=accounting_storage/none
AccountingStorageHost={CONTROLLER.name}
JobAcctGatherType=jobacct_gather/none
GresTypes=gpu
"""


def slurm_conf() -> str:
    names = ",".join(node.name for node in NODES if node.role is Role.GPU)
    nodes = f"NodeName={names} CPUs=16 RealMemory=2000 Gres=gpu:h100:{GPUS} State=UNKNOWN\n"
    return SETTINGS + nodes + f"PartitionName=train Nodes={names} Default=YES MaxTime=INFINITE State=UP\n"


def gres_conf() -> str:
    return f"Name=gpu Type=h100 File={GPU_FILES}[0-{GPUS - 1}]\n"


def gpu_files() -> str:
    """Return a systemd-tmpfiles fragment that creates the GPU files at every boot."""
    return "".join(f"f {GPU_FILES}{gpu} 0666\n" for gpu in range(GPUS))
