"""Where a run of a guide stands: the mark of each step and what comes next, by what its ground knows. Pure; the ground has the clock."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, Protocol

from kb.guides.guide import Guide, GuideStep, StepCondition

StepMark = Literal["done", "skipped", "unsure", "waiting", "next", "later", "people"]
"""Taken; not needed, for a condition is not so; could not tell; waits for time or for a decision; its turn now; its turn later; left to people."""
SETTLED_MARKS: Final[frozenset[StepMark]] = frozenset({"done", "skipped", "unsure", "people"})
"""Marks after which the steps behind it have their turn."""


class GuideContext(Protocol):
    """What a walk asks about the world."""

    @property
    def now(self) -> datetime: ...

    def is_condition_met(self, condition: StepCondition) -> bool | None:
        """None where nobody could look."""
        ...

    def get_look_status(self, step: GuideStep) -> "MarkReason":
        """How a look of a guide stands: `next` where it is to be taken."""
        ...

    def get_remedy_status(self, step: GuideStep) -> "MarkReason":
        """How a change stands: `people` where nothing found asks for it."""
        ...

    def get_wait_start(self, step: GuideStep) -> datetime | None:
        """Since when a wait runs; None where it has not begun."""
        ...


@dataclass(frozen=True, slots=True)
class MarkReason:
    """A mark, and why or what was seen, in words."""

    mark: StepMark
    says: str = ""


@dataclass(frozen=True, slots=True)
class StepStatus:
    """One step of a run. `due`: when a wait is over."""

    step: GuideStep
    mark: StepMark
    says: str = ""
    due: datetime | None = None


def compute_step_statuses(guide: Guide, ground: GuideContext) -> tuple[StepStatus, ...]:
    """Every step, in the guide's order. Those marked `next` are one wave: they wait for nothing and for none of each other."""
    found: dict[str, StepStatus] = {}
    for step in guide.steps:
        found[step.id] = _compute_step_status(step, found, ground)
    return tuple(found.values())


def _compute_step_status(step: GuideStep, before: dict[str, StepStatus], ground: GuideContext) -> StepStatus:
    open_ = [name for name in step.after if before[name].mark not in SETTLED_MARKS]
    if open_:
        return StepStatus(step, "later", f"after {', '.join(open_)}")
    answers = [(condition, ground.is_condition_met(condition)) for condition in step.when]
    if no := next((condition for condition, holds in answers if holds is False), None):
        return StepStatus(step, "skipped", f"nothing shows {no}" if no.quantifier == "any" else f"there is {no}")
    if unknown := next((condition for condition, holds in answers if holds is None), None):
        return StepStatus(step, "unsure", f"could not tell whether there is {unknown}")
    if step.kind == "wait":
        return _compute_wait_status(step, ground)
    stands = (
        MarkReason("people")
        if step.kind == "ask"
        else ground.get_look_status(step)
        if step.kind == "look"
        else ground.get_remedy_status(step)
    )
    return StepStatus(step, stands.mark, stands.says)


def _compute_wait_status(step: GuideStep, ground: GuideContext) -> StepStatus:
    """A wait begins when its turn comes; nobody sleeps through it."""
    due = (ground.get_wait_start(step) or ground.now) + step.wait
    left = (due - ground.now).total_seconds()
    if left > 0:
        return StepStatus(step, "waiting", f"{left:.0f} s left", due)
    return StepStatus(step, "done", f"waited {step.wait.total_seconds():.0f} s")
