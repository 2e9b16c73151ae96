"""Rank labels by a text's words, with BM25 over leaves and past incidents. Orders hypotheses, never evidence. Pure."""

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from kb.history.incidents import PastIncident
from kb.history.text_search import BM25Corpus, compute_term_weights, extract_terms, join_texts, strip_boilerplate
from kb.taxonomy.taxonomy import Leaf, Taxonomy

PROBABILITY_SHARPNESS = 0.3  # how fast probability falls with a lower score
MAX_PHRASE_SCORE = 11.0  # bound on the score of a leaf's phrases
HALF_SCORE_PHRASES = 1.5  # phrases for half of it
SYMPTOM_SCORE = 1.5  # score of a matching symptom class
MAX_WHOLE_WORD_CHARS = 6  # shorter phrases match whole words only
_DENIED_PATTERN = re.compile(r"\b(?:(?:no|not|never|nor|without)\s+(?:any\s+)?|non[ -]?)$")


@dataclass(frozen=True)
class LabelRanker:
    """A reusable ranker: building costs more than ranking."""

    leaves: tuple[Leaf, ...]
    labels: BM25Corpus  # by label: its own text and its past incidents'
    told: Mapping[str, Mapping[str, str]]  # label → past incident → text

    @classmethod
    def build(cls, taxonomy: Taxonomy, past: Iterable[PastIncident] = ()) -> "LabelRanker":
        text_by_source: dict[str, dict[str, str]] = {label: {} for label in taxonomy.leaves}
        for incident in past:
            if incident.label in text_by_source:
                text_by_source[incident.label][incident.id] = incident.text
        leaves = tuple(taxonomy.leaves.values())
        return cls(
            leaves,
            _build_corpus(tuple((leaf.label, _build_label_text(leaf, text_by_source[leaf.label].values())) for leaf in leaves)),
            text_by_source,
        )

    def without_incidents(self, past: Collection[str]) -> "LabelRanker":
        """Return a copy without these past incidents; word rarities stay."""
        text_by_source, documents = dict(self.told), dict(self.labels.documents)
        for leaf in self.leaves:
            if text_by_source[leaf.label].keys() & set(past):
                text_by_source[leaf.label] = {name: text for name, text in text_by_source[leaf.label].items() if name not in past}
                documents[leaf.label] = compute_term_weights(
                    extract_terms(_build_label_text(leaf, text_by_source[leaf.label].values())), self.labels.average
                )
        return replace(self, told=text_by_source, labels=replace(self.labels, documents=documents))

    def rank_labels(self, text: str, symptoms: Collection[str] = (), most: int = 10) -> list[tuple[str, float]]:
        """Return labels with probabilities, best first; none without a common word."""
        scores = self._compute_scores(text, symptoms)
        if not scores:
            return []
        top = max(scores.values())
        mass = {label: math.exp(PROBABILITY_SHARPNESS * (score - top)) for label, score in scores.items()}
        total = sum(mass.values()) + (len(self.leaves) - len(mass)) * math.exp(-PROBABILITY_SHARPNESS * top)
        ranked = sorted(mass, key=lambda label: (-mass[label], label))
        return [(label, mass[label] / total) for label in ranked[:most]]

    def _compute_scores(self, text: str, symptoms: Collection[str]) -> dict[str, float]:
        text = strip_boilerplate(text)
        scores = self.labels.score_documents(text)
        lower = text.lower()
        for leaf in self.leaves:
            phrase_score = count_phrases(leaf, lower)
            extra = MAX_PHRASE_SCORE * phrase_score / (phrase_score + HALF_SCORE_PHRASES) + SYMPTOM_SCORE * bool(
                set(leaf.symptoms) & set(symptoms)
            )
            if extra:
                scores[leaf.label] = scores.get(leaf.label, 0.0) + extra
        return scores


def count_phrases(leaf: Leaf, text: str) -> int:
    """Count the leaf's phrases in a lower-case text, without negated ones."""
    return sum(_contains_phrase(text, word) for word in leaf.words if word in text)


def count_separate_phrases(leaf: Leaf, text: str) -> int:
    """Count phrases that are not part of another matching one."""
    phrases = [word for word in leaf.words if word in text and _contains_phrase(text, word)]
    return sum(not any(word != other and word in other for other in phrases) for word in phrases)


def _contains_phrase(text: str, word: str) -> bool:
    """Short phrases match whole words: `ray` not in `array`, `ost` not in `host`."""
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        needs_whole_word = len(word) > MAX_WHOLE_WORD_CHARS or not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum())
        if needs_whole_word and not _DENIED_PATTERN.search(text[max(0, at - 16) : at]):
            return True
        at = text.find(word, end)
    return False


@lru_cache(maxsize=8)
def _build_corpus(texts: tuple[tuple[str, str], ...]) -> BM25Corpus:
    """Cached: each turn asks for the same texts."""
    return BM25Corpus.build(dict(texts))


def _build_label_text(leaf: Leaf, told: Iterable[str] = ()) -> str:
    name = leaf.label.replace(".", " ").replace("_", " ")
    clue_texts = (clue.says for clue in leaf.evidence if clue.weight > 0)
    return join_texts((name, leaf.plain or leaf.title, leaf.description, *leaf.words, *leaf.words, *clue_texts, leaf.customer_words, *told))
