"""A step of a taxonomy plan → a rung with its arguments, or words for people. Pure.

Arguments come from facts that a machine stated of itself, never from anybody's text. A value that cannot be had is no rung but a sentence.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from graph.state import Hypothesis, Rung
from tools.acting.build import NoController, via_of
from tools.fact import Fact, Status
from tools.inventory.hosts import Host
from tools.remedies import REMEDIES, way_of
from tools.remedies.row import KINDS, fill

Part = Literal["prepare", "fix", "restore"]

IN_BRACKETS: Mapping[str, str] = {"restart_service": "service"}
"""Remedies that a plan gives an argument, and its kind. Any other remedy with something in brackets is people's work."""

OLD_HOURS = "72"
"""Files that nobody wrote to for so long go first; the catalogue knows what is harder."""

WORDS: Mapping[str, str] = {
    "none": "",
    "escalate_rma": "open a replacement case with the vendor",
    "escalate_hw": "have the hardware team look at it",
    "escalate_cable": "have cable and optics checked and replaced",
    "escalate_cooling": "have its cooling checked",
    "escalate_facility": "tell the facility",
    "escalate_fabric": "tell the fabric team",
    "escalate_network": "tell the network team",
    "escalate_storage": "tell the storage team",
    "escalate_service": "tell whoever runs that service",
    "report_user": "tell the owner of the job",
    "restart_job": "start the job again",
    "enlarge_shm": "start the container again with more shared memory (--shm-size), which only its owner can give it",
    "raise_memlock": (
        "set LimitMEMLOCK=infinity in the unit that starts jobs (slurmd, docker, containerd), then restart that unit; where only the job's "
        "own processes are limited, set PropagateResourceLimitsExcept=MEMLOCK in slurm.conf, or start the container with --ulimit memlock=-1"
    ),
    "raise_nofile": "raise LimitNOFILE in the unit that starts jobs, then restart that unit",
    "set_mtu": "set the interface's MTU as everywhere else, in the network configuration, so that it stays",
    "fix_resolver": "mend the name service of the node (resolv.conf, systemd-resolved)",
    "mend_host": "have an administrator mend it on the node",
    "boot_previous_kernel": "boot the previous kernel",
    "driver_upgrade": "upgrade the NVIDIA driver",
    "install_fabricmanager": "install the fabric manager of the driver's version",
    "disable_acs": "turn ACS off on the PCIe bridges, in firmware or at every boot",
}
"""Steps that people do. One that is not listed here is said as it is spelt."""

_STEP = re.compile(r"([a-z0-9_]+)(?:\((.*)\))?")


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a plan: the id of a remedy, or a name of people's work; `detail` is what stands in its brackets."""

    name: str
    detail: str = ""

    @property
    def kind(self) -> Literal["remedy", "people"]:
        """Who does it: a remedy of the catalogue, or people."""
        if self.name not in ARGUMENTS:
            return "people"
        bracket = IN_BRACKETS.get(self.name)
        fits = re.fullmatch(KINDS[bracket].pattern, self.detail) is not None if bracket else not self.detail
        return "remedy" if fits else "people"

    @property
    def words(self) -> str:
        """What people have to do; empty for `none`."""
        words = WORDS.get(self.name, self.name.replace("_", " "))
        return f"{words} ({self.detail})" if words and self.detail else words


def steps_of(plan: str) -> tuple[Step, ...]:
    """`drain_node > restart_service(docker)` as its steps."""
    found = ((text, _STEP.fullmatch(text)) for text in map(str.strip, plan.split(">")))
    return tuple(Step(match[1], match[2] or "") if match else Step(text) for text, match in found)


@dataclass(frozen=True, slots=True)
class Ground:
    """What the steps of one cause on one host stand on."""

    host: Host
    hosts: Mapping[str, Host]
    facts: Sequence[Fact]
    """Of this host, nothing stale."""
    cause: Hypothesis
    job: str = ""
    """The job as people named it; counts only when the host shows it."""
    detail: str = ""
    """What stands in the brackets of the step."""

    @property
    def devices(self) -> tuple[str, ...]:
        """The guilty devices of this host, without its name."""
        return tuple(name.partition("/")[2] for name in self.cause.devices if name.partition("/")[0] == self.host.name)


class NoRung(Exception):
    """This step cannot be offered. The text is a sentence for people."""


def rungs_of(step: Step, ground: Ground, plan: int) -> list[Rung]:
    """The rungs of a step that is a remedy: one for each device where it takes one. NoRung says what people should do instead."""
    remedy = REMEDIES[step.name]
    try:
        via = via_of(remedy, ground.host, ground.hosts)
    except NoController as why:
        lacks = str(why) if ground.host.controller else "its group has no Slurm controller in the inventory"
        raise NoRung(f"{_verb(remedy.id)} {ground.host.name} by hand: {lacks}") from why
    filled = ARGUMENTS[remedy.id](replace(ground, detail=step.detail))
    if not via.kit:
        words = way_of(remedy, ground.host.scheduler).command
        commands = "; ".join(f"`{' '.join(fill(word, _slots(args, ground.host)) for word in words)}`" for args, _ in filled)
        raise NoRung(f"run {commands} on {via.name} by hand: it has no node kit")
    part = PARTS.get(remedy.id, "prepare" if remedy.then else "fix")
    return [Rung(remedy=remedy.id, args=args, devices=devices, plan=plan, part=part) for args, devices in filled]


PARTS: Mapping[str, Part] = {"drain_node": "prepare", "cancel_job": "prepare", "evict_pods": "prepare", "resume_node": "restore"}

Filled = list[tuple[dict[str, str], tuple[str, ...]]]
"""Arguments and the devices they change, one pair a rung."""


