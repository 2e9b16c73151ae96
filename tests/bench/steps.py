"""Steps of plans as case files spell them, and as the product does: the one place that knows both.

Case files keep the words of their format, so that a case written years ago still means the same; the product says the ids of its remedies.
"""

from collections.abc import Mapping

from graph.remediation.plan_steps import ARGUMENT_BUILDERS, PlanStep
from graph.remediation.plan_steps import parse_plan as product_steps

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
"""A step of a case file → the product's, where they differ."""

_CASES: Mapping[str, str] = {ours: theirs for theirs, ours in PRODUCT.items() if ours != "reboot"}
_NOT_IN_PLANS = frozenset({"resume_node"})


def bare_plan(plan: str) -> str:
    """In the words of the case files, without arguments: `drain_node > reboot(cold)` is `drain_node > reboot`."""
    return " > ".join(_bare(step) for step in plan.split(">"))


def plan_steps(plan: str) -> list[str]:
    """A plan's steps. An argument that no remedy has is part of the name: starting a container with more memory is not starting it."""
    return [step if "(" in step and of_product(step).kind == "people" else _bare(step) for step in map(str.strip, plan.split(">"))]


def of_product(step: str) -> PlanStep:
    """A step of a case file as the product knows it."""
    return product_steps(PRODUCT.get(step, step))[0]


def names_of(remedy: str) -> frozenset[str]:
    """What a remedy is called in plans of either side."""
    return frozenset({remedy, _bare(remedy)})


def _bare(step: str) -> str:
    step = step.strip()
    return _CASES.get(step, step).partition("(")[0].strip()


DOABLE = frozenset(name for remedy in ARGUMENT_BUILDERS for name in names_of(remedy)) - _NOT_IN_PLANS
"""Steps that a remedy does, by either name."""
