"""When an incident's root message is deleted, the operators' channel is told about held nodes and where to continue."""

from collections.abc import AsyncIterator

import pytest

from bot.slack.payloads import DeletedMessage, parse_deletion
from graph.incident_view import serialize_remediations
from graph.state import Remediation
from tests.support.clock import T0
from tests.support.fakes_bot import OPS, Behind, slack_side

HELD = Remediation(
    id="lad-1", label="GPU.BUS.Fallen_Off_Bus", target="gpu-018", drained=True, drained_at=T0, drained_by="Priya", outcome="denied",
    says="nobody wants it rebooted",
)  # fmt: skip


@pytest.fixture
async def bot() -> AsyncIterator[Behind]:
    async with slack_side() as behind:
        yield behind


async def reported(bot: Behind, channel: str, user: str, *, held: bool) -> str:
    """Return the ts of the message that opens an incident."""
    ts = await bot.slack.say(user, channel, "@rackmedic gpu-018 hangs")
    await bot.settled()
    if held:
        bot.states[bot.woken[-1]] = {"ladders": serialize_remediations([HELD])}
    return ts


async def deleted(bot: Behind, channel: str, user: str, ts: str) -> list[str]:
    """Delete the message and return what is posted in the operators' channel."""
    before = len(bot.texts(OPS))
    await bot.slack.delete(user, channel, ts)
    await bot.settled()
    return bot.texts(OPS)[before:]


async def test_the_node_that_is_held_is_told_where_people_read(bot: Behind) -> None:
    ts = await reported(bot, OPS, "olga", held=True)
    [words] = await deleted(bot, OPS, "olga", ts)
    assert words.startswith(f"The first message of {bot.woken[-1]} was deleted")
    assert "Still held: gpu-018: drained by RackMedic since" in words
    assert "approved by Priya" in words
    note = bot.slack.messages(OPS)[-1]
    assert "thread_ts" not in note
    assert "My Home tab lists it" in str(note["blocks"])


async def test_an_open_incident_without_a_held_node_is_told_too(bot: Behind) -> None:
    ts = await reported(bot, OPS, "olga", held=False)
    [words] = await deleted(bot, OPS, "olga", ts)
    assert "The incident is still open." in words
    assert "Still held" not in words


async def test_a_closed_incident_without_held_nodes_sends_no_notice(bot: Behind) -> None:
    ts = await reported(bot, OPS, "olga", held=False)
    await bot.redis.hset(f"rm:incident:{{{bot.woken[-1]}}}", "lifecycle", "closed")
    assert await deleted(bot, OPS, "olga", ts) == []


async def test_other_messages_may_go(bot: Behind) -> None:
    ts = await reported(bot, OPS, "olga", held=True)
    reply = await bot.slack.say("olga", OPS, "lunch?", thread_ts=ts)
    chat = await bot.slack.say("olga", OPS, "good morning")
    await bot.settled()
    assert await deleted(bot, OPS, "olga", reply) == []
    assert await deleted(bot, OPS, "olga", chat) == []


def test_slack_leaves_a_tombstone_where_there_are_replies() -> None:
    tombstone = {"subtype": "tombstone", "user": "USLACKBOT", "ts": "1.5", "thread_ts": "1.5", "text": "This message was deleted."}
    event = {
        "type": "message",
        "subtype": "message_changed",
        "channel": "C1",
        "message": tombstone,
        "previous_message": {"ts": "1.5", "thread_ts": "1.5"},
    }
    assert parse_deletion({"team_id": "T1", "event": event}) == DeletedMessage("T1", "C1", "1.5")
    assert parse_deletion({"team_id": "T1", "event": event | {"message": {"ts": "1.5", "text": "edited"}}}) is None
