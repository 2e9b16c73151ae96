"""One guide as a plan: steps that look, wait, change something or ask people, which of them go first, and under which condition each is taken."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from kb.taxonomy.expressions import Expression

StepKind = Literal["look", "wait", "remedy", "ask"]
NO_WAIT: Final = timedelta()


@dataclass(frozen=True, slots=True)
class StepCondition:
    """One thing that must be so for a step: `any` fact of the key for which the expression holds, or `none`."""

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
    after: tuple[str, ...] = ()
    """Steps that come first; those with the same ones go side by side."""
    when: tuple[StepCondition, ...] = ()
    """All of them must be so; where one could not be looked at the step is not taken."""
    look: tuple[str, ...] = ()
    approve: bool = False
    """Its looks need GPUs for themselves: they are put up for decision, one card a look."""
    wait: timedelta = NO_WAIT
    remedy: str = ""
    ask: str = ""
    """What is left to people, in a sentence."""

    @property
    def kind(self) -> StepKind:
        return "look" if self.look else "wait" if self.wait else "remedy" if self.remedy else "ask"

    @property
    def says(self) -> str:
        """What it is about, in a line."""
        plain = {
            "look": f"look with {', '.join(self.look)}",
            "wait": f"wait {self.wait.total_seconds():.0f} s",
            "remedy": self.remedy.replace("_", " "),
            "ask": self.ask,
        }
        return self.does or plain[self.kind]


@dataclass(frozen=True, slots=True)
class Guide:
    """A guide whose steps stand in an order in which each comes after those it waits for."""

    id: str
    title: str
    steps: tuple[GuideStep, ...]
    symptoms: tuple[str, ...] = ()
    """Classes of symptoms for which it is meant."""
    words: tuple[str, ...] = ()
    """Phrases, in lower case, by which people speak of what it is for."""

    def score_match(self, symptoms: Collection[str], text: str) -> int:
        """How much of what was reported it is meant for; 0 where it is not."""
        told = f" {' '.join(text.lower().split())} "
        return len(set(self.symptoms) & set(symptoms)) + sum(word in told for word in self.words)


def find_best_guide(guides: Mapping[str, Guide], symptoms: Collection[str], text: str) -> Guide | None:
    """The guide that fits best what was reported; of two alike the first."""
    fits = {guide.id: guide.score_match(symptoms, text) for guide in guides.values()}
    best = max(fits, key=lambda name: fits[name], default="")
    return guides[best] if best and fits[best] else None


def slugify_guide_name(name: str) -> str:
    """`the NCCL hang` → `nccl_hang`, as guides are called."""
    words = "".join(char if char.isalnum() else " " for char in name.lower()).split()
    return "_".join(word for word in words if word not in ("the", "a", "an", "guide"))[:64]
