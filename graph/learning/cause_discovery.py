"""Second pass over an export: match threads without a label to known, similar or new causes, in order of time.

The export or a model names a new cause. Without a name, three similar threads make one. New causes are drafts, which
people accept or refuse.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from graph.learning.rule_labelling import MIN_LABEL_SHARE, LabelledRow
from kb.history.bm25 import BM25Corpus
from kb.history.text_search import extract_terms
from kb.taxonomy.taxonomy import CATEGORIES, Taxonomy

# From here two names are one. No two built-in labels are as similar, which a test ensures.
MIN_NAME_LIKENESS: Final = 0.7
MIN_THREAD_LIKENESS: Final = 0.4  # From here two unnamed threads share a cause.
MIN_CLUSTER_THREADS: Final = 3  # Similar threads that make an unnamed cause.
# Share of a name's threads that words put under one label, from which the name is that label.
MIN_VOTE_SHARE: Final = 0.6
MAX_RARE_TERMS = 6  # Terms used to find a similar thread
MAX_UNNAMED_THREADS = 3_000  # unnamed threads compared
MAX_SHARED_WORDS = 8
MAX_NEW_CAUSES = 200  # new names per build
_LABEL_SEPARATOR_PATTERN: Final = re.compile(r"\s*[./>:|]\s*")
_NON_WORD_PATTERN: Final = re.compile(r"[^A-Za-z0-9]+")
_CAUSE_LEAD_PATTERN: Final = re.compile(
    r"^(?:in the end )?(?:it )?(?:the )?(?:root )?"
    r"(?:(?:cause|culprit|problem|issue|reason)(?: was|:| is)|turn(?:s|ed) out(?: that)?|caused by|due to|because)[:,]?\s+",
    re.IGNORECASE,
)
_FILLER_TEXT: Final = """
a after an and be been by cause culprit for from in is issue it its no not of on or problem reason root that the to turned was when were with because are
"""
_FILLER_WORDS: Final = frozenset(_FILLER_TEXT.split())


@dataclass(slots=True)
class NewCause:
    """A cause without a label in the taxonomy. `why` says who named it; its threads are in order of time."""

    label: str
    title: str
    why: str
    threads: list[LabelledRow] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MergedName:
    """A name that means an existing label."""

    name: str
    label: str
    why: str


@dataclass(frozen=True, slots=True)
class CauseDiscovery:
    """All threads in input order, relabelled where a cause was found, with new causes and merged names."""

    threads: tuple[LabelledRow, ...]
    new_causes: tuple[NewCause, ...] = ()
    merged_names: tuple[MergedName, ...] = ()


def discover_causes(threads: Sequence[LabelledRow], taxonomy: Taxonomy) -> CauseDiscovery:
    """Label doubtful threads anew. A thread without a stated cause stays as it was."""
    discovery = _DiscoveryPass.from_taxonomy(taxonomy)
    open_threads = sorted(
        (thread for thread in threads if thread.verdict == "doubtful" and thread.root_cause), key=lambda thread: thread.time or "9999"
    )
    for name, named_threads in _group_by_name(open_threads).items():
        discovery.place_named(name, named_threads)
    discovery.place_unnamed([thread for thread in open_threads if not thread.named][:MAX_UNNAMED_THREADS])
    return CauseDiscovery(
        tuple(discovery.placed.get(id(thread), thread) for thread in threads),
        tuple(discovery.new_causes.values()),
        tuple(discovery.merged_names),
    )


@dataclass(slots=True)
class _DiscoveryPass:
    taxonomy: Taxonomy
    title_corpus: BM25Corpus
    titles: dict[str, frozenset[str]]  # Label → terms of its title, including new ones.
    new_causes: dict[str, NewCause] = field(default_factory=dict)
    merged_names: list[MergedName] = field(default_factory=list)
    placed: dict[int, LabelledRow] = field(default_factory=dict)

    @classmethod
    def from_taxonomy(cls, taxonomy: Taxonomy) -> "_DiscoveryPass":
        title_corpus = BM25Corpus.build({name: f"{leaf.title} {leaf.description}" for name, leaf in taxonomy.leaves.items()})
        return cls(taxonomy, title_corpus, {name: frozenset(extract_terms(leaf.title)) for name, leaf in taxonomy.leaves.items()})

    def place_named(self, name: str, threads: Sequence[LabelledRow]) -> None:
        """Place a name's threads. Beyond `MAX_NEW_CAUSES` they keep their label: that many names are not causes."""
        model_name = threads[0].by
        label, reason = self._find_voted_label(threads) if not model_name else ("", "")
        if not label:
            label, reason = self._find_similar_label(name)
        if label:
            self.merged_names.append(MergedName(name, label, reason))
        elif len(self.new_causes) < MAX_NEW_CAUSES:
            label = _build_label(name, threads, self._list_taken_labels())
            source = f"named by {model_name or 'the export'}"
            self._add_cause(label, _parse_title(name), source)
            reason = f"new: {source}"
        else:
            return
        self._place_threads(threads, label, reason)

    def place_unnamed(self, threads: Sequence[LabelledRow]) -> None:
        """Place each cluster of similar threads under a similar label or a new one."""
        for group in _cluster_threads(threads, self.title_corpus):
            if len(group) < MIN_CLUSTER_THREADS:
                continue
            title = _build_title(group[0].root_cause)
            label, reason = self._find_similar_label(title)
            if label:
                self.merged_names.append(MergedName(title, label, reason))
            else:
                label = _build_label(" ".join(find_shared_words(group)[:4]), group, self._list_taken_labels())
                source = "by like words of its threads"
                self._add_cause(label, title, source)
                reason = f"new: {source}"
            self._place_threads(group, label, reason)

    def _find_voted_label(self, threads: Sequence[LabelledRow]) -> tuple[str, str]:
        """Return the label of most confident threads with the reason; empty without a sufficient majority."""
        confident_votes = Counter(thread.label for thread in threads if thread.confidence >= MIN_LABEL_SHARE)
        if not confident_votes:
            return "", ""
        label, votes = confident_votes.most_common(1)[0]
        return (label, f"{votes} of {len(threads)} read like it") if votes >= MIN_VOTE_SHARE * len(threads) else ("", "")

    def _find_similar_label(self, name: str) -> tuple[str, str]:
        """Return the label with the most similar title and the reason; empty if none is similar enough."""
        name_terms = frozenset(extract_terms(name))
        label = max(self.titles, key=lambda label: (self._compute_likeness(name_terms, self.titles[label]), label))
        likeness = self._compute_likeness(name_terms, self.titles[label])
        if likeness < MIN_NAME_LIKENESS:
            return "", ""
        return label, f"says the same as “{self._get_title(label)}” ({likeness:.0%} alike)"

    def _compute_likeness(self, terms: frozenset[str], other_terms: frozenset[str]) -> float:
        return self.title_corpus.compute_term_similarity(terms, other_terms) if terms & other_terms else 0.0

    def _get_title(self, label: str) -> str:
        return self.new_causes[label].title if label in self.new_causes else self.taxonomy.get_title(label)

    def _list_taken_labels(self) -> set[str]:
        return {*self.taxonomy.leaves, *self.new_causes}

    def _add_cause(self, label: str, title: str, source: str) -> None:
        self.new_causes[label] = NewCause(label, title, source)
        self.titles[label] = frozenset(extract_terms(title))

    def _place_threads(self, threads: Iterable[LabelledRow], label: str, reason: str) -> None:
        for thread in threads:
            other_labels = tuple(other_label for other_label in (thread.label, *thread.others) if other_label != label)[:2]
            placed_thread = replace(thread, verdict="labelled", label=label, why=reason, others=other_labels, confidence=0.0)
            self.placed[id(thread)] = placed_thread
            if label in self.new_causes:
                self.new_causes[label].threads.append(placed_thread)


