"""A real server and a model that understands next to nothing: its answers have the shape that was asked for, and whatever happens to the server is a
sentence."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from graph.model.client import CircuitBreaker, ModelReasoner
from graph.model.endpoint import ModelReply, OpenAIEndpoint
from graph.model.reasoner import DeclinedAnswer, IntentChoices, IntentGuess
from tests.support.model_server import LONG, MODEL, WINDOW, RealModel
from tests.support.shaped_answers import Shaped, endless, terse

pytest_plugins = ("tests.support.fixtures_model_server",)

SHORT = 120
"""Tokens: an answer of a terse shape has some forty, and spaces are the model's own affair."""
CLAIMS = ("A GPU has fallen off the bus (gpu-017)",)
FACTS = ("gpu-017: Xid 79 on gpu3", "gpu-017: nvidia-smi lists 7 GPUs of 8")
CHOICES = IntentChoices(
    {"host": "what is known of a host", "status": "what I know and what I am doing"},
    ("gpu-017", "gpu-018"),
    ("GPU.BUS.Fallen_Off_Bus", "INTERCONNECT.IB.Port_Down"),
    ("smi", "dmesg"),
    ("gpu_reset",),
)

Opened = Callable[..., Shaped]


@pytest.fixture
async def opened() -> AsyncIterator[Opened]:
    every: list[Shaped] = []

    def make(server: RealModel, seconds: float = LONG, shape: Any = terse, max_output_tokens: int = SHORT) -> Shaped:
        every.append(
            Shaped(OpenAIEndpoint(server.url, "", MODEL, seconds=seconds, max_output_tokens=max_output_tokens, pause=at_once), shape)
        )
        return every[-1]

    yield make
    for one in every:
        await one.aclose()


async def at_once(seconds: float) -> None:
    """Nobody waits for a second try."""


async def test_a_model_chooses_among_what_it_was_offered_in_the_shape_that_was_asked_for(real_model: RealModel, opened: Opened) -> None:
    endpoint = opened(real_model)
    model = ModelReasoner(endpoint)
    guess = await model.classify_intent("inc-1", "what about gpu-018? has it fallen off the bus?", CHOICES)
    assert isinstance(guess, IntentGuess), guess
    assert guess.intent in CHOICES.intents
    assert {*guess.hosts} <= {*CHOICES.hosts}
    assert {*guess.labels} <= {*CHOICES.labels}
    assert guess.check in ("", *CHOICES.checks)
    assert guess.remedy in ("", *CHOICES.remedies)
    [(shape, reply)] = endpoint.answers
    assert isinstance(reply, ModelReply)
    assert (reply.by, json.loads(reply.text).keys()) == (MODEL, shape["properties"].keys())
    spent = model.get_spend("inc-1")
    assert (spent.calls, spent.tokens_in, spent.tokens_out) == (1, reply.tokens_in, reply.tokens_out)
    assert spent.tokens_out <= SHORT < spent.tokens_in


async def test_more_questions_at_once_than_it_has_slots_are_each_answered_or_declined_in_words(
    real_model: RealModel, opened: Opened
) -> None:
    patient, hurried = ModelReasoner(opened(real_model)), ModelReasoner(opened(real_model, seconds=0.2))
    answers = await asyncio.gather(*(model.classify_intent("inc-1", "why?", CHOICES) for model in (patient, patient, hurried)))
    assert [type(answer) for answer in answers[:2]] == [IntentGuess, IntentGuess], answers
    assert all(answer.intent in CHOICES.intents for answer in answers if isinstance(answer, IntentGuess))
    if isinstance(answers[2], DeclinedAnswer):  # it may be that fast
        assert "0.2 s" in answers[2].reason or "in time" in answers[2].reason


async def test_a_question_longer_than_its_window_is_declined_with_what_to_set(real_model: RealModel, opened: Opened) -> None:
    model = ModelReasoner(opened(real_model))
    long = ["節点の温度が高い" * 40] * 60  # few letters, many tokens: no estimate by letters knows
    answer = await model.critique_claims("inc-1", CLAIMS, long)
    assert answer == DeclinedAnswer(
        f"the question is longer than the model's window of {WINDOW} tokens: set RACKMEDIC_MODEL_CONTEXT to what the server has"
    )


async def test_a_server_that_is_killed_in_mid_answer_is_a_sentence_and_then_left_alone(mortal_model: RealModel, opened: Opened) -> None:
    model = ModelReasoner(opened(mortal_model, shape=endless, max_output_tokens=5_000), breaker=CircuitBreaker(trips=1))
    asked = asyncio.create_task(model.critique_claims("inc-1", CLAIMS, FACTS))
    async with asyncio.timeout(LONG):
        while not await asyncio.to_thread(mortal_model.answering):
            assert not asked.done()
            await asyncio.sleep(0.01)
    mortal_model.kill()
    assert await asked == DeclinedAnswer("the model's endpoint cannot be reached")
    assert await model.critique_claims("inc-1", CLAIMS, FACTS) == DeclinedAnswer(
        "the model rests after failing 1 times in a row: the model's endpoint cannot be reached"
    )
