"""Services of nodes and controller: stopped, frozen, failed, restarting, masked."""

from tests.real.breakages.breakage import GPU_HOSTS, Breakage, Step, base, service

SLURMD = ("SERVICE.Slurmd_Stopped", "SERVICE.Stopped_Unlike_Peers", *service("slurmd"))
SLURM_CONF = ("CONFIG.File_Differs", *base("slurm.conf"))
MUNGE = ("SERVICE.Munge_Not_Answering", *service("munge"))
CONTROLLER = ("SCHED.Controller_Down", *service("slurmctld"))

LOOP = """mkdir -p /etc/systemd/system/slurmd.service.d
printf '[Unit]\\nStartLimitIntervalSec=0\\n[Service]\\nType=simple\\nExecStart=\\nExecStart=/bin/sh -c "sleep 1; exit 1"\\nRestart=always\\nRestartSec=1\\n' \
> /etc/systemd/system/slurmd.service.d/10-site.conf
systemctl daemon-reload; systemctl restart slurmd"""

SERVICES = (
    Breakage(
        id="slurmd-stopped-everywhere",
        area="services",
        kind=1,
        tier=2,
        report="is gpu-[001-003] healthy? just checking before I start a job",
        at_fault=GPU_HOSTS,
        do=(Step(GPU_HOSTS, "systemctl stop slurmd"),),
        undo=(Step(GPU_HOSTS, "systemctl start slurmd"),),
        sign=Step(GPU_HOSTS, "! systemctl is-active -q slurmd"),
        right=SLURMD,
    ),
    Breakage(
        id="slurmd-frozen",
        area="services",
        kind=1,
        report="gpu-002 takes no jobs any more, ps looks fine to me",
        at_fault="gpu-002",
        do=(Step("gpu-002", "systemctl kill -s STOP slurmd"),),
        undo=(Step("gpu-002", "systemctl kill -s CONT slurmd"),),
        sign=Step("gpu-002", "grep -q 'State:.T' /proc/$(systemctl show -P MainPID slurmd)/status"),
        right=("SERVICE.Daemon_Frozen", "PROCESS.Stopped_By_Signal", "proc.stopped", *SLURMD),
    ),
    Breakage(
        id="slurmd-bad-configuration",
        area="services",
        kind=1,
        report="gpu-003 dropped out of the queue after this morning's change",
        at_fault="gpu-003",
        do=(
            Step(
                "gpu-003",
                "cp -p /etc/slurm/slurm.conf /root/ && echo 'Proctrack=cgroup2' >> /etc/slurm/slurm.conf; systemctl restart slurmd || true",
            ),
        ),
        undo=(Step("gpu-003", "mv /root/slurm.conf /etc/slurm/slurm.conf; systemctl reset-failed slurmd; systemctl restart slurmd"),),
        sign=Step("gpu-003", "systemctl is-failed -q slurmd"),
        right=(*SLURMD, *SLURM_CONF),
    ),
    Breakage(
        id="slurmd-restarts-for-ever",
        area="services",
        kind=1,
        report="gpu-001 goes up and down in sinfo all the time",
        at_fault="gpu-001",
        do=(Step("gpu-001", LOOP),),
        undo=(Step("gpu-001", "rm -r /etc/systemd/system/slurmd.service.d; systemctl daemon-reload; systemctl restart slurmd"),),
        sign=Step("gpu-001", "test $(systemctl show -P NRestarts slurmd) -ge 1"),
        right=("SERVICE.Restart_Loop", *SLURMD),
    ),
    Breakage(
        id="slurmd-masked",
        area="services",
        kind=1,
        report="somebody worked on gpu-002 yesterday, since then nothing lands there",
        at_fault="gpu-002",
        do=(Step("gpu-002", "systemctl mask --now slurmd"),),
        undo=(Step("gpu-002", "systemctl unmask slurmd; systemctl start slurmd"),),
        sign=Step("gpu-002", "test $(systemctl show -P LoadState slurmd) = masked"),
        right=("SERVICE.Unit_Masked", *SLURMD),
    ),
    Breakage(
        id="munge-stopped",
        area="services",
        kind=1,
        report="srun on gpu-001 complains about some credential",
        at_fault="gpu-001",
        do=(Step("gpu-001", "systemctl stop munge"),),
        undo=(Step("gpu-001", "systemctl start munge slurmd"),),
        sign=Step("gpu-001", "! systemctl is-active -q munge"),
        right=MUNGE,
    ),
    Breakage(
        id="docker-bad-configuration",
        area="services",
        kind=1,
        report="containers don't start on gpu-003, cannot connect to the docker daemon",
        at_fault="gpu-003",
        do=(
            Step(
                "gpu-003",
                "mkdir -p /etc/docker; echo '{ \"runtimes\": ' > /etc/docker/daemon.json; systemctl start docker 2>/dev/null || true",
            ),
        ),
        undo=(Step("gpu-003", "rm /etc/docker/daemon.json; systemctl stop docker docker.socket containerd; systemctl reset-failed"),),
        sign=Step("gpu-003", "test -e /etc/docker/daemon.json"),
        right=("SERVICE.Container_Engine_Stopped", *service("docker")),
    ),
    Breakage(
        id="containerd-failed",
        area="services",
        kind=1,
        report="crictl on gpu-003 just says connection refused",
        at_fault="gpu-003",
        do=(
            Step(
                "gpu-003",
                "mkdir -p /etc/containerd; test ! -e /etc/containerd/config.toml || cp -p /etc/containerd/config.toml /root/; "
                "echo 'version = [' > /etc/containerd/config.toml; systemctl start containerd; sleep 1",
            ),
        ),
        undo=(
            Step(
                "gpu-003",
                "rm /etc/containerd/config.toml; test ! -e /root/config.toml || mv /root/config.toml /etc/containerd/; "
                "systemctl stop containerd; systemctl reset-failed",
            ),
        ),
        sign=Step("gpu-003", "grep -qx 'version = \\[' /etc/containerd/config.toml"),
        right=("SERVICE.Container_Engine_Stopped", "SERVICE.Restart_Loop", *service("containerd")),
    ),
    Breakage(
        id="time-service-stopped",
        area="services",
        report="log times on gpu-002 drift away from the others I think",
        at_fault="gpu-002",
        do=(Step("gpu-002", "systemctl stop chrony"),),
        undo=(Step("gpu-002", "systemctl start chrony"),),
        sign=Step("gpu-002", "! systemctl is-active -q chrony"),
        right=("SERVICE.Stopped_Unlike_Peers", "TIME.Clock_Skew", "time.synchronised", *service("chrony")),
    ),
    Breakage(
        id="controller-stopped",
        area="services",
        kind=6,
        tier=2,
        report="sinfo does nothing since lunch",
        hosts="ctl",
        at_fault="ctl",
        do=(Step("ctl", "systemctl stop slurmctld"),),
        undo=(Step("ctl", "systemctl start slurmctld"),),
        sign=Step("ctl", "! systemctl is-active -q slurmctld"),
        right=CONTROLLER,
    ),
    Breakage(
        id="controller-stopped-asked-of-a-node",
        area="services",
        report="squeue hangs on gpu-002",
        at_fault="ctl",
        do=(Step("ctl", "systemctl stop slurmctld"),),
        undo=(Step("ctl", "systemctl start slurmctld"),),
        sign=Step("ctl", "! systemctl is-active -q slurmctld"),
        right=CONTROLLER,
    ),
    Breakage(
        id="controller-frozen",
        area="services",
        report="slurm is very slow today, every command times out",
        hosts="ctl",
        at_fault="ctl",
        do=(Step("ctl", "systemctl kill -s STOP slurmctld"),),
        undo=(Step("ctl", "systemctl kill -s CONT slurmctld"),),
        sign=Step("ctl", "grep -q 'State:.T' /proc/$(systemctl show -P MainPID slurmctld)/status"),
        right=("SERVICE.Daemon_Frozen", "PROCESS.Stopped_By_Signal", "proc.stopped", *CONTROLLER),
    ),
    Breakage(
        id="controller-munge-stopped",
        area="services",
        report="everybody gets authentication errors from slurm on ctl",
        hosts="ctl",
        at_fault="ctl",
        do=(Step("ctl", "systemctl stop munge"),),
        undo=(Step("ctl", "systemctl start munge slurmctld"),),
        sign=Step("ctl", "! systemctl is-active -q munge"),
        right=(*MUNGE, *CONTROLLER),
    ),
)
