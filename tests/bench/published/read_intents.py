"""How thread messages are understood by the rules, and with a model for the rest: `python -m tests.bench.published.read_intents`.

As in the product, a model is asked only about messages the rules could not read, and `graph.dialogue.guessed` bounds
its answer. Phrasings were written before the rules; the first two sets and other languages were later used to improve
the rules, the held-out and third sets never. Messages between people are tested as if addressed to the bot, the worst
case.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from graph.dialogue.guessed import apply_intent_guess, build_intent_choices, needs_model
from graph.dialogue.intents import Intent
from graph.dialogue.read import parse_message
from graph.dialogue.said import ParsedMessage, Vocabulary
from graph.model.client import ModelReasoner
from graph.model.endpoint import ChatEndpoint, OpenAIEndpoint
from graph.model.reasoner import DeclinedAnswer, IntentChoices, IntentGuess, Reasoner
from graph.model.recording import RecordedEndpoint
from kb.taxonomy.loader import load_taxonomy
from tests.bench.published.read_texts import ANSWERS, BUDGET, MODEL
from tests.bench.score import mean
from tools.checks import CHECKS
from tools.inventory.host_ranges import expand_host_range
from tools.remedies import REMEDIES

PHRASES: Final = Path(__file__).parents[2] / "graph" / "phrases"
RECORDED, RESULTS = ANSWERS / "intents.jsonl", ANSWERS / "intents-results.json"
# sets for measuring the rules alone
SAME: Final = ("blind_first", "blind_second", "blind_first_tongues", "blind_second_tongues", "held_out")
UNTUNED: Final = ("blind_third",)  # never used to improve a rule
NOTHING: Final = ("blind_second_nothing", "blind_third_nothing")  # not addressed to the bot
NOW: Final = datetime(2026, 5, 20, 8, 17, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrasing and its intent."""

    of: str
    means: Intent
    text: str


@dataclass(frozen=True, slots=True)
class Heard:
    """The rules' result and the model's guess; None if not asked or declined."""

    phrase: Phrase
    ruled: ParsedMessage
    guess: IntentGuess | None

    @property
    def said(self) -> ParsedMessage:
        return apply_intent_guess(self.ruled, self.guess) if self.guess and needs_model(self.ruled) else self.ruled

    @property
    def offered(self) -> bool:
        """Return whether the answer offers the intent: “Did you mean …?”."""
        return self.said.intent is Intent.NOT_UNDERSTOOD and self.phrase.means in self.said.suggestions


def phrases(names: Sequence[str] = (*SAME, *UNTUNED, *NOTHING)) -> list[Phrase]:
    tables = {name: yaml.safe_load((PHRASES / f"{name}.yaml").read_text()) for name in names}
    return [
        Phrase(name, Intent.NOT_UNDERSTOOD if means == "nothing" else Intent(means), text)
        for name, table in tables.items()
        for means, texts in table.items()
        for text in texts
    ]


@cache
def vocabulary() -> Vocabulary:
    """Return eight machines of one group, and every cause, check and remedy."""
    taxonomy, hosts = load_taxonomy(), tuple(expand_host_range("gpu-[001-008]"))
    titles = {label: taxonomy.get_title(label) for label in taxonomy.leaves}
    remedies = {remedy.id: remedy.does for remedy in REMEDIES.values()}
    return Vocabulary(hosts=hosts, groups={"train": hosts}, titles=titles, checks=tuple(CHECKS), remedies=remedies)


def offered() -> IntentChoices:
    """Return a model's choices."""
    names = vocabulary()
    return build_intent_choices(tuple(names.hosts), tuple(names.titles), tuple(names.checks), tuple(names.remedies))


async def hear_all(model: Reasoner, asked: Sequence[Phrase]) -> list[Heard]:
    """Process all phrases concurrently."""
    return list(await asyncio.gather(*(_hear(model, phrase) for phrase in asked)))


async def _hear(model: Reasoner, phrase: Phrase) -> Heard:
    said = parse_message(phrase.text, vocabulary(), NOW)
    guess = await model.classify_intent("intents", phrase.text, offered()) if needs_model(said) else None
    return Heard(phrase, said, None if isinstance(guess, DeclinedAnswer) else guess)


