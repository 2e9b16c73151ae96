"""Which labels a text speaks of, from the text alone: its words, the symptoms it complains of, and the errors it quotes. Pure.

Words are compared with labels and past incidents (`kb.history.likeness`); quoted log lines become facts and are weighed by the taxonomy's clues,
the same way as facts from hosts. No host is asked, so the result is a ranking and never a diagnosis.
"""

import math
from collections.abc import Iterable, Mapping
from datetime import datetime

from graph.reading.pasted import read_pasted
from graph.reading.reports import understand
from kb.history.likeness import Nearest
from kb.history.words import telling
from kb.taxonomy.labels import Taxonomy
from tools.checks.row import Check
from tools.fact import Fact

QUOTED = 0.5
"""What a clue in a quoted line counts, against the same clue seen on a host: people quote the line they believe in."""
MOST_QUOTED = 2.5
"""Most that quoted lines move one label, in log-odds."""

TEMPER = 0.6
"""Words sound surer than they are: over the published incidents this power of the probabilities predicts best."""


def classify(text: str, taxonomy: Taxonomy, nearest: Nearest, checks: Mapping[str, Check], now: datetime) -> list[tuple[str, float]]:
    """Every label with its probability, best first; the probabilities sum to one."""
    said = understand(telling(text), (), now)
    symptoms = [symptom for symptom in said.symptoms if symptom != "vague"]
    words = nearest.rank(f"{text}\n{' '.join(said.signatures)}", symptoms, most=len(taxonomy.leaves))
    floor = min((p for _, p in words), default=1.0) / 2
    scores = dict.fromkeys(taxonomy.leaves, math.log(floor)) | {label: math.log(p) for label, p in words}
    for label, weight in quoted(read_pasted(text, checks).facts, taxonomy).items():
        scores[label] += max(-MOST_QUOTED, min(MOST_QUOTED, QUOTED * weight))
    return _normal(scores)


def quoted(facts: Iterable[Fact], taxonomy: Taxonomy) -> dict[str, float]:
    """Log-odds of each label by the clues that quoted lines match; a clue counts once, however often it is quoted."""
    found: dict[str, float] = {}
    seen: set[tuple[str, str]] = set()
    for fact in facts:
        for leaf, clue in taxonomy.clues(fact.key):
            if (leaf.label, clue.id) not in seen and clue.matches(fact):
                seen.add((leaf.label, clue.id))
                found[leaf.label] = found.get(leaf.label, 0.0) + clue.weight
    return found


def _normal(scores: Mapping[str, float]) -> list[tuple[str, float]]:
    top = max(scores.values())
    mass = {label: math.exp(TEMPER * (score - top)) for label, score in scores.items()}
    total = sum(mass.values())
    return [(label, mass[label] / total) for label in sorted(mass, key=lambda label: (-mass[label], label))]
