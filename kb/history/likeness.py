"""Which label a text sounds like, without looking at anything: leaf words, descriptions and past incidents by BM25. Pure and fast.

Words are a hint and never evidence: what comes out orders hypotheses and confirms none.
"""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from kb.history.bm25 import Corpus
from kb.history.incidents import PastIncident
from kb.history.words import joined
from kb.taxonomy.labels import Leaf, Taxonomy

SHARPNESS = 0.3
"""How fast probability falls with a worse score."""
PHRASE, SYMPTOM = 2.5, 1.5
"""What a whole phrase of a leaf, and a symptom class of the ticket, add to a score."""
SHORT = 6
"""Letters up to which a phrase counts as a whole word alone."""
MOST_LIKE_PAST = 0.6
"""Weight of the most similar past incident of a label, relative to the label's own text."""


@dataclass(frozen=True)
class Nearest:
    """Ready to rank. Build one and keep it: building costs more than ranking."""

    leaves: tuple[Leaf, ...]
    labels: Corpus
    past: Corpus
    label_of: dict[str, str]
    left_out: frozenset[str] = frozenset()
    """Past incidents that are not asked."""

    @classmethod
    def of(cls, taxonomy: Taxonomy, past: Iterable[PastIncident] = ()) -> "Nearest":
        known = [incident for incident in past if incident.label in taxonomy.leaves]
        return cls(
            tuple(taxonomy.leaves.values()),
            _corpus(tuple((label, _text(leaf)) for label, leaf in taxonomy.leaves.items())),
            _corpus(tuple((incident.id, incident.text) for incident in known)),
            {incident.id: incident.label for incident in known},
        )

    def without(self, past: Collection[str]) -> "Nearest":
        """The same, ignorant of these past incidents; how rare a word is stays as it was."""
        return replace(self, left_out=frozenset(past))

    def rank(self, text: str, symptoms: Collection[str] = (), most: int = 10) -> list[tuple[str, float]]:
        """Labels and their probabilities among all labels, best first. Nothing in common with any label gives an empty list."""
        scores = self._scores(text, symptoms)
        if not scores:
            return []
        top = max(scores.values())
        mass = {label: math.exp(SHARPNESS * (score - top)) for label, score in scores.items()}
        total = sum(mass.values()) + (len(self.leaves) - len(mass)) * math.exp(-SHARPNESS * top)
        ranked = sorted(mass, key=lambda label: (-mass[label], label))
        return [(label, mass[label] / total) for label in ranked[:most]]

    def _scores(self, text: str, symptoms: Collection[str]) -> dict[str, float]:
        scores = self.labels.scores(text)
        for incident, score in self.past.scores(text).items():
            if incident in self.left_out:
                continue
            label = self.label_of[incident]
            scores[label] = max(scores.get(label, 0.0), scores.get(label, 0.0) * 0.5 + MOST_LIKE_PAST * score)
        lower = text.lower()
        for leaf in self.leaves:
            extra = PHRASE * min(3, sum(_says(lower, word) for word in leaf.words)) + SYMPTOM * bool(set(leaf.symptoms) & set(symptoms))
            if extra:
                scores[leaf.label] = scores.get(leaf.label, 0.0) + extra
        return scores


def _says(text: str, word: str) -> bool:
    """Whether a phrase stands there, a short one as a word of its own: `ray` is not in `array`, nor `ost` in `host`."""
    if len(word) > SHORT:
        return word in text
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        if not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
            return True
        at = text.find(word, end)
    return False


@lru_cache(maxsize=8)
def _corpus(texts: tuple[tuple[str, str], ...]) -> Corpus:
    """Ready to be ranked. Texts change with the taxonomy, and that hardly ever: each turn of an incident asks for the same ones."""
    return Corpus.of(dict(texts))


def _text(leaf: Leaf) -> str:
    name = leaf.label.replace(".", " ").replace("_", " ")
    says = (clue.says for clue in leaf.evidence if clue.weight > 0)
    return joined((name, leaf.title, leaf.description, *leaf.words, *leaf.words, *says, leaf.customer_words))
