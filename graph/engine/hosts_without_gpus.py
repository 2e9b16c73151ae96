"""Hosts that have no GPUs and lack none: controllers, login nodes, storage. Pure."""

from collections.abc import Callable, Sequence

from tools.fact import Fact, Status, Value

NO_GPU_VALUES = {"pcie.gpu_count": 0, "kernel.nvidia_absent": True}
"""What a host without GPUs shows as one whose GPUs are gone does."""
GPU_SIGN_KEYS = ("gpu.bdf", "gpu.count", "pcie.gpu_count", "driver.module_version", "driver.installed_version", "smi.error")
"""A value of one of these says that a host has GPUs, or a driver for them."""


def drop_absence_of_gpus(
    facts: Sequence[Fact], expected: Callable[[str], Value], runs_jobs: Callable[[str], bool], kind: Callable[[str], str]
) -> list[Fact]:
    """Return the facts without "no GPU here" of hosts that are not meant to have any.

    Those hosts have no driver and no GPU, no profile that expects GPUs, and either run no jobs, or are of a kind in which no host has GPUs while
    other kinds do.
    """
    absent = {
        fact.host for fact in facts if fact.key in NO_GPU_VALUES and fact.status is Status.OK and fact.value == NO_GPU_VALUES[fact.key]
    }
    signs = {fact.host for fact in facts if fact.key in GPU_SIGN_KEYS and fact.status is Status.OK and fact.value}
    kinds = {kind(host) for host in signs}
    meant = {
        host
        for host in absent - signs
        if host and expected(host) is None and (not runs_jobs(host) or (bool(kinds) and kind(host) not in kinds))
    }
    return [fact for fact in facts if not (fact.host in meant and fact.key in NO_GPU_VALUES and fact.value == NO_GPU_VALUES[fact.key])]
