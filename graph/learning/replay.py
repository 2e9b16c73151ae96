"""Whether new knowledge answers past incidents worse: each is named from its words by what is known without it, before and after. Pure."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from graph.learning.discussed import NO_TIME
from graph.reading.classify import classify
from kb.history.bm25 import Corpus
from kb.history.incidents import PastIncident
from kb.history.likeness import Nearest
from kb.taxonomy.labels import Taxonomy
from tools.checks.row import Check

AS_GOOD = 0.8
"""Share of the first label's probability from which words cannot tell two labels apart. One new incident moves each of hundreds by a hair: no loss."""


@dataclass(frozen=True, slots=True)
class LostIncident:
    """One that was named right and is not any more: as what it is taken now, and the new incident of that label that is most like it."""

    id: str
    label: str
    taken_for: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class Replay:
    """Incidents that were known before, by whether the label is the first answer."""

    of: int
    before: int
    after: int
    lost: tuple[LostIncident, ...] = ()
    won: tuple[str, ...] = ()

    @property
    def worse(self) -> bool:
        return self.after < self.before


def named(
    asked: Sequence[PastIncident],
    known: Sequence[PastIncident],
    taxonomy: Taxonomy,
    checks: Mapping[str, Check],
    held: Collection[str] = (),
) -> dict[str, str]:
    """The label that each is given by its title and description, and by what is known of other threads. Those `held` were named right before, and keep
    their own label where it is as good as the first."""
    nearest = Nearest.of(taxonomy, known)
    same: dict[str, set[str]] = defaultdict(set)
    for one in known:
        same[_thread(one)].add(one.id)
    found: dict[str, str] = {}
    for one in asked:
        ranked = classify(f"{one.title}\n{one.description}", taxonomy, nearest.without({one.id, *same[_thread(one)]}), checks, NO_TIME)
        label, p = ranked[0]
        found[one.id] = one.label if one.id in held and dict(ranked).get(one.label, 0.0) >= AS_GOOD * p else label
    return found


def compared(asked: Sequence[PastIncident], before: Mapping[str, str], after: Mapping[str, str], new: Sequence[PastIncident]) -> Replay:
    """What two replays of the same incidents differ in."""
    right = {one.id: (before[one.id] == one.label, after[one.id] == one.label) for one in asked}
    lost = [_lost(one, after[one.id], new) for one in asked if right[one.id] == (True, False)]
    return Replay(
        len(asked),
        sum(was for was, _ in right.values()),
        sum(now for _, now in right.values()),
        tuple(lost),
        tuple(name for name, how in right.items() if how == (False, True)),
    )


def _lost(one: PastIncident, taken_for: str, new: Sequence[PastIncident]) -> LostIncident:
    texts = {other.id: other.text for other in new if other.label == taken_for}
    scores = Corpus.of(texts).scores(one.text) if texts else {}
    return LostIncident(one.id, one.label, taken_for, max(sorted(scores), key=lambda name: scores[name], default=""))


def _thread(one: PastIncident) -> str:
    return one.source_url or one.id
