"""Find the likely but unproven cause by the model's last answer, or else by the facts.

It is shown as unproven and never acted on.
"""

from graph.engine.assessment import Assessment
from graph.engine.priors import rank_labels_by_words
from graph.incident.context import IncidentContext
from graph.incident.prompt_material import MAX_OFFERED_LABELS
from graph.report import UnprovenCause
from kb.taxonomy.taxonomy import Taxonomy

MIN_LIKELY_PROBABILITY = 0.5  # from this probability by the model, a label is named
MAX_LABELS_BY_WORDS = 16  # labels offered to the model because of the report's words, even if no check can show them
MAX_REASON_CHARS = 160


def is_possible(label: str, assessment: Assessment) -> bool:
    """Return whether no fact contradicts the cause. An absent sign is no contradiction: many faults leave no trace."""
    verdict = assessment.label_verdicts.get(label)
    return verdict is None or verdict.verdict != "rejected" or verdict.absent


def list_offered_labels(context: IncidentContext, assessment: Assessment, taxonomy: Taxonomy) -> dict[str, str]:
    """Return the labels that the model may choose, each with its title and why checks do not show it."""
    labels_by_words = rank_labels_by_words(taxonomy, context.brief, MAX_LABELS_BY_WORDS)
    suggested_labels = [label for label in labels_by_words if is_possible(label, assessment)]
    possible_labels = [verdict.label for verdict in assessment.label_verdicts.values() if verdict.verdict != "rejected"]
    labels = list(dict.fromkeys((*suggested_labels, *possible_labels)))[:MAX_OFFERED_LABELS]
    return {label: f"{taxonomy.get_title(label)}{_format_absence(label, assessment)}" for label in labels}


def _format_absence(label: str, assessment: Assessment) -> str:
    verdict = assessment.label_verdicts.get(label)
    if verdict is None:
        return " (no look can show it)"
    return f" ({verdict.because[:MAX_REASON_CHARS]})" if verdict.verdict == "rejected" else ""


def find_likely_cause(context: IncidentContext, assessment: Assessment, taxonomy: Taxonomy) -> UnprovenCause | None:
    """Return the likeliest cause that no fact contradicts, or None."""
    model_causes = [
        (probability, label)
        for label, probability in context.turn.reading.items()
        if probability >= MIN_LIKELY_PROBABILITY and label in taxonomy.leaves and is_possible(label, assessment)
    ]
    if model_causes:
        probability, label = max(model_causes)
        verdict = assessment.label_verdicts.get(label)
        because = verdict.because if verdict else "no look of mine can show it"
        return UnprovenCause(label=label, p=round(probability, 2), by="reading", because=because[:MAX_REASON_CHARS])
    best = next((belief for belief in assessment.suspects if assessment.label_verdicts[belief.label].verdict != "rejected"), None)
    if best is None:
        return None
    because = assessment.label_verdicts[best.label].because[:MAX_REASON_CHARS]
    return UnprovenCause(label=best.label, p=round(best.posterior, 2), by="facts", because=because)
