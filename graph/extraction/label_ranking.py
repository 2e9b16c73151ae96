"""What rules and a model make of one text, as one ranking. Pure."""

from collections.abc import Mapping, Sequence

MODEL_WEIGHT = 0.8
"""What a model that read the text counts, against the rules. Of two that are both right half the time the better calibrated one leads."""


def blend_rankings(ranked: Sequence[tuple[str, float]], causes: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Every label with its probability, best first. `ranked`: by rules, summing to one; `causes`: a model's few, as it gave them."""
    given = dict(causes)
    most = max(1.0, sum(given.values()))
    model: Mapping[str, float] = {label: p / most for label, p in given.items()}
    left = 1 - MODEL_WEIGHT * sum(model.values())  # what a model leaves open is the rules' to tell
    found = {label: MODEL_WEIGHT * model.get(label, 0.0) + left * p for label, p in ranked}
    return sorted(found.items(), key=lambda row: (-row[1], row[0]))
