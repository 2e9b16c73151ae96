"""Turn a taxonomy plan's step into a remediation step with arguments, or into words for people.

Arguments come from facts that a machine states about itself, never from text that people wrote. A step whose value is
missing becomes a sentence.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from graph.state import Hypothesis, RemediationStep
from tools.execution.build import NoController, find_execution_host
from tools.fact import Fact, Status
from tools.inventory.inventory import Host
from tools.remedies import REMEDIES, get_scheduler_variant
from tools.remedies.remedy import ARGUMENT_KINDS, fill_slots

StepPart = Literal["prepare", "fix", "restore"]

# Remedies that take an argument in a plan, and its kind. Brackets after any other remedy make it manual work.
BRACKET_ARGUMENT_KINDS: Mapping[str, str] = {"restart_service": "service"}

# Hours without a write after which files are deleted first; the catalogue names the stricter value.
OLD_FILE_HOURS = "72"

# Texts of manual steps. One that is not listed is shown as spelt.
MANUAL_STEP_TEXTS: Mapping[str, str] = {
    "none": "",
    "escalate_rma": "open a replacement case with the vendor",
    "escalate_hw": "have the hardware team look at it",
    "escalate_cable": "have cable and optics checked and replaced",
    "escalate_cooling": "have its cooling checked",
    "escalate_facility": "tell the facility",
    "escalate_fabric": "tell the fabric team",
    "escalate_network": "tell the network team",
    "escalate_storage": "tell the storage team",
    "escalate_service": "tell the owner of that service",
    "report_user": "tell the owner of the job",
    "restart_job": "start the job again",
    "enlarge_shm": "start the container again with more shared memory (--shm-size), which only its owner can give it",
    "raise_memlock": (
        "set LimitMEMLOCK=infinity in the unit that starts jobs (slurmd, docker, containerd), then restart that unit; where only the job's "
        "own processes are limited, set PropagateResourceLimitsExcept=MEMLOCK in slurm.conf, or start the container with --ulimit memlock=-1"
    ),
    "raise_nofile": "raise LimitNOFILE in the unit that starts jobs, then restart that unit",
    "set_mtu": "set the interface's MTU as everywhere else, in the network configuration, so that it stays",
    "fix_resolver": "fix the name service of the node (resolv.conf, systemd-resolved)",
    "mend_host": "have an administrator fix it on the node",
    "boot_previous_kernel": "boot the previous kernel",
    "driver_upgrade": "upgrade the NVIDIA driver",
    "install_fabricmanager": "install the fabric manager of the driver's version",
    "disable_acs": "turn ACS off on the PCIe bridges, in firmware or at every boot",
}

_STEP_PATTERN = re.compile(r"([a-z0-9_]+)(?:\((.*)\))?")
PARTS_BY_REMEDY: Mapping[str, StepPart] = {
    "drain_node": "prepare",
    "cancel_job": "prepare",
    "evict_pods": "prepare",
    "resume_node": "restore",
}


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A remedy's id or the name of manual work; `detail` is the text in brackets."""

    name: str
    detail: str = ""

    @property
    def kind(self) -> Literal["remedy", "people"]:
        if self.name not in ARGUMENT_BUILDERS:
            return "people"
        bracket = BRACKET_ARGUMENT_KINDS.get(self.name)
        if bracket is None:
            return "people" if self.detail else "remedy"
        return "remedy" if re.fullmatch(ARGUMENT_KINDS[bracket].pattern, self.detail) else "people"

    @property
    def manual_text(self) -> str:
        """What people have to do; empty for `none`."""
        words = MANUAL_STEP_TEXTS.get(self.name, self.name.replace("_", " "))
        return f"{words} ({self.detail})" if words and self.detail else words


def parse_plan(plan: str) -> tuple[PlanStep, ...]:
    """Parse `drain_node > restart_service(docker)` into steps."""
    steps: list[PlanStep] = []
    for part in plan.split(">"):
        text = part.strip()
        match = _STEP_PATTERN.fullmatch(text)
        steps.append(PlanStep(match[1], match[2] or "") if match else PlanStep(text))
    return tuple(steps)


