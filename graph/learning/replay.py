"""Check whether new knowledge labels past incidents worse: each is labelled from its words, before and after, without
its own thread. Pure.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from graph.extraction.text_classifier import rank_labels_by_text
from graph.learning.thread_contents import UNKNOWN_TIME
from kb.history.incidents import PastIncident
from kb.history.label_ranking import LabelRanker
from kb.history.text_search import BM25Corpus
from kb.taxonomy.taxonomy import Taxonomy
from tools.checks.check_types import Check

# Share of the first label's probability from which two labels are a tie. Each new incident shifts hundreds slightly,
# which is no loss.
MIN_TIE_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class LostIncident:
    """An incident labelled right before and not after: its label now, and the most similar new incident of that label."""

    id: str
    label: str
    taken_for: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    of: int
    before: int
    after: int
    lost: tuple[LostIncident, ...] = ()
    won: tuple[str, ...] = ()

    @property
    def is_worse(self) -> bool:
        return self.after < self.before


def label_incidents(
    asked: Sequence[PastIncident],
    known: Sequence[PastIncident],
    taxonomy: Taxonomy,
    checks: Mapping[str, Check],
    held: Collection[str] = (),
) -> dict[str, str]:
    """Return each incident's label from its text and from other threads. Those in `held` were right before and keep
    their label in a tie.
    """
    nearest = LabelRanker.build(taxonomy, known)
    same: dict[str, set[str]] = defaultdict(set)
    for one in known:
        same[_get_thread_key(one)].add(one.id)
    label_by_incident: dict[str, str] = {}
    for one in asked:
        ranked = rank_labels_by_text(
            f"{one.title}\n{one.description}",
            taxonomy,
            nearest.without_incidents({one.id, *same[_get_thread_key(one)]}),
            checks,
            UNKNOWN_TIME,
        )
        label, p = ranked[0]
        label_by_incident[one.id] = one.label if one.id in held and dict(ranked).get(one.label, 0.0) >= MIN_TIE_SHARE * p else label
    return label_by_incident


def compare_replays(
    asked: Sequence[PastIncident], before: Mapping[str, str], after: Mapping[str, str], new: Sequence[PastIncident]
) -> ReplayResult:
    right = {one.id: (before[one.id] == one.label, after[one.id] == one.label) for one in asked}
    lost = [_build_lost_incident(one, after[one.id], new) for one in asked if right[one.id] == (True, False)]
    return ReplayResult(
        len(asked),
        sum(was for was, _ in right.values()),
        sum(now for _, now in right.values()),
        tuple(lost),
        tuple(name for name, is_right in right.items() if is_right == (False, True)),
    )


def _build_lost_incident(one: PastIncident, taken_for: str, new: Sequence[PastIncident]) -> LostIncident:
    texts = {other.id: other.text for other in new if other.label == taken_for}
    scores = BM25Corpus.build(texts).score_documents(one.text) if texts else {}
    return LostIncident(one.id, one.label, taken_for, max(sorted(scores), key=lambda name: scores[name], default=""))


def _get_thread_key(one: PastIncident) -> str:
    return one.source_url or one.id
