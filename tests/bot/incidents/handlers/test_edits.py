"""Edited messages: one that becomes a mention opens an incident, one already processed is not processed again and its
author is told.
"""

from collections.abc import AsyncIterator

import pytest

from bot.slack.payloads import parse_edit
from tests.support.fakes_bot import OPS, TEAM, Behind, slack_side

US = "U0RACKMED"


@pytest.fixture
async def bot() -> AsyncIterator[Behind]:
    async with slack_side() as behind:
        yield behind


async def edit(bot: Behind, ts: str, text: str) -> None:
    await bot.slack.edit("olga", OPS, ts, text)
    await bot.settled()


def told(bot: Behind) -> list[str]:
    return [str(row["text"]) for row in bot.slack.whispers("olga")]


async def test_a_mention_that_was_forgotten_and_edited_in_opens_an_incident(bot: Behind) -> None:
    ts = await bot.slack.say("olga", OPS, "job 4711 hangs on gpu-[017-020]")
    await bot.settled()
    assert await bot.inbox.find_incident(TEAM, OPS, ts) is None
    await edit(bot, ts, "@rackmedic job 4711 hangs on gpu-[017-020]")
    [item] = await bot.items()
    assert (item.kind, item.text) == ("mention", "job 4711 hangs on gpu-[017-020]")
    assert told(bot) == []


async def test_a_first_mention_that_told_nothing_may_be_completed(bot: Behind) -> None:
    ts = await bot.slack.say("olga", OPS, "@rackmedic hello")
    await bot.settled()
    assert await bot.items() == []
    await edit(bot, ts, "@rackmedic gpu-018 hangs")
    assert [item.text for item in await bot.items()] == ["gpu-018 hangs"]


async def test_what_was_read_already_is_not_read_again_and_its_author_hears_so_once(bot: Behind) -> None:
    ts = await bot.slack.say("olga", OPS, "@rackmedic gpu-018 hangs")
    await bot.settled()
    for text in ("@rackmedic gpu-019 hangs", "@rackmedic gpu-020 hangs"):
        await edit(bot, ts, text)
    assert [item.text for item in await bot.items()] == ["gpu-018 hangs"]
    [words] = told(bot)
    assert "do not read edits" in words


async def test_what_people_edit_among_themselves_is_passed_over(bot: Behind) -> None:
    ts = await bot.slack.say("olga", OPS, "@rackmedic gpu-018 hangs")
    reply = await bot.slack.say("olga", OPS, "lunch?", thread_ts=ts)
    await bot.settled()
    before = len(await bot.items())
    await edit(bot, reply, "lunch at noon?")
    assert len(await bot.items()) == before
    assert told(bot) == []


@pytest.mark.parametrize(
    ("message", "before"),
    [
        ({"user": "U1", "ts": "1.2", "text": f"<@{US}> see http://x"}, {"text": f"<@{US}> see http://x"}),
        ({"user": US, "ts": "1.2", "text": f"<@{US}> a card"}, {"text": "an older card"}),
        ({"user": "U1", "bot_id": "B1", "ts": "1.2", "text": f"<@{US}> x"}, {"text": "y"}),
        ({}, {}),
    ],
)
def test_unfurled_links_and_bot_edits_are_ignored(message: dict[str, str], before: dict[str, str]) -> None:
    event = {"type": "message", "subtype": "message_changed", "channel": "C1", "message": message, "previous_message": before}
    assert parse_edit({"team_id": "T1", "event": event}, US) is None
