"""What is likely and unproven, for whoever goes on where no fact proves a cause: what a model's last reading takes it for, or else what the facts speak for
most. It is said as that; nothing is proposed for it. Pure.
"""

from graph.engine.assessment import Assessment
from graph.engine.priors import rank_labels_by_words
from graph.incident.context import IncidentContext
from graph.incident.thinking.material import MAX_OFFERED_LABELS
from graph.report import UnprovenCause
from kb.taxonomy.taxonomy import Taxonomy

MIN_LIKELY_PROBABILITY = 0.5
"""What a reading must give a label for it to be named."""
MAX_LABELS_BY_WORDS = 16
"""Labels that a reading may choose from because the report sounds like them, also where no look can show them."""
MAX_REASON_CHARS = 160


def is_possible(label: str, now: Assessment) -> bool:
    """Whether no fact contradicts it. What would show it may be missing: half of what breaks in the world leaves no line where one looks."""
    standing = now.label_verdicts.get(label)
    return standing is None or standing.verdict != "rejected" or standing.absent


def list_offered_labels(case: IncidentContext, now: Assessment, taxonomy: Taxonomy) -> dict[str, str]:
    """Labels that a reading of everything found may choose from, each with what it is called, and whether it was looked for and not seen."""
    spoken = [label for label in rank_labels_by_words(taxonomy, case.brief, MAX_LABELS_BY_WORDS) if is_possible(label, now)]
    standing = [one.label for one in now.label_verdicts.values() if one.verdict != "rejected"]
    return {
        label: f"{taxonomy.get_title(label)}{_format_missed_look(label, now)}"
        for label in list(dict.fromkeys((*spoken, *standing)))[:MAX_OFFERED_LABELS]
    }


def _format_missed_look(label: str, now: Assessment) -> str:
    standing = now.label_verdicts.get(label)
    if standing is None:
        return " (no look can show it)"
    return f" ({standing.because[:MAX_REASON_CHARS]})" if standing.verdict == "rejected" else ""


def find_likely_cause(case: IncidentContext, now: Assessment, taxonomy: Taxonomy) -> UnprovenCause | None:
    """The likeliest, or None. A reading may name no label that a fact contradicts: what is ruled out is not likely, whoever says it."""
    read = [
        (p, label)
        for label, p in case.turn.reading.items()
        if p >= MIN_LIKELY_PROBABILITY and label in taxonomy.leaves and is_possible(label, now)
    ]
    if read:
        p, label = max(read)
        standing = now.label_verdicts.get(label)
        because = standing.because if standing else "no look of mine can show it"
        return UnprovenCause(label=label, p=round(p, 2), by="reading", because=because[:MAX_REASON_CHARS])
    best = next((row for row in now.suspects if now.label_verdicts[row.label].verdict != "rejected"), None)
    if best is None:
        return None
    because = now.label_verdicts[best.label].because[:MAX_REASON_CHARS]
    return UnprovenCause(label=best.label, p=round(best.posterior, 2), by="facts", because=because)
