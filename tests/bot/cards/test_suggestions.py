"""What is suggested in a conversation with the app is what is answered there."""

import pytest

from bot.cards.personal import direct, suggestions
from bot.cards.personal.suggestions import PROMPTS, READING, TITLES, SuggestedPrompt


@pytest.mark.parametrize("prompt", PROMPTS, ids=lambda prompt: prompt.says)
def test_what_is_pressed_is_understood_as_what_it_says(prompt: SuggestedPrompt) -> None:
    assert direct.wish(prompt.says) == prompt.wish


def test_every_wish_that_is_answered_is_suggested_and_has_a_title() -> None:
    answered = set(direct.WORDS)
    assert {prompt.wish for prompt in PROMPTS} == set(TITLES) == answered
    assert set(READING) == answered - {"help"}


def test_slack_takes_them() -> None:
    wired = suggestions.wire(PROMPTS)
    assert 1 <= len(wired) <= 4
    assert all(0 < len(row["title"]) <= 75 and row["message"] == row["title"] for row in wired)
    assert all(title.replace(" ", "").isalpha() for title in TITLES.values())
