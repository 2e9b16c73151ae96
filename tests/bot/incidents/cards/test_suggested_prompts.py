"""Suggested prompts of the app conversation are understood as what they say."""

import pytest

from bot.incidents.cards import direct_messages
from bot.incidents.cards.direct_messages import READING_STATUS_TEXTS, SUGGESTED_PROMPTS, THREAD_TITLES, SuggestedPrompt


@pytest.mark.parametrize("prompt", SUGGESTED_PROMPTS, ids=lambda prompt: prompt.text)
def test_what_is_pressed_is_understood_as_what_it_says(prompt: SuggestedPrompt) -> None:
    assert direct_messages.classify_request(prompt.text) == prompt.request


def test_every_wish_that_is_answered_is_suggested_and_has_a_title() -> None:
    answered = set(direct_messages.REQUEST_WORDS)
    assert {prompt.request for prompt in SUGGESTED_PROMPTS} == set(THREAD_TITLES) == answered
    assert set(READING_STATUS_TEXTS) == answered - {"help"}


def test_slack_takes_them() -> None:
    wired = direct_messages.build_prompt_payload(SUGGESTED_PROMPTS)
    assert 1 <= len(wired) <= 4
    assert all(0 < len(row["title"]) <= 75 and row["message"] == row["title"] for row in wired)
    assert all(title.replace(" ", "").isalpha() for title in THREAD_TITLES.values())
