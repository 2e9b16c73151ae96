"""In replies that are played without Slack we are called by name, or by the mention that a workspace would write for us."""

from datetime import UTC, datetime

import pytest

from bot.terminal.conversation import LastWord, ids_of_us, without_us
from bot.terminal.replies import ThreadReply
from graph.state import Incident

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
    assert without_us(text) == left


def test_whom_the_first_message_calls_is_us() -> None:
    assert without_us("<@W12345> status", {"w12345"}) == "status"
    assert ids_of_us("<@W12345> status") == frozenset()


def test_a_mention_of_ours_calls_nobody_else() -> None:
    here = LastWord().heard(ThreadReply(by="priya", text="<@U0RACKMED> status"), Incident(), NOW)
    assert (here.mentioned, here.called) == (True, "")
    there = LastWord().heard(ThreadReply(by="priya", text="<@U0OLGA77> status?"), Incident(), NOW)
    assert (there.mentioned, there.called) == (False, "first")
