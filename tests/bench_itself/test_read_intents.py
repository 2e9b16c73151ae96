"""What a model adds to the rules for thread messages, on phrasings written before the rules, with kept guesses.

Guesses are kept by text, so today's rules and bounds are measured; the recording answers only its own day's questions
and is replayed while they are unchanged.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from graph.dialogue.guessed import ONLY_SAID
from graph.dialogue.intents import Intent
from graph.model.client import ModelReasoner
from graph.model.endpoint import EndpointFailure, ModelReply
from graph.model.prompts import ModelQuestion
from graph.model.reasoner import IntentGuess
from graph.model.recording import RecordedEndpoint
from tests.bench.published.read_intents import RECORDED, RESULTS, Phrase, as_guessed, guesses_of, hear_all, phrases, results_of, score
from tests.bench.published.read_texts import BUDGET, MODEL
from tests.graph.test_blind_phrases import ACTING

ODD = Phrase("blind_third", Intent.EXPLAIN, "ja miksi ihmeessä niin luulet")
PLAIN = Phrase("blind_third", Intent.STATUS, "status")
NO_WORD = Phrase("blind_third", Intent.STOP, "let the curtain fall upon thy toil")


@pytest.fixture(scope="module")
def results() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(RESULTS.read_text())
    return found


def test_what_the_rules_leave_is_understood_with_a_model_and_what_acts_is_only_offered() -> None:
    guesses = {ODD.text: IntentGuess("explain"), PLAIN.text: IntentGuess("help"), NO_WORD.text: IntentGuess("stop")}
    rows = as_guessed(guesses, [ODD, PLAIN, NO_WORD])
    assert [row.said.intent for row in rows] == [Intent.EXPLAIN, Intent.STATUS, Intent.NOT_UNDERSTOOD]
    assert [row.offered for row in rows] == [False, False, True]
    found = score(rows)["untuned"]
    assert (found["of"], found["left"], found["answered"], found["offered_instead"]) == (3, 2, 2, 1)
    assert (found["without"]["value"], found["with"]["value"]) == (0.3333, 0.6667)


class Explains:
    """A model that reads every message as `explain`."""

    model = MODEL

    async def ask(self, asked: ModelQuestion, name: str, schema: object) -> ModelReply | EndpointFailure:
        return ModelReply('{"intent": "explain", "hosts": [], "labels": [], "check": "", "remedy": ""}', 10, 5)

    async def aclose(self) -> None:
        pass


async def test_only_what_is_left_is_asked_and_a_recording_answers_it_again(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    first = await hear_all(ModelReasoner(RecordedEndpoint(Explains(), MODEL, tape), budget=BUDGET), [ODD, PLAIN])
    assert [row.guess for row in first] == [IntentGuess("explain"), None]
    assert await hear_all(ModelReasoner(RecordedEndpoint(None, MODEL, tape), budget=BUDGET), [ODD, PLAIN]) == first
    assert guesses_of(json.loads(json.dumps(results_of(first)))) == {ODD.text: IntentGuess("explain")}


def test_with_a_model_nine_of_ten_are_understood_where_the_rules_are_measured(results: Mapping[str, Any]) -> None:
    found = score(as_guessed(guesses_of(results), phrases()))
    assert found["same"]["with"]["value"] >= 0.9, found["same"]
    for name in ("same", "untuned"):
        assert found[name]["with"]["value"] >= found[name]["without"]["ci95"][0], found[name]
        assert results["sets"][name]["with"]["value"] - found[name]["with"]["value"] <= 0.01, found[name]


def test_by_no_guess_does_anything_act_that_was_said_to_nobody(results: Mapping[str, Any]) -> None:
    rows = [row for row in as_guessed(guesses_of(results), phrases()) if row.phrase.means is Intent.NOT_UNDERSTOOD]
    assert not [(str(row.said.intent), row.phrase.text) for row in rows if row.guess and row.said.intent in ONLY_SAID]
    acts = [
        (str(row.said.intent), row.phrase.text) for row in rows if row.ruled.intent is not row.said.intent and row.said.intent in ACTING
    ]
    assert len(acts) <= len(rows) // 20, acts


async def test_the_recording_answers_what_was_kept_of_it(results: Mapping[str, Any]) -> None:
    """Replay unchanged questions only: a new intent, cause or prompt makes another question."""
    rows = await hear_all(ModelReasoner(RecordedEndpoint(None, MODEL, RECORDED), budget=BUDGET), phrases())
    heard = {row.phrase.text: row.guess for row in rows if row.guess}
    assert heard.items() <= guesses_of(results).items()
