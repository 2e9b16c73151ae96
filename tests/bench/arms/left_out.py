"""Reduced parts of the product for ablations: a model that is not asked everything, a fleet without parallel checks."""

from collections.abc import Collection, Sequence

from graph.model.reasoner import (
    DeclinedAnswer,
    IdeaChoices,
    Ideas,
    IntentChoices,
    IntentGuess,
    ModelSpend,
    Objection,
    PromptMaterial,
    ReadingChoices,
    Reasoner,
    ReportExtraction,
)
from tools.fleet.answers import AnswerCallback, CheckRequest, FleetAnswers
from tools.fleet.fleet import Fleet

LEFT_OUT = "left out of this run"


class Partly:
    """A reasoner that declines some questions."""

    def __init__(self, model: Reasoner, declines: Collection[str] = ()) -> None:
        self._model, self._declines = model, declines

    async def extract_report(self, incident: str, material: PromptMaterial, choices: ReadingChoices) -> ReportExtraction | DeclinedAnswer:
        name = "findings" if material.findings else "report"
        return DeclinedAnswer(LEFT_OUT) if name in self._declines else await self._model.extract_report(incident, material, choices)

    async def propose_ideas(
        self, incident: str, material: PromptMaterial, findings: Sequence[str], choices: IdeaChoices
    ) -> Ideas | DeclinedAnswer:
        return (
            DeclinedAnswer(LEFT_OUT)
            if "explore" in self._declines
            else await self._model.propose_ideas(incident, material, findings, choices)
        )

    async def critique_claims(
        self, incident: str, claims: Sequence[str], findings: Sequence[str]
    ) -> tuple[Objection, ...] | DeclinedAnswer:
        return DeclinedAnswer(LEFT_OUT) if "critique" in self._declines else await self._model.critique_claims(incident, claims, findings)

    async def classify_intent(self, incident: str, text: str, choices: IntentChoices) -> IntentGuess | DeclinedAnswer:
        return DeclinedAnswer(LEFT_OUT) if "intent" in self._declines else await self._model.classify_intent(incident, text, choices)

    def get_spend(self, incident: str) -> ModelSpend:
        return self._model.get_spend(incident)


class OneAtATime(Fleet):
    """One check after another, one host after another: the makespan is the sum."""

    async def run_checks(
        self,
        incident: str,
        asks: Sequence[CheckRequest],
        seen: AnswerCallback | None = None,
        *,
        fresh: bool = False,
        permitted: bool = False,
    ) -> FleetAnswers:
        """Run each check alone. Checks that need several hosts together keep them."""
        groups: dict[tuple[str, str], list[CheckRequest]] = {}
        for ask in asks:
            groups.setdefault(("" if self.checks[ask.check].together else ask.host, ask.check), []).append(ask)
        waves = []
        for group in groups.values():
            waves.append(await super().run_checks(incident, group, seen, fresh=fresh, permitted=permitted))
        return FleetAnswers(
            tuple(answer for wave in waves for answer in wave.answers),
            sum(wave.check_seconds for wave in waves),
            sum(wave.makespan_seconds for wave in waves),
            sum(wave.exclusive_gpu_seconds for wave in waves),
        )