def find_shared_words(threads: Sequence[LabelledRow]) -> list[str]:
    """Return words in at least half of the threads, most frequent and longest first."""
    word_counts = Counter(word for thread in threads for word in dict.fromkeys(_split_words(f"{thread.title} {thread.root_cause}")))
    shared_words = [word for word, count in word_counts.items() if 2 * count >= len(threads)]
    return sorted(shared_words, key=lambda word: (-word_counts[word], -len(word), word))[:MAX_SHARED_WORDS]


def _split_words(text: str) -> list[str]:
    return [
        word
        for word in _NON_WORD_PATTERN.sub(" ", text.lower()).split()
        if len(word) > 3 and word not in _FILLER_WORDS and not word.isdigit()
    ]


def _group_by_name(threads: Iterable[LabelledRow]) -> Mapping[str, list[LabelledRow]]:
    """Group threads by the name of their cause in its first spelling. Case and punctuation do not matter."""
    threads_by_name: dict[str, list[LabelledRow]] = {}
    first_spellings: dict[str, str] = {}
    for thread in threads:
        if thread.named:
            normalized_name = " ".join(_NON_WORD_PATTERN.sub(" ", thread.named.lower()).split())
            name = first_spellings.setdefault(normalized_name, thread.named)
            threads_by_name.setdefault(name, []).append(thread)
    return threads_by_name


