"""Find the likely but unproven cause by the model's last answer, or else by the facts.

It is shown as unproven and never acted on.
"""

from graph.engine.assessment import Assessment
from graph.engine.priors import rank_labels_by_words
from graph.incident.context import IncidentContext
from graph.report import UnprovenCause
from kb.taxonomy.taxonomy import Taxonomy

MIN_LIKELY_PROBABILITY = 0.5  # from this probability by the model, a label is named
MAX_LABELS_BY_WORDS = 16  # labels offered first because of the report's words
MAX_REASON_CHARS = 160


def is_possible(label: str, assessment: Assessment) -> bool:
    """Return whether no fact contradicts the cause. An absent sign is no contradiction: many faults leave no trace."""
    verdict = assessment.label_verdicts.get(label)
    return verdict is None or verdict.verdict != "rejected" or verdict.absent


def list_offered_labels(context: IncidentContext, assessment: Assessment, taxonomy: Taxonomy) -> dict[str, str]:
    """Return the title of every label, likeliest first: the report's words, then the assessment, then those no check can show."""
    by_words = rank_labels_by_words(taxonomy, context.brief, MAX_LABELS_BY_WORDS)
    possible = [label for label, verdict in assessment.label_verdicts.items() if verdict.verdict != "rejected"]
    labels = dict.fromkeys((*by_words, *possible, *taxonomy.leaves))
    return {label: taxonomy.get_title(label) for label in labels}


def list_ruled_out(assessment: Assessment) -> list[str]:
    """Return the contradicted labels, each with the reason."""
    return [
        f"{verdict.label}: {verdict.because[:MAX_REASON_CHARS]}"
        for verdict in assessment.label_verdicts.values()
        if not is_possible(verdict.label, assessment)
    ]


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
