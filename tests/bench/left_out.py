"""The product's own parts with something left out of them, for ablations: a model that is not asked everything, a fleet without parallel looks."""

from collections.abc import Collection, Sequence

from graph.model.reasoner import BriefGuess, Choices, Declined, IntentGuess, Judgement, Ranking, Reasoner, Spent
from graph.state import Brief, Hypothesis
from tools.fleet.answers import Ask, Seen, Wave
from tools.fleet.fleet import Fleet

LEFT_OUT = "left out of this run"


class Partly:
    """A reasoner that is not asked some questions."""

    def __init__(self, model: Reasoner, declines: Collection[str] = ()) -> None:
        self._model, self._declines = model, declines

    async def brief(self, incident: str, text: str, hosts: Sequence[str]) -> BriefGuess | Declined:
        return Declined(LEFT_OUT) if "brief" in self._declines else await self._model.brief(incident, text, hosts)

    async def rank(self, incident: str, brief: Brief, facts_digest: str, labels: Sequence[str]) -> Ranking | Declined:
        return Declined(LEFT_OUT) if "rank" in self._declines else await self._model.rank(incident, brief, facts_digest, labels)

    async def judge(self, incident: str, hypothesis: Hypothesis, facts: Sequence[str]) -> Judgement | Declined:
        return Declined(LEFT_OUT) if "judge" in self._declines else await self._model.judge(incident, hypothesis, facts)

    async def questions(self, incident: str, brief: Brief, facts_digest: str, ruled_out: Sequence[str]) -> tuple[str, ...] | Declined:
        return (
            Declined(LEFT_OUT) if "questions" in self._declines else await self._model.questions(incident, brief, facts_digest, ruled_out)
        )

    async def intent(self, incident: str, text: str, choices: Choices) -> IntentGuess | Declined:
        return Declined(LEFT_OUT) if "intent" in self._declines else await self._model.intent(incident, text, choices)

    def spent(self, incident: str) -> Spent:
        return self._model.spent(incident)


class OneAtATime(Fleet):
    """One look after another, one host after another: the makespan is the sum."""

    async def look(
        self, incident: str, asks: Sequence[Ask], seen: Seen | None = None, *, fresh: bool = False, permitted: bool = False
    ) -> Wave:
        """See `Fleet.look`. Checks of several hosts together stay together."""
        groups: dict[tuple[str, str], list[Ask]] = {}
        for ask in asks:
            groups.setdefault(("" if self.checks[ask.check].together else ask.host, ask.check), []).append(ask)
        waves = []
        for group in groups.values():
            waves.append(await super().look(incident, group, seen, fresh=fresh, permitted=permitted))
        return Wave(
            tuple(answer for wave in waves for answer in wave.answers),
            sum(wave.check_seconds for wave in waves),
            sum(wave.makespan_seconds for wave in waves),
            sum(wave.exclusive_gpu_seconds for wave in waves),
        )
