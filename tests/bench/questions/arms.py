"""RackMedic's answers with and without a model, and for needs a plain ranking of checks by words.

Answers come from the functions its surfaces call, in their order. Where it has no function (a switch port, a check from
a sentence) its closest result counts. Nothing here reads the truth.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

import yaml

from bot.incidents.handlers.messages import BOT_INTENTS, INCIDENT_INTENTS, is_request_only
from graph.dialogue.guessed import apply_intent_guess
from graph.dialogue.intents import INTENTS, Intent
from graph.dialogue.news import has_complaint, is_empty_message
from graph.dialogue.read import parse_message
from graph.dialogue.said import ALL, ParsedMessage, Vocabulary
from graph.dialogue.things import CHECK_WORDS
from graph.extraction.reports import parse_report
from graph.extraction.text_classifier import blend_rankings, rank_labels_by_text
from graph.incident.context import DIAGNOSING_KINDS
from graph.incident.visibility import build_vocabulary
from graph.learning.knowledge_drafts import MIN_COMMAND_THREADS, draft_checks
from graph.learning.rule_labelling import LabelledRow
from graph.learning.thread_contents import ThreadContents
from graph.model.client import ModelReasoner
from graph.model.reasoner import IntentChoices, IntentGuess, PromptMaterial, ReadingChoices, ReportExtraction
from graph.state import Origin
from kb.history.bm25 import BM25Corpus
from kb.history.incidents import PastIncident, load_seeds
from kb.history.label_ranking import LabelRanker
from kb.taxonomy.loader import load_taxonomy
from kb.taxonomy.taxonomy import Taxonomy
from tests.bench.questions.catalogue import Attribution, Extraction, Need, Questions, Sentence, load_site
from tests.bench.questions.endpoint import Heard
from tests.bench.questions.score import Answers, Attributed, Extracted, Look
from tools.checks import CHECKS
from tools.remedies import REMEDIES

NOW: Final = datetime(2026, 5, 20, 8, 17, tzinfo=UTC)
PURSE: Final = "questions"
PUT_UP: Final = frozenset({Intent.RUN_CHECK, Intent.WISH_REMEDY, Intent.UNDO})  # intents answered with a proposal


@dataclass(frozen=True)
class Knowledge:
    """RackMedic's knowledge, built once."""

    taxonomy: Taxonomy = field(default_factory=load_taxonomy)
    past: tuple[PastIncident, ...] = field(default_factory=load_seeds)

    @cached_property
    def names(self) -> Vocabulary:
        """Return the names known where the questions are asked."""
        return build_vocabulary(load_site(), self.taxonomy, CHECKS, Origin(kind="terminal"))

    @cached_property
    def nearest(self) -> LabelRanker:
        return LabelRanker.build(self.taxonomy, self.past)

    @cached_property
    def looks(self) -> BM25Corpus:
        """Return an index of each check's question and common names."""
        return BM25Corpus.build({name: f"{name} {check.asks} {CHECK_WORDS.get(name, '')}" for name, check in CHECKS.items()})

    def ranked(self, question: Attribution) -> list[tuple[str, float]]:
        """Rank as `rackmedic classify` does, without past incidents of the question's thread."""
        known = self.nearest.without_incidents([one.id for one in self.past if one.source_url == question.source])
        return rank_labels_by_text(question.text, self.taxonomy, known, CHECKS, NOW)

    def titles(self) -> dict[str, str]:
        return {label: self.taxonomy.get_title(label) for label in self.taxonomy.leaves}


def said_in(question: Extraction | Need, knowledge: Knowledge) -> ParsedMessage:
    """Return the message as the rules parse it."""
    return parse_message(question.text, knowledge.names, NOW).model_copy(update={"text": question.text})


def opens(said: ParsedMessage) -> bool:
    """Return whether a mention opens an incident, by the Slack surface's tests in its order."""
    if is_request_only(said) and (said.intent in INCIDENT_INTENTS or said.intent is Intent.STATUS):
        return False
    about_us = is_request_only(said) and said.intent in BOT_INTENTS and not has_complaint(said.text, NOW)
    return not about_us and not is_empty_message(said, NOW)


def acts(said: ParsedMessage) -> bool:
    """Return whether a message in a thread starts checks or a proposal."""
    return said.kind in DIAGNOSING_KINDS or said.intent in PUT_UP


def hosts_of(said: ParsedMessage, names: Vocabulary) -> frozenset[str]:
    """Return the named hosts, else the named group's."""
    members = names.hosts if said.group == ALL else names.groups.get(said.group, ())
    looked = parse_report(said.text, names.host_index, NOW).hosts if said.kind in DIAGNOSING_KINDS else ()
    return frozenset(said.hosts or members or looked)


