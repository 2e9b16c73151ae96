"""A guide: the ordered steps of a site's own procedure, each of which runs checks, waits, proposes a remedy or asks."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from kb.taxonomy.expressions import Expression

StepKind = Literal["look", "wait", "remedy", "ask"]
NO_WAIT: Final = timedelta()


@dataclass(frozen=True, slots=True)
class StepCondition:
    """A condition on the facts of one key: `any` or `none` of them satisfies the expression."""

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
    after: tuple[str, ...] = ()  # preceding steps; steps with the same ones run in parallel
    when: tuple[StepCondition, ...] = ()  # all must hold; the step is skipped if a key was not observed
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
        """Return the guide's own description, or one derived from the step."""
        if self.does:
            return self.does
        match self.kind:
            case "look":
                return f"look with {', '.join(self.look)}"
            case "wait":
                return f"wait {self.wait.total_seconds():.0f} s"
            case "remedy":
                return self.remedy.replace("_", " ")
            case "ask":
                return self.ask


@dataclass(frozen=True, slots=True)
class Guide:
    """A guide. In `steps` each step comes after its preceding steps."""

    id: str
    title: str
    steps: tuple[GuideStep, ...]
    symptoms: tuple[str, ...] = ()  # symptom classes that it covers
    words: tuple[str, ...] = ()  # lower-case phrases that select it

    def score_match(self, symptoms: Collection[str], text: str) -> int:
        """Return how many symptoms and phrases the guide shares with a report."""
        padded_text = f" {' '.join(text.lower().split())} "
        return len(set(self.symptoms) & set(symptoms)) + sum(word in padded_text for word in self.words)


def find_best_guide(guides: Mapping[str, Guide], symptoms: Collection[str], text: str) -> Guide | None:
    """Return the guide with the highest score, the first of equals, or None if none matches."""
    best_guide, best_score = None, 0
    for guide in guides.values():
        score = guide.score_match(symptoms, text)
        if score > best_score:
            best_guide, best_score = guide, score
    return best_guide


def slugify_guide_name(name: str) -> str:
    """Turn `the NCCL hang` into `nccl_hang`."""
    words = "".join(char if char.isalnum() else " " for char in name.lower()).split()
    return "_".join(word for word in words if word not in ("the", "a", "an", "guide"))[:64]
