"""The only asker of a language model: six questions, each answered with a typed value or declined with a sentence.

Rules it keeps: a model chooses among ids it was given and never writes a command; an answer that names anything else is refused
whole; nothing a provider does raises out of here; an incident's budget is kept over turns and processes; an endpoint that keeps
failing is left alone for a while; no secret goes out in a question, and none that a model makes up or got elsewhere comes in with an answer.
"""

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from graph.model.budget import Budget, MemoryBook, Price, SpendBook, estimate, price_of
from graph.model.endpoint import MOST_OUT, Answering, Endpoint, Trouble
from graph.model.prompts import ModelQuestion, ask
from graph.model.reasoner import BriefGuess, Choices, Declined, IntentGuess, Judgement, PastGuess, Ranking, Spent
from graph.model.recorded import Recorded
from graph.state import Brief, Hypothesis
from kb.redact import cleaned
from kb.taxonomy.labels import SYMPTOMS

MOST_TEXT, MOST_DIGEST, MOST_FACTS, MOST_HOSTS, MOST_LABELS = 8_000, 6_000, 60, 100, 80
MOST_MESSAGE, MOST_SUMMARY, MOST_TITLE = 2_000, 600, 80
LINE = 240
T = TypeVar("T")
A = TypeVar("A", bound="ModelAnswer")


class ModelAnswer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class BriefAnswer(ModelAnswer):
    symptoms: list[str] = Field(max_length=20)
    hosts: list[str]
    job: str = Field(max_length=120)
    signatures: list[str] = Field(max_length=10)


class RankAnswer(ModelAnswer):
    labels: list[str]


class JudgeAnswer(ModelAnswer):
    verdict: Literal["confirmed", "rejected", "inconclusive"]
    because: str = Field(max_length=1_000)
    cites: list[int]


class QuestionsAnswer(ModelAnswer):
    questions: list[str] = Field(max_length=10)


class IntentAnswer(ModelAnswer):
    intent: str
    hosts: list[str]
    labels: list[str]
    check: str
    remedy: str


class PastAnswer(ModelAnswer):
    kind: Literal["incident", "other"]
    label: str
    cause: int
    fix: int
    summary: str = Field(max_length=2_000)
    branch: str = ""
    title: str = Field("", max_length=500)
    lasting: list[int] = Field(default_factory=list, max_length=50)


class Unheard(Exception):
    """The answer is not of the asked shape, or names what was not offered. Says what."""


@dataclass(slots=True)
class Breaker:
    """After `trips` failures of the provider in a row nobody asks for `rest` seconds; then one question tries it."""

    trips: int = 3
    rest: float = 60.0
    clock: Callable[[], float] = time.monotonic
    _failures: int = field(default=0)
    _until: float = field(default=0.0)
    _why: str = field(default="")

    def open(self) -> str:
        """Why it is not asked now; empty when it may be."""
        return f"the model rests after failing {self._failures} times in a row: {self._why}" if self.clock() < self._until else ""

    def note(self, trouble: Trouble | None) -> None:
        if trouble is None:
            self._failures, self._until = 0, 0.0
        elif trouble.provider:
            self._failures += 1
            self._why = trouble.why
            if self._failures >= self.trips:
                self._until = self.clock() + self.rest


