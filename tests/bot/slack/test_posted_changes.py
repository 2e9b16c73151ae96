"""A change of state is posted once, whatever dies between Slack's answer and its entry."""

from collections.abc import AsyncIterator, Mapping

import pytest

from bot.cards.blocks import build_card, section
from bot.slack.posted_messages import IdempotentPoster, PostedCards
from graph.state import Origin
from tests.support.fakes_bot import OPS, TEAM, Behind, slack_side

INCIDENT, NAME = "inc-aaaaaa", "ticket:told"


class ProcessDied(Exception):
    """The process ended here."""


class DyingCards(PostedCards):
    """Entries of a process that dies where it would note what it posted."""

    async def set_all(self, incident: str, entries: Mapping[str, str]) -> None:
        raise ProcessDied


@pytest.fixture
async def bot() -> AsyncIterator[Behind]:
    async with slack_side() as behind:
        yield behind


async def announce(bot: Behind, cards: PostedCards, thread: str, value: str) -> None:
    origin = Origin(kind="slack", team=TEAM, channel=OPS, thread_ts=thread)
    card = build_card(f"It is {value}.", [section((f"It is {value}.",))])
    await IdempotentPoster(bot.context.client, cards).post_change(origin, INCIDENT, card, "rackmedic_test_moved", NAME, value)


def announced(bot: Behind, thread: str) -> list[str]:
    return [str(row["text"]) for row in bot.slack.thread(OPS, thread) if str(row["text"]).startswith("It is ")]


async def test_a_process_that_died_after_the_post_does_not_post_it_again(bot: Behind) -> None:
    thread, cards = await bot.slack.say("olga", OPS, "a thread"), PostedCards(bot.redis)
    with pytest.raises(ProcessDied):
        await announce(bot, DyingCards(bot.redis), thread, "open")
    await announce(bot, cards, thread, "open")
    assert announced(bot, thread) == ["It is open."]
    assert await cards.get(INCIDENT, NAME) == "open"


async def test_a_value_that_comes_back_is_posted_again(bot: Behind) -> None:
    thread, cards = await bot.slack.say("olga", OPS, "a thread"), PostedCards(bot.redis)
    for value in ("open", "waiting", "open"):
        await announce(bot, cards, thread, value)
    assert announced(bot, thread) == ["It is open.", "It is waiting.", "It is open."]


async def test_a_change_after_the_death_is_posted_too(bot: Behind) -> None:
    thread, cards = await bot.slack.say("olga", OPS, "a thread"), PostedCards(bot.redis)
    with pytest.raises(ProcessDied):
        await announce(bot, DyingCards(bot.redis), thread, "open")
    await announce(bot, cards, thread, "waiting")
    assert announced(bot, thread) == ["It is open.", "It is waiting."]
