"""Where a run of a guide stands: the mark of each step and what comes next, by what its ground knows. Pure; the ground has the clock."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, Protocol

from kb.guides.guide import Guide, GuideStep, StepCondition

Mark = Literal["done", "skipped", "unsure", "waiting", "next", "later", "people"]
"""Taken; not needed, for a condition is not so; could not tell; waits for time or for a decision; its turn now; its turn later; left to people."""
SETTLED: Final[frozenset[Mark]] = frozenset({"done", "skipped", "unsure", "people"})
"""Marks after which the steps behind it have their turn."""


class GuideGround(Protocol):
    """What a walk asks about the world."""

    @property
    def now(self) -> datetime: ...

    def holds(self, condition: StepCondition) -> bool | None:
        """None where nobody could look."""
        ...

    def looked(self, step: GuideStep) -> "Stands":
        """How a look of a guide stands: `next` where it is to be taken."""
        ...

    def acted(self, step: GuideStep) -> "Stands":
        """How a change stands: `people` where nothing found asks for it."""
        ...

    def began(self, step: GuideStep) -> datetime | None:
        """Since when a wait runs; None where it has not begun."""
        ...


@dataclass(frozen=True, slots=True)
class Stands:
    """A mark, and why or what was seen, in words."""

    mark: Mark
    says: str = ""


@dataclass(frozen=True, slots=True)
class StepStanding:
    """One step of a run. `due`: when a wait is over."""

    step: GuideStep
    mark: Mark
    says: str = ""
    due: datetime | None = None


def walk(guide: Guide, ground: GuideGround) -> tuple[StepStanding, ...]:
    """Every step, in the guide's order. Those marked `next` are one wave: they wait for nothing and for none of each other."""
    found: dict[str, StepStanding] = {}
    for step in guide.steps:
        found[step.id] = _standing(step, found, ground)
    return tuple(found.values())


def _standing(step: GuideStep, before: dict[str, StepStanding], ground: GuideGround) -> StepStanding:
    open_ = [name for name in step.after if before[name].mark not in SETTLED]
    if open_:
        return StepStanding(step, "later", f"after {', '.join(open_)}")
    answers = [(condition, ground.holds(condition)) for condition in step.when]
    if no := next((condition for condition, holds in answers if holds is False), None):
        return StepStanding(step, "skipped", f"nothing shows {no}" if no.quantifier == "any" else f"there is {no}")
    if unknown := next((condition for condition, holds in answers if holds is None), None):
        return StepStanding(step, "unsure", f"could not tell whether there is {unknown}")
    if step.kind == "wait":
        return _waiting(step, ground)
    stands = Stands("people") if step.kind == "ask" else ground.looked(step) if step.kind == "look" else ground.acted(step)
    return StepStanding(step, stands.mark, stands.says)


def _waiting(step: GuideStep, ground: GuideGround) -> StepStanding:
    """A wait begins when its turn comes; nobody sleeps through it."""
    due = (ground.began(step) or ground.now) + step.wait
    left = (due - ground.now).total_seconds()
    if left > 0:
        return StepStanding(step, "waiting", f"{left:.0f} s left", due)
    return StepStanding(step, "done", f"waited {step.wait.total_seconds():.0f} s")
