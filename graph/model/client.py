"""The only client of language models: five questions, each answered with a typed value or declined with a sentence.

Invariants:
- A model chooses among given ids and never writes a command; an answer that names anything else is refused.
- No provider failure raises out of here.
- An incident's budget holds over turns and processes.
- A failing endpoint is not called for a while.
- Secrets are redacted from questions and from answers.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from graph.model.answer_values import (
    build_extraction,
    build_ideas,
    build_objections,
    merge_extractions,
    merge_objections,
)
from graph.model.answers import (
    BOOLEAN_SCHEMA,
    INTEGER_SCHEMA,
    PROBABILITY_SCHEMA,
    TEXT_SCHEMA,
    BadAnswer,
    CritiqueAnswer,
    ExploreAnswer,
    IntentAnswer,
    PastAnswer,
    ReadAnswer,
    build_enum_schema,
    build_list_schema,
    build_object_schema,
    parse_answer,
    require_offered,
    select_offered,
)
from graph.model.budget import Budget, InMemorySpendStore, SpendStore, TokenPrice, estimate_tokens, find_price
from graph.model.endpoint import MAX_OUTPUT_TOKENS, ChatEndpoint, EndpointFailure, OpenAIEndpoint
from graph.model.prompt_texts import (
    MAX_HOSTS,
    MAX_REPORT_CHARS,
    build_blocks,
    build_lines,
    flatten_texts,
    number_lines,
    select_fitting_rows,
    select_likely_hosts,
    shorten_text,
    shorten_texts,
)
from graph.model.prompts import ModelQuestion, build_question
from graph.model.reasoner import (
    DeclinedAnswer,
    IdeaChoices,
    Ideas,
    IntentChoices,
    IntentGuess,
    ModelSpend,
    Objection,
    PastGuess,
    PromptMaterial,
    ReadingChoices,
    ReportExtraction,
)
from graph.model.recording import RecordedEndpoint
from kb.redact import redact_once, show_invisible
from kb.taxonomy.taxonomy import CATEGORIES, SYMPTOMS

MAX_LABELS = 250
MAX_RULED_OUT = 60  # contradicted causes shown with the reason
MAX_MESSAGE_CHARS = 2_000
MAX_SUMMARY_CHARS = 600
MAX_TITLE_CHARS = 80
DEFAULT_CONTEXT_TOKENS = 32_000  # Size of the model's window where the site sets none.
SAMPLES_PER_QUESTION = 1  # how often the reading and the critique are asked; with more, the majority of the answers is taken
CHARS_PER_TOKEN = 3  # A low estimate
INSTRUCTIONS_CHARS = 4_500  # characters of the instructions around a question
MIN_OUTPUT_TOKENS = 1_500  # of an answer in a small window
RESERVED_OUTPUT_TOKENS = 1_500  # of the next answer, for which the budget must have room; few answers are longer
MIN_ROOM_CHARS = 2_000
T = TypeVar("T")


@dataclass(slots=True)
class CircuitBreaker:
    """After `trips` provider failures in a row no question is sent for `rest` seconds; then one tries again."""

    trips: int = 3
    rest: float = 60.0
    clock: Callable[[], float] = time.monotonic
    _failures: int = field(default=0)
    _until: float = field(default=0.0)
    _why: str = field(default="")

    def get_open_reason(self) -> str:
        """Return why no question may be sent now, or an empty string."""
        return f"the model rests after failing {self._failures} times in a row: {self._why}" if self.clock() < self._until else ""

    def record_result(self, failure: EndpointFailure | None) -> None:
        if failure is None:
            self._failures = 0
            self._until = 0.0
        elif failure.provider:
            self._failures += 1
            self._why = failure.why
            if self._failures >= self.trips:
                self._until = self.clock() + self.rest


class ModelReasoner:
    """A `graph.model.reasoner.Reasoner` over one endpoint."""

    def __init__(
        self,
        endpoint: ChatEndpoint,
        *,
        budget: Budget | None = None,
        spend_store: SpendStore | None = None,
        price: TokenPrice | None = None,
        breaker: CircuitBreaker | None = None,
        context: int = DEFAULT_CONTEXT_TOKENS,
        output_tokens: int = MAX_OUTPUT_TOKENS,
        samples: int = SAMPLES_PER_QUESTION,
    ) -> None:
        """
        Args:
            context: The model's window in tokens.
            output_tokens: Bound of one answer that the endpoint sets.
            samples: How often the reading and the critique are asked.
        """
        self._endpoint = endpoint
        self._output_tokens = fit_output_tokens(output_tokens, context)
        self._room = max(MIN_ROOM_CHARS, (context - self._output_tokens) * CHARS_PER_TOKEN - INSTRUCTIONS_CHARS)
        self._samples = samples
        self._budget = budget or Budget()
        self._book = spend_store or InMemorySpendStore()
        self._price = price or find_price(endpoint.model)
        self._breaker = breaker or CircuitBreaker()
        self._spent: dict[str, ModelSpend] = {}

    async def aclose(self) -> None:
        await self._endpoint.aclose()

    async def load_spend(self, incident: str) -> None:
        """Load spending of other processes and earlier runs for `get_spend`."""
        self._spent[incident] = await self._book.load_spend(incident)

    def get_spend(self, incident: str) -> ModelSpend:
        return self._spent.get(incident, ModelSpend())

    async def extract_report(self, incident: str, material: PromptMaterial, choices: ReadingChoices) -> ReportExtraction | DeclinedAnswer:
        names = select_likely_hosts(material.report, choices.hosts)
        labels = self._list_causes(choices.causes)
        check_rows = select_fitting_rows([f"{check}  {asks}" for check, asks in choices.checks.items()], self._room // 4)
        ids, checks = ([row.partition("  ")[0] for row in rows] for rows in (labels, check_rows))
        categories = [f"{name}  {title}" for name, title in CATEGORIES.items()]
        lists = {"Symptoms": sorted(SYMPTOMS), "Categories": categories, "Causes": labels}
        lists |= ({"Looks": check_rows} if checks else {}) | {"Hosts": names}
        ruled_out = {"Ruled out": "\n".join(choices.ruled_out[:MAX_RULED_OUT])} if choices.ruled_out else {}
        question = self._build_question("read", lists, {**build_blocks(material), **ruled_out})
        look_shape = build_object_schema(check=build_enum_schema(checks), hosts=build_list_schema(names), repeat=BOOLEAN_SCHEMA)
        shape = build_object_schema(
            symptoms=build_list_schema(sorted(SYMPTOMS)),
            hosts=build_list_schema(names),
            job=TEXT_SCHEMA,
            times=build_list_schema(None),
            signatures=build_list_schema(None),
            category=build_enum_schema(CATEGORIES),
            causes=build_list_schema(build_object_schema(cause=build_enum_schema(ids) if ids else TEXT_SCHEMA, p=PROBABILITY_SCHEMA)),
            outside=TEXT_SCHEMA,
            **({"looks": build_list_schema(look_shape)} if checks else {}),
        )

        def read(raw: str) -> ReportExtraction:
            answer = parse_answer(ReadAnswer, raw)
            require_offered(answer.symptoms, SYMPTOMS, "symptom")
            answer.hosts = list(select_offered(answer.hosts, names, "host"))
            require_offered([answer.category], CATEGORIES, "category")
            require_offered([cause.cause for cause in answer.causes], ids, "cause")
            require_offered([look.check for look in answer.looks], checks, "look")
            for look in answer.looks:
                look.hosts = list(select_offered(look.hosts, names, "host"))
            return build_extraction(answer, material)

        answers = await self._ask_samples(incident, "read", question, shape, read)
        return answers if isinstance(answers, DeclinedAnswer) else merge_extractions(answers)

    def _list_causes(self, causes: Mapping[str, str]) -> list[str]:
        """Return the causes as rows: sorted if all fit, so that the list is the same in every question, else the likeliest."""
        rows = [f"{label}  {title}" for label, title in causes.items()][:MAX_LABELS]
        fitting_rows = select_fitting_rows(rows, self._room // 2)
        return sorted(fitting_rows) if len(fitting_rows) == len(rows) else fitting_rows

    async def propose_ideas(
        self, incident: str, material: PromptMaterial, findings: Sequence[str], choices: IdeaChoices
    ) -> Ideas | DeclinedAnswer:
        lines, hosts = flatten_texts(findings), list(choices.hosts[:MAX_HOSTS])
        check_rows = select_fitting_rows([f"{check}  {description}" for check, description in choices.looks.items()], self._room // 3)
        branches = [f"{branch}  {title}" for branch, title in choices.branches.items()]
        lists = {"Branches": select_fitting_rows(branches, self._room // 3), "Looks": check_rows}
        lists |= {"Hosts": hosts, "Ruled out": list(choices.ruled_out[:MAX_LABELS])}
        earlier_ideas = {"Earlier ideas": build_lines(choices.earlier)} if choices.earlier else {}
        texts = {**build_blocks(material), **earlier_ideas, "Findings": number_lines(lines) or "none"}
        question = self._build_question("explore", lists, texts)
        ids = {name: [line.partition("  ")[0] for line in lists[name]] for name in ("Looks", "Branches")}
        idea_shape = build_object_schema(
            title=TEXT_SCHEMA,
            cause=TEXT_SCHEMA,
            branch=build_enum_schema(ids["Branches"]) if ids["Branches"] else TEXT_SCHEMA,
            cites=build_list_schema(INTEGER_SCHEMA),
            quotes=build_list_schema(None),
            confirms=TEXT_SCHEMA,
            refutes=TEXT_SCHEMA,
            hosts=build_list_schema(hosts),
            looks=build_list_schema(ids["Looks"]),
            suggestions=build_list_schema(None),
            standing=build_enum_schema(("open", "supported", "refuted")),
        )

        def read(raw: str) -> Ideas:
            answer = parse_answer(ExploreAnswer, raw)
            for idea in answer.ideas:
                require_offered(idea.cites, range(len(lines)), "finding")
                idea.hosts = list(select_offered(idea.hosts, hosts, "host"))
                require_offered(idea.looks, ids["Looks"], "look")
                require_offered([idea.branch], ["", *ids["Branches"]], "branch")
            return build_ideas(answer, material)

        return await self._ask(
            incident, "explore", question, build_object_schema(ideas=build_list_schema(idea_shape), questions=build_list_schema(None)), read
        )

    async def critique_claims(
        self, incident: str, claims: Sequence[str], findings: Sequence[str]
    ) -> tuple[Objection, ...] | DeclinedAnswer:
        lines, claim_lines = flatten_texts(findings), flatten_texts(claims)
        question = self._build_question("critique", {}, {"Claims": number_lines(claim_lines), "Findings": number_lines(lines) or "none"})
        verdicts = build_enum_schema(("holds", "doubtful", "contradicted"))
        objection_shape = build_object_schema(
            claim=INTEGER_SCHEMA, verdict=verdicts, because=TEXT_SCHEMA, cites=build_list_schema(INTEGER_SCHEMA)
        )

        def read(raw: str) -> tuple[Objection, ...]:
            answer = parse_answer(CritiqueAnswer, raw)
            require_offered([objection.claim for objection in answer.objections], range(len(claim_lines)), "claim")
            for objection in answer.objections:
                require_offered(objection.cites, range(len(lines)), "finding")
            return build_objections(answer, len(claim_lines))

        answers = await self._ask_samples(
            incident, "critique", question, build_object_schema(objections=build_list_schema(objection_shape)), read
        )
        return answers if isinstance(answers, DeclinedAnswer) else merge_objections(answers)

    async def classify_intent(self, incident: str, text: str, choices: IntentChoices) -> IntentGuess | DeclinedAnswer:
        names = select_likely_hosts(text, choices.hosts)
        meanings = [f"{intent}: {means}" for intent, means in choices.intents.items()]
        lists = {"Intents": list(choices.intents), "Meanings": meanings, "Checks": list(choices.checks)}
        lists |= {"Remedies": list(choices.remedies), "Hosts": names, "Causes": list(choices.labels)}
        question = self._build_question("intent", lists, {"Message": shorten_text(text, MAX_MESSAGE_CHARS)})
        shape = build_object_schema(
            intent=build_enum_schema(choices.intents),
            hosts=build_list_schema(names),
            labels=build_list_schema(choices.labels),
            check=build_enum_schema(["", *choices.checks]),
            remedy=build_enum_schema(["", *choices.remedies]),
        )

        def read(raw: str) -> IntentGuess:
            answer = parse_answer(IntentAnswer, raw)
            require_offered([answer.intent], choices.intents, "intent")
            named_hosts = select_offered(answer.hosts, names, "host")
            named_labels = select_offered(answer.labels, choices.labels, "cause")
            require_offered([answer.check], ["", *choices.checks], "check")
            require_offered([answer.remedy], ["", *choices.remedies], "remedy")
            return IntentGuess(answer.intent, named_hosts, named_labels, answer.check, answer.remedy)

        return await self._ask(incident, "intent", question, shape, read)

    async def label_past_incident(
        self, purse: str, text: str, sentences: Sequence[str], labels: Mapping[str, str]
    ) -> PastGuess | DeclinedAnswer:
        """Return what a past incident was, among `labels` (id → title). `sentences` are numbered from 0."""
        question = build_past_question(text, sentences, labels)
        branches = dict.fromkeys(label.rpartition(".")[0] for label in labels)
        kind, ids = build_enum_schema(("incident", "other")), build_enum_schema(["", *labels])

        def read(raw: str) -> PastGuess:
            answer = parse_answer(PastAnswer, raw)
            require_offered([answer.label], ["", *labels], "cause")
            require_offered([answer.cause, answer.fix], range(-1, len(sentences)), "sentence")
            require_offered(answer.lasting, range(len(sentences)), "sentence")
            require_offered([answer.branch], ["", *branches], "branch")
            summary, title = (" ".join(text.split()) for text in (answer.summary, answer.title))
            quoted_texts = (answer.label, answer.cause, answer.fix, summary[:MAX_SUMMARY_CHARS], answer.branch, title[:MAX_TITLE_CHARS])
            return PastGuess(answer.kind == "incident", *quoted_texts, tuple(dict.fromkeys(answer.lasting)))

        shape = build_object_schema(
            kind=kind,
            label=ids,
            cause=INTEGER_SCHEMA,
            fix=INTEGER_SCHEMA,
            summary=TEXT_SCHEMA,
            branch=build_enum_schema(["", *branches]),
            title=TEXT_SCHEMA,
            lasting=build_list_schema(INTEGER_SCHEMA),
        )
        return await self._ask(purse, "label", question, shape, read)

    def _build_question(self, name: str, offers: dict[str, list[str]], texts: dict[str, str]) -> ModelQuestion:
        """Fit the window: lists whole, the longest texts cut in the middle."""
        lists = sum(len(line) + 3 for lines in offers.values() for line in lines)
        return build_question(name, offers, shorten_texts(texts, self._room - lists))

    async def _ask_samples(
        self, incident: str, name: str, question: ModelQuestion, shape: Mapping[str, Any], read: Callable[[str], T]
    ) -> list[T] | DeclinedAnswer:
        """Ask `samples` times; decline if no answer is usable."""
        answers = [await self._ask(incident, name, replace(question, sample=at), shape, read) for at in range(self._samples)]
        readable_answers = [answer for answer in answers if not isinstance(answer, DeclinedAnswer)]
        return readable_answers or next(answer for answer in answers if isinstance(answer, DeclinedAnswer))

    async def _ask(
        self, incident: str, name: str, question: ModelQuestion, shape: Mapping[str, Any], read: Callable[[str], T]
    ) -> T | DeclinedAnswer:
        """Ask within the budget; any failure becomes one sentence."""
        tokens = estimate_tokens(question.size)
        if refusal := self._breaker.get_open_reason() or await self._find_budget_refusal(incident, tokens):
            return DeclinedAnswer(refusal)
        await self._record_spend(incident, ModelSpend(calls=1))  # before asking, so that concurrent questions cannot overrun the budget
        answer = await self._endpoint.ask(question, name, shape)
        self._breaker.record_result(answer if isinstance(answer, EndpointFailure) else None)
        cost = self._price.compute_usd(answer.tokens_in, answer.tokens_out)
        await self._record_spend(incident, ModelSpend(0, answer.tokens_in, answer.tokens_out, cost))
        if isinstance(answer, EndpointFailure):
            return DeclinedAnswer(show_invisible(answer.why))
        try:
            return read(redact_once(answer.text))
        except BadAnswer as error:
            return DeclinedAnswer(show_invisible(f"the model's answer cannot be used: {error}"))

    async def _find_budget_refusal(self, incident: str, tokens: int) -> str:
        if incident not in self._spent:
            await self.load_spend(incident)
        price = self._price.compute_usd(tokens, min(self._output_tokens, RESERVED_OUTPUT_TOKENS))
        return self._budget.find_refusal(self._spent[incident], price, tokens)

    async def _record_spend(self, incident: str, spent: ModelSpend) -> None:
        self._spent[incident] = await self._book.add_spend(incident, spent)


def fit_output_tokens(output_tokens: int, context: int) -> int:
    """Return the bound of one answer in a window: a quarter of it, or what a short answer needs."""
    return min(output_tokens, max(MIN_OUTPUT_TOKENS, context // 4))


def build_past_question(text: str, sentences: Sequence[str], labels: Mapping[str, str]) -> ModelQuestion:
    """Return the question of `label_past_incident`, to estimate costs beforehand."""
    causes = [f"{label}  {title}" for label, title in labels.items()]
    return build_question(
        "label", {"Causes": causes}, {"Incident": shorten_text(text, MAX_REPORT_CHARS), "Sentences": number_lines(sentences)}
    )


def open_model(
    url: str,
    key: str,
    name: str,
    *,
    seconds: float = 30.0,
    budget: Budget | None = None,
    spend_store: SpendStore | None = None,
    recording: Path | None = None,
    context: int = DEFAULT_CONTEXT_TOKENS,
    output_tokens: int = MAX_OUTPUT_TOKENS,
) -> ModelReasoner | None:
    """Return the configured model, or None without endpoint and key.

    With a `recording`, stored answers are reused and new ones appended; without an endpoint only stored ones are
    answered. Raises BadRecording if the file is not a recording of this model.
    """
    most = fit_output_tokens(output_tokens, context)
    endpoint: ChatEndpoint | None = OpenAIEndpoint(url, key, name, seconds=seconds, max_output_tokens=most) if url or key else None
    if recording:
        endpoint = RecordedEndpoint(endpoint, name, recording, key)
    if endpoint is None:
        return None
    return ModelReasoner(endpoint, budget=budget, spend_store=spend_store, context=context, output_tokens=output_tokens)