def _parse_title(name: str) -> str:
    """Return the last part of a name such as `network / optics / dirty fibre`."""
    return _LABEL_SEPARATOR_PATTERN.split(name)[-1] or name


def _build_title(cause: str) -> str:
    title = _CAUSE_LEAD_PATTERN.sub("", cause[:160]).rstrip(". ") or cause[:160]
    return title[0].upper() + title[1:]


def _build_label(name: str, threads: Sequence[LabelledRow], taken_labels: set[str]) -> str:
    """Return an unused `CATEGORY.BRANCH.Name`, in the named branch or the one that its threads resemble."""
    parts = _LABEL_SEPARATOR_PATTERN.split(name)
    named_branch = ".".join(parts[:2]) if parts[0] in CATEGORIES and len(parts) > 2 else ""
    branch = next((thread.branch for thread in threads if thread.branch), named_branch)
    if not re.fullmatch(r"[A-Z_]+\.[A-Z][A-Z0-9_]*", branch):
        branch_votes = Counter(thread.label.rpartition(".")[0] for thread in threads)
        branch = min(branch_votes, key=lambda voted_branch: (-branch_votes[voted_branch], voted_branch))
    leaf_words = [word for word in _NON_WORD_PATTERN.sub(" ", parts[-1]).split() if word.lower() not in _FILLER_WORDS][:5]
    leaf = re.sub(r"^[^A-Za-z]+", "", "_".join(word[0].upper() + word[1:] for word in leaf_words))[:48].strip("_") or "Cause"
    label, number = f"{branch}.{leaf}", 2
    while label in taken_labels:
        label, number = f"{branch}.{leaf}_{number}", number + 1
    return label


def _cluster_threads(threads: Sequence[LabelledRow], corpus: BM25Corpus) -> list[list[LabelledRow]]:
    """Group each thread with the most similar first thread of a group, found by its rarest terms.

    A term's rarity is measured over the threads and the texts of the built-in labels.
    """
    thread_terms = [_ThreadTerms.from_thread(thread) for thread in threads]
    term_counts = Counter(term for terms in thread_terms for term in terms.all_terms)
    term_counts.update(term for words in corpus.documents.values() for term in words)
    document_count = len(threads) + len(corpus.documents)
    rarity = {term: math.log(1 + (document_count - count + 0.5) / (count + 0.5)) for term, count in term_counts.items()}
    groups: list[list[LabelledRow]] = []
    first_terms: list[_ThreadTerms] = []  # of each group's first thread
    groups_by_term: dict[str, list[int]] = {}
    for thread, terms in zip(threads, thread_terms, strict=True):
        rarest_first = sorted(terms.all_terms, key=lambda term: (-rarity[term], term))
        candidates = sorted({group for term in rarest_first[:MAX_RARE_TERMS] for group in groups_by_term.get(term, ())})
        likeness_by_group = {group: terms.compute_likeness(first_terms[group], rarity) for group in candidates}
        group = max(candidates, key=lambda candidate: likeness_by_group[candidate], default=0)
        if likeness_by_group.get(group, 0.0) < MIN_THREAD_LIKENESS:
            group = len(groups)
            groups.append([])
            first_terms.append(terms)
            for term in rarest_first:
                groups_by_term.setdefault(term, []).append(group)
        groups[group].append(thread)
    return groups


@dataclass(frozen=True, slots=True)
class _ThreadTerms:
    all_terms: frozenset[str]
    cause_terms: frozenset[str]

    @classmethod
    def from_thread(cls, thread: LabelledRow) -> "_ThreadTerms":
        cause_terms = frozenset(extract_terms(_CAUSE_LEAD_PATTERN.sub("", thread.root_cause)))
        return cls(cause_terms | set(extract_terms(f"{thread.title} {thread.description}")), cause_terms)

    def compute_likeness(self, other: "_ThreadTerms", rarity: Mapping[str, float]) -> float:
        """Weigh the cause and the whole text equally: similar symptoms may have different causes, and a cause has few words."""
        text_likeness = _compute_term_likeness(self.all_terms, other.all_terms, rarity)
        cause_likeness = _compute_term_likeness(self.cause_terms, other.cause_terms, rarity)
        return (text_likeness + cause_likeness) / 2


def _compute_term_likeness(terms: frozenset[str], other_terms: frozenset[str], rarity: Mapping[str, float]) -> float:
    def compute_norm(terms: frozenset[str]) -> float:
        return math.sqrt(sum(rarity[term] ** 2 for term in terms))

    scale = compute_norm(terms) * compute_norm(other_terms)
    return sum(rarity[term] ** 2 for term in terms & other_terms) / scale if scale else 0.0
