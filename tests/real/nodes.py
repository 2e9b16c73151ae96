"""Administrators' actions on a rack's nodes, as root and without RackMedic."""

import contextlib
from collections.abc import Iterator

from deploy.lab.container import run_checked_in_node, run_in_node
from deploy.lab.layout import CONTROLLER, GPUS_PER_NODE, Rack, find_node
from deploy.lab.provision import JOB_USER
from deploy.lab.readiness import wait_until

GRES = "/etc/slurm/gres.conf"


def on(rack: Rack, host: str, *argv: str, stdin: str = "") -> str:
    """Run a command that must succeed and return its output."""
    return run_checked_in_node(rack, find_node(host), *argv, stdin=stdin).strip()


def works(rack: Rack, host: str, *argv: str) -> bool:
    return run_in_node(rack, find_node(host), *argv).returncode == 0


def boot_of(rack: Rack, host: str) -> str:
    return on(rack, host, "cat", "/proc/sys/kernel/random/boot_id")


def slurm_state(rack: Rack, host: str) -> str:
    return on(rack, CONTROLLER.name, "sinfo", "-hN", "-n", host, "-o", "%T")


def slurm_reason(rack: Rack, host: str) -> str:
    return on(rack, CONTROLLER.name, "sinfo", "-hN", "-n", host, "-o", "%E")


def submit(rack: Rack, hosts: str, script: str = "srun sleep 600", *options: str) -> str:
    """Submit a user's job with all GPUs of these nodes; return its id."""
    words = ("sbatch", "--parsable", "--chdir=/shared", f"--nodelist={hosts}", "--exclusive", *options)
    return on(rack, CONTROLLER.name, "runuser", "-u", JOB_USER, "--", *words, stdin=f"#!/bin/sh\n{script}\n")


def job_state(rack: Rack, job: str) -> str:
    """Return squeue's state of the job, "" once Slurm has dropped it."""
    return run_in_node(rack, CONTROLLER, "squeue", "--noheader", "--jobs", job, "-o", "%T").stdout.strip()


@contextlib.contextmanager
def fewer_gpus(rack: Rack, host: str, count: int) -> Iterator[None]:
    """Restart slurmd with `count` GPUs, as after a boot that lost some: Slurm takes the node out of service."""
    on(rack, host, "sh", "-c", f"sed -i 's/\\[0-{GPUS_PER_NODE - 1}\\]/[0-{count - 1}]/' {GRES} && systemctl restart slurmd")
    wait_until(lambda: slurm_state(rack, host) == "inval", "Slurm did not miss a GPU")
    try:
        yield
    finally:
        on(rack, host, "sh", "-c", f"sed -i 's/\\[0-{count - 1}\\]/[0-{GPUS_PER_NODE - 1}]/' {GRES} && systemctl restart slurmd")
        wait_until(lambda: slurm_state(rack, host) != "inval", "Slurm did not see the GPUs again")


def calm(rack: Rack) -> None:
    """Cancel all jobs and resume every node."""
    run_in_node(rack, CONTROLLER, "scancel", "--user", JOB_USER)
    for host in ("gpu-001", "gpu-002", "gpu-003"):
        run_in_node(rack, CONTROLLER, "scontrol", "update", f"NodeName={host}", "State=RESUME")
