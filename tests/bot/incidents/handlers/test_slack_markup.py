"""Slack markup is parsed as people see it, and the help card lists phrases."""

import pytest

from bot.incidents.handlers.slack_markup import HELP_INTENTS, list_help_rows, render_plain_text, strip_bot_mention
from graph.dialogue.intents import INTENTS, describe_intent


def test_text_is_read_as_people_see_it() -> None:
    raw = "<@U1|olga> see <http://gpu-017.example|gpu-017.example> in <#C1|ops> <!here> a &lt;b&gt; &amp;lt; <mailto:a@b.example>"
    assert render_plain_text(raw) == "@olga see gpu-017.example in #ops @here a <b> &lt; a@b.example"


@pytest.mark.parametrize(
    ("raw", "left"),
    [
        ("<@U0RACKMED> recheck", "recheck"),
        ("<@U0RACKMED|rackmedic>, <@U0RACKMED>: recheck <@U0RACKMED>", "recheck"),
        ("ask <@U0RACKMED> to recheck", "ask <@U0RACKMED> to recheck"),
        ("<@U0PRIYA> recheck", "<@U0PRIYA> recheck"),
        (" <@U0RACKMED> ", ""),
    ],
)
def test_our_own_mention_at_either_end_is_no_part_of_what_was_said(raw: str, left: str) -> None:
    assert strip_bot_mention(raw, "U0RACKMED") == left


def test_dates_are_parsed_as_their_text_and_mention_no_person() -> None:
    assert render_plain_text("since <!date^1700000000^{time}|02:40>") == "since 02:40"


def test_help_offers_phrases_of_the_table_each_with_what_it_does() -> None:
    assert list_help_rows() == [(INTENTS[intent].form, describe_intent(intent)) for intent in HELP_INTENTS]
    assert all(form and means for form, means in list_help_rows())