@dataclass(frozen=True, slots=True)
class StepContext:
    """The inputs for one cause's steps on one host."""

    host: Host
    hosts: Mapping[str, Host]
    facts: Sequence[Fact]  # Of this host, none stale.
    cause: Hypothesis
    job: str = ""  # The job as people named it; counts only where the host shows it.
    detail: str = ""  # The text in the step's brackets.

    @property
    def devices(self) -> tuple[str, ...]:
        """The cause's devices on this host, without the host name."""
        return tuple(name.partition("/")[2] for name in self.cause.devices if name.partition("/")[0] == self.host.name)


class StepUnavailable(Exception):
    """This step cannot be offered. The text is a sentence for people."""


def build_remediation_steps(step: PlanStep, context: StepContext, plan: int) -> list[RemediationStep]:
    """Return a remedy's steps, one per device.

    Raises:
        StepUnavailable: The remedy cannot run here; the text says what people should do instead.
    """
    remedy = REMEDIES[step.name]
    try:
        via = find_execution_host(remedy, context.host, context.hosts)
    except NoController as error:
        reason = str(error) if context.host.controller else "its group has no Slurm controller in the inventory"
        raise StepUnavailable(f"{_format_remedy_verb(remedy.id)} {context.host.name} by hand: {reason}") from error
    step_arguments = ARGUMENT_BUILDERS[remedy.id](replace(context, detail=step.detail))
    if not via.kit:
        command = get_scheduler_variant(remedy, context.host.scheduler).command
        commands = "; ".join(f"`{_format_command(command, args, context.host)}`" for args, _ in step_arguments)
        raise StepUnavailable(f"run {commands} on {via.name} by hand: it has no node kit")
    part = PARTS_BY_REMEDY.get(remedy.id, "prepare" if remedy.then else "fix")
    return [RemediationStep(remedy=remedy.id, args=args, devices=devices, plan=plan, part=part) for args, devices in step_arguments]


# Arguments and the devices they change, one pair per step.
StepArguments = list[tuple[dict[str, str], tuple[str, ...]]]


def _build_node_arguments(context: StepContext) -> StepArguments:
    return [({"node": context.host.name}, ())]


def _build_no_arguments(context: StepContext) -> StepArguments:
    return [({}, ())]


def _build_bdf_arguments(context: StepContext) -> StepArguments:
    if not context.devices:
        raise StepUnavailable(f"find out which GPU of {context.host.name} it is: no check could tell")
    return [({"bdf": _find_pci_address(context, device)}, (f"{context.host.name}/{device}",)) for device in context.devices]


def _find_pci_address(context: StepContext, device: str) -> str:
    """Return the PCI address of a device.

    Raises:
        StepUnavailable: The host reports no address, or conflicting ones.
    """
    if re.fullmatch(ARGUMENT_KINDS["bdf"].pattern, device):
        return device
    own_facts = [fact for fact in context.facts if fact.device == device and fact.status is Status.OK]
    listed_addresses = {str(fact.value).lower() for fact in own_facts if fact.key == "gpu.bdf"}
    logged_addresses = {
        str(fact.attrs["bdf"]).lower() for fact in own_facts if fact.key.startswith(("kernel.", "pcie.")) and fact.attrs.get("bdf")
    }
    addresses = listed_addresses or logged_addresses
    valid_addresses = {address for address in addresses if re.fullmatch(ARGUMENT_KINDS["bdf"].pattern, address)}
    if len(valid_addresses) != 1:
        reason = "the checks disagree" if valid_addresses else "no check told it"
        raise StepUnavailable(f"find the PCI address of {context.host.name}/{device}: {reason}")
    return valid_addresses.pop()


def _build_power_limit_arguments(context: StepContext) -> StepArguments:
    default_limits = {fact.value for fact in context.facts if fact.key == "gpu.power.default" and isinstance(fact.value, int | float)}
    if len(default_limits) != 1:
        reason = "nvidia-smi does not tell it" if not default_limits else "its GPUs have different ones"
        raise StepUnavailable(f"set the default power limit of {context.host.name} by hand: {reason}")
    return [({"watts": f"{default_limits.pop():g}"}, context.cause.devices)]


