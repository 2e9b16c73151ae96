"""Rank labels by a text's words, with BM25 over leaves and past incidents.

The ranking orders hypotheses. It is never evidence.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from kb.history.bm25 import BM25Corpus, compute_term_weights
from kb.history.incidents import PastIncident
from kb.history.text_search import extract_terms, join_texts, strip_boilerplate
from kb.taxonomy.taxonomy import Leaf, Taxonomy

PROBABILITY_SHARPNESS = 0.3  # how fast probability falls with a lower score
MAX_PHRASE_SCORE = 11.0  # bound on the score of a leaf's phrases
HALF_SCORE_PHRASES = 1.5  # phrases that give half of MAX_PHRASE_SCORE
SYMPTOM_SCORE = 1.5  # score of a matching symptom class
MAX_WHOLE_WORD_CHARS = 6  # shorter phrases match whole words only
_DENIED_PATTERN = re.compile(r"\b(?:(?:no|not|never|nor|without)\s+(?:any\s+)?|non[ -]?)$")


@dataclass(frozen=True)
class LabelRanker:
    """A reusable ranker: building costs more than ranking."""

    leaves: tuple[Leaf, ...]
    corpus: BM25Corpus  # the text of each label with its past incidents
    past_texts: Mapping[str, Mapping[str, str]]  # texts of past incidents by label and id

    @classmethod
    def build(cls, taxonomy: Taxonomy, past: Iterable[PastIncident] = ()) -> "LabelRanker":
        past_texts: dict[str, dict[str, str]] = {label: {} for label in taxonomy.leaves}
        for incident in past:
            if incident.label in past_texts:
                past_texts[incident.label][incident.id] = incident.text
        leaves = tuple(taxonomy.leaves.values())
        texts = tuple((leaf.label, _build_label_text(leaf, past_texts[leaf.label].values())) for leaf in leaves)
        return cls(leaves, _build_corpus(texts), past_texts)

    def without_incidents(self, incident_ids: Collection[str]) -> "LabelRanker":
        """Return a copy without these past incidents. The rarity of words stays as it is."""
        past_texts, documents = dict(self.past_texts), dict(self.corpus.documents)
        for leaf in self.leaves:
            label_texts = past_texts[leaf.label]
            if label_texts.keys().isdisjoint(incident_ids):
                continue
            past_texts[leaf.label] = {name: text for name, text in label_texts.items() if name not in incident_ids}
            terms = extract_terms(_build_label_text(leaf, past_texts[leaf.label].values()))
            documents[leaf.label] = compute_term_weights(terms, self.corpus.average)
        return replace(self, past_texts=past_texts, corpus=replace(self.corpus, documents=documents))

    def rank_labels(self, text: str, symptoms: Collection[str] = (), limit: int = 10) -> list[tuple[str, float]]:
        """Return labels with their probabilities, best first; none if no label shares a word with the text."""
        scores = self._compute_scores(text, symptoms)
        if not scores:
            return []
        best_score = max(scores.values())
        weights = {label: math.exp(PROBABILITY_SHARPNESS * (score - best_score)) for label, score in scores.items()}
        unscored_weight = (len(self.leaves) - len(weights)) * math.exp(-PROBABILITY_SHARPNESS * best_score)
        total = sum(weights.values()) + unscored_weight
        ranked = sorted(weights, key=lambda label: (-weights[label], label))
        return [(label, weights[label] / total) for label in ranked[:limit]]

    def _compute_scores(self, text: str, symptoms: Collection[str]) -> dict[str, float]:
        text = strip_boilerplate(text)
        scores = self.corpus.score_documents(text)
        lowered_text = text.lower()
        for leaf in self.leaves:
            phrase_count = count_phrases(leaf, lowered_text)
            extra_score = MAX_PHRASE_SCORE * phrase_count / (phrase_count + HALF_SCORE_PHRASES)
            if not set(leaf.symptoms).isdisjoint(symptoms):
                extra_score += SYMPTOM_SCORE
            if extra_score:
                scores[leaf.label] = scores.get(leaf.label, 0.0) + extra_score
        return scores


def count_phrases(leaf: Leaf, text: str) -> int:
    """Count the leaf's phrases in a lower-case text, without negated ones."""
    return sum(_contains_phrase(text, word) for word in leaf.words if word in text)


def count_separate_phrases(leaf: Leaf, text: str) -> int:
    """Count phrases that are not part of another matching one."""
    phrases = [word for word in leaf.words if word in text and _contains_phrase(text, word)]
    return sum(not any(word != other and word in other for other in phrases) for word in phrases)


def _contains_phrase(text: str, word: str) -> bool:
    """Return whether a text has the phrase and does not deny it. Short phrases match only whole words, never `ray` in `array`."""
    start = text.find(word)
    while start >= 0:
        end = start + len(word)
        is_whole_word = not text[start - 1 : start].isalnum() and not text[end : end + 1].isalnum()
        is_denied = _DENIED_PATTERN.search(text[max(0, start - 16) : start]) is not None
        if not is_denied and (is_whole_word or len(word) > MAX_WHOLE_WORD_CHARS):
            return True
        start = text.find(word, end)
    return False


@lru_cache(maxsize=8)
def _build_corpus(texts: tuple[tuple[str, str], ...]) -> BM25Corpus:
    """Build a corpus. It is cached, as each turn asks for the same texts."""
    return BM25Corpus.build(dict(texts))


def _build_label_text(leaf: Leaf, past_texts: Iterable[str] = ()) -> str:
    name = leaf.label.replace(".", " ").replace("_", " ")
    clue_texts = (clue.says for clue in leaf.evidence if clue.weight > 0)
    return join_texts(
        (name, leaf.plain or leaf.title, leaf.description, *leaf.words, *leaf.words, *clue_texts, leaf.customer_words, *past_texts)
    )
