"""A guide as a plan of steps (look, wait, remedy or ask), and each step's mark in a run."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, Protocol

from kb.taxonomy.expressions import Expression

# A guide as a plan of steps: look, wait, remedy or ask.

StepKind = Literal["look", "wait", "remedy", "ask"]
NO_WAIT: Final = timedelta()


@dataclass(frozen=True, slots=True)
class StepCondition:
    """A condition: `any` or `none` of the key's facts satisfies the expression."""

    key: str
    quantifier: Literal["any", "none"]
    expression: Expression

    def __str__(self) -> str:
        return self.key if self.expression.source == "true" else f"{self.key} with {self.expression.source}"


@dataclass(frozen=True, slots=True)
class GuideStep:
    """One step. Exactly one of `look`, `wait`, `remedy` and `ask` is set."""

    id: str
    does: str = ""
    after: tuple[str, ...] = ()  # preceding steps; steps with equal ones run in parallel
    when: tuple[StepCondition, ...] = ()  # all must hold; not taken if one is unobserved
    look: tuple[str, ...] = ()
    approve: bool = False  # its exclusive checks need approval, one card per check
    wait: timedelta = NO_WAIT
    remedy: str = ""
    ask: str = ""  # sentence for people

    @property
    def kind(self) -> StepKind:
        return "look" if self.look else "wait" if self.wait else "remedy" if self.remedy else "ask"

    @property
    def says(self) -> str:
        plain = {
            "look": f"look with {', '.join(self.look)}",
            "wait": f"wait {self.wait.total_seconds():.0f} s",
            "remedy": self.remedy.replace("_", " "),
            "ask": self.ask,
        }
        return self.does or plain[self.kind]


@dataclass(frozen=True, slots=True)
class Guide:
    """A guide; each step comes after those that it waits for."""

    id: str
    title: str
    steps: tuple[GuideStep, ...]
    symptoms: tuple[str, ...] = ()  # symptom classes that it covers
    words: tuple[str, ...] = ()  # lower-case phrases that select it

    def score_match(self, symptoms: Collection[str], text: str) -> int:
        """Return how well it matches the report; 0 for no match."""
        padded_text = f" {' '.join(text.lower().split())} "
        return len(set(self.symptoms) & set(symptoms)) + sum(word in padded_text for word in self.words)


def find_best_guide(guides: Mapping[str, Guide], symptoms: Collection[str], text: str) -> Guide | None:
    """Return the best match (the first of equals), or None."""
    fits = {guide.id: guide.score_match(symptoms, text) for guide in guides.values()}
    best = max(fits, key=lambda name: fits[name], default="")
    return guides[best] if best and fits[best] else None


def slugify_guide_name(name: str) -> str:
    """Turn `the NCCL hang` into `nccl_hang`."""
    words = "".join(char if char.isalnum() else " " for char in name.lower()).split()
    return "_".join(word for word in words if word not in ("the", "a", "an", "guide"))[:64]


# Each step's mark in a guide's run, computed from a GuideContext, which has the clock.

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


def _compute_step_status(step: GuideStep, before: dict[str, StepStatus], context: GuideContext) -> StepStatus:
    open_ = [name for name in step.after if before[name].mark not in SETTLED_MARKS]
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
    mark_reason = (
        MarkReason("people")
        if step.kind == "ask"
        else context.get_look_status(step)
        if step.kind == "look"
        else context.get_remedy_status(step)
    )
    return StepStatus(step, mark_reason.mark, mark_reason.says)


def _compute_wait_status(step: GuideStep, context: GuideContext) -> StepStatus:
    """A wait starts at its turn; no process sleeps for it."""
    due_at = (context.get_wait_start(step) or context.now) + step.wait
    seconds_left = (due_at - context.now).total_seconds()
    if seconds_left > 0:
        return StepStatus(step, "waiting", f"{seconds_left:.0f} s left", due_at)
    return StepStatus(step, "done", f"waited {step.wait.total_seconds():.0f} s")
