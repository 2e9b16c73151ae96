"""The sandbox's Socket Mode with the real Bolt app."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from slack_bolt.async_app import AsyncAck, AsyncSay

from deploy.sandbox.slack import SlackSandbox
from deploy.sandbox.slack.app.socket_mode import DeliveryTimeouts
from deploy.sandbox.slack.workspace.refusal import SlackRefusal
from tests.support.fixtures_slack import EAGER, Bolt, bolt_bot


@pytest.fixture
async def slack() -> AsyncIterator[SlackSandbox]:
    async with SlackSandbox(patience=DeliveryTimeouts(EAGER.ack, EAGER.retries, EAGER.offline)) as slack:
        yield slack


@pytest.fixture
async def bolt(slack: SlackSandbox) -> AsyncIterator[Bolt]:
    async with bolt_bot(slack) as bolt:

        @bolt.app.event("message")
        async def ignore() -> None: ...

        @bolt.app.event("app_mention")
        async def answer(event: dict[str, Any], say: AsyncSay) -> None:
            await say(text="Looking.", thread_ts=event.get("thread_ts") or event["ts"])

        yield bolt


def answers(slack: SlackSandbox, ts: str) -> list[dict[str, Any]]:
    return [message for message in slack.thread("C0GPUINC", ts) if message.get("bot_id")]


async def test_a_mention_arrives_as_two_events_with_different_ids(bolt: Bolt) -> None:
    ts = await bolt.slack.say("olga", "#gpu-incidents", "@rackmedic job 4711 hangs on gpu-[017-020] <!channel>")
    await bolt.slack.wait_for(lambda: answers(bolt.slack, ts))
    told = [body for body in bolt.heard if body["event"].get("user") == "U0OLGA"]
    assert sorted(body["event"]["type"] for body in told) == ["app_mention", "message"]
    assert len({body["event_id"] for body in told}) == 2
    assert {body["event"]["ts"] for body in told} == {ts}
    assert told[0]["event"]["text"] == "<@U0RACKMED> job 4711 hangs on gpu-[017-020] &lt;!channel&gt;"
    assert told[0]["event"]["blocks"][0]["elements"][0]["elements"][0] == {"type": "user", "user_id": "U0RACKMED"}


async def test_the_app_is_told_of_its_own_messages_as_in_slack(bolt: Bolt) -> None:
    await bolt.slack.say("olga", "gpu-incidents", "@rackmedic hello")
    sent = bolt.slack.hub.sent
    own = await bolt.slack.wait_for(lambda: [e for e in sent if e["payload"]["event"].get("bot_id")])
    assert own[0]["payload"]["event"]["text"] == "Looking."


async def test_an_unacknowledged_event_is_redelivered_with_the_same_id_and_a_reason(bolt: Bolt) -> None:
    bolt.slack.hub.patience.ack = 0.05
    bolt.slack.hub.drop = 2
    await bolt.slack.say("olga", "random", "no mention here")
    await bolt.slack.quiet()
    tries = [
        (body["event_id"], body["headers"].get("x-slack-retry-num"), body["headers"].get("x-slack-retry-reason")) for body in bolt.heard
    ]
    assert [attempt for _, attempt, _ in tries] == [["0"], ["1"], ["2"]]
    assert len({event_id for event_id, _, _ in tries}) == 1
    assert tries[-1][2] == ["timeout"]
    assert bolt.slack.stats()["counts"]["acked"] == 1


async def test_an_event_is_given_up_after_three_retries(bolt: Bolt) -> None:
    bolt.slack.hub.patience.ack = 0.02
    bolt.slack.hub.drop = 4
    await bolt.slack.say("olga", "random", "no mention here")
    await bolt.slack.quiet()
    assert len(bolt.heard) == 4
    assert bolt.slack.stats()["counts"]["lost_events"] == 1


async def test_a_disconnect_request_brings_the_app_back_on_a_new_connection(bolt: Bolt) -> None:
    assert await bolt.slack.hub.disconnect() == 1
    await bolt.slack.wait_for(lambda: bolt.slack.stats()["counts"]["connections"] == 2 and bolt.slack.hub.live)
    ts = await bolt.slack.say("olga", "gpu-incidents", "@rackmedic still there?")
    assert await bolt.slack.wait_for(lambda: answers(bolt.slack, ts))


async def test_a_cut_connection_is_noticed_and_what_was_said_meanwhile_arrives(bolt: Bolt) -> None:
    await bolt.slack.hub.cut()
    ts = await bolt.slack.say("olga", "gpu-incidents", "@rackmedic still there?")
    assert await bolt.slack.wait_for(lambda: answers(bolt.slack, ts))


async def test_events_are_shared_out_over_several_connections(bolt: Bolt) -> None:
    async with bolt_bot(bolt.slack) as second:

        @second.app.event("message")
        async def ignore() -> None: ...

        await bolt.slack.connected(2)
        for n in range(4):
            await bolt.slack.say("olga", "random", f"line {n}")
        await bolt.slack.quiet()
        assert (len(bolt.heard), len(second.heard)) == (2, 2)


async def test_a_ticket_opens_one_connection_only(slack: SlackSandbox) -> None:
    assert slack.hub.ticket() != slack.hub.ticket()
    async with bolt_bot(slack) as bolt:
        used = str(bolt.handler.client.wss_uri)
        session = bolt.handler.client.aiohttp_client_session
        async with session.get(used.replace("ws", "http", 1)) as answer:
            assert answer.status == 401


async def test_a_click_is_delivered_once_and_its_person_is_told_of_a_missing_answer(bolt: Bolt) -> None:
    client = bolt.app.client
    button = {"type": "button", "action_id": "go", "text": {"type": "plain_text", "text": "Go"}, "value": "v1"}
    posted = await client.chat_postMessage(channel="C0GPUINC", text="card", blocks=[{"type": "actions", "elements": [button]}])
    bolt.slack.hub.patience.ack = 0.05
    done = await bolt.slack.click("olga", posted["ts"], "go")
    assert (done.acked, done.reason) == (False, "timeout")
    trouble = [change for change in bolt.slack.workspace.journal.list_changes_after(0) if change.kind == "trouble"]
    assert [change.user for change in trouble] == ["U0OLGA"]
    assert [e["type"] for e in bolt.slack.hub.sent].count("interactive") == 1


async def test_a_click_says_who_clicked_what_and_from_which_team(bolt: Bolt) -> None:
    bodies: list[dict[str, Any]] = []

    @bolt.app.action("go")
    async def clicked(ack: AsyncAck, body: dict[str, Any]) -> None:
        bodies.append(body)
        await ack()

    button = {"type": "button", "action_id": "go", "text": {"type": "plain_text", "text": "Go"}, "value": "sealed"}
    card = [{"type": "actions", "block_id": "b", "elements": [button]}]
    posted = await bolt.app.client.chat_postMessage(channel="C0CUSTACME", text="card", blocks=card)
    done = await bolt.slack.click("carla", posted["ts"], "go")
    assert done.acked
    assert bodies[0]["user"] == {"id": "U0CARLA", "username": "carla", "name": "carla", "team_id": "T0ACME"}
    assert bodies[0]["team"]["id"] == "T0RACK"
    assert bodies[0]["actions"][0]["value"] == "sealed"
    assert bodies[0]["container"]["message_ts"] == posted["ts"]
    with pytest.raises(SlackRefusal, match="not_in_channel"):
        await bolt.slack.click("stan", posted["ts"], "go")


async def test_a_shared_channel_brings_in_people_of_another_team(bolt: Bolt) -> None:
    bolt.slack.share("gpu-incidents", "T0GLOBEX")
    await bolt.slack.say("stan", "gpu-incidents", "@rackmedic hello from outside")
    await bolt.slack.wait_for(lambda: bolt.events("app_mention"))
    body = next(body for body in bolt.heard if body["event"]["type"] == "app_mention")
    assert body["is_ext_shared_channel"] is True
    assert (body["event"]["user_team"], body["team_id"]) == ("T0GLOBEX", "T0RACK")
    info = await bolt.app.client.conversations_info(channel="C0GPUINC")
    assert info["channel"]["is_ext_shared"] is True


async def test_slash_commands_shortcuts_and_home_reach_the_app(bolt: Bolt) -> None:
    @bolt.app.command("/rackmedic")
    async def command(ack: AsyncAck, command: dict[str, Any]) -> None:
        await ack(f"you said {command['text']}")

    @bolt.app.shortcut("diagnose_this")
    async def shortcut(ack: AsyncAck, shortcut: dict[str, Any], client: Any) -> None:
        await ack()
        await client.chat_postMessage(channel=shortcut["channel"]["id"], text=f"about: {shortcut['message']['text']}")

    @bolt.app.event("app_home_opened")
    async def home(event: dict[str, Any], client: Any) -> None:
        header = {"type": "header", "text": {"type": "plain_text", "text": "Open incidents"}}
        await client.views_publish(user_id=event["user"], view={"type": "home", "blocks": [header]})

    assert (await bolt.slack.command("olga", "gpu-incidents", "/rackmedic", "status")).acked
    assert bolt.slack.whispers("olga")[0]["text"] == "you said status"
    ts = await bolt.slack.say("olga", "gpu-incidents", "training is slow")
    assert (await bolt.slack.shortcut("olga", "gpu-incidents", ts, "diagnose_this")).acked
    await bolt.slack.wait_for(lambda: [m for m in bolt.slack.messages("C0GPUINC") if m["text"] == "about: training is slow"])
    await bolt.slack.open_home("priya")
    view = await bolt.slack.wait_for(lambda: bolt.slack.home("priya"))
    assert view["blocks"][0]["text"]["text"] == "Open incidents"


async def test_a_direct_message_is_a_message_and_not_a_mention(bolt: Bolt) -> None:
    await bolt.slack.say("olga", bolt.slack.dm("olga").id, "@rackmedic hello")
    await bolt.slack.quiet()
    assert [event["channel_type"] for event in bolt.events("message")] == ["im"]
    assert not bolt.events("app_mention")


async def test_ack_latency_is_measured(bolt: Bolt) -> None:
    for n in range(20):
        await bolt.slack.say("olga", "random", f"line {n}")
    await bolt.slack.quiet()
    spread = bolt.slack.stats()["ack_seconds"]["events_api"]
    assert spread["count"] == 20
    assert 0 < spread["p50"] <= spread["p99"] <= spread["max"] < 2


async def test_a_manifest_decides_what_the_app_hears_and_may_do() -> None:
    manifest = {
        "features": {"slash_commands": [{"command": "/other"}], "shortcuts": []},
        "oauth_config": {"scopes": {"bot": ["app_mentions:read"]}},
        "settings": {"event_subscriptions": {"bot_events": ["app_mention"]}},
    }
    async with SlackSandbox(manifest=manifest) as slack, bolt_bot(slack) as bolt:

        @bolt.app.event("app_mention")
        async def hear() -> None: ...

        await slack.say("olga", "gpu-incidents", "@rackmedic hello")
        await slack.quiet()
        assert [body["event"]["type"] for body in bolt.heard] == ["app_mention"]
        with pytest.raises(Exception, match="missing_scope"):
            await bolt.app.client.chat_postMessage(channel="C0GPUINC", text="hello")
        with pytest.raises(SlackRefusal, match="unknown_command"):
            await slack.command("olga", "gpu-incidents", "/rackmedic")
