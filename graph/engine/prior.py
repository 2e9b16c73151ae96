"""What words suggest, as log-odds: symptoms, phrases, similar incidents, a model's opinion. Capped where it is used, so words never confirm. Pure."""

import math
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from graph.state import Brief
from kb.history.likeness import Nearest
from kb.taxonomy.labels import Taxonomy

MOST_WORDS, PER_E_FOLD = 1.5, 0.4
"""Most that a ticket's words add to one label, and how fast that grows with what they make of its chance."""

LIKE_BEFORE = 1.0
WORDS_TOO = 0.3
"""What a label's lift by the report's words counts, against how much alike an incident is to the one that is most alike."""
ATTACK_SWAY = 0.4
"""What a finding that a model holds against a proven cause takes from it: enough for one that is barely proven, and for no other."""
MODEL_SWAY = 1.5
"""What a model's judgement of one hypothesis is worth, either way; and a cause that its reading is certain of."""


class LikeIncident(Protocol):
    """A past incident: its label, and how much alike it is."""

    @property
    def label(self) -> str: ...

    @property
    def score(self) -> float: ...


AnyLike = TypeVar("AnyLike", bound=LikeIncident)


def word_priors(taxonomy: Taxonomy, brief: Brief) -> dict[str, float]:
    """Labels that the ticket's words and symptoms sound like."""
    text = f"{brief.text} {' '.join(brief.signatures)}"
    symptoms = [symptom for symptom in brief.symptoms if symptom != "vague"]
    ranked = Nearest.of(taxonomy).rank(text, symptoms, most=16)
    lifts = {label: PER_E_FOLD * math.log(max(p, 1e-9) * len(taxonomy.leaves)) for label, p in ranked}
    return {label: min(MOST_WORDS, lift) for label, lift in lifts.items() if lift > 0}


def by_words(taxonomy: Taxonomy, brief: Brief, most: int) -> list[str]:
    """Labels that the report sounds like, most alike first."""
    return [label for label, _ in Nearest.of(taxonomy).rank(f"{brief.text} {' '.join(brief.signatures)}", brief.symptoms, most=most)]


def likely_by_words(taxonomy: Taxonomy, brief: Brief, most: int) -> list[str]:
    """Labels that may be decided and that the report sounds like, most alike first; then the others, as they stand in the taxonomy."""
    decidable = taxonomy.decidable
    return list(dict.fromkeys([*by_words(decidable, brief, most), *decidable.leaves]))[:most]


def read_priors(causes: Mapping[str, float]) -> dict[str, float]:
    """A model's few labels, each by the probability that it gives it."""
    return {label: MODEL_SWAY * max(0.0, min(1.0, p)) for label, p in causes.items()}


def past_priors(similar: Sequence[tuple[str, float]]) -> dict[str, float]:
    """Labels of similar incidents with a likeness from 0 to 1."""
    found: dict[str, float] = {}
    for label, likeness in similar:
        found[label] = max(found.get(label, 0.0), LIKE_BEFORE * max(0.0, min(1.0, likeness)))
    return found


def most_telling(similar: Sequence[AnyLike], words: Mapping[str, float], most: int = 2) -> list[AnyLike]:
    """Of past incidents those that say most: alike, of a label that the report's words suggest (`word_priors`), and each of another label. Two of one
    label say little more than one; over our own past incidents, each asked for without its thread, 0.63 find one of their label among two
    that are alike, and 0.75 so."""
    best = max((one.score for one in similar), default=0.0) or 1.0
    ranked = sorted(similar, key=lambda one: -(one.score / best + WORDS_TOO * words.get(one.label, 0.0)))
    first: dict[str, AnyLike] = {}
    for one in ranked:
        first.setdefault(one.label, one)
    return list(first.values())[:most]


def together(*parts: Mapping[str, float]) -> dict[str, float]:
    """The sum, label by label."""
    found: dict[str, float] = {}
    for part in parts:
        for label, weight in part.items():
            found[label] = found.get(label, 0.0) + weight
    return found
