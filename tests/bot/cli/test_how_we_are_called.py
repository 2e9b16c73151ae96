"""In replies played without Slack the bot is addressed by name, or by a mention as a workspace writes it."""

from datetime import UTC, datetime

import pytest

from bot.cli.local_thread import ThreadSpeakers, find_bot_ids, strip_bot_mention
from bot.cli.replies import ThreadReply
from graph.state import IncidentState

NOW = datetime(2026, 5, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<@U0RACKMED> write that up for a ticket", "write that up for a ticket"),
        ("<@U0RACKMED>: status", "status"),
        ("status <@U0RACKMED>", "status"),
        ("<@U7KQ2|rackmedic> status", "status"),
        ("@rackmedic status", "status"),
        ("hey <@U0RACKMED> status", "hey  @U0RACKMED  status"),
        ("<@U0OLGA77> takes this one", "<@U0OLGA77> takes this one"),
        ("<@U0RACKMED>", "@U0RACKMED"),
    ],
)
def test_our_own_mention_is_taken_out_where_it_only_calls_us(text: str, left: str) -> None:
    assert strip_bot_mention(text) == left


def test_whom_the_first_message_calls_is_us() -> None:
    assert strip_bot_mention("<@W12345> status", {"w12345"}) == "status"
    assert find_bot_ids("<@W12345> status") == frozenset()


def test_a_mention_of_the_bot_calls_no_other_person() -> None:
    here = ThreadSpeakers().record_reply(ThreadReply(by="priya", text="<@U0RACKMED> status"), IncidentState(), NOW)
    assert (here.mentioned, here.called) == (True, "")
    there = ThreadSpeakers().record_reply(ThreadReply(by="priya", text="<@U0OLGA77> status?"), IncidentState(), NOW)
    assert (there.mentioned, there.called) == (False, "first")
