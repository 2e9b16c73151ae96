"""A bare model's answers, one question at a time, for comparison with RackMedic. Prompts are the benchmark's own; open
causes use RackMedic's `read` question. An answer of the wrong shape is wrong; an unanswered question is not counted.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final, Literal, TypeVar

from graph.model.endpoint import EndpointFailure
from graph.model.prompts import build_question
from graph.model.reasoner import DeclinedAnswer, PromptMaterial, ReadingChoices, ReportExtraction
from tests.bench.model.endpoint import Typed, schema_of
from tests.bench.model.endpoint import read as read_answer
from tests.bench.questions.arms import PURSE, Knowledge
from tests.bench.questions.catalogue import HERE, Attribution, Extraction, Need, Questions, Sentence, load_site, options_of
from tests.bench.questions.endpoint import Heard
from tests.bench.questions.score import Answers, Attributed, Extracted, Look
from tools.checks import CHECKS

UNUSABLE: Final = "unusable"
Question = Extraction | Need | Sentence | Attribution
A = TypeVar("A", bound=Typed)


class ExtractAnswer(Typed):
    """The answer to `questions/extract.md`."""

    hosts: list[str]
    port: str
    job: str
    act: Literal["yes", "no"]


class LookAnswer(Typed):
    """The answer to `questions/look.md`."""

    look: str
    hosts: list[str]
    device: str


class DraftAnswer(Typed):
    """The answer to `questions/draft.md`."""

    yaml: str


class ChooseAnswer(Typed):
    """The answer to `questions/choose.md`."""

    cause: str


@dataclass(frozen=True, slots=True)
class Put:
    """One question to a model: prompt, choices, and data."""

    prompt: str
    offered: dict[str, list[str]]
    data: dict[str, str]
    enums: dict[str, list[str]] = field(default_factory=dict)


def put_of(question: Question, knowledge: Knowledge) -> Put:
    """Return the question without any truth."""
    hosts = sorted(load_site().hosts)
    if isinstance(question, Extraction):
        situation = (
            "the message opens a thread" if question.given.place == "mention" else "the message is said in the thread of an incident"
        )
        return Put("extract", {"Situation": [situation], "Hosts": hosts}, {"Message": question.text}, {"hosts": hosts})
    if isinstance(question, Need):
        looks = [f"{name}  {check.asks}" for name, check in CHECKS.items()]
        return Put("look", {"Looks": looks, "Hosts": hosts}, {"Need": question.text}, {"hosts": hosts})
    if isinstance(question, Sentence):
        fact = [f"key {question.given.key}", f"kind {question.given.fact}"]
        data = {"Sentence": question.text, "Output": question.given.shown}
        return Put("draft", {"Command": list(question.given.command), "Fact": fact}, data)
    causes = [f"{label}  {knowledge.taxonomy.get_title(label)}" for label in options_of(question)]
    return Put("choose", {"Causes": causes}, {"Report": question.text})


async def directly(questions: Questions, knowledge: Knowledge, heard: Heard) -> Answers:
    """Ask all questions concurrently."""
    asking = _Asking(knowledge, heard)
    extractions, needs = map(asking.extraction, questions.extractions), map(asking.need, questions.needs)
    await asyncio.gather(*extractions, *needs, *map(asking.sentence, questions.sentences), *map(asking.cause, questions.attributions))
    return asking.found


class _Asking:
    """One run and its answers so far."""

    def __init__(self, knowledge: Knowledge, heard: Heard) -> None:
        self._knowledge, self._heard, self._model = knowledge, heard, heard.reasoner()
        self.found = Answers()

    async def extraction(self, one: Extraction) -> None:
        if said := await self._answer(one, ExtractAnswer(hosts=[], port=UNUSABLE, job="", act="no")):
            self.found.extracted[one.id] = Extracted(frozenset(said.hosts), said.port.strip(), said.job.strip(), said.act == "yes")

    async def need(self, one: Need) -> None:
        if said := await self._answer(one, LookAnswer(look="", hosts=[], device="")):
            self.found.looks[one.id] = Look(_id(said.look), frozenset(said.hosts), said.device.strip())

    async def sentence(self, one: Sentence) -> None:
        if said := await self._answer(one, DraftAnswer(yaml="")):
            self.found.drafts[one.id] = said.yaml

    async def cause(self, one: Attribution) -> None:
        reading = self._model.extract_report(PURSE, PromptMaterial(one.text), ReadingChoices((), self._knowledge.titles()))
        read, said = await asyncio.gather(reading, self._answer(one, ChooseAnswer(cause=UNUSABLE)))
        if (ranked := _ranked(read)) or said:
            self.found.attributed[one.id] = Attributed(ranked, _id(said.cause) if said else "")

    async def _answer(self, one: Question, unusable: A) -> A | None:
        """Return the typed answer, `unusable` for a malformed one, or None without an answer."""
        put = put_of(one, self._knowledge)
        said = await self._heard.ask(
            build_question(put.prompt, put.offered, put.data, HERE), put.prompt, schema_of(type(unusable), put.enums)
        )
        return None if isinstance(said, EndpointFailure) else read_answer(type(unusable), said.text) or unusable


def _ranked(reading: ReportExtraction | DeclinedAnswer) -> tuple[str, ...]:
    """Return the named causes, best first; a placeholder for none or an unusable answer; empty without an answer."""
    if isinstance(reading, ReportExtraction):
        return tuple(label for label, _ in reading.causes) or (UNUSABLE,)
    return (UNUSABLE,) if "cannot be used" in reading.reason else ()


def _id(said: str) -> str:
    """Return an id without its title."""
    return said.split(" ")[0]
