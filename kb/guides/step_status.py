"""Each step's mark in a guide's run, computed from a GuideContext, which has the clock."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, Protocol

from kb.guides.guide import Guide, GuideStep, StepCondition

# taken; condition false; condition unobserved; waiting for time or a decision; ready now; blocked by earlier steps;
# left to people
StepMark = Literal["done", "skipped", "unsure", "waiting", "next", "later", "people"]
# marks that unblock later steps
SETTLED_MARKS: Final[frozenset[StepMark]] = frozenset({"done", "skipped", "unsure", "people"})


class GuideContext(Protocol):
    """Read access to the incident's state."""

    @property
    def now(self) -> datetime: ...

    def is_condition_met(self, condition: StepCondition) -> bool | None:
        """Return None if unobserved."""
        ...

    def get_look_status(self, step: GuideStep) -> "MarkReason":
        """Return a look's mark; `next` if it should run."""
        ...

    def get_remedy_status(self, step: GuideStep) -> "MarkReason":
        """Return a remedy's mark; `people` if no finding calls for it."""
        ...

    def get_wait_start(self, step: GuideStep) -> datetime | None:
        """Return None before the start."""
        ...


@dataclass(frozen=True, slots=True)
class MarkReason:
    """A mark and its reason."""

    mark: StepMark
    says: str = ""


@dataclass(frozen=True, slots=True)
class StepStatus:
    """One step of a run. `due`: end of a wait."""

    step: GuideStep
    mark: StepMark
    says: str = ""
    due: datetime | None = None


def compute_step_statuses(guide: Guide, context: GuideContext) -> tuple[StepStatus, ...]:
    """Return every step's status. Steps marked `next` can run together."""
    statuses: dict[str, StepStatus] = {}
    for step in guide.steps:
        statuses[step.id] = _compute_step_status(step, statuses, context)
    return tuple(statuses.values())


def _compute_step_status(step: GuideStep, statuses: dict[str, StepStatus], context: GuideContext) -> StepStatus:
    open_ = [name for name in step.after if statuses[name].mark not in SETTLED_MARKS]
    if open_:
        return StepStatus(step, "later", f"after {', '.join(open_)}")
    answers = [(condition, context.is_condition_met(condition)) for condition in step.when]
    if failed_condition := next((condition for condition, holds in answers if holds is False), None):
        return StepStatus(
            step, "skipped", f"nothing shows {failed_condition}" if failed_condition.quantifier == "any" else f"there is {failed_condition}"
        )
    if unknown := next((condition for condition, holds in answers if holds is None), None):
        return StepStatus(step, "unsure", f"could not tell whether there is {unknown}")
    if step.kind == "wait":
        return _compute_wait_status(step, context)
    if step.kind == "ask":
        return StepStatus(step, "people")
    reason = context.get_look_status(step) if step.kind == "look" else context.get_remedy_status(step)
    return StepStatus(step, reason.mark, reason.says)


def _compute_wait_status(step: GuideStep, context: GuideContext) -> StepStatus:
    """A wait starts at its turn; no process sleeps for it."""
    due_at = (context.get_wait_start(step) or context.now) + step.wait
    seconds_left = (due_at - context.now).total_seconds()
    if seconds_left > 0:
        return StepStatus(step, "waiting", f"{seconds_left:.0f} s left", due_at)
    return StepStatus(step, "done", f"waited {step.wait.total_seconds():.0f} s")
