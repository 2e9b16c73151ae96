"""Over their share a customer is told so in their own thread and language, once for each thing that waits."""

from collections.abc import AsyncIterator

import pytest

from bot.policy.shares import Limit, Over, Share
from bot.slack.outgoing.waiting import CustomerWaits
from tests.bot.slack.test_customers import cards_of, door_of, dress, reported
from tests.support.clock import T0
from tests.support.fakes_bot import ACME, OPS, Behind, slack_side


@pytest.fixture
async def bot() -> AsyncIterator[Behind]:
    async with slack_side(dress, door_of=door_of) as behind:
        yield behind


async def test_who_waits_is_told_once_when_it_goes_on(bot: Behind) -> None:
    incident, thread = await reported(bot)
    waiting = CustomerWaits(cards_of(bot.surface, bot.redis))
    [item] = await bot.inbox.peek(incident)
    origin = await bot.inbox.origin(incident)
    assert origin
    for _ in range(2):
        await waiting.tell(origin, item, Over(Limit.MENTIONS, T0), Share(mentions_per_hour=7))
    told = [row for row in bot.slack.thread(ACME, thread) if "7 Mal in einer Stunde" in str(row["text"])]
    assert len(told) == 1
    assert "um 03:10 UTC von selbst weiter" in str(told[0]["text"])
    assert bot.texts(OPS) == []


async def test_that_the_budget_is_used_up_is_said_once_an_incident_and_day(bot: Behind) -> None:
    incident, thread = await reported(bot)
    waiting = CustomerWaits(cards_of(bot.surface, bot.redis))
    [item] = await bot.inbox.peek(incident)
    origin = await bot.inbox.origin(incident)
    assert origin
    for id_ in ("one", "two"):
        await waiting.tell(origin, item.model_copy(update={"id": id_}), Over(Limit.MODEL, T0, waits=False), Share())
    assert len([row for row in bot.slack.thread(ACME, thread) if "Budget" in str(row["text"])]) == 1
