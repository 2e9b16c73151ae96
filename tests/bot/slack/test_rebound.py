"""A customer's channel that the inventory gives to somebody else: nothing of what was reported there before is shown, said or pressed there."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from bot.cards.buttons import OldButton, carry
from bot.cards.customers import inside, living
from bot.cards.customers.view import CustomerView
from bot.policy.channels import NotServed
from bot.policy.shares import Limit, Over, Share
from bot.slack.context import Surface
from bot.slack.customers.telling import Telling
from bot.slack.incoming.payloads import read_message
from bot.slack.outgoing.posts import PostedCards
from bot.slack.outgoing.waiting import CustomerWaits
from graph.conversation.intents import Intent
from graph.conversation.said import Said
from tests.bot.slack.test_customers import BOUND, SITE, begun, cards_of, door_of, dress, healthy, reported
from tests.support.fakes_bot import ACME, OPS, TEAM, Behind, slack_side


@pytest.fixture
async def bot() -> AsyncIterator[Behind]:
    async with slack_side(dress, door_of=door_of) as behind:
        yield behind


def rebound(bot: Behind) -> Surface:
    """The same workspace, where the customer's channel was given to somebody else."""
    return replace(bot.surface, bound=BOUND | {ACME: BOUND[ACME].model_copy(update={"tenant": "globex"})})


async def test_of_an_incident_whose_channel_was_given_to_somebody_else_nothing_is_shown_there(bot: Behind) -> None:
    incident, _ = await reported(bot)
    origin = await begun(bot, incident)
    before = bot.slack.messages(ACME)
    bot.states[incident] = healthy(incident)
    cards, [item] = cards_of(rebound(bot), bot.redis), await bot.inbox.peek(incident)
    await cards.paint(incident)
    assert await cards.again(incident) is None
    assert await cards.answer(incident, Said(intent=Intent.STATUS), "why") is None
    await CustomerWaits(cards).tell(origin, item, Over(Limit.INCIDENTS), Share())
    assert bot.slack.messages(ACME) == before


async def test_what_is_said_and_pressed_where_the_channel_is_somebody_elses_by_now_counts_for_nothing(bot: Behind) -> None:
    incident, ts = await reported(bot)
    origin = await begun(bot, incident)
    surface = rebound(bot)
    door = door_of(surface, bot.redis)
    event = {"type": "message", "channel": ACME, "user": "U0CARLA", "thread_ts": ts, "text": "still broken", "user_team": "T0ACME"}
    said = read_message({"team_id": TEAM, "event": event | {"ts": "1700000000.000100"}}, "U0RACKMED")
    called = read_message({"team_id": TEAM, "event": event | {"type": "app_mention", "ts": "1700000000.000200"}}, "U0RACKMED")
    assert said
    assert called
    await door.hear(said)
    with pytest.raises(NotServed):
        await door.hear(called)
    button = living.render(CustomerView(incident, "healthy")).blocks[-1]["elements"][0]
    click = {"actions": [button], "channel": {"id": ACME}, "container": {"thread_ts": ts}, "user": {"id": "U0CARLA", "team_id": "T0ACME"}}
    with pytest.raises(OldButton):
        await door.press(click | {"trigger_id": "t"})
    telling = Telling(surface, PostedCards(bot.redis), SITE, cards_of(surface, bot.redis).view)
    place = {"team": {"id": TEAM}, "channel": {"id": OPS}, "container": {"thread_ts": origin.thread_ts}, "trigger_id": "1.2.3"}
    with pytest.raises(OldButton):
        await telling.press(
            place | {"user": {"id": "U0OLGA", "team_id": TEAM}, "actions": [{"action_id": inside.TELL, "value": carry(incident)}]}
        )
    assert len(await bot.inbox.peek(incident)) == 1
