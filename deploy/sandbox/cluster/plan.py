"""What is to be simulated, before it is built: who the nodes are, what happens to them and what is done about it.
Plain frozen values, made from a case, from clicks on a page and by remedies."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Happening:
    """A fault at a time. `at` is seconds from the plan's t0, negative before; `key` keeps its chances apart from others'.

    `after`: how many deeds had been done when it came. `ended`: since then only its log lines are left.
    `jobs`: it is hidden, and comes back with so many-th next run of the job.
    """

    fault: str
    nodes: tuple[str, ...]
    at: float
    gpus: tuple[int, ...] = ()
    args: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""
    after: int = 0
    ended: float | None = None
    jobs: int = 0


What = Literal[
    "boot", "built", "cancel", "configured", "down", "drain", "fabricmanager", "gpu_reset", "hold", "inhibit", "job", "kill", "mark", "mig_leaves",
    "module", "nothing", "persistence", "power_limit", "resume", "reuse", "scar", "service",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Deed:
    """Something done to a machine, or without one to the job: by a remedy, an admin or bad luck. `at` as in Happening; the plan keeps
    deeds in the order they were done. What they do is in `deeds.py`."""

    what: What
    node: str
    at: float
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Modifier:
    """A control (H…) or a difficulty (R…): `ID(key=value, …)@host`."""

    id: str
    args: Mapping[str, str] = field(default_factory=dict)
    host: str = ""

    def whole(self, name: str, default: int) -> int:
        """A whole-number argument; the default where it is missing or no number."""
        text = self.args.get(name, "")
        return int(text) if text.lstrip("-").isdigit() else default


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything `world.build` needs. `age`: seconds the cluster has run for since its clock started (a live one grows older)."""

    profile: str
    names: tuple[str, ...]
    seed: int
    happenings: tuple[Happening, ...] = ()
    modifiers: tuple[Modifier, ...] = ()
    job: str = ""
    age: float = 0.0
    deeds: tuple[Deed, ...] = ()
    controller: str = ""
    reported_job: str = ""
    """How the ticket calls the job, where it does."""

    def of(self, *ids: str) -> tuple[Modifier, ...]:
        """The modifiers with these ids."""
        return tuple(modifier for modifier in self.modifiers if modifier.id in ids)
