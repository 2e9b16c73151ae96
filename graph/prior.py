"""What words suggest, as log-odds: symptoms, phrases, similar incidents, a model's opinion. Capped where it is used, so words never confirm. Pure."""

from collections.abc import Mapping, Sequence

from graph.state import Brief
from kb.taxonomy import Leaf, Taxonomy

SYMPTOM, FIRST_PHRASE, NEXT_PHRASE, LIKE_BEFORE, MODEL_FIRST = 0.7, 0.5, 0.25, 1.0, 1.0
MODEL_SWAY = 1.5
"""What a model's judgement of one hypothesis is worth, either way."""


def word_priors(taxonomy: Taxonomy, brief: Brief) -> dict[str, float]:
    """Labels whose symptoms or phrases the ticket shows."""
    text = f"{brief.text} {' '.join(brief.signatures)}".lower()
    found = {label: _words(leaf, text, brief.symptoms) for label, leaf in taxonomy.leaves.items()}
    return {label: weight for label, weight in found.items() if weight}


def _words(leaf: Leaf, text: str, symptoms: Sequence[str]) -> float:
    phrases = sum(word in text for word in leaf.words)
    spoken = FIRST_PHRASE + NEXT_PHRASE * (min(phrases, 3) - 1) if phrases else 0.0
    return spoken + (SYMPTOM if set(leaf.symptoms) & set(symptoms) - {"vague"} else 0.0)


def ranked_priors(labels: Sequence[str]) -> dict[str, float]:
    """A model's order of labels: the first counts most, the others fade."""
    return {label: MODEL_FIRST / (place + 1) for place, label in enumerate(labels)}


def past_priors(similar: Sequence[tuple[str, float]]) -> dict[str, float]:
    """Labels of similar incidents with a likeness from 0 to 1."""
    found: dict[str, float] = {}
    for label, likeness in similar:
        found[label] = max(found.get(label, 0.0), LIKE_BEFORE * max(0.0, min(1.0, likeness)))
    return found


def together(*parts: Mapping[str, float]) -> dict[str, float]:
    """The sum, label by label."""
    found: dict[str, float] = {}
    for part in parts:
        for label, weight in part.items():
            found[label] = found.get(label, 0.0) + weight
    return found
