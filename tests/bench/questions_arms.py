"""RackMedic answers the questions as people meet it, without and with a model; and for described needs a plain ranking of checks by words.

The answers come from the functions that its surfaces call, in their order; where it has no call for what is asked (a port of a switch, a check from a
sentence) it gives what it has, which counts as it is. Nothing here reads a question's truth.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

import yaml

from bot.slack.incoming.messages import ABOUT_US, OF_AN_INCIDENT, asks_only
from graph.conversation.guessed import with_guess
from graph.conversation.intents import INTENTS, Intent
from graph.conversation.news import complains, tells_nothing
from graph.conversation.read import read
from graph.conversation.said import ALL, Said, Vocabulary
from graph.conversation.things import CHECK_WORDS
from graph.engine.prior import likely_by_words
from graph.incident.case import DIAGNOSED
from graph.incident.thinking.material import MOST_OFFERED
from graph.incident.visible import vocabulary
from graph.learning.discussed import Discussed
from graph.learning.drafting import TYPED, checks_of
from graph.learning.labelling import LabelledRow
from graph.model.client import Model
from graph.model.reasoner import Choices, IntentGuess, Material, Reading
from graph.reading.blended import blended
from graph.reading.classify import classify
from graph.reading.reports import understand
from graph.state import Brief, Origin
from kb.history.bm25 import Corpus
from kb.history.incidents import PastIncident, load_seeds
from kb.history.likeness import Nearest
from kb.taxonomy.labels import Taxonomy
from kb.taxonomy.reader import load_taxonomy
from tests.bench.questions import Attribution, Extraction, Need, Questions, Sentence, load_site
from tests.bench.questions_line import Heard
from tests.bench.questions_score import Answers, Attributed, Extracted, Look
from tools.checks import CHECKS
from tools.remedies import REMEDIES

NOW: Final = datetime(2026, 5, 20, 8, 17, tzinfo=UTC)
PURSE: Final = "questions"
PUT_UP: Final = frozenset({Intent.RUN_CHECK, Intent.WISH_REMEDY, Intent.UNDO})
"""Answered with something to be decided."""


@dataclass(frozen=True)
class Knowledge:
    """What RackMedic knows; built once."""

    taxonomy: Taxonomy = field(default_factory=load_taxonomy)
    past: tuple[PastIncident, ...] = field(default_factory=load_seeds)

    @cached_property
    def names(self) -> Vocabulary:
        """What may be named where the questions are asked."""
        return vocabulary(load_site(), self.taxonomy, CHECKS, Origin(kind="terminal"))

    @cached_property
    def nearest(self) -> Nearest:
        return Nearest.of(self.taxonomy, self.past)

    @cached_property
    def looks(self) -> Corpus:
        """What each check asks, and what people call it."""
        return Corpus.of({name: f"{name} {check.asks} {CHECK_WORDS.get(name, '')}" for name, check in CHECKS.items()})

    def ranked(self, question: Attribution) -> list[tuple[str, float]]:
        """As `rackmedic classify` ranks a text, ignorant of past incidents of the thread that the question is from."""
        known = self.nearest.without([one.id for one in self.past if one.source_url == question.source])
        return classify(question.text, self.taxonomy, known, CHECKS, NOW)

    def titles(self) -> dict[str, str]:
        return {label: self.taxonomy.title(label) for label in self.taxonomy.leaves}


def said_in(question: Extraction | Need, knowledge: Knowledge) -> Said:
    """A message as the rules read it."""
    return read(question.text, knowledge.names, NOW).model_copy(update={"text": question.text})


def opens(said: Said) -> bool:
    """Whether a mention opens an incident, and machines are looked at: by the questions that the Slack surface asks, in its order."""
    if asks_only(said) and (said.intent in OF_AN_INCIDENT or said.intent is Intent.STATUS):
        return False
    about_us = asks_only(said) and said.intent in ABOUT_US and not complains(said.text, NOW)
    return not about_us and not tells_nothing(said, NOW)


def acts(said: Said) -> bool:
    """Whether what is said in a thread makes RackMedic look, or put something up for decision."""
    return said.kind in DIAGNOSED or said.intent in PUT_UP


def hosts_of(said: Said, names: Vocabulary) -> frozenset[str]:
    """Those that are named; else those of the group."""
    members = names.hosts if said.group == ALL else names.groups.get(said.group, ())
    looked = understand(said.text, names.book, NOW).hosts if said.kind in DIAGNOSED else ()
    return frozenset(said.hosts or members or looked)


def extract(question: Extraction, knowledge: Knowledge, said: Said | None = None) -> Extracted:
    """What is read of a message, and what becomes of it."""
    heard = said or said_in(question, knowledge)
    if question.given.place == "thread":
        return Extracted(hosts_of(heard, knowledge.names), heard.device, heard.job, acts(heard))
    told = understand(question.text, knowledge.names.book, NOW)
    return Extracted(frozenset(told.hosts) or hosts_of(heard, knowledge.names), heard.device, told.job, opens(heard))


def look(question: Need, knowledge: Knowledge, said: Said | None = None) -> Look:
    """The check that a message names, in any of the words that RackMedic knows for it."""
    heard = said or said_in(question, knowledge)
    return Look(heard.check, hosts_of(heard, knowledge.names), heard.device)


def draft(question: Sentence) -> str:
    """RackMedic drafts no check from a sentence. `kb build` drafts one of a command that people typed in several threads: the command, and its lines."""
    used = Discussed(commands=(" ".join(question.given.command),))
    rows = [LabelledRow(f"thread-{n}", "labelled", "", question.text, used=used) for n in range(TYPED)]
    return yaml.safe_dump({"checks": checks_of(rows, CHECKS)}, sort_keys=False)


def without_model(questions: Questions, knowledge: Knowledge) -> Answers:
    """RackMedic by rules alone."""
    found = Answers()
    found.extracted = {one.id: extract(one, knowledge) for one in questions.extractions}
    found.looks = {one.id: look(one, knowledge) for one in questions.needs}
    found.drafts = {one.id: draft(one) for one in questions.sentences}
    found.attributed = {one.id: _attributed(one, knowledge.ranked(one)) for one in questions.attributions}
    return found


def by_words(questions: Questions, knowledge: Knowledge) -> Answers:
    """For described needs only: the check whose own question shares the most telling words with the text; hosts and device as RackMedic reads them."""
    found = Answers()
    for one in questions.needs:
        scores = knowledge.looks.scores(one.text)
        read_as = look(one, knowledge)
        found.looks[one.id] = Look(max(scores, key=lambda name: (scores[name], name), default=""), read_as.hosts, read_as.device)
    return found


async def with_model(questions: Questions, knowledge: Knowledge, heard: Heard) -> Answers:
    """RackMedic with a model: it is asked what a message means where rules do not know, and reads reports of which rules lack hosts or symptoms."""
    model, found = heard.reasoner(), without_model(questions, knowledge)

    async def of_message(one: Extraction) -> None:
        found.extracted[one.id] = await _extracted(one, knowledge, model)

    async def of_need(one: Need) -> None:
        found.looks[one.id] = look(one, knowledge, await _meant(said_in(one, knowledge), knowledge, model))

    async def of_report(one: Attribution) -> None:
        reading = await model.read(PURSE, Material(one.text), (), knowledge.titles())
        ranked = knowledge.ranked(one)
        found.attributed[one.id] = _attributed(one, blended(ranked, reading.causes) if isinstance(reading, Reading) else ranked)

    # a draft is the same with a model: there is no call for it
    await asyncio.gather(*map(of_message, questions.extractions), *map(of_need, questions.needs), *map(of_report, questions.attributions))
    return found


async def _extracted(one: Extraction, knowledge: Knowledge, model: Model) -> Extracted:
    said = said_in(one, knowledge)
    if one.given.place == "thread":
        said = await _meant(said, knowledge, model)
    ruled = extract(one, knowledge, said)
    if not ruled.act or (one.given.place == "thread" and said.kind not in DIAGNOSED):
        return ruled
    told = understand(one.text, knowledge.names.book, NOW)
    if told.unknown_hosts or (set(told.symptoms) - {"vague"} and told.hosts):  # as `summarise` decides
        return ruled
    brief = Brief(text=one.text, symptoms=told.symptoms, signatures=told.signatures)
    sounds = {label: knowledge.taxonomy.title(label) for label in likely_by_words(knowledge.taxonomy, brief, MOST_OFFERED)}
    reading = await model.read(PURSE, Material(one.text), sorted(load_site().hosts), sounds)
    if not isinstance(reading, Reading):
        return ruled
    return Extracted(ruled.hosts or frozenset(reading.hosts), ruled.port, ruled.job or reading.job, ruled.act)


async def _meant(said: Said, knowledge: Knowledge, model: Model) -> Said:
    """The message with what a model makes of it, where the rules made nothing of it."""
    if said.sure or said.intent is not Intent.NOT_UNDERSTOOD:
        return said
    meanings = {intent.value: row.means for intent, row in INTENTS.items()}
    choices = Choices(meanings, sorted(load_site().hosts), tuple(knowledge.taxonomy.leaves), tuple(CHECKS), tuple(REMEDIES))
    guess = await model.intent(PURSE, said.text, choices)
    return with_guess(said, guess) if isinstance(guess, IntentGuess) else said


def _attributed(one: Attribution, ranked: Sequence[tuple[str, float]]) -> Attributed:
    """A ranking, and the option that it puts first."""
    labels = tuple(label for label, _ in ranked)
    return Attributed(labels, min(one.given.options, key=labels.index))
