"""Each id that a card or form of ours renders has one handler, and what nobody knows is answered all the same."""

import json
import re
from collections.abc import AsyncIterator

import pytest

from bot.cards.buttons import OldButton
from bot.incidents.cards import notes
from bot.incidents.handlers.services import HomeServices
from bot.slack.handlers import SlackHandlers, refuse_old_button
from bot.slack.manifest import build_manifest
from bot.slack.registry import SlackRegistry
from bot.tenants.cards import tenant_card
from tests.bot.tenants.test_tenant_channel import dress, features_of, reported
from tests.golden.table import EXPECTED
from tests.support.fakes_bot import ACME, OPS, Behind, Features, build_registry, slack_side
from tests.support.slack_ids import list_action_ids, list_form_ids


@pytest.fixture
async def bot() -> AsyncIterator[Behind]:
    async with slack_side(dress, features_of=features_of) as behind:
        yield behind


async def test_each_id_that_is_rendered_has_a_handler_whether_its_feature_is_on_or_off(bot: Behind) -> None:
    home = HomeServices(bot.context, bot.messages.open_work, bot.services.label_choices, bot.services.incident_metrics, {})
    off = build_registry(bot.services, home, bot.messages, bot.redis, Features())
    for registry in (bot.registry, off):
        assert registry.clicks.keys() == list_action_ids()
        assert registry.forms.keys() == list_form_ids()
    assert {off.clicks[action_id] for action_id in tenant_card.BUTTONS} == {refuse_old_button}


async def test_each_id_in_an_expected_card_is_registered(bot: Behind) -> None:
    """A form reports its inputs with its own id; each of them has the id of its block."""
    rendered = "".join(path.read_text() for path in (EXPECTED / "cards").rglob("*.yaml"))
    clicked, inputs = (set(re.findall(rf"\b{name}: (\S+)", rendered)) for name in ("action_id", "block_id"))
    assert len(clicked - inputs) > 20
    assert clicked - inputs <= bot.registry.clicks.keys()


async def test_the_events_that_the_app_subscribes_to_have_handlers(bot: Behind) -> None:
    subscribed = {name.partition(".")[0] for name in build_manifest()["settings"]["event_subscriptions"]["bot_events"]}
    assert subscribed <= bot.registry.events.keys()


def test_an_id_that_two_features_register_is_refused() -> None:
    twice = SlackHandlers(clicks={"a.button": refuse_old_button})
    with pytest.raises(ValueError, match=r"registered twice: a\.button"):
        SlackRegistry((twice, twice), None, None, None, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("action_id", sorted(list_action_ids() - set(tenant_card.BUTTONS)))
async def test_a_button_of_ours_in_a_customers_thread_stores_nothing(bot: Behind, action_id: str) -> None:
    incident, thread = await reported(bot)
    before = [item.id for item in await bot.items()]
    value = json.dumps({"incident": incident, "item": "x"})
    button = {"type": "button", "action_id": action_id, "text": {"type": "plain_text", "text": "x"}, "value": value}
    posted = await bot.context.client.chat_postMessage(
        channel=ACME, thread_ts=thread, text="forged", blocks=[{"type": "actions", "block_id": value, "elements": [button]}]
    )
    await bot.slack.click("carla", str(posted["ts"]), action_id)
    await bot.settled()
    assert [item.id for item in await bot.items()] == before
    assert bot.slack.view("carla") is None
    said = [str(row["text"]) for row in bot.slack.whispers("carla")]
    assert said
    assert not any(str(OldButton()) in text or "rackmedic" in text.lower() for text in said)


async def test_an_unknown_button_is_answered_as_an_old_one(bot: Behind) -> None:
    button = {"type": "button", "action_id": "of.another.version", "text": {"type": "plain_text", "text": "x"}, "value": "{}"}
    posted = await bot.context.client.chat_postMessage(channel=OPS, text="old", blocks=[{"type": "actions", "elements": [button]}])
    await bot.slack.click("olga", str(posted["ts"]), "of.another.version")
    await bot.settled()
    assert [row["text"] for row in bot.slack.whispers("olga")] == [notes.render_refusal(str(OldButton())).text]