class Model:
    """A `graph.model.reasoner.Reasoner` over one endpoint."""

    def __init__(
        self,
        endpoint: Answering,
        *,
        budget: Budget | None = None,
        book: SpendBook | None = None,
        price: Price | None = None,
        breaker: Breaker | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._budget = budget or Budget()
        self._book = book or MemoryBook()
        self._price = price or price_of(endpoint.model)
        self._breaker = breaker or Breaker()
        self._spent: dict[str, Spent] = {}

    async def aclose(self) -> None:
        await self._endpoint.aclose()

    async def load(self, incident: str) -> None:
        """Learn what the incident has cost in other processes and before a restart; `spent` then knows."""
        self._spent[incident] = await self._book.load(incident)

    def spent(self, incident: str) -> Spent:
        return self._spent.get(incident, Spent())

    async def brief(self, incident: str, text: str, hosts: Sequence[str]) -> BriefGuess | Declined:
        names = likely_hosts(text, hosts)
        asked = ask("brief", {"Symptoms": sorted(SYMPTOMS), "Hosts": names}, {"Report": shorten(text, MOST_TEXT)})
        shape = _shape(symptoms=_list_of(sorted(SYMPTOMS)), hosts=_list_of(names), job=_TEXT, signatures=_list_of(None))

        def read(raw: str) -> BriefGuess:
            answer = _parse(BriefAnswer, raw)
            offered(answer.symptoms, SYMPTOMS, "symptom")
            offered(answer.hosts, names, "host")
            said = " ".join(text.split())
            quoted = [one for line in answer.signatures[:5] if (one := " ".join(line.split())[:LINE]) and one in said]
            job = answer.job.strip() if answer.job.strip() in text else ""
            return BriefGuess(tuple(dict.fromkeys(answer.symptoms)), tuple(dict.fromkeys(answer.hosts)), job, tuple(quoted))

        return await self._ask(incident, "brief", asked, shape, read)

    async def rank(self, incident: str, brief: Brief, facts_digest: str, labels: Sequence[str]) -> Ranking | Declined:
        names = list(labels[:MOST_LABELS])
        asked = ask("rank", {"Causes": names}, _incident(brief, facts_digest))

        def read(raw: str) -> Ranking:
            answer = _parse(RankAnswer, raw)
            offered(answer.labels, names, "cause")
            return Ranking(tuple(dict.fromkeys(answer.labels)))

        return await self._ask(incident, "rank", asked, _shape(labels=_list_of(names)), read)

    async def judge(self, incident: str, hypothesis: Hypothesis, facts: Sequence[str]) -> Judgement | Declined:
        lines = [" ".join(fact.split())[:LINE] for fact in facts[:MOST_FACTS]]
        numbered = "\n".join(f"{at}: {line}" for at, line in enumerate(lines))
        claim = f"{hypothesis.label} of {', '.join(hypothesis.devices or hypothesis.hosts) or 'the job'}"
        asked = ask("judge", {"Suspected cause": [claim]}, {"Findings": numbered})
        verdicts = {"type": "string", "enum": ["confirmed", "rejected", "inconclusive"]}
        shape = _shape(verdict=verdicts, because=_TEXT, cites={"type": "array", "items": {"type": "integer"}})

        def read(raw: str) -> Judgement:
            answer = _parse(JudgeAnswer, raw)
            offered(answer.cites, range(len(lines)), "finding")
            return Judgement(answer.verdict, " ".join(answer.because.split())[:300], tuple(sorted(set(answer.cites))))

        return await self._ask(incident, "judge", asked, shape, read)

    async def questions(self, incident: str, brief: Brief, facts_digest: str, ruled_out: Sequence[str]) -> tuple[str, ...] | Declined:
        asked = ask("questions", {"Ruled out": list(ruled_out[:MOST_LABELS])}, _incident(brief, facts_digest))

        def read(raw: str) -> tuple[str, ...]:
            kept = [" ".join(one.split())[:LINE] for one in _parse(QuestionsAnswer, raw).questions]
            asked_for = tuple(one for one in kept if one.endswith("?"))[:3]
            if not asked_for:
                raise Unheard("it asks nothing")
            return asked_for

        return await self._ask(incident, "questions", asked, _shape(questions=_list_of(None)), read)

    async def intent(self, incident: str, text: str, choices: Choices) -> IntentGuess | Declined:
        names = likely_hosts(text, choices.hosts)
        meanings = [f"{intent}: {means}" for intent, means in choices.intents.items()]
        lists = {"Intents": list(choices.intents), "Meanings": meanings, "Hosts": names, "Causes": list(choices.labels)}
        lists |= {"Checks": list(choices.checks), "Remedies": list(choices.remedies)}
        asked = ask("intent", lists, {"Message": shorten(text, MOST_MESSAGE)})
        shape = _shape(
            intent={"type": "string", "enum": list(choices.intents)},
            hosts=_list_of(names),
            labels=_list_of(choices.labels),
            check={"type": "string", "enum": ["", *choices.checks]},
            remedy={"type": "string", "enum": ["", *choices.remedies]},
        )

        def read(raw: str) -> IntentGuess:
            answer = _parse(IntentAnswer, raw)
            offered([answer.intent], choices.intents, "intent")
            offered(answer.hosts, names, "host")
            offered(answer.labels, choices.labels, "cause")
            offered([answer.check], ["", *choices.checks], "check")
            offered([answer.remedy], ["", *choices.remedies], "remedy")
            hosts, labels = tuple(dict.fromkeys(answer.hosts)), tuple(dict.fromkeys(answer.labels))
            return IntentGuess(answer.intent, hosts, labels, answer.check, answer.remedy)

        return await self._ask(incident, "intent", asked, shape, read)

    async def past(self, purse: str, text: str, sentences: Sequence[str], labels: Mapping[str, str]) -> PastGuess | Declined:
        """What a past incident was, among `labels` (id → title). `sentences` are numbered from 0."""
        asked = past_question(text, sentences, labels)
        branches = dict.fromkeys(label.rpartition(".")[0] for label in labels)
        number = {"type": "integer"}
        kind, ids = {"type": "string", "enum": ["incident", "other"]}, {"type": "string", "enum": ["", *labels]}

        def read(raw: str) -> PastGuess:
            answer = _parse(PastAnswer, raw)
            offered([answer.label], ["", *labels], "cause")
            offered([answer.cause, answer.fix], range(-1, len(sentences)), "sentence")
            offered(answer.lasting, range(len(sentences)), "sentence")
            offered([answer.branch], ["", *branches], "branch")
            summary, title = (" ".join(said.split()) for said in (answer.summary, answer.title))
            about = (answer.label, answer.cause, answer.fix, summary[:MOST_SUMMARY], answer.branch, title[:MOST_TITLE])
            return PastGuess(answer.kind == "incident", *about, tuple(dict.fromkeys(answer.lasting)))

        branch = {"type": "string", "enum": ["", *branches]}
        numbers = {"type": "array", "items": number}
        shape = _shape(kind=kind, label=ids, cause=number, fix=number, summary=_TEXT, branch=branch, title=_TEXT, lasting=numbers)
        return await self._ask(purse, "label", asked, shape, read)

    async def _ask(
        self, incident: str, name: str, asked: ModelQuestion, shape: Mapping[str, Any], read: Callable[[str], T]
    ) -> T | Declined:
        """Ask within the budget; whatever goes wrong on the way is one sentence."""
        tokens = estimate(asked.size)
        if why := self._breaker.open() or await self._over_budget(incident, tokens):
            return Declined(why)
        await self._pay(incident, Spent(calls=1))  # before asking, so that questions asked at once do not all see room
        answer = await self._endpoint.ask(ModelQuestion(cleaned(asked.system), cleaned(asked.user)), name, shape)
        self._breaker.note(answer if isinstance(answer, Trouble) else None)
        cost = self._price.of(answer.tokens_in, answer.tokens_out)
        await self._pay(incident, Spent(0, answer.tokens_in, answer.tokens_out, cost))
        if isinstance(answer, Trouble):
            return Declined(answer.why)
        try:
            return read(cleaned(answer.text))
        except Unheard as e:
            return Declined(f"the model's answer cannot be used: {e}")

    async def _over_budget(self, incident: str, tokens: int) -> str:
        if incident not in self._spent:
            await self.load(incident)
        price = self._price.of(tokens, MOST_OUT)
        return self._budget.refuses(self._spent[incident], price, tokens) or await self._book.refuses(incident, price)

    async def _pay(self, incident: str, spent: Spent) -> None:
        self._spent[incident] = await self._book.add(incident, spent)


_TEXT = {"type": "string"}


def past_question(text: str, sentences: Sequence[str], labels: Mapping[str, str]) -> ModelQuestion:
    """What `Model.past` sends, so that what a build costs can be told before anything is sent."""
    numbered = "\n".join(f"{at}: {one}" for at, one in enumerate(sentences))
    causes = [f"{label}  {title}" for label, title in labels.items()]
    return ask("label", {"Causes": causes}, {"Incident": shorten(text, MOST_TEXT), "Sentences": numbered})


def offered(named: Iterable[Any], among: Collection[Any], what: str) -> None:
    """Refuse an answer that names something it was not given."""
    for one in named:
        if one not in among:
            raise Unheard(f"{what} {str(one)[:60]!r} was not among those offered")


def likely_hosts(text: str, hosts: Sequence[str]) -> list[str]:
    """All hosts of a small site; of a large one those whose name or number the text mentions."""
    if len(hosts) <= MOST_HOSTS:
        return list(hosts)
    words = set(re.findall(r"[a-z0-9]+", text.lower()))
    return [host for host in hosts if host.lower() in text.lower() or set(re.findall(r"[0-9]+", host)[-1:]) & words][:MOST_HOSTS]


def shorten(text: str, most: int) -> str:
    """The beginning and the end of a long text."""
    if len(text) <= most:
        return text
    head, tail = most * 2 // 3, most // 3
    return f"{text[:head]}\n[{len(text) - head - tail} characters left out]\n{text[-tail:]}"


def _incident(brief: Brief, facts_digest: str) -> dict[str, str]:
    symptoms = f"Symptoms: {', '.join(brief.symptoms) or 'not said'}"
    return {"Report": f"{symptoms}\n{shorten(brief.text, MOST_DIGEST)}", "Findings": shorten(facts_digest, MOST_DIGEST) or "none"}


def _shape(**properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _list_of(ids: Sequence[str] | None) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string", "enum": list(ids)} if ids else _TEXT}


def _parse(shape: type[A], raw: str) -> A:
    text = raw.strip().removeprefix("```json").removeprefix("```").removesuffix("```").strip()
    try:
        return shape.model_validate_json(text)
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise Unheard(f"it is not of the asked shape ({where}: {first['msg']})") from e


def open_model(
    url: str,
    key: str,
    name: str,
    *,
    seconds: float = 30.0,
    budget: Budget | None = None,
    book: SpendBook | None = None,
    recording: Path | None = None,
) -> Model | None:
    """The model that the settings name; None where they name none (neither an endpoint nor a key). With a `recording` what it holds is not asked
    again, and what is asked is added to it; then there may be no endpoint, and only what it holds is answered. Raises NoRecording."""
    if not (url or key):
        return Model(Recorded(None, name, recording), budget=budget, book=book) if recording else None
    endpoint = Endpoint(url, key, name, seconds=seconds)
    return Model(Recorded(endpoint, name, recording, key) if recording else endpoint, budget=budget, book=book)
