"""Combine the label rankings of rules and a model. Pure."""

from collections.abc import Mapping, Sequence

# Weight of the model against the rules. Where both are right half the time, the better calibrated one leads.
MODEL_WEIGHT = 0.8


def blend_rankings(ranked: Sequence[tuple[str, float]], causes: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return every label with its probability, best first. `ranked`: by rules, sum 1; `causes`: the model's few."""
    cause_weights = dict(causes)
    most = max(1.0, sum(cause_weights.values()))
    model: Mapping[str, float] = {label: p / most for label, p in cause_weights.items()}
    remaining_weight = 1 - MODEL_WEIGHT * sum(model.values())  # the rules decide what the model leaves open
    blended = {label: MODEL_WEIGHT * model.get(label, 0.0) + remaining_weight * p for label, p in ranked}
    return sorted(blended.items(), key=lambda row: (-row[1], row[0]))
