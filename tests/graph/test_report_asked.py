"""Requests for the post-incident report in five languages, and talk about reports that requests none."""

import pytest

from graph.dialogue.intents import Intent
from graph.dialogue.read import parse_message
from tests.graph.test_blind_phrases import table
from tests.graph.test_conversation import NAMES, NOW

PHRASES = table("report")
LANGUAGES = [tongue for tongue in PHRASES if tongue != "none"]


def test_there_are_enough_of_them() -> None:
    assert set(LANGUAGES) == {"en", "de", "fr", "es", "zh"}
    assert sum(len(PHRASES[tongue]) for tongue in LANGUAGES) >= 30
    assert len(PHRASES["none"]) >= 30


@pytest.mark.parametrize("tongue", LANGUAGES)
def test_who_asks_for_it_is_understood(tongue: str) -> None:
    assert [text for text in PHRASES[tongue] if parse_message(text, NAMES, NOW).intent is not Intent.REPORT] == []


def test_who_only_speaks_of_reports_gets_none() -> None:
    assert [text for text in PHRASES["none"] if parse_message(text, NAMES, NOW).intent is Intent.REPORT] == []


@pytest.mark.parametrize(
    "text", ["please " * 5000, "发一下" * 5000, "the report " * 5000, "can i have the " * 40 + "report", "bitte " * 26 + "x"]
)
def test_no_text_takes_long(text: str) -> None:
    """Only the first hundred characters are matched, each word once."""
    assert parse_message(text, NAMES, NOW).intent is not Intent.REPORT
