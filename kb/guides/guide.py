"""A guide as a plan of steps: look, wait, remedy or ask."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from kb.taxonomy.expressions import Expression

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
        if self.look:
            return "look"
        if self.wait:
            return "wait"
        return "remedy" if self.remedy else "ask"

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
