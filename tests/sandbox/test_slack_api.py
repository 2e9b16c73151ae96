"""The sandbox's Web API through slack_sdk: answers, and Slack's refusals with Slack's error codes."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from slack_bolt.async_app import AsyncAck
from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.builtin_async_handlers import AsyncRateLimitErrorRetryHandler
from slack_sdk.web.async_client import AsyncWebClient

from deploy.sandbox.slack import SlackSandbox
from deploy.sandbox.slack.workspace.blockkit import find_problems
from tests.support.clock import SetClock
from tests.support.fixtures_slack import Bolt, bolt_bot

CHANNEL = "C0GPUINC"


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
async def slack(clock: SetClock) -> AsyncIterator[SlackSandbox]:
    async with SlackSandbox(clock=clock.stamp) as slack:
        yield slack


@pytest.fixture
def client(slack: SlackSandbox) -> AsyncWebClient:
    return AsyncWebClient(token=slack.bot_token, base_url=slack.api_url)


@pytest.fixture
async def bolt(slack: SlackSandbox) -> AsyncIterator[Bolt]:
    async with bolt_bot(slack) as bolt:
        for event in ("message", "app_mention", "file_shared"):

            @bolt.app.event(event)
            async def hear() -> None: ...

        yield bolt


def plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text}


def section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def button(action_id: str = "go", **more: Any) -> dict[str, Any]:
    return {"type": "button", "action_id": action_id, "text": plain("Go"), **more}


def actions(*elements: dict[str, Any]) -> dict[str, Any]:
    return {"type": "actions", "elements": list(elements)}


def modal(**more: Any) -> dict[str, Any]:
    field = {"type": "plain_text_input", "action_id": "reason"}
    asks = {"type": "input", "block_id": "why", "label": plain("Why?"), "element": field}
    return {"type": "modal", "callback_id": "reject", "title": plain("Reject"), "submit": plain("Send"), "blocks": [asks], **more}


REFUSED_BLOCKS = {
    "51 blocks": ([{"type": "divider"}] * 51, "no more than 50 items allowed [json-pointer:/blocks]"),
    "a section of 3001 characters": ([section("x" * 3001)], "must be less than 3001 characters [json-pointer:/blocks/0/text/text]"),
    "an empty section": ([section("")], "must be more than 0 characters"),
    "a section without text": ([{"type": "section"}], "missing required field: text or fields"),
    "11 fields": ([{"type": "section", "fields": [plain("x")] * 11}], "no more than 10 items"),
    "a header of 151 characters": ([{"type": "header", "text": plain("x" * 151)}], "must be less than 151 characters"),
    "a header in mrkdwn": ([{"type": "header", "text": {"type": "mrkdwn", "text": "x"}}], "must be a plain_text object"),
    "a button text of 76 characters": ([actions(button(text=plain("x" * 76)))], "must be less than 76 characters"),
    "a button value of 2001 characters": ([actions(button(value="x" * 2001))], "must be less than 2001 characters"),
    "a button of an unknown style": ([actions(button(style="warning"))], "must be one of: primary, danger"),
    "26 buttons": ([actions(*(button(f"a{n}") for n in range(26)))], "no more than 25 items"),
    "11 context elements": ([{"type": "context", "elements": [plain("x")] * 11}], "no more than 10 items"),
    "an action_id twice": ([actions(button("a"), button("a"))], "`action_id` `a` already exists"),
    "a block_id twice": ([section("x") | {"block_id": "b"}, section("y") | {"block_id": "b"}], "`block_id` `b` already exists"),
    "an unknown block": ([{"type": "hologram"}], "unsupported type: hologram [json-pointer:/blocks/0/type]"),
    "an unknown element": ([actions({"type": "lever"})], "unsupported type: lever"),
    "two tables": ([{"type": "table", "rows": [[{"type": "raw_text", "text": "x"}]]}] * 2, "only_one_table_allowed"),
    "a table of 21 columns": ([{"type": "table", "rows": [[{"type": "raw_text", "text": "x"}] * 21]}], "no more than 20 items"),
    "an image without alt text": ([{"type": "image", "image_url": "https://example.com/x.png"}], "missing required field: alt_text"),
}


@pytest.mark.parametrize(("blocks", "why"), REFUSED_BLOCKS.values(), ids=REFUSED_BLOCKS.keys())
async def test_blocks_that_slack_refuses_are_refused(client: AsyncWebClient, blocks: list[Any], why: str) -> None:
    with pytest.raises(SlackApiError) as refused:
        await client.chat_postMessage(channel=CHANNEL, text="x", blocks=blocks)
    assert refused.value.response["error"] == "invalid_blocks"
    assert any(why in line for line in refused.value.response["response_metadata"]["messages"])


def test_blocks_at_the_limit_pass() -> None:
    full = [
        section("x" * 3000),
        {"type": "header", "text": plain("x" * 150)},
        actions(*(button(f"a{n}", value="v" * 2000) for n in range(25))),
    ]
    assert find_problems(full + [{"type": "divider"}] * 47, "message") == []
    assert find_problems([{"type": "divider"}] * 100, "modal") == []


async def test_other_refusals_of_a_message(client: AsyncWebClient, slack: SlackSandbox) -> None:
    async def why(**message: Any) -> str:
        with pytest.raises(SlackApiError) as refused:
            await client.api_call("chat.postMessage", json={"channel": CHANNEL, "text": "x"} | message)
        return str(refused.value.response["error"])

    slack.workspace.channels["C0RANDOM"].members.remove("U0RACKMED")
    slack.rates.set("*", None)
    assert await why(channel="C0NOWHERE") == "channel_not_found"
    assert await why(channel="C0RANDOM") == "not_in_channel"
    assert await why(text=" ") == "no_text"
    assert await why(text="x" * 40_001) == "msg_too_long"
    assert await why(blocks=[section("x" * 2900)] * 5) == "msg_blocks_too_long"
    assert await why(thread_ts="1.000001") == "thread_not_found"
    assert await why(metadata={"event_type": "x"}) == "invalid_metadata_format"
    assert await why(blocks="{") == "invalid_blocks_format"


async def test_tokens_are_asked_for(slack: SlackSandbox) -> None:
    async def why(token: str) -> str:
        with pytest.raises(SlackApiError) as refused:
            await AsyncWebClient(token=token, base_url=slack.api_url).auth_test()
        return str(refused.value.response["error"])

    assert await why("xoxb-wrong") == "invalid_auth"
    assert await why("") == "not_authed"
    assert await why(slack.app_token) == "not_allowed_token_type"
    with pytest.raises(SlackApiError, match="not_allowed_token_type"):
        await AsyncWebClient(base_url=slack.api_url).apps_connections_open(app_token=slack.bot_token)
    with pytest.raises(SlackApiError, match="unknown_method"):
        await AsyncWebClient(token=slack.bot_token, base_url=slack.api_url).api_call("chat.shout")


async def test_only_the_apps_own_messages_can_be_changed_and_an_update_is_limited_to_4000_bytes(
    client: AsyncWebClient, slack: SlackSandbox
) -> None:
    theirs = await slack.say("olga", CHANNEL, "mine")
    with pytest.raises(SlackApiError, match="cant_update_message"):
        await client.chat_update(channel=CHANNEL, ts=theirs, text="not mine")
    with pytest.raises(SlackApiError, match="cant_delete_message"):
        await client.chat_delete(channel=CHANNEL, ts=theirs)
    posted = await client.chat_postMessage(channel=CHANNEL, text="one", blocks=[section("one")])
    with pytest.raises(SlackApiError, match="msg_too_long"):
        await client.chat_update(channel=CHANNEL, ts=posted["ts"], text="ü" * 2001)
    await client.chat_update(channel=CHANNEL, ts=posted["ts"], text="two", blocks=[section("two")])
    shown = slack.messages(CHANNEL)[-1]
    assert (shown["text"], shown["blocks"][0]["text"]["text"], "edited" in shown) == ("two", "two", True)


async def test_threads_return_their_metadata_on_request(client: AsyncWebClient, slack: SlackSandbox) -> None:
    root = await slack.say("olga", CHANNEL, "root")
    note = {"event_type": "incident", "event_payload": {"id": "INC-1"}}
    await client.chat_postMessage(channel=CHANNEL, text="reply", thread_ts=root, metadata=note)
    replies = await client.conversations_replies(channel=CHANNEL, ts=root, include_all_metadata=True)
    assert [message.get("metadata") for message in replies["messages"]] == [None, note]
    assert replies["messages"][0]["reply_count"] == 1
    plainly = await client.conversations_replies(channel=CHANNEL, ts=root)
    assert "metadata" not in plainly["messages"][1]
    history = await client.conversations_history(channel=CHANNEL)
    assert [message["text"] for message in history["messages"]] == ["root"]


async def test_history_comes_in_pages(client: AsyncWebClient, slack: SlackSandbox) -> None:
    for n in range(5):
        await slack.say("olga", CHANNEL, f"line {n}")
    first = await client.conversations_history(channel=CHANNEL, limit=2)
    texts = [[message["text"] for message in page["messages"]] async for page in first]
    assert texts == [["line 4", "line 3"], ["line 2", "line 1"], ["line 0"]]


async def test_people_are_described_by_what_policy_asks(client: AsyncWebClient, slack: SlackSandbox) -> None:
    async def who(user: str) -> dict[str, Any]:
        return dict((await client.users_info(user=user))["user"])

    assert (await who("U0PRIYA"))["team_id"] == "T0RACK"
    assert (await who("U0GUEST"))["is_restricted"] is True
    assert (await who("U0LEFT"))["deleted"] is True
    carla, stan = await who("U0CARLA"), await who("U0STRANGE")
    assert (carla["team_id"], carla["is_stranger"], stan["is_stranger"]) == ("T0ACME", False, True)
    assert not {"is_restricted", "is_ultra_restricted", "deleted", "tz"} & set(stan)
    assert "email" not in stan["profile"]
    assert carla["is_restricted"] is False
    assert (await client.usergroups_users_list(usergroup="S0GPUAPPR"))["users"] == ["U0PRIYA", "U0ANTON"]
    assert (await client.usergroups_list())["usergroups"][0]["handle"] == "gpu-approvers"
    assert (await client.bots_info(bot="B0RACKMED"))["bot"]["app_id"] == "A0RACKMED"
    members = (await client.conversations_members(channel="C0CUSTACME"))["members"]
    assert "U0CARLA" in members
    with pytest.raises(SlackApiError, match="user_not_found"):
        await who("U0NOBODY")


async def test_too_many_posts_are_answered_with_429_and_the_retry_handler_gets_through(client: AsyncWebClient, slack: SlackSandbox) -> None:
    client.retry_handlers.append(AsyncRateLimitErrorRetryHandler(max_retry_count=1))
    slack.rates.fail_next("chat.postMessage", retry_after=1)
    assert (await client.chat_postMessage(channel=CHANNEL, text="at last"))["ok"]
    assert slack.stats()["refusals"] == {"chat.postMessage:ratelimited": 1}


async def test_a_channel_takes_a_short_burst_and_then_one_message_a_second(
    client: AsyncWebClient, slack: SlackSandbox, clock: SetClock
) -> None:
    for n in range(10):
        await client.chat_postMessage(channel=CHANNEL, text=f"line {n}")
    with pytest.raises(SlackApiError) as refused:
        await client.chat_postMessage(channel=CHANNEL, text="too much")
    assert (refused.value.response.status_code, refused.value.response.headers["Retry-After"]) == (429, "1")
    await client.chat_postMessage(channel="C0RANDOM", text="elsewhere is fine")
    clock.go(seconds=1)
    await client.chat_postMessage(channel=CHANNEL, text="now it goes")


async def test_updates_are_limited_to_fifty_a_minute(client: AsyncWebClient, clock: SetClock) -> None:
    ts = (await client.chat_postMessage(channel=CHANNEL, text="card"))["ts"]
    for n in range(50):
        await client.chat_update(channel=CHANNEL, ts=ts, text=f"{n}")
    with pytest.raises(SlackApiError) as refused:
        await client.chat_update(channel=CHANNEL, ts=ts, text="51")
    assert refused.value.response["error"] == "ratelimited"


async def test_a_modal_goes_round(bolt: Bolt) -> None:
    views: list[dict[str, Any]] = []

    @bolt.app.action("reject")
    async def ask(ack: AsyncAck, body: dict[str, Any], client: AsyncWebClient) -> None:
        await ack()
        await client.views_open(trigger_id=body["trigger_id"], view=modal(private_metadata="sealed"))

    @bolt.app.view("reject")
    async def take(ack: AsyncAck, view: dict[str, Any], client: AsyncWebClient) -> None:
        if view["state"]["values"]["why"]["reason"]["value"] == "no":
            await ack(response_action="errors", errors={"why": "Say a little more."})
        else:
            views.append(view)
            await ack()

    posted = await bolt.app.client.chat_postMessage(channel=CHANNEL, text="card", blocks=[actions(button("reject"))])
    await bolt.slack.click("priya", posted["ts"], "reject")
    view = await bolt.slack.wait_for(lambda: bolt.slack.view("priya"))
    assert bolt.slack.view("olga") is None
    assert await bolt.slack.submit("priya", view["id"], {}) == {"errors": {"why": "Please complete this required field."}}
    assert await bolt.slack.submit("priya", view["id"], {"reason": "no"}) == {"errors": {"why": "Say a little more."}}
    assert await bolt.slack.submit("priya", view["id"], {"reason": "the node is wanted tonight"}) == {}
    assert bolt.slack.view("priya") is None
    assert views[0]["private_metadata"] == "sealed"


async def test_a_submission_can_be_answered_with_another_view_and_closing_is_told_where_asked(bolt: Bolt) -> None:
    @bolt.app.view("reject")
    async def take(ack: AsyncAck) -> None:
        await ack(response_action="update", view=modal(callback_id="second", title=plain("Sure?"), notify_on_close=True))

    @bolt.app.view_closed("second")
    async def closed(ack: AsyncAck) -> None:
        await ack()

    bolt.slack.views.open(bolt.slack.views.trigger("U0PRIYA"), modal())
    view = bolt.slack.view("priya")
    assert view is not None
    assert await bolt.slack.submit("priya", view["id"], {"reason": "because"}) == {}
    second = bolt.slack.view("priya")
    assert second is not None
    assert second["title"]["text"] == "Sure?"
    await bolt.slack.close("priya", second["id"])
    assert bolt.slack.view("priya") is None
    assert bolt.heard[-1]["type"] == "view_closed"


async def test_a_trigger_opens_one_modal_within_three_seconds(client: AsyncWebClient, slack: SlackSandbox, clock: SetClock) -> None:
    async def why(trigger: str, **more: Any) -> str:
        with pytest.raises(SlackApiError) as refused:
            await client.views_open(trigger_id=trigger, view=modal(**more))
        return str(refused.value.response["error"])

    used, late = slack.views.trigger("U0PRIYA"), slack.views.trigger("U0PRIYA")
    assert await why(used, title=plain("x" * 25)) == "invalid_arguments"
    assert await why(used, private_metadata="x" * 3001) == "invalid_arguments"
    assert await why(used, submit=None) == "invalid_arguments"
    await client.views_open(trigger_id=used, view=modal())
    assert await why(used) == "exchanged_trigger_id"
    clock.go(seconds=3.1)
    assert await why(late) == "expired_trigger_id"
    assert await why("1.2.made-up") == "invalid_trigger_id"


async def test_an_update_of_a_view_seen_too_early_conflicts(client: AsyncWebClient, slack: SlackSandbox) -> None:
    opened = (await client.views_open(trigger_id=slack.views.trigger("U0PRIYA"), view=modal()))["view"]
    await client.views_update(view_id=opened["id"], hash=opened["hash"], view=modal(title=plain("Two")))
    with pytest.raises(SlackApiError, match="hash_conflict"):
        await client.views_update(view_id=opened["id"], hash=opened["hash"], view=modal(title=plain("Three")))


async def test_files_go_up_and_come_down_only_with_the_token(client: AsyncWebClient, slack: SlackSandbox) -> None:
    root = await slack.say("olga", CHANNEL, "root")
    await client.files_upload_v2(
        channel=CHANNEL, thread_ts=root, filename="evidence.log", content="NVRM: Xid 79", title="Evidence", alt_txt="one line"
    )
    [file] = slack.thread(CHANNEL, root)[-1]["files"]
    assert (file["name"], file["size"], file["mimetype"], file["alt_txt"]) == ("evidence.log", 12, "text/plain", "one line")
    async with aiohttp.ClientSession() as session:
        async with session.get(file["url_private"], headers={"Authorization": f"Bearer {slack.bot_token}"}) as answer:
            assert await answer.read() == b"NVRM: Xid 79"
        async with session.get(file["url_private"]) as answer:
            assert (answer.status, answer.content_type) == (200, "text/html")
    assert (await client.files_info(file=file["id"]))["file"]["title"] == "Evidence"
    with pytest.raises(SlackApiError, match="file_not_found"):
        await client.files_info(file="F0NOTHING")


async def test_a_persons_file_is_told_twice_and_from_another_team_only_by_id(bolt: Bolt) -> None:
    await bolt.slack.say("olga", CHANNEL, "@rackmedic look", files=[("nccl.log", b"timeout")])
    await bolt.slack.quiet()
    assert bolt.events("message")[0]["subtype"] == "file_share"
    assert bolt.events("app_mention")[0]["files"][0]["name"] == "nccl.log"
    assert bolt.events("file_shared")[0]["user_id"] == "U0OLGA"
    await bolt.slack.say("carla", "cust-acme", "mine", files=[("acme.log", b"timeout")])
    await bolt.slack.quiet()
    [seen] = bolt.events("message")[-1]["files"]
    assert seen["file_access"] == "check_file_info"
    assert "url_private" not in seen


async def test_an_ephemeral_message_is_seen_by_one_and_replaced_through_its_response_url(bolt: Bolt) -> None:
    @bolt.app.action("go")
    async def clicked(ack: AsyncAck, respond: Any) -> None:
        await ack()
        await respond(text="done", replace_original=True)

    client = bolt.app.client
    await client.chat_postEphemeral(channel=CHANNEL, user="U0OLGA", text="only you", blocks=[actions(button())])
    [seen] = bolt.slack.whispers("olga")
    assert not bolt.slack.whispers("priya")
    assert [message["text"] for message in bolt.slack.messages(CHANNEL, "olga")] == ["only you"]
    assert bolt.slack.messages(CHANNEL, "priya") == []
    await bolt.slack.click("olga", seen["ts"], "go")
    await bolt.slack.wait_for(lambda: [message["text"] for message in bolt.slack.whispers("olga")] == ["done"])
    with pytest.raises(SlackApiError, match="user_not_in_channel"):
        await client.chat_postEphemeral(channel=CHANNEL, user="U0CARLA", text="not here")


async def test_reactions_permalinks_and_direct_messages(client: AsyncWebClient, slack: SlackSandbox) -> None:
    ts = await slack.say("olga", CHANNEL, "root")
    await client.reactions_add(channel=CHANNEL, timestamp=ts, name="eyes")
    with pytest.raises(SlackApiError, match="already_reacted"):
        await client.reactions_add(channel=CHANNEL, timestamp=ts, name="eyes")
    link = (await client.chat_getPermalink(channel=CHANNEL, message_ts=ts))["permalink"]
    assert link == f"{slack.url}/archives/{CHANNEL}/p{ts.replace('.', '')}"
    opened = (await client.conversations_open(users=["U0PRIYA"]))["channel"]["id"]
    await client.chat_postMessage(channel="U0PRIYA", text="hello")
    assert slack.messages(opened)[0]["text"] == "hello"


async def test_the_control_surface_takes_json_only_and_answers_a_waiting_reader(slack: SlackSandbox) -> None:
    async with aiohttp.ClientSession(slack.url) as session:
        async with session.post("/control/say", data={"user": "olga"}) as answer:
            assert answer.status == 415
        async with session.post("/control/say", json={"user": "olga"}) as answer:
            assert answer.status == 400
        since = slack.workspace.journal.seq
        waiting = session.get("/control/changes", params={"since": since, "wait": 5, "user": "olga"})
        async with session.post("/control/say", json={"user": "olga", "channel": "random", "text": "hello"}) as answer:
            ts = (await answer.json())["ts"]
        async with waiting as answer:
            [change] = (await answer.json())["changes"]
        assert (change["kind"], change["data"]["ts"]) == ("message", ts)
        async with session.get("/control/changes", params={"since": since, "user": "carla"}) as answer:
            assert (await answer.json())["changes"] == []
        async with session.get("/control/stats", headers={"Host": "evil.example"}) as answer:
            assert answer.status == 403
