"""The only asker of a language model: six questions, each answered with a typed value or declined with a sentence.

Rules it keeps: a model chooses among ids it was given and never writes a command; an answer that names anything else is refused
whole; nothing a provider does raises out of here; an incident's budget is kept over turns and processes; an endpoint that keeps
failing is left alone for a while; no secret goes out in a question, and none that a model makes up or got elsewhere comes in with an answer.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from graph.model.budget import Budget, MemoryBook, Price, SpendBook, estimate, price_of
from graph.model.endpoint import MOST_OUT, Answering, Endpoint, Trouble
from graph.model.heard import agreed, ideas_of, objections_of, outvoted, reading_of, unique
from graph.model.prompts import ModelQuestion, ask
from graph.model.reasoner import (
    Choices,
    Declined,
    IdeaChoices,
    Ideas,
    IntentGuess,
    Judgement,
    Material,
    Objection,
    PastGuess,
    Reading,
    Spent,
)
from graph.model.recorded import Recorded
from graph.model.shapes import (
    NUMBER,
    SHARE,
    TEXT,
    CritiqueAnswer,
    ExploreAnswer,
    IntentAnswer,
    JudgeAnswer,
    PastAnswer,
    ReadAnswer,
    Unheard,
    list_of,
    offered,
    one_of,
    parse,
    record,
)
from graph.model.shown import MOST_HOSTS, MOST_TEXT, fitting, in_blocks, likely_hosts, numbered, one_line_each, shorten, to_fit
from graph.state import Hypothesis
from kb.redact import cleaned, visible
from kb.taxonomy.labels import CATEGORIES, SYMPTOMS

MOST_LABELS = 250
MOST_MESSAGE, MOST_SUMMARY, MOST_TITLE = 2_000, 600, 80
CONTEXT = 32_000
"""Tokens that a model's window holds, where nobody says."""
SAMPLES_PER_QUESTION = 1  # how often the reading and the critique are asked; with more, the majority of the answers is taken
A_TOKEN, INSTRUCTIONS = 3, 4_500
"""Characters of a token, rather too few than too many; and of the prompts around what is asked."""
LEAST_ROOM = 2_000
T = TypeVar("T")


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
        context: int = CONTEXT,
        samples: int = SAMPLES_PER_QUESTION,
    ) -> None:
        """`context`: tokens that the model's window holds; `samples`: how often what weighs most is asked, to take what most answers say."""
        self._endpoint = endpoint
        self._room, self._samples = max(LEAST_ROOM, (context - MOST_OUT) * A_TOKEN - INSTRUCTIONS), samples
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

    async def read(self, incident: str, material: Material, hosts: Sequence[str], causes: Mapping[str, str]) -> Reading | Declined:
        names = likely_hosts(material.report, hosts)
        labels = fitting([f"{label}  {title}" for label, title in causes.items()][:MOST_LABELS], self._room // 2)
        ids = [line.partition("  ")[0] for line in labels]
        categories = [f"{name}  {title}" for name, title in CATEGORIES.items()]
        lists = {"Symptoms": sorted(SYMPTOMS), "Hosts": names, "Categories": categories, "Causes": labels}
        asked = self._question("read", lists, in_blocks(material))
        shape = record(
            symptoms=list_of(sorted(SYMPTOMS)),
            hosts=list_of(names),
            job=TEXT,
            times=list_of(None),
            signatures=list_of(None),
            category=one_of(CATEGORIES),
            causes=list_of(record(cause=one_of(ids) if ids else TEXT, p=SHARE)),
            outside=TEXT,
        )

        def read(raw: str) -> Reading:
            answer = parse(ReadAnswer, raw)
            offered(answer.symptoms, SYMPTOMS, "symptom")
            offered(answer.hosts, names, "host")
            offered([answer.category], CATEGORIES, "category")
            offered([row.cause for row in answer.causes], ids, "cause")
            return reading_of(answer, material)

        answers = await self._sampled(incident, "read", asked, shape, read)
        return answers if isinstance(answers, Declined) else agreed(answers)

    async def judge(self, incident: str, hypothesis: Hypothesis, facts: Sequence[str]) -> Judgement | Declined:
        lines = one_line_each(facts)
        claim = f"{hypothesis.label} of {', '.join(hypothesis.devices or hypothesis.hosts) or 'the job'}"
        asked = self._question("judge", {"Suspected cause": [claim]}, {"Findings": numbered(lines)})
        shape = record(verdict=one_of(("confirmed", "rejected", "inconclusive")), because=TEXT, cites=list_of(NUMBER))

        def read(raw: str) -> Judgement:
            answer = parse(JudgeAnswer, raw)
            offered(answer.cites, range(len(lines)), "finding")
            return Judgement(answer.verdict, " ".join(answer.because.split())[:300], tuple(sorted(set(answer.cites))))

        return await self._ask(incident, "judge", asked, shape, read)

    async def explore(self, incident: str, material: Material, findings: Sequence[str], known: IdeaChoices) -> Ideas | Declined:
        lines, hosts = one_line_each(findings), list(known.hosts[:MOST_HOSTS])
        looks = fitting([f"{look}  {asks}" for look, asks in known.looks.items()], self._room // 3)
        branches = [f"{branch}  {title}" for branch, title in known.branches.items()]
        lists = {"Ruled out": list(known.ruled_out[:MOST_LABELS]), "Earlier ideas": list(known.earlier), "Hosts": hosts}
        lists |= {"Looks": looks, "Branches": fitting(branches, self._room // 3)}
        asked = self._question("explore", lists, {**in_blocks(material), "Findings": numbered(lines) or "none"})
        ids = {name: [line.partition("  ")[0] for line in lists[name]] for name in ("Looks", "Branches")}
        idea = record(
            title=TEXT,
            cause=TEXT,
            branch=one_of(ids["Branches"]) if ids["Branches"] else TEXT,
            cites=list_of(NUMBER),
            quotes=list_of(None),
            confirms=TEXT,
            refutes=TEXT,
            hosts=list_of(hosts),
            looks=list_of(ids["Looks"]),
            suggestions=list_of(None),
            standing=one_of(("open", "supported", "refuted")),
        )

        def read(raw: str) -> Ideas:
            answer = parse(ExploreAnswer, raw)
            for row in answer.ideas:
                offered(row.cites, range(len(lines)), "finding")
                offered(row.hosts, hosts, "host")
                offered(row.looks, ids["Looks"], "look")
                offered([row.branch], ["", *ids["Branches"]], "branch")
            return ideas_of(answer, material)

        return await self._ask(incident, "explore", asked, record(ideas=list_of(idea), questions=list_of(None)), read)

    async def critique(self, incident: str, claims: Sequence[str], findings: Sequence[str]) -> tuple[Objection, ...] | Declined:
        lines, said = one_line_each(findings), one_line_each(claims)
        asked = self._question("critique", {}, {"Claims": numbered(said), "Findings": numbered(lines) or "none"})
        verdicts = one_of(("holds", "doubtful", "contradicted"))
        objection = record(claim=NUMBER, verdict=verdicts, because=TEXT, cites=list_of(NUMBER))

        def read(raw: str) -> tuple[Objection, ...]:
            answer = parse(CritiqueAnswer, raw)
            offered([row.claim for row in answer.objections], range(len(said)), "claim")
            for row in answer.objections:
                offered(row.cites, range(len(lines)), "finding")
            return objections_of(answer, len(said))

        answers = await self._sampled(incident, "critique", asked, record(objections=list_of(objection)), read)
        return answers if isinstance(answers, Declined) else outvoted(answers)

    async def intent(self, incident: str, text: str, choices: Choices) -> IntentGuess | Declined:
        names = likely_hosts(text, choices.hosts)
        meanings = [f"{intent}: {means}" for intent, means in choices.intents.items()]
        lists = {"Intents": list(choices.intents), "Meanings": meanings, "Hosts": names, "Causes": list(choices.labels)}
        lists |= {"Checks": list(choices.checks), "Remedies": list(choices.remedies)}
        asked = self._question("intent", lists, {"Message": shorten(text, MOST_MESSAGE)})
        shape = record(
            intent=one_of(choices.intents),
            hosts=list_of(names),
            labels=list_of(choices.labels),
            check=one_of(["", *choices.checks]),
            remedy=one_of(["", *choices.remedies]),
        )

        def read(raw: str) -> IntentGuess:
            answer = parse(IntentAnswer, raw)
            offered([answer.intent], choices.intents, "intent")
            offered(answer.hosts, names, "host")
            offered(answer.labels, choices.labels, "cause")
            offered([answer.check], ["", *choices.checks], "check")
            offered([answer.remedy], ["", *choices.remedies], "remedy")
            return IntentGuess(answer.intent, unique(answer.hosts), unique(answer.labels), answer.check, answer.remedy)

        return await self._ask(incident, "intent", asked, shape, read)

    async def past(self, purse: str, text: str, sentences: Sequence[str], labels: Mapping[str, str]) -> PastGuess | Declined:
        """What a past incident was, among `labels` (id → title). `sentences` are numbered from 0."""
        asked = past_question(text, sentences, labels)
        branches = dict.fromkeys(label.rpartition(".")[0] for label in labels)
        kind, ids = one_of(("incident", "other")), one_of(["", *labels])

        def read(raw: str) -> PastGuess:
            answer = parse(PastAnswer, raw)
            offered([answer.label], ["", *labels], "cause")
            offered([answer.cause, answer.fix], range(-1, len(sentences)), "sentence")
            offered(answer.lasting, range(len(sentences)), "sentence")
            offered([answer.branch], ["", *branches], "branch")
            summary, title = (" ".join(said.split()) for said in (answer.summary, answer.title))
            about = (answer.label, answer.cause, answer.fix, summary[:MOST_SUMMARY], answer.branch, title[:MOST_TITLE])
            return PastGuess(answer.kind == "incident", *about, tuple(dict.fromkeys(answer.lasting)))

        shape = record(
            kind=kind,
            label=ids,
            cause=NUMBER,
            fix=NUMBER,
            summary=TEXT,
            branch=one_of(["", *branches]),
            title=TEXT,
            lasting=list_of(NUMBER),
        )
        return await self._ask(purse, "label", asked, shape, read)

    def _question(self, name: str, offers: dict[str, list[str]], texts: dict[str, str]) -> ModelQuestion:
        """What is asked, kept to the model's window: lists whole, and of the longest texts the beginning and the end."""
        lists = sum(len(line) + 3 for rows in offers.values() for line in rows)
        return ask(name, offers, to_fit(texts, self._room - lists))

    async def _sampled(
        self, incident: str, name: str, asked: ModelQuestion, shape: Mapping[str, Any], read: Callable[[str], T]
    ) -> list[T] | Declined:
        """As many answers to one question as `samples` says; those that cannot be used are left out, and it declines where none can."""
        answers = [await self._ask(incident, name, replace(asked, sample=at), shape, read) for at in range(self._samples)]
        heard = [one for one in answers if not isinstance(one, Declined)]
        return heard or next(one for one in answers if isinstance(one, Declined))

    async def _ask(
        self, incident: str, name: str, asked: ModelQuestion, shape: Mapping[str, Any], read: Callable[[str], T]
    ) -> T | Declined:
        """Ask within the budget; whatever goes wrong on the way is one sentence."""
        tokens = estimate(asked.size)
        if why := self._breaker.open() or await self._over_budget(incident, tokens):
            return Declined(why)
        await self._pay(incident, Spent(calls=1))  # before asking, so that questions asked at once do not all see room
        answer = await self._endpoint.ask(replace(asked, system=cleaned(asked.system), user=cleaned(asked.user)), name, shape)
        self._breaker.note(answer if isinstance(answer, Trouble) else None)
        cost = self._price.of(answer.tokens_in, answer.tokens_out)
        await self._pay(incident, Spent(0, answer.tokens_in, answer.tokens_out, cost))
        if isinstance(answer, Trouble):
            return Declined(visible(answer.why))
        try:
            return read(cleaned(answer.text))
        except Unheard as e:
            return Declined(visible(f"the model's answer cannot be used: {e}"))

    async def _over_budget(self, incident: str, tokens: int) -> str:
        if incident not in self._spent:
            await self.load(incident)
        price = self._price.of(tokens, MOST_OUT)
        return self._budget.refuses(self._spent[incident], price, tokens)

    async def _pay(self, incident: str, spent: Spent) -> None:
        self._spent[incident] = await self._book.add(incident, spent)


def past_question(text: str, sentences: Sequence[str], labels: Mapping[str, str]) -> ModelQuestion:
    """What `Model.past` sends, so that what a build costs can be told before anything is sent."""
    causes = [f"{label}  {title}" for label, title in labels.items()]
    return ask("label", {"Causes": causes}, {"Incident": shorten(text, MOST_TEXT), "Sentences": numbered(sentences)})


def open_model(
    url: str,
    key: str,
    name: str,
    *,
    seconds: float = 30.0,
    budget: Budget | None = None,
    book: SpendBook | None = None,
    recording: Path | None = None,
    context: int = CONTEXT,
) -> Model | None:
    """The model that the settings name; None where they name none (neither an endpoint nor a key). With a `recording` what it holds is not asked
    again, and what is asked is added to it; then there may be no endpoint, and only what it holds is answered. Raises NoRecording."""
    given: Answering | None = Endpoint(url, key, name, seconds=seconds) if url or key else None
    if recording:
        given = Recorded(given, name, recording, key)
    return Model(given, budget=budget, book=book, context=context) if given else None
