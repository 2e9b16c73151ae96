"""Kernel modules and driver versions: lsmod, /proc/driver/nvidia/version, modinfo, dkms, uname, nv-fabricmanager.

Module                  Size  Used by
nvidia_peermem         16384  0
NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024
550.90.07
nvidia/550.90.07, 5.15.0-107-generic, x86_64: installed
5.15.0-107-generic
Fabric Manager version is : 550.90.07
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from kb.needle_search import split_lines
from tools.checks.check_types import Check, Command, Format, Unreadable
from tools.fact import Fact, Status

CHECK = "mods"
# Modules whose absence matters. lsmod's list is complete, so a missing one is not loaded.
WATCHED_MODULES = (
    "nvidia",
    "nvidia_uvm",
    "nvidia_modeset",
    "nvidia_drm",
    "nvidia_peermem",
    "nv_peer_mem",
    "gdrdrv",
    "nouveau",
    "mlx5_core",
    "mlx5_ib",
    "ib_core",
    "ib_uverbs",
    "ib_ipoib",
)
_MODULE_PATTERN = re.compile(r"([A-Za-z0-9_]{1,64}) +(\d+) +(-?\d+)")
_VERSION = r"\d{3}\.\d{1,4}(?:\.\d{1,4})?"
_PROC_PATTERN = re.compile(rf"NVRM version: .{{0,80}}?({_VERSION})")
_DKMS_PATTERN = re.compile(
    r"([\w.-]{1,40})(?:/|, )([\w.:-]{1,40}?)(?:, ([\w.+-]{1,60}), \w{1,12})?(?:: | \()(installed|built|added|broken|failed)"
)
_MANAGER_PATTERN = re.compile(rf"Fabric Manager version is\s*:\s*({_VERSION})")
_NO_PROC_PATTERN = re.compile(r"/proc/driver/nvidia/version: No such file")
_NO_MODULE_PATTERN = re.compile(r"modinfo: ERROR: Module nvidia not found")


def is_lsmod(text: str) -> bool:
    return bool(re.match(r"\s*Module +Size +Used by", text))


def parse_lsmod(text: str) -> Sequence[Fact]:
    line_by_module = {match[1]: match[0].strip() for match in map(_MODULE_PATTERN.match, split_lines(text)) if match}
    if not line_by_module:
        raise Unreadable("the head of lsmod and no module")
    return [
        Fact(CHECK, "module.loaded", name in line_by_module, name, line=line_by_module.get(name, f"{name} is not listed"))
        for name in WATCHED_MODULES
    ]


def is_proc_version(text: str) -> bool:
    return bool(_PROC_PATTERN.search(text[:2000]) or _NO_PROC_PATTERN.search(text[:2000]))


def parse_proc_version(text: str) -> Sequence[Fact]:
    if match := _PROC_PATTERN.search(text):
        return [Fact(CHECK, "driver.module_version", match[1], line=match[0])]
    return [Fact(CHECK, "driver.module_version", status=Status.ABSENT, line=text.strip()[:200])]


def is_installed_version(text: str) -> bool:
    return bool(re.fullmatch(rf"\s*{_VERSION}\s*", text) or _NO_MODULE_PATTERN.search(text[:500]))


def parse_installed_version(text: str) -> Sequence[Fact]:
    if match := re.fullmatch(rf"\s*({_VERSION})\s*", text):
        return [Fact(CHECK, "driver.installed_version", match[1], line=match[1])]
    return [Fact(CHECK, "driver.installed_version", status=Status.ABSENT, line=text.strip()[:200])]


def is_dkms(text: str) -> bool:
    return any(_DKMS_PATTERN.match(line) for line in split_lines(text[:4096])[:10])


def parse_dkms(text: str) -> Sequence[Fact]:
    facts = []
    for line in split_lines(text):
        if match := _DKMS_PATTERN.match(line):
            module, version, kernel, state = match.groups()
            attrs = {name: value for name, value in (("version", version), ("kernel", kernel)) if value}
            facts.append(Fact(CHECK, "module.dkms", "failed" if state == "broken" else state, module, line=line.strip()[:200], attrs=attrs))
    return facts


def is_release(text: str) -> bool:
    return bool(re.fullmatch(r"\s*\d{1,2}\.\d{1,3}(?:\.\d{1,4})?(?:[-+.][\w.+~-]{1,60})?\s*", text))


def parse_release(text: str) -> Sequence[Fact]:
    return [Fact(CHECK, "kernel.release", text.strip(), line=text.strip())]


def is_fabric_manager_version(text: str) -> bool:
    return bool(_MANAGER_PATTERN.search(text[:2000]))


def parse_fabric_manager_version(text: str) -> Sequence[Fact]:
    """Return the installed version, whether or not the fabric manager runs."""
    match = _MANAGER_PATTERN.search(text)
    if match is None:
        raise Unreadable("no version of the fabric manager")
    return [Fact(CHECK, "driver.fabricmanager_version", match[1], line=match[0])]


def compare_driver_versions(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Compare the loaded module with the one on disk: packages ship both, so a difference is a mismatch.

    The fabric manager must match the loaded driver or the one on disk, which may be loaded later. dkms states of other
    kernels are dropped.
    """
    kept_facts = _drop_other_kernels(facts)
    fact_by_key = {fact.key: fact for fact in facts if fact.status is Status.OK}
    loaded, installed = fact_by_key.get("driver.module_version"), fact_by_key.get("driver.installed_version")
    if not loaded:
        return kept_facts
    if installed:
        is_mismatch = loaded.value != installed.value
        line = f"loaded {loaded.value}, on disk {installed.value}"
        attrs = {"loaded": loaded.value, "installed": installed.value}
        kept_facts.append(replace(loaded, key="driver.mismatch", value=is_mismatch, line=line, attrs=attrs))
    if manager := fact_by_key.get("driver.fabricmanager_version"):
        is_mismatch = manager.value not in (loaded.value, installed.value if installed else None)
        line = f"loaded {loaded.value}, fabric manager {manager.value}"
        attrs = {"loaded": loaded.value, "manager": manager.value}
        kept_facts.append(replace(loaded, key="driver.fabricmanager_mismatch", value=is_mismatch, line=line, attrs=attrs))
    return kept_facts