def _node(ground: Ground) -> Filled:
    return [({"node": ground.host.name}, ())]


def _nothing(ground: Ground) -> Filled:
    return [({}, ())]


def _bdf(ground: Ground) -> Filled:
    if not ground.devices:
        raise NoRung(f"find out which GPU of {ground.host.name} it is: no check could tell")
    return [({"bdf": _address(ground, device)}, (f"{ground.host.name}/{device}",)) for device in ground.devices]


def _address(ground: Ground, device: str) -> str:
    """The PCI address of a GPU as the host tells it; two different ones are none."""
    if re.fullmatch(KINDS["bdf"].pattern, device):
        return device
    own = [fact for fact in ground.facts if fact.device == device and fact.status is Status.OK]
    said = {str(fact.value).lower() for fact in own if fact.key == "gpu.bdf"}
    said = said or {str(fact.attrs["bdf"]).lower() for fact in own if fact.key.startswith(("kernel.", "pcie.")) and fact.attrs.get("bdf")}
    known = {address for address in said if re.fullmatch(KINDS["bdf"].pattern, address)}
    if len(known) != 1:
        raise NoRung(
            f"find the PCI address of {ground.host.name}/{device}: " + ("no check told it" if not known else "the checks disagree")
        )
    return known.pop()


def _watts(ground: Ground) -> Filled:
    told = {fact.value for fact in ground.facts if fact.key == "gpu.power.default" and isinstance(fact.value, int | float)}
    if len(told) != 1:
        why = "nvidia-smi does not tell it" if not told else "its GPUs have different ones"
        raise NoRung(f"set the default power limit of {ground.host.name} by hand: {why}")
    return [({"watts": f"{told.pop():g}"}, ground.cause.devices)]


def _process(ground: Ground) -> Filled:
    """Every orphan on the guilty GPUs. One that the kernel does not list, or that is dead already, no signal reaches."""
    rows = {
        int(fact.attrs["pid"]): fact
        for fact in ground.facts
        if fact.key == "proc.orphan"
        and fact.status is Status.OK
        and "pid" in fact.attrs
        and (not ground.devices or fact.device in ground.devices)
    }
    living = {pid: fact for pid, fact in rows.items() if not str(fact.attrs.get("why", "")).startswith(("a zombie", "the process is gone"))}
    if not living:
        raise NoRung(
            f"free the GPU memory of {ground.host.name} by hand: "
            + ("no signal reaches what holds it" if rows else "its holder is not known")
        )
    return [
        ({"pid": str(pid), "ticks": "0", "signal": "TERM"}, (f"{ground.host.name}/{fact.device}",) if fact.device else ())
        for pid, fact in sorted(living.items())
    ]


def _job(ground: Ground) -> Filled:
    """The job that the host itself shows on its GPUs, or else the scheduler there; of several only the one that people named."""
    shown = {str(fact.attrs["job"]) for fact in ground.facts if fact.key == "proc.gpu_memory" and fact.attrs.get("job")}
    queued = {job for fact in ground.facts if fact.key == "sched.running" and isinstance(fact.value, list) for job in fact.value}
    jobs = {job for job in shown if re.fullmatch(KINDS["job"].pattern, job)} or queued
    if ground.job in jobs:
        return [({"job": ground.job}, ())]
    if len(jobs) != 1:
        raise NoRung(f"find out which job holds {ground.host.name}")
    return [({"job": jobs.pop()}, ())]


def _service(ground: Ground) -> Filled:
    return [({"service": ground.detail}, ())]


def _old_files(ground: Ground) -> Filled:
    return [({"hours": OLD_HOURS}, ())]


def _containers(ground: Ground) -> Filled:
    """Those in which NVML fails as it does after a daemon-reload; the kit asks each again before it touches it."""
    lost = [fact for fact in ground.facts if (fact.key, fact.value, fact.status) == ("container.nvml", "unknown_error", Status.OK)]
    ids = {str(fact.attrs.get("id", "")): fact.device for fact in lost}
    whole = {name: device for name, device in sorted(ids.items()) if re.fullmatch(KINDS["container"].pattern, name)}
    if not whole:
        raise NoRung(f"restart the container on {ground.host.name} by hand: no check saw which one lost its GPUs")
    return [({"container": name}, (f"{ground.host.name}/{device}",)) for name, device in whole.items()]


ARGUMENTS: Mapping[str, Callable[[Ground], Filled]] = {
    "drain_node": _node,
    "resume_node": _node,
    "cancel_job": _job,
    "evict_pods": _node,
    "gpu_reset": _bdf,
    "reset_clocks": _bdf,
    "power_limit_default": _watts,
    "kill_gpu_process": _process,
    "restart_fabricmanager": _nothing,
    "modprobe_peermem": _nothing,
    "reboot": _nothing,
    "power_cycle": _nothing,
    "reload_driver": _nothing,
    "dkms_rebuild": _nothing,
    "configure_runtime": _nothing,
    "chrony_makestep": _nothing,
    "governor_performance": _nothing,
    "persistence_on": _nothing,
    "compute_mode_default": _bdf,
    "mig_off": _bdf,
    "restart_service": _service,
    "restart_container": _containers,
    "cleanup": _old_files,
}


def _verb(remedy: str) -> str:
    words = {
        "drain_node": "drain",
        "resume_node": "return to service",
        "cancel_job": "cancel the job on",
        "evict_pods": "evict the pods of",
    }
    return words.get(remedy, remedy)


def _slots(args: Mapping[str, str], host: Host) -> Mapping[str, str]:
    """For showing a command before it has an approval."""
    return {"approval": "incident", **args, "node": host.node_name}