def extract(question: Extraction, knowledge: Knowledge, said: ParsedMessage | None = None) -> Extracted:
    """Return what is read from a message and whether it leads to action."""
    heard = said or said_in(question, knowledge)
    if question.given.place == "thread":
        return Extracted(hosts_of(heard, knowledge.names), heard.device, heard.job, acts(heard))
    told = parse_report(question.text, knowledge.names.host_index, NOW)
    return Extracted(frozenset(told.hosts) or hosts_of(heard, knowledge.names), heard.device, told.job, opens(heard))


def look(question: Need, knowledge: Knowledge, said: ParsedMessage | None = None) -> Look:
    """Return the check that a message names, in any wording RackMedic knows."""
    heard = said or said_in(question, knowledge)
    return Look(heard.check, hosts_of(heard, knowledge.names), heard.device)


def draft(question: Sentence) -> str:
    """Draft with `kb build`, which needs a command from several threads: RackMedic drafts no check from a sentence."""
    used = ThreadContents(commands=(" ".join(question.given.command),))
    rows = [LabelledRow(f"thread-{n}", "labelled", "", question.text, used=used) for n in range(MIN_COMMAND_THREADS)]
    return yaml.safe_dump({"checks": draft_checks(rows, CHECKS)}, sort_keys=False)


def without_model(questions: Questions, knowledge: Knowledge) -> Answers:
    """Answer with rules only."""
    found = Answers()
    found.extracted = {one.id: extract(one, knowledge) for one in questions.extractions}
    found.looks = {one.id: look(one, knowledge) for one in questions.needs}
    found.drafts = {one.id: draft(one) for one in questions.sentences}
    found.attributed = {one.id: _attributed(one, knowledge.ranked(one)) for one in questions.attributions}
    return found


def by_words(questions: Questions, knowledge: Knowledge) -> Answers:
    """Answer needs only: the check whose question shares most informative words; hosts and device as RackMedic reads
    them.
    """
    found = Answers()
    for one in questions.needs:
        scores = knowledge.looks.score_documents(one.text)
        read_as = look(one, knowledge)
        found.looks[one.id] = Look(max(scores, key=lambda name: (scores[name], name), default=""), read_as.hosts, read_as.device)
    return found


async def with_model(questions: Questions, knowledge: Knowledge, heard: Heard) -> Answers:
    """Answer with a model: it interprets messages the rules cannot, and reads reports without hosts or symptoms."""
    model, found = heard.reasoner(), without_model(questions, knowledge)

    async def of_message(one: Extraction) -> None:
        found.extracted[one.id] = await _extracted(one, knowledge, model)

    async def of_need(one: Need) -> None:
        found.looks[one.id] = look(one, knowledge, await _meant(said_in(one, knowledge), knowledge, model))

    async def of_report(one: Attribution) -> None:
        reading = await model.extract_report(PURSE, PromptMaterial(one.text), ReadingChoices((), knowledge.titles()))
        ranked = knowledge.ranked(one)
        found.attributed[one.id] = _attributed(
            one,
            blend_rankings(ranked, reading.causes, fits_none=bool(reading.outside)) if isinstance(reading, ReportExtraction) else ranked,
        )

    # a draft is the same: no model call exists for it
    await asyncio.gather(*map(of_message, questions.extractions), *map(of_need, questions.needs), *map(of_report, questions.attributions))
    return found


async def _extracted(one: Extraction, knowledge: Knowledge, model: ModelReasoner) -> Extracted:
    said = said_in(one, knowledge)
    if one.given.place == "thread":
        said = await _meant(said, knowledge, model)
    ruled = extract(one, knowledge, said)
    if not ruled.act or (one.given.place == "thread" and said.kind not in DIAGNOSING_KINDS):
        return ruled
    told = parse_report(one.text, knowledge.names.host_index, NOW)
    if told.hosts:  # same condition as in `summarise`, for a large fleet
        return ruled
    reading = await model.extract_report(PURSE, PromptMaterial(one.text), ReadingChoices(sorted(load_site().hosts), knowledge.titles()))
    if not isinstance(reading, ReportExtraction):
        return ruled
    return Extracted(ruled.hosts or frozenset(reading.hosts), ruled.port, ruled.job or reading.job, ruled.act)


async def _meant(said: ParsedMessage, knowledge: Knowledge, model: ModelReasoner) -> ParsedMessage:
    """Return the message, interpreted by the model if the rules did not understand it."""
    if said.sure or said.intent is not Intent.NOT_UNDERSTOOD:
        return said
    meanings = {intent.value: row.means for intent, row in INTENTS.items()}
    choices = IntentChoices(meanings, sorted(load_site().hosts), tuple(knowledge.taxonomy.leaves), tuple(CHECKS), tuple(REMEDIES))
    guess = await model.classify_intent(PURSE, said.text, choices)
    return apply_intent_guess(said, guess) if isinstance(guess, IntentGuess) else said


def _attributed(one: Attribution, ranked: Sequence[tuple[str, float]]) -> Attributed:
    """Return a ranking and its best option."""
    labels = tuple(label for label, _ in ranked)
    return Attributed(labels, min(one.given.options, key=labels.index))
