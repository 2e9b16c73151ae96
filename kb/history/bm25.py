"""BM25 over a small set of texts: a few hundred rank in about a millisecond."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kb.history.text_search import extract_terms

TERM_SATURATION = 2.0  # k1: saturation of repeated terms
LENGTH_NORMALIZATION = 0.6  # b: penalty for long texts


def compute_term_weights(terms: Sequence[str], average: float) -> dict[str, float]:
    """Return saturated term counts."""
    length_penalty = TERM_SATURATION * (1 - LENGTH_NORMALIZATION + LENGTH_NORMALIZATION * len(terms) / max(average, 1.0))
    return {term: count * (TERM_SATURATION + 1) / (count + length_penalty) for term, count in Counter(terms).items()}


@dataclass(frozen=True)
class BM25Corpus:
    """Texts by name, ready for ranking."""

    documents: Mapping[str, Mapping[str, float]]
    rarity: Mapping[str, float]
    average: float

    @classmethod
    def build(cls, texts: Mapping[str, str]) -> "BM25Corpus":
        terms = {name: extract_terms(text) for name, text in texts.items()}
        average = sum(map(len, terms.values())) / max(len(terms), 1)
        document_counts = Counter(term for words in terms.values() for term in set(words))
        rarity = {term: math.log(1 + (len(terms) - times + 0.5) / (times + 0.5)) for term, times in document_counts.items()}
        return cls({name: compute_term_weights(words, average) for name, words in terms.items()}, rarity, average)

    def score_documents(self, text: str) -> dict[str, float]:
        """Score texts that share a term with the query."""
        query = set(extract_terms(text)) & self.rarity.keys()
        scores = {
            name: sum(self.rarity[term] * weights[term] for term in query if term in weights) for name, weights in self.documents.items()
        }
        return {name: score for name, score in scores.items() if score > 0}

    def compute_similarity(self, text: str, other: str) -> float:
        """Return rarity-weighted similarity, 0 to 1."""
        return self.compute_term_similarity(frozenset(extract_terms(text)), frozenset(extract_terms(other)))

    def compute_term_similarity(self, mine: frozenset[str], theirs: frozenset[str]) -> float:
        unknown = math.log(1 + (len(self.documents) + 0.5) / 0.5)

        def size(terms: frozenset[str]) -> float:
            return math.sqrt(sum(self.rarity.get(term, unknown) ** 2 for term in terms))

        scale = size(mine) * size(theirs)
        return sum(self.rarity.get(term, unknown) ** 2 for term in mine & theirs) / scale if scale else 0.0
