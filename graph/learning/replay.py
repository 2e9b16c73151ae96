"""Check whether new knowledge labels past incidents worse: each is labelled from its words, before and after, without
its own thread.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from graph.extraction.text_classifier import rank_labels_by_text
from graph.learning.thread_contents import UNKNOWN_TIME
from kb.history.bm25 import BM25Corpus
from kb.history.incidents import PastIncident
from kb.history.label_ranking import LabelRanker
from kb.taxonomy.taxonomy import Taxonomy
from tools.checks.check_types import Check

# Share of the first label's probability from which two labels are a tie. Each new incident shifts hundreds slightly,
# which loses nothing.
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
    asked_incidents: Sequence[PastIncident],
    known_incidents: Sequence[PastIncident],
    taxonomy: Taxonomy,
    checks: Mapping[str, Check],
    held_back: Collection[str] = (),
) -> dict[str, str]:
    """Return each incident's label from its text and from other threads. Those in `held_back` were right before and keep
    their label in a tie.
    """
    nearest = LabelRanker.build(taxonomy, known_incidents)
    ids_by_thread: dict[str, set[str]] = defaultdict(set)
    for incident in known_incidents:
        ids_by_thread[_get_thread_key(incident)].add(incident.id)
    label_by_incident: dict[str, str] = {}
    for incident in asked_incidents:
        ranked = rank_labels_by_text(
            f"{incident.title}\n{incident.description}",
            taxonomy,
            nearest.without_incidents({incident.id, *ids_by_thread[_get_thread_key(incident)]}),
            checks,
            UNKNOWN_TIME,
        )
        label, p = ranked[0]
        label_by_incident[incident.id] = (
            incident.label if incident.id in held_back and dict(ranked).get(incident.label, 0.0) >= MIN_TIE_SHARE * p else label
        )
    return label_by_incident


def compare_replays(
    asked_incidents: Sequence[PastIncident], labels_before: Mapping[str, str], after: Mapping[str, str], new: Sequence[PastIncident]
) -> ReplayResult:
    right = {
        incident.id: (labels_before[incident.id] == incident.label, after[incident.id] == incident.label) for incident in asked_incidents
    }
    lost = [_build_lost_incident(incident, after[incident.id], new) for incident in asked_incidents if right[incident.id] == (True, False)]
    return ReplayResult(
        len(asked_incidents),
        sum(was for was, _ in right.values()),
        sum(now for _, now in right.values()),
        tuple(lost),
        tuple(name for name, is_right in right.items() if is_right == (False, True)),
    )


def _build_lost_incident(incident: PastIncident, taken_for: str, new: Sequence[PastIncident]) -> LostIncident:
    texts = {other_incident.id: other_incident.text for other_incident in new if other_incident.label == taken_for}
    scores = BM25Corpus.build(texts).score_documents(incident.text) if texts else {}
    return LostIncident(incident.id, incident.label, taken_for, max(sorted(scores), key=lambda name: scores[name], default=""))


def _get_thread_key(incident: PastIncident) -> str:
    return incident.source_url or incident.id
