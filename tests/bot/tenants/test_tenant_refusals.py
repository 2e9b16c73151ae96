"""Refusals of a tenant's message or click are posted once, in their language, without internal data."""

from collections.abc import AsyncIterator
from itertools import product

import pytest

from bot.app.slack_handlers import OperatorErrorCards
from bot.cards.buttons import OldButton, StaleCard
from bot.incidents.context import APPROVALS_NOT_SET_UP
from bot.policy.channels import REFUSAL_TEXTS, ChannelNotServed
from bot.refusal import Refusal
from bot.tenants.cards import tenant_card
from bot.tenants.cards.phrases import get_phrase
from bot.tenants.cards.view import TenantView
from bot.tenants.handlers import TenantErrorCards
from tests.bot.tenants.test_tenant_channel import REPORT, dress, features_of, reported
from tests.support.fakes_bot import ACME, Behind, slack_side

REFUSALS = (OldButton(), StaleCard(), Refusal(APPROVALS_NOT_SET_UP), *(ChannelNotServed(why) for why in REFUSAL_TEXTS))


@pytest.fixture
async def bot() -> AsyncIterator[Behind]:
    async with slack_side(dress, features_of=features_of) as behind:
        yield behind


def test_every_card_of_it_speaks_their_language_and_says_nothing_of_our_insides() -> None:
    said = {language: every_card(TenantErrorCards(language)) for language in ("de", "en")}
    for german, english in zip(said["de"], said["en"], strict=True):
        assert german != english
        assert not any(word in german + english for word in ("doctor", "rackmedic", "approv", "operator", "`"))


def every_card(words: TenantErrorCards) -> list[str]:
    cards = [
        *map(words.render_refusal, REFUSALS),
        *(words.render_not_stored(will_retry=again) for again in (True, False)),
        words.render_bug("abc123", "decision"),
    ]
    return [card.text for card in cards]


@pytest.mark.parametrize(("no", "language"), list(product(REFUSALS, ("en", "de"))), ids=str)
def test_what_was_meant_for_our_own_people_is_not_shown_to_them(no: Refusal, language: str) -> None:
    assert str(no) == OperatorErrorCards().render_refusal(no).text
    if not isinstance(no, ChannelNotServed):
        assert str(no) not in TenantErrorCards(language).render_refusal(no).text


async def test_a_button_of_another_thread_is_refused_in_their_language(bot: Behind) -> None:
    incident, _ = await reported(bot)
    _, elsewhere = await reported(bot, "@rackmedic job 4712 fails on gpu-017")
    card = tenant_card.render_tenant_card(TenantView(incident, "healthy"))
    posted = await bot.context.client.chat_postMessage(channel=ACME, thread_ts=elsewhere, text=card.text, blocks=list(card.blocks))
    await bot.slack.click("carla", str(posted["ts"]), tenant_card.BROKEN_ACTION_ID)
    await bot.settled()
    [words] = [str(row["text"]) for row in bot.slack.whispers("carla")]
    assert get_phrase("not_old_button", "de") in words
    assert len(await bot.inbox.list_waiting(incident)) == 1


async def test_a_mention_that_was_read_and_is_edited_then_is_answered_once_in_their_language(bot: Behind) -> None:
    _, ts = await reported(bot)
    for text in ("@rackmedic job 4711 hangs on gpu-018", "@rackmedic job 4712 hangs"):
        await bot.slack.edit("carla", ACME, ts, text)
        await bot.settled()
    assert [item.text for item in await bot.items()] == [REPORT.removeprefix("@rackmedic ")]
    [words] = [str(row["text"]) for row in bot.slack.whispers("carla")]
    assert get_phrase("not_read_again", "de") in words


async def test_a_first_mention_that_told_nothing_may_be_completed(bot: Behind) -> None:
    ts = await bot.slack.say("carla", ACME, "@rackmedic hallo")
    await bot.settled()
    assert await bot.items() == []
    await bot.slack.edit("carla", ACME, ts, REPORT)
    await bot.settled()
    assert [item.kind for item in await bot.items()] == ["mention"]
    assert not bot.slack.whispers("carla")


async def test_a_command_there_says_what_is_answered_there(bot: Behind) -> None:
    await bot.slack.command("olga", ACME, "/rackmedic", "status")
    await bot.settled()
    assert any(get_phrase("not_mentions", "de") in str(row["text"]) for row in bot.slack.whispers("olga"))


async def test_diagnose_this_there_says_it_too(bot: Behind) -> None:
    ts = await bot.slack.say("carla", ACME, "job 4711 hangs")
    await bot.slack.shortcut("olga", ACME, ts, "diagnose_this")
    await bot.settled()
    assert any(get_phrase("not_mentions", "de") in str(row["text"]) for row in bot.slack.whispers("olga"))
    assert await bot.items() == []
