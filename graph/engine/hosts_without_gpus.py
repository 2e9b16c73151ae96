"""Hosts that are not meant to have GPUs: controllers, login nodes, storage. Pure."""

from collections.abc import Callable, Sequence

from tools.fact import Fact, Status, Value

# facts that a host without GPUs and a host with lost GPUs both show
NO_GPU_VALUES = {"pcie.gpu_count": 0, "kernel.nvidia_absent": True}
# a value of one of these shows GPUs, or a driver for them
GPU_SIGN_KEYS = ("gpu.bdf", "gpu.count", "pcie.gpu_count", "driver.module_version", "driver.installed_version", "smi.error")


def drop_absence_of_gpus(
    facts: Sequence[Fact], expected: Callable[[str], Value], runs_jobs: Callable[[str], bool], kind: Callable[[str], str]
) -> list[Fact]:
    """Drop "no GPU here" facts of hosts not meant to have any.

    These have no driver, no GPU and no profile with GPUs, and run no jobs or are of a kind without GPUs while other
    kinds have them.
    """
    absent = {
        fact.host for fact in facts if fact.key in NO_GPU_VALUES and fact.status is Status.OK and fact.value == NO_GPU_VALUES[fact.key]
    }
    signs = {fact.host for fact in facts if fact.key in GPU_SIGN_KEYS and fact.status is Status.OK and fact.value}
    kinds = {kind(host) for host in signs}
    hosts_without_gpus = {
        host
        for host in absent - signs
        if host and expected(host) is None and (not runs_jobs(host) or (bool(kinds) and kind(host) not in kinds))
    }
    return [
        fact
        for fact in facts
        if not (fact.host in hosts_without_gpus and fact.key in NO_GPU_VALUES and fact.value == NO_GPU_VALUES[fact.key])
    ]