def _build_process_arguments(context: StepContext) -> StepArguments:
    """Return the orphaned processes on the accused GPUs, without zombies and processes that are gone."""
    orphans: dict[int, Fact] = {}
    for fact in context.facts:
        is_orphan = fact.key == "proc.orphan" and fact.status is Status.OK and "pid" in fact.attrs
        if is_orphan and (not context.devices or fact.device in context.devices):
            orphans[int(fact.attrs["pid"])] = fact
    step_arguments: StepArguments = []
    for pid, fact in sorted(orphans.items()):
        if not str(fact.attrs.get("why", "")).startswith(("a zombie", "the process is gone")):
            devices = (f"{context.host.name}/{fact.device}",) if fact.device else ()
            step_arguments.append(({"pid": str(pid), "ticks": "0", "signal": "TERM"}, devices))
    if not step_arguments:
        reason = "no signal reaches what holds it" if orphans else "its holder is not known"
        raise StepUnavailable(f"free the GPU memory of {context.host.name} by hand: {reason}")
    return step_arguments


def _build_job_arguments(context: StepContext) -> StepArguments:
    """Return the job on the host's GPUs, else the one that the scheduler runs there; of several the one that people named."""
    jobs_on_gpus: set[str] = set()
    scheduled_jobs: set[str] = set()
    for fact in context.facts:
        if fact.key == "proc.gpu_memory" and re.fullmatch(ARGUMENT_KINDS["job"].pattern, str(fact.attrs.get("job") or "")):
            jobs_on_gpus.add(str(fact.attrs["job"]))
        elif fact.key == "sched.running" and isinstance(fact.value, list):
            scheduled_jobs.update(fact.value)
    jobs = jobs_on_gpus or scheduled_jobs
    if context.job in jobs:
        return [({"job": context.job}, ())]
    if len(jobs) != 1:
        raise StepUnavailable(f"find out which job holds {context.host.name}")
    return [({"job": jobs.pop()}, ())]


def _build_service_arguments(context: StepContext) -> StepArguments:
    return [({"service": context.detail}, ())]


def _build_cleanup_arguments(context: StepContext) -> StepArguments:
    return [({"hours": OLD_FILE_HOURS}, ())]


def _build_container_arguments(context: StepContext) -> StepArguments:
    """Return containers in which NVML fails as after a daemon-reload. The node kit checks this again before it acts."""
    container_devices: dict[str, str | None] = {}
    for fact in context.facts:
        container = str(fact.attrs.get("id", ""))
        has_lost_gpus = fact.key == "container.nvml" and fact.value == "unknown_error" and fact.status is Status.OK
        if has_lost_gpus and re.fullmatch(ARGUMENT_KINDS["container"].pattern, container):
            container_devices[container] = fact.device
    if not container_devices:
        raise StepUnavailable(f"restart the container on {context.host.name} by hand: no check saw which one lost its GPUs")
    return [({"container": name}, (f"{context.host.name}/{device}",)) for name, device in sorted(container_devices.items())]


ARGUMENT_BUILDERS: Mapping[str, Callable[[StepContext], StepArguments]] = {
    "drain_node": _build_node_arguments,
    "resume_node": _build_node_arguments,
    "cancel_job": _build_job_arguments,
    "evict_pods": _build_node_arguments,
    "gpu_reset": _build_bdf_arguments,
    "reset_clocks": _build_bdf_arguments,
    "power_limit_default": _build_power_limit_arguments,
    "kill_gpu_process": _build_process_arguments,
    "restart_fabricmanager": _build_no_arguments,
    "modprobe_peermem": _build_no_arguments,
    "reboot": _build_no_arguments,
    "power_cycle": _build_no_arguments,
    "reload_driver": _build_no_arguments,
    "dkms_rebuild": _build_no_arguments,
    "configure_runtime": _build_no_arguments,
    "chrony_makestep": _build_no_arguments,
    "governor_performance": _build_no_arguments,
    "persistence_on": _build_no_arguments,
    "compute_mode_default": _build_bdf_arguments,
    "mig_off": _build_bdf_arguments,
    "restart_service": _build_service_arguments,
    "restart_container": _build_container_arguments,
    "cleanup": _build_cleanup_arguments,
}


def _format_remedy_verb(remedy: str) -> str:
    words = {
        "drain_node": "drain",
        "resume_node": "return to service",
        "cancel_job": "cancel the job on",
        "evict_pods": "evict the pods of",
    }
    return words.get(remedy, remedy)


def _format_command(command: Sequence[str], args: Mapping[str, str], host: Host) -> str:
    slots = {"approval": "incident", **args, "node": host.node_name}
    return " ".join(fill_slots(word, slots) for word in command)