def _drop_other_kernels(facts: Sequence[Fact]) -> list[Fact]:
    """Drop dkms states of kernels that do not run; keep all if the running kernel is unknown."""
    release = next((str(fact.value) for fact in facts if fact.key == "kernel.release" and fact.value), "")
    if not release:
        return list(facts)
    return [fact for fact in facts if fact.key != "module.dkms" or fact.attrs.get("kernel", release) == release]


CHECKS = (
    Check(
        id=CHECK,
        asks="Which kernel modules are loaded, and do the driver's versions agree?",
        commands=(
            Command("loaded", ("lsmod",)),
            Command("module", ("cat", "/proc/driver/nvidia/version")),
            Command("installed", ("modinfo", "-F", "version", "nvidia")),
            Command("dkms", ("dkms", "status"), optional=True),
            Command("kernel", ("uname", "-r")),
            Command("manager", ("nv-fabricmanager", "--version"), optional=True),
        ),
        formats=(
            Format("lsmod", is_lsmod, parse_lsmod),
            Format("/proc/driver/nvidia/version", is_proc_version, parse_proc_version),
            Format("modinfo", is_installed_version, parse_installed_version),
            Format("dkms status", is_dkms, parse_dkms),
            Format("uname -r", is_release, parse_release),
            Format("nv-fabricmanager --version", is_fabric_manager_version, parse_fabric_manager_version),
        ),
        establishes=(
            "module.loaded",
            "driver.module_version",
            "driver.installed_version",
            "driver.mismatch",
            "driver.fabricmanager_version",
            "driver.fabricmanager_mismatch",
            "module.dkms",
            "kernel.release",
        ),
        seconds=1.0,
        settle=compare_driver_versions,
    ),
)
