"""A tenant channel reassigned to another tenant shows nothing of earlier incidents and accepts no messages or clicks
for them.
"""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from bot.cards.buttons import OldButton, encode_button_value
from bot.incidents.handlers.services import MessageServices
from bot.policy.channels import ChannelNotServed
from bot.policy.quotas import ExceededLimit, Quota, QuotaLimit
from bot.slack.payloads import parse_message
from bot.slack.posted_messages import PostedCards
from bot.tenants.cards import internal_thread, tenant_card
from bot.tenants.cards.view import TenantView
from bot.tenants.quota_notices import QuotaNotices
from bot.tenants.tenant_updates import TenantUpdateHandlers
from graph.dialogue.intents import Intent
from graph.dialogue.said import ParsedMessage
from tests.bot.tenants.test_tenant_channel import BOUND, SITE, begun, cards_of, door_of, dress, features_of, healthy, reported
from tests.support.fakes_bot import ACME, OPS, TEAM, Behind, slack_side


@pytest.fixture
async def bot() -> AsyncIterator[Behind]:
    async with slack_side(dress, features_of=features_of) as behind:
        yield behind


def rebound(bot: Behind) -> MessageServices:
    """Return the same workspace with the channel bound to another tenant."""
    context = replace(bot.context, channel_bindings=BOUND | {ACME: BOUND[ACME].model_copy(update={"tenant": "globex"})})
    return replace(bot.messages, context=context)


async def test_of_an_incident_whose_channel_was_given_to_somebody_else_nothing_is_shown_there(bot: Behind) -> None:
    incident, _ = await reported(bot)
    origin = await begun(bot, incident)
    before = bot.slack.messages(ACME)
    bot.states[incident] = healthy(incident)
    cards, [item] = cards_of(rebound(bot).context, bot.redis), await bot.inbox.list_waiting(incident)
    await cards.update_card(incident)
    assert await cards.refresh_status(incident) is None
    assert await cards.answer_question(incident, ParsedMessage(intent=Intent.STATUS), "why") is None
    await QuotaNotices(cards).post_notice(origin, item, ExceededLimit(QuotaLimit.INCIDENTS), Quota())
    assert bot.slack.messages(ACME) == before


async def test_what_is_said_and_pressed_where_the_channel_is_somebody_elses_by_now_counts_for_nothing(bot: Behind) -> None:
    incident, ts = await reported(bot)
    origin = await begun(bot, incident)
    door = door_of(rebound(bot), bot.redis)
    event = {"type": "message", "channel": ACME, "user": "U0CARLA", "thread_ts": ts, "text": "still broken", "user_team": "T0ACME"}
    said = parse_message({"team_id": TEAM, "event": event | {"ts": "1700000000.000100"}}, "U0RACKMED")
    called = parse_message({"team_id": TEAM, "event": event | {"type": "app_mention", "ts": "1700000000.000200"}}, "U0RACKMED")
    assert said
    assert called
    await door.handle_message(said)
    with pytest.raises(ChannelNotServed):
        await door.handle_message(called)
    button = tenant_card.render_tenant_card(TenantView(incident, "healthy")).blocks[-1]["elements"][0]
    click = {"actions": [button], "channel": {"id": ACME}, "container": {"thread_ts": ts}, "user": {"id": "U0CARLA", "team_id": "T0ACME"}}
    with pytest.raises(OldButton):
        await door.handle_click(click | {"trigger_id": "t"})
    context = rebound(bot).context
    telling = TenantUpdateHandlers(context, PostedCards(bot.redis), SITE, cards_of(context, bot.redis).load_view)
    place = {"team": {"id": TEAM}, "channel": {"id": OPS}, "container": {"thread_ts": origin.thread_ts}, "trigger_id": "1.2.3"}
    with pytest.raises(OldButton):
        await telling.handle_click(
            place
            | {
                "user": {"id": "U0OLGA", "team_id": TEAM},
                "actions": [{"action_id": internal_thread.TELL_ACTION_ID, "value": encode_button_value(incident)}],
            }
        )
    assert len(await bot.inbox.list_waiting(incident)) == 1
