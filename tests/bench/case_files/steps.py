"""Plan steps in case files and in the product: the only place that knows both. Case files keep their format's words, so
old cases keep their meaning; the product uses remedy ids.
"""

from collections.abc import Mapping

from graph.remediation.plan_steps import ARGUMENT_BUILDERS, PlanStep
from graph.remediation.plan_steps import parse_plan as product_steps

# case file step → product step, where they differ
PRODUCT: Mapping[str, str] = {
    "reboot(cold)": "reboot",
    "restart_service(nvidia-fabricmanager)": "restart_fabricmanager",
    "modprobe(nvidia_peermem)": "modprobe_peermem",
    "kill_pid": "kill_gpu_process",
    "makestep": "chrony_makestep",
    "cpu_performance": "governor_performance",
    "configure_nvidia_runtime": "configure_runtime",
    "restart_container(shm_size)": "enlarge_shm",
}

_CASES: Mapping[str, str] = {ours: theirs for theirs, ours in PRODUCT.items() if ours != "reboot"}
_NOT_IN_PLANS = frozenset({"resume_node"})


def bare_plan(plan: str) -> str:
    """Return a plan in case file words without arguments: `drain_node > reboot(cold)` is `drain_node > reboot`."""
    return " > ".join(_bare(step) for step in plan.split(">"))


def plan_steps(plan: str) -> list[str]:
    """Return a plan's steps. An argument that no remedy has is part of the name: starting a container with more memory
    is another step.
    """
    return [step if "(" in step and of_product(step).kind == "people" else _bare(step) for step in map(str.strip, plan.split(">"))]


def of_product(step: str) -> PlanStep:
    """Return a case file's step as the product knows it."""
    return product_steps(PRODUCT.get(step, step))[0]


def names_of(remedy: str) -> frozenset[str]:
    """Return a remedy's names in plans of either kind."""
    return frozenset({remedy, _bare(remedy)})


def _bare(step: str) -> str:
    step = step.strip()
    return _CASES.get(step, step).partition("(")[0].strip()


# steps that a remedy performs, by either name
DOABLE = frozenset(name for remedy in ARGUMENT_BUILDERS for name in names_of(remedy)) - _NOT_IN_PLANS
