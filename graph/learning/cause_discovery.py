"""Second pass over an export: threads without a label, in order of time, each matched to a known, a near or a new
cause.

The export or a model names a cause; without a name, three similar threads make one. New causes are drafts for people to
decide.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from graph.learning.rule_labelling import MIN_LABEL_SHARE, LabelledRow
from kb.history.text_search import BM25Corpus, extract_terms
from kb.taxonomy.taxonomy import CATEGORIES, Taxonomy

# From here two names are one. No two built-in labels are as similar, which a test ensures.
MIN_NAME_LIKENESS: Final = 0.7
MIN_THREAD_LIKENESS: Final = 0.4  # From here two unnamed threads share a cause.
MIN_CLUSTER_THREADS: Final = 3  # Similar threads that make an unnamed cause.
# Share of a name's threads that words put under one label, from which the name is that label.
MIN_VOTE_SHARE: Final = 0.6
MAX_RARE_TERMS = 6  # Terms used to find a similar thread
MAX_UNNAMED_THREADS = 3_000  # unnamed threads compared
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
    """A cause without a label. `why` says who named it; `of` are its incidents in order of time."""

    label: str
    title: str
    why: str
    of: list[LabelledRow] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MergedName:
    """A name that means an existing label."""

    named: str
    into: str
    why: str


@dataclass(frozen=True, slots=True)
class CauseDiscovery:
    """All rows in input order, relabelled where a cause was found; new causes and merged names."""

    rows: tuple[LabelledRow, ...]
    new: tuple[NewCause, ...] = ()
    merged: tuple[MergedName, ...] = ()


def discover_causes(rows: Sequence[LabelledRow], taxonomy: Taxonomy) -> CauseDiscovery:
    """Label rows anew; a row without a cause stays as it was."""
    walk = _DiscoveryPass.from_taxonomy(taxonomy)
    open_ones = sorted((row for row in rows if row.verdict == "doubtful" and row.root_cause), key=lambda row: row.time or "9999")
    for name, named_rows in _group_by_name(open_ones).items():
        walk.place_named(name, named_rows)
    walk.place_unnamed([row for row in open_ones if not row.named][:MAX_UNNAMED_THREADS])
    return CauseDiscovery(tuple(walk.placed.get(id(row), row) for row in rows), tuple(walk.new.values()), tuple(walk.merged))


@dataclass(slots=True)
class _DiscoveryPass:
    taxonomy: Taxonomy
    known: BM25Corpus
    titles: dict[str, frozenset[str]]  # Label → terms of its title, including new ones.
    new: dict[str, NewCause] = field(default_factory=dict)
    merged: list[MergedName] = field(default_factory=list)
    placed: dict[int, LabelledRow] = field(default_factory=dict)

    @classmethod
    def from_taxonomy(cls, taxonomy: Taxonomy) -> "_DiscoveryPass":
        title_corpus = BM25Corpus.build({name: f"{leaf.title} {leaf.description}" for name, leaf in taxonomy.leaves.items()})
        return cls(taxonomy, title_corpus, {name: frozenset(extract_terms(leaf.title)) for name, leaf in taxonomy.leaves.items()})

    def place_named(self, name: str, rows: Sequence[LabelledRow]) -> None:
        """Place a name's threads. Beyond `MAX_NEW_CAUSES` they stay as they are: so many names are not causes."""
        person = rows[0].by
        into, reason = self._find_voted_label(rows) if not person else ("", "")
        if not into:
            into, reason = self._find_near_label(name)
        if not into and len(self.new) >= MAX_NEW_CAUSES:
            return
        if not into:
            into = self._add_cause(
                _build_label(name, rows, self._list_taken_labels()), _parse_title(name), f"named by {person or 'the export'}"
            ).label
        else:
            self.merged.append(MergedName(name, into, reason))
        self._place_rows(rows, into, reason or f"new: {self.new[into].why}")

    def place_unnamed(self, rows: Sequence[LabelledRow]) -> None:
        for group in _cluster_threads(rows, self.known):
            if len(group) < MIN_CLUSTER_THREADS:
                continue
            title = _build_title(group[0].root_cause)
            into, reason = self._find_near_label(title)
            if into:
                self.merged.append(MergedName(title, into, reason))
            else:
                into = self._add_cause(
                    _build_label(" ".join(find_shared_words(group)[:4]), group, self._list_taken_labels()),
                    title,
                    "by like words of its threads",
                ).label
            self._place_rows(group, into, reason or f"new: {self.new[into].why}")

    def _find_voted_label(self, rows: Sequence[LabelledRow]) -> tuple[str, str]:
        sure = Counter(row.label for row in rows if row.confidence >= MIN_LABEL_SHARE)
        label, votes = sure.most_common(1)[0] if sure else ("", 0)
        return (label, f"{votes} of {len(rows)} read like it") if votes and votes >= MIN_VOTE_SHARE * len(rows) else ("", "")

    def _find_near_label(self, name: str) -> tuple[str, str]:
        name_terms = frozenset(extract_terms(name))
        label = max(self.titles, key=lambda one: (self._compute_likeness(name_terms, self.titles[one]), one))
        like = self._compute_likeness(name_terms, self.titles[label])
        return (label, f"says the same as “{self._get_title(label)}” ({like:.0%} alike)") if like >= MIN_NAME_LIKENESS else ("", "")

    def _compute_likeness(self, mine: frozenset[str], theirs: frozenset[str]) -> float:
        return self.known.compute_term_similarity(mine, theirs) if mine & theirs else 0.0

    def _get_title(self, label: str) -> str:
        return self.new[label].title if label in self.new else self.taxonomy.get_title(label)

    def _list_taken_labels(self) -> set[str]:
        return {*self.taxonomy.leaves, *self.new}

    def _add_cause(self, label: str, title: str, why: str) -> NewCause:
        self.new[label] = NewCause(label, title, why)
        self.titles[label] = frozenset(extract_terms(title))
        return self.new[label]

    def _place_rows(self, rows: Iterable[LabelledRow], label: str, why: str) -> None:
        for row in rows:
            near_labels = (row.label, *row.others)
            self.placed[id(row)] = now = replace(
                row, verdict="labelled", label=label, why=why, others=tuple(one for one in near_labels if one != label)[:2], confidence=0.0
            )
            if label in self.new:
                self.new[label].of.append(now)


