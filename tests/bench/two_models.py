"""Two models that know what is true of a case: one says it at every question, one says the opposite. No real model is worse than the second or
better than the first at what it is asked, so they show how much the product lets any model decide.
"""

from collections.abc import Sequence

from graph.reasoner import BriefGuess, Declined, Judgement, Ranking, Spent
from graph.state import Brief, Hypothesis
from tests.bench.arm import Stage
from tests.bench.truth import culprit


class Sage:
    """Right at every question."""

    def __init__(self, stage: Stage) -> None:
        assert stage.cluster is not None  # the runner hands it to arms that see the cluster
        causes = [culprit(row) for row in stage.cluster.happenings]
        self._labels = frozenset(row.label for row in causes)
        self._hosts = frozenset(host for row in causes for host in row.hosts)
        self._calls = 0

    async def brief(self, incident: str, text: str, hosts: Sequence[str]) -> BriefGuess | Declined:
        self._calls += 1
        return BriefGuess(hosts=tuple(host for host in hosts if self.holds(host in self._hosts)))

    async def rank(self, incident: str, brief: Brief, facts_digest: str, labels: Sequence[str]) -> Ranking | Declined:
        self._calls += 1
        return Ranking(tuple(label for label in labels if self.holds(label in self._labels)))

    async def judge(self, incident: str, hypothesis: Hypothesis, facts: Sequence[str]) -> Judgement | Declined:
        self._calls += 1
        guilty = self.holds(hypothesis.label in self._labels)
        return Judgement("confirmed" if guilty else "rejected", "I know", tuple(range(len(facts))))

    async def questions(self, incident: str, brief: Brief, facts_digest: str, ruled_out: Sequence[str]) -> tuple[str, ...] | Declined:
        return Declined("it knows")

    def spent(self, incident: str) -> Spent:
        return Spent(self._calls)

    def holds(self, true: bool) -> bool:
        """What it says of what is true."""
        return true


class Liar(Sage):
    """Wrong at every question."""

    def holds(self, true: bool) -> bool:
        """See `Sage.holds`."""
        return not true
