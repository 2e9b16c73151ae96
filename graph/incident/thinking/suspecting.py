"""What is likely and unproven, for whoever goes on where no fact proves a cause: what a model's last reading takes it for, or else what the facts speak for
most. It is said as that; nothing is proposed for it. Pure.
"""

from graph.engine.assess import Assessment
from graph.engine.prior import by_words
from graph.incident.case import Case
from graph.incident.thinking.material import MOST_OFFERED
from graph.report import UnprovenCause
from kb.taxonomy.labels import Taxonomy

LIKELY = 0.5
"""What a reading must give a label for it to be named."""
BY_WORDS = 16
"""Labels that a reading may choose from because the report sounds like them, also where no look can show them."""
LONGEST = 160


def may_be(label: str, now: Assessment) -> bool:
    """Whether no fact contradicts it. What would show it may be missing: half of what breaks in the world leaves no line where one looks."""
    standing = now.standings.get(label)
    return standing is None or standing.verdict != "rejected" or standing.absent


def offered(case: Case, now: Assessment, taxonomy: Taxonomy) -> dict[str, str]:
    """Labels that a reading of everything found may choose from, each with what it is called, and whether it was looked for and not seen."""
    spoken = [label for label in by_words(taxonomy, case.brief, BY_WORDS) if may_be(label, now)]
    standing = [one.label for one in now.standings.values() if one.verdict != "rejected"]
    return {label: f"{taxonomy.title(label)}{_missed(label, now)}" for label in list(dict.fromkeys((*spoken, *standing)))[:MOST_OFFERED]}


def _missed(label: str, now: Assessment) -> str:
    standing = now.standings.get(label)
    if standing is None:
        return " (no look can show it)"
    return f" ({standing.because[:LONGEST]})" if standing.verdict == "rejected" else ""


def likely_cause(case: Case, now: Assessment, taxonomy: Taxonomy) -> UnprovenCause | None:
    """The likeliest, or None. A reading may name no label that a fact contradicts: what is ruled out is not likely, whoever says it."""
    read = [(p, label) for label, p in case.turn.reading.items() if p >= LIKELY and label in taxonomy.leaves and may_be(label, now)]
    if read:
        p, label = max(read)
        standing = now.standings.get(label)
        because = standing.because if standing else "no look of mine can show it"
        return UnprovenCause(label=label, p=round(p, 2), by="reading", because=because[:LONGEST])
    best = next((row for row in now.suspects if now.standings[row.label].verdict != "rejected"), None)
    if best is None:
        return None
    because = now.standings[best.label].because[:LONGEST]
    return UnprovenCause(label=best.label, p=round(best.posterior, 2), by="facts", because=because)