def as_guessed(guesses: Mapping[str, IntentGuess], asked: Sequence[Phrase]) -> list[Heard]:
    """Combine today's rules with kept guesses."""
    return [Heard(phrase, parse_message(phrase.text, vocabulary(), NOW), guesses.get(phrase.text)) for phrase in asked]


def score(rows: Sequence[Heard]) -> dict[str, Any]:
    """Return shares by set and by group of sets."""
    sets = {name: (name,) for name in dict.fromkeys(row.phrase.of for row in rows)}
    grouped = {"same": SAME, "untuned": UNTUNED, "nothing": NOTHING, **sets}
    return {name: _shares([row for row in rows if row.phrase.of in of]) for name, of in grouped.items()}


def _shares(rows: Sequence[Heard]) -> dict[str, Any]:
    left = [row for row in rows if needs_model(row.ruled)]

    def right(reads: Callable[[Heard], ParsedMessage]) -> dict[str, Any] | None:
        return mean([reads(row).intent is row.phrase.means for row in rows])

    return {
        "of": len(rows),
        "left": len(left),
        "answered": sum(row.guess is not None for row in left),
        "without": right(lambda row: row.ruled),
        "with": right(lambda row: row.said),
        "offered_instead": sum(row.offered for row in rows),
    }


def guesses_of(results: Mapping[str, Any]) -> dict[str, IntentGuess]:
    """Return the kept guesses by text."""
    rows = {str(text): dict(row) for text, row in results["guesses"].items()}
    return {
        text: IntentGuess(row["intent"], tuple(row["hosts"]), tuple(row["labels"]), row["check"], row["remedy"])
        for text, row in rows.items()
    }


def results_of(rows: Sequence[Heard]) -> dict[str, Any]:
    """Return figures and guesses to keep."""
    return {"sets": score(rows), "guesses": {row.phrase.text: asdict(row.guess) for row in rows if row.guess and needs_model(row.ruled)}}


def _again(kept: Path) -> list[Heard]:
    return as_guessed(guesses_of(json.loads(kept.read_text())), phrases())


def _asked(given: argparse.Namespace) -> list[Heard]:
    endpoint: ChatEndpoint | None = (
        OpenAIEndpoint(given.model_url, "none", MODEL, seconds=given.seconds, tries=1) if given.model_url else None
    )
    return asyncio.run(hear_all(ModelReasoner(RecordedEndpoint(endpoint, MODEL, given.recording), budget=BUDGET), phrases()))


def main(words: Sequence[str]) -> int:
    """Ask or replay and print; return 1 while an answer is missing."""
    asks = argparse.ArgumentParser(prog="python -m tests.bench.published.read_intents", description=__doc__.partition("\n")[0])
    asks.add_argument("--model-url", help="an OpenAI-compatible endpoint that is asked for what is not recorded")
    asks.add_argument("--seconds", type=float, default=1_500.0, help="deadline of a call")
    asks.add_argument("--record", "--replay", dest="recording", type=Path, default=RECORDED)
    asks.add_argument("--out", type=Path, metavar="FILE", help="write the figures and the guesses there")
    asks.add_argument("--guesses", type=Path, metavar="FILE", help="ask nobody: what is kept in results, by the rules of today")
    asks.add_argument("--wrong", action="store_true", help="print each phrasing that is not understood")
    given = asks.parse_args(list(words))
    rows = _again(given.guesses) if given.guesses else _asked(given)
    if given.out:
        given.out.write_text(json.dumps(results_of(rows), indent=1, ensure_ascii=False) + "\n")
    for row in rows if given.wrong else ():
        if row.said.intent is not row.phrase.means:
            print(f"{row.phrase.of}: {row.phrase.means} read as {row.said.intent}: {row.phrase.text}", file=sys.stderr)
    print(json.dumps(score(rows), indent=1))
    return int(any(needs_model(row.ruled) and row.guess is None for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
