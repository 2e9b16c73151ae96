"""One tenant's flood of messages does not delay another tenant's message, and every message of the flood is answered."""

import asyncio
from dataclasses import replace

from fakeredis import FakeAsyncRedis

from bot.incidents.context import HandlerContext
from bot.incidents.handlers.services import MessageServices
from bot.policy.channels import SlackPlace, list_tenant_channels
from bot.slack.client import build_slack_client
from bot.slack.payloads import IncomingMessage
from bot.slack.posted_messages import EditableMessages, PostedCards
from bot.tenants.handlers import MAX_CONCURRENT_MESSAGES, TenantHandlers
from tests.bot.tenants.test_tenant_channel import BOUND, SITE, cards_of
from tests.support.fakes_bot import ACME, OPS, TEAM, Features, ReportRecorder, slack_side
from tools.inventory.inventory import ChannelRow

GLOBEX, MANY = "C0CUSTGLOBEX", 60
BOTH = BOUND | {GLOBEX: ChannelRow(channel=GLOBEX, kind="tenant", tenant="globex", internal=OPS)}


def dress(context: HandlerContext, _: FakeAsyncRedis) -> HandlerContext:
    return replace(context, channel_bindings=BOTH, tenant_channels=list_tenant_channels(BOTH))


def said(number: int, channel: str, text: str) -> IncomingMessage:
    return IncomingMessage(
        TEAM, SlackPlace(TEAM, channel), f"{number}.000001", "", "U0SOMEBODY", text, mention=True, twin=False, user_team="T0X"
    )


async def test_anothers_one_message_is_not_taken_in_behind_a_storm() -> None:
    async with slack_side(dress) as bot:
        door = TenantHandlers(bot.messages, cards_of(bot.context, bot.redis), SITE, ReportRecorder())
        storm = [said(number, ACME, f"the loss of run {number} looks odd") for number in range(MANY)]
        await asyncio.gather(*(door.handle_message(arrival) for arrival in (*storm, said(MANY, GLOBEX, "training on gpu-019 is slow"))))
        origins = [await bot.inbox.get_origin(incident) for incident in bot.woken]
    order = [origin.tenant if origin else "" for origin in origins]
    assert (order.count("acme"), order.count("globex")) == (MANY, 1)
    assert order.index("globex") <= MAX_CONCURRENT_MESSAGES


async def test_a_first_card_that_slack_has_no_turn_for_is_shown_when_it_has() -> None:
    paused: list[float] = []

    async def pause(seconds: float) -> None:
        paused.append(seconds)

    def features_of(messages: MessageServices, redis: FakeAsyncRedis) -> Features:
        client = build_slack_client(str(messages.context.client.token), messages.context.client.base_url, tries=0)
        plain = cards_of(messages.context, redis)
        patient = replace(plain, client=client, kept=EditableMessages(client, PostedCards(redis), plans=False), pause=pause)
        return Features(TenantHandlers(messages, patient, SITE, ReportRecorder()))

    async with slack_side(dress, features_of=features_of) as bot:
        bot.slack.api.rates.fail_next("chat.postMessage", 1)
        for text in ("the loss looks odd", "the loss of the other run too"):
            await bot.slack.say("carla", ACME, f"@rackmedic {text}")
        await bot.settled()
        told = [text for text in bot.texts(ACME) if "Ich sehe mir Ihre Maschinen an" in text]
    assert (len(told), len(paused)) == (2, 1)
