"""Likely but unproven causes: by a model's last reading, else by the facts. Labelled as such, never acted on."""

from graph.engine.assessment import Assessment
from graph.engine.priors import rank_labels_by_words
from graph.incident.context import IncidentContext
from graph.incident.prompt_material import MAX_OFFERED_LABELS
from graph.report import UnprovenCause
from kb.taxonomy.taxonomy import Taxonomy

MIN_LIKELY_PROBABILITY = 0.5  # minimum probability of a reading to name a label
MAX_LABELS_BY_WORDS = 16  # labels offered because the report suggests them, even if no check can show them
MAX_REASON_CHARS = 160


def is_possible(label: str, assessment: Assessment) -> bool:
    """Return whether no fact contradicts it; a missing sign does not contradict, as many faults leave no trace."""
    verdict = assessment.label_verdicts.get(label)
    return verdict is None or verdict.verdict != "rejected" or verdict.absent


def list_offered_labels(context: IncidentContext, assessment: Assessment, taxonomy: Taxonomy) -> dict[str, str]:
    """Return labels offered to a reading, with title and whether checks missed them."""
    spoken = [label for label in rank_labels_by_words(taxonomy, context.brief, MAX_LABELS_BY_WORDS) if is_possible(label, assessment)]
    possible_labels = [verdict.label for verdict in assessment.label_verdicts.values() if verdict.verdict != "rejected"]
    return {
        label: f"{taxonomy.get_title(label)}{_format_missed_look(label, assessment)}"
        for label in list(dict.fromkeys((*spoken, *possible_labels)))[:MAX_OFFERED_LABELS]
    }


def _format_missed_look(label: str, assessment: Assessment) -> str:
    verdict = assessment.label_verdicts.get(label)
    if verdict is None:
        return " (no look can show it)"
    return f" ({verdict.because[:MAX_REASON_CHARS]})" if verdict.verdict == "rejected" else ""


def find_likely_cause(context: IncidentContext, assessment: Assessment, taxonomy: Taxonomy) -> UnprovenCause | None:
    """Return the likeliest cause or None; never one that facts contradict."""
    read = [
        (p, label)
        for label, p in context.turn.reading.items()
        if p >= MIN_LIKELY_PROBABILITY and label in taxonomy.leaves and is_possible(label, assessment)
    ]
    if read:
        p, label = max(read)
        verdict = assessment.label_verdicts.get(label)
        because = verdict.because if verdict else "no look of mine can show it"
        return UnprovenCause(label=label, p=round(p, 2), by="reading", because=because[:MAX_REASON_CHARS])
    best = next((belief for belief in assessment.suspects if assessment.label_verdicts[belief.label].verdict != "rejected"), None)
    if best is None:
        return None
    because = assessment.label_verdicts[best.label].because[:MAX_REASON_CHARS]
    return UnprovenCause(label=best.label, p=round(best.posterior, 2), by="facts", because=because)