def find_shared_words(rows: Sequence[LabelledRow]) -> list[str]:
    """Return words in at least half of the threads, most frequent and longest first."""
    word_counts = Counter(word for row in rows for word in dict.fromkeys(_split_words(f"{row.title} {row.root_cause}")))
    return sorted(
        (word for word, times in word_counts.items() if 2 * times >= len(rows)), key=lambda word: (-word_counts[word], -len(word), word)
    )[:8]


def _split_words(text: str) -> list[str]:
    return [
        word
        for word in _NON_WORD_PATTERN.sub(" ", text.lower()).split()
        if len(word) > 3 and word not in _FILLER_WORDS and not word.isdigit()
    ]


def _group_by_name(rows: Iterable[LabelledRow]) -> Mapping[str, list[LabelledRow]]:
    rows_by_name: dict[str, list[LabelledRow]] = {}
    first: dict[str, str] = {}
    for row in rows:
        if row.named:
            same = " ".join(_NON_WORD_PATTERN.sub(" ", row.named.lower()).split())
            rows_by_name.setdefault(first.setdefault(same, row.named), []).append(row)
    return rows_by_name


def _parse_title(name: str) -> str:
    return _LABEL_SEPARATOR_PATTERN.split(name)[-1] or name


def _build_title(cause: str) -> str:
    bare = _CAUSE_LEAD_PATTERN.sub("", cause[:160]).rstrip(". ") or cause[:160]
    return bare[0].upper() + bare[1:]


def _build_label(name: str, rows: Sequence[LabelledRow], taken: set[str]) -> str:
    """Return an unused `CATEGORY.BRANCH.Name`, in the named branch or the one that its threads resemble."""
    parts = _LABEL_SEPARATOR_PATTERN.split(name)
    branch_name = next((row.branch for row in rows if row.branch), ".".join(parts[:2]) if parts[0] in CATEGORIES and len(parts) > 2 else "")
    nearest = Counter(row.label.rpartition(".")[0] for row in rows)
    branch = branch_name if re.fullmatch(r"[A-Z_]+\.[A-Z][A-Z0-9_]*", branch_name) else min(nearest, key=lambda one: (-nearest[one], one))
    plain = [word for word in _NON_WORD_PATTERN.sub(" ", parts[-1]).split() if word.lower() not in _FILLER_WORDS][:5]
    leaf = re.sub(r"^[^A-Za-z]+", "", "_".join(word[0].upper() + word[1:] for word in plain))[:48].strip("_") or "Cause"
    label, number = f"{branch}.{leaf}", 2
    while label in taken:
        label, number = f"{branch}.{leaf}_{number}", number + 1
    return label


def _cluster_threads(rows: Sequence[LabelledRow], known: BM25Corpus) -> list[list[LabelledRow]]:
    """Group threads around the first similar one, found by rare terms; built-in labels count for rarity."""
    threads = [_ThreadTerms.from_row(row) for row in rows]
    term_counts = Counter(term for one in threads for term in one.every)
    term_counts.update(term for words in known.documents.values() for term in words)
    document_count = len(rows) + len(known.documents)
    rarity = {term: math.log(1 + (document_count - times + 0.5) / (times + 0.5)) for term, times in term_counts.items()}
    groups: list[list[LabelledRow]] = []
    first: list[_ThreadTerms] = []
    at: dict[str, list[int]] = {}
    for row, had in zip(rows, threads, strict=True):
        rare = sorted(had.every, key=lambda term: (-rarity[term], term))
        near_groups = {group for term in rare[:MAX_RARE_TERMS] for group in at.get(term, ())}
        likeness, best = max(((had.compute_likeness(first[group], rarity), -group) for group in near_groups), default=(0.0, 0))
        if likeness < MIN_THREAD_LIKENESS:
            best = -len(groups)
            groups.append([])
            first.append(had)
            for term in rare:
                at.setdefault(term, []).append(-best)
        groups[-best].append(row)
    return groups


@dataclass(frozen=True, slots=True)
class _ThreadTerms:
    every: frozenset[str]
    cause: frozenset[str]

    @classmethod
    def from_row(cls, row: LabelledRow) -> "_ThreadTerms":
        cause = frozenset(extract_terms(_CAUSE_LEAD_PATTERN.sub("", row.root_cause)))
        return cls(cause | set(extract_terms(f"{row.title} {row.description}")), cause)

    def compute_likeness(self, other: "_ThreadTerms", rarity: Mapping[str, float]) -> float:
        """Weigh cause and whole text equally: similar symptoms may have different causes, and a cause has few words."""
        return (_compute_term_likeness(self.every, other.every, rarity) + _compute_term_likeness(self.cause, other.cause, rarity)) / 2


def _compute_term_likeness(mine: frozenset[str], theirs: frozenset[str], rarity: Mapping[str, float]) -> float:
    def size(terms: frozenset[str]) -> float:
        return math.sqrt(sum(rarity[term] ** 2 for term in terms))

    scale = size(mine) * size(theirs)
    return sum(rarity[term] ** 2 for term in mine & theirs) / scale if scale else 0.0
