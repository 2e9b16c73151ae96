"""Moods of a sentence: polite requests are requests, and only real conditions are conditions."""

from collections.abc import Sequence

import pytest

from graph.dialogue.clauses import split_clauses
from graph.dialogue.intents import Intent
from graph.dialogue.read import parse_message
from graph.dialogue.vetoes import ACTING
from tests.graph.test_conversation import NAMES, NOW


@pytest.mark.parametrize(
    ("text", "moods"),
    [
        ("I'd appreciate it if you rebooted gpu-002", ["requests"]),
        ("I'd appreciate it if you rebooted gpu-002 if it fails again", ["depends", "requests"]),
        ("would be great if you drained gpu-002", ["requests"]),
        ("drain it if it fails again", ["depends", "requests"]),
        ("while you're at it also gpu-003", []),
        ("while the job runs leave gpu-003", ["depends"]),
    ],
)
def test_politeness_is_no_condition(text: str, moods: Sequence[str]) -> None:
    (clause,) = split_clauses(text, NAMES, NOW)
    assert sorted(mood for mood in ("requests", "depends") if getattr(clause, mood)) == moods


@pytest.mark.parametrize(
    "text",
    [
        "Hey Ines, did you drain gpu-002?",
        "Carlos, pls reboot gpu-002",
        "thanks Ravi, can you close it?",
        "Ingrid could you approve the rollback",
        "please drain it, Paolo",
    ],
)
def test_a_request_to_a_colleague_is_none_to_the_bot(text: str) -> None:
    assert parse_message(text, NAMES, NOW).intent is Intent.NOT_UNDERSTOOD


@pytest.mark.parametrize("text", ["drain gpu-002?", "reboot gpu-002?", "did we drain gpu-002?"])
def test_a_remedy_with_a_question_mark_is_only_asked(text: str) -> None:
    assert parse_message(text, NAMES, NOW).intent is not Intent.WISH_REMEDY


@pytest.mark.parametrize("text", ['haha "it works again"', "lol close it", "hahaha drain gpu-002"])
def test_a_joke_requests_nothing(text: str) -> None:
    assert parse_message(text, NAMES, NOW).intent not in ACTING


@pytest.mark.parametrize("text", ["gpu-099 is dead as well", "It says GPU 5, but my rank 5 runs on gpu-001. Are you sure it is gpu-003?"])
def test_what_is_less_likely_than_another_reading_does_not_act(text: str) -> None:
    assert parse_message(text, NAMES, NOW).intent not in (Intent.WIDEN, Intent.NARROW)


@pytest.mark.parametrize(
    ("text", "denies"),
    [("don't forget gpu-003", False), ("nobody is on it, so I take it", False), ("don't drain gpu-003", True), ("no reboot please", True)],
)
def test_a_saying_with_a_negation_denies_nothing(text: str, denies: bool) -> None:
    (clause,) = split_clauses(text, NAMES, NOW)
    assert clause.denies is denies
