"""The product's own parts with something left out of them, for ablations: a model that is not asked everything, a fleet without parallel looks."""

from collections.abc import Collection, Mapping, Sequence

from graph.model.reasoner import (
    Choices,
    Declined,
    IdeaChoices,
    Ideas,
    IntentGuess,
    Judgement,
    Material,
    Objection,
    Reading,
    Reasoner,
    Spent,
)
from graph.state import Hypothesis
from tools.fleet.answers import Ask, Seen, Wave
from tools.fleet.fleet import Fleet

LEFT_OUT = "left out of this run"


class Partly:
    """A reasoner that is not asked some questions."""

    def __init__(self, model: Reasoner, declines: Collection[str] = ()) -> None:
        self._model, self._declines = model, declines

    async def read(self, incident: str, material: Material, hosts: Sequence[str], causes: Mapping[str, str]) -> Reading | Declined:
        name = "findings" if material.findings else "report"
        return Declined(LEFT_OUT) if name in self._declines else await self._model.read(incident, material, hosts, causes)

    async def judge(self, incident: str, hypothesis: Hypothesis, facts: Sequence[str]) -> Judgement | Declined:
        return Declined(LEFT_OUT) if "judge" in self._declines else await self._model.judge(incident, hypothesis, facts)

    async def explore(self, incident: str, material: Material, findings: Sequence[str], known: IdeaChoices) -> Ideas | Declined:
        return Declined(LEFT_OUT) if "explore" in self._declines else await self._model.explore(incident, material, findings, known)

    async def critique(self, incident: str, claims: Sequence[str], findings: Sequence[str]) -> tuple[Objection, ...] | Declined:
        return Declined(LEFT_OUT) if "critique" in self._declines else await self._model.critique(incident, claims, findings)

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
