"""The sandbox's app conversation: opening events, suggested prompts, and thread status with its lifetime."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import expect
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from deploy.sandbox.slack import SlackSandbox
from tests.support.clock import SetClock
from tests.support.fixtures_browser import browser_page, needs_chromium
from tests.support.fixtures_slack import Bolt, bolt_bot

BASIC: dict[str, Any] = {
    "display_information": {"name": "RackMedic"},
    "oauth_config": {"scopes": {"bot": ["assistant:write", "chat:write", "im:history"]}},
    "settings": {
        "event_subscriptions": {
            "bot_events": [
                "app_context_changed",
                "app_home_opened",
                "assistant_thread_context_changed",
                "assistant_thread_started",
                "message.im",
            ]
        }
    },
}
PROMPTS = [{"title": "Open?", "message": "What is open?"}]


def app(view: str) -> dict[str, Any]:
    return BASIC | {"features": {view: {}} if view else {}}


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
async def slack(request: pytest.FixtureRequest, clock: SetClock) -> AsyncIterator[SlackSandbox]:
    async with SlackSandbox(clock=clock.stamp, manifest=app(request.param)) as slack:
        yield slack


@pytest.fixture
def client(slack: SlackSandbox) -> AsyncWebClient:
    return AsyncWebClient(token=slack.bot_token, base_url=slack.api_url)


@pytest.fixture
async def bolt(slack: SlackSandbox) -> AsyncIterator[Bolt]:
    async with bolt_bot(slack) as bolt:
        for event in ("message", "app_home_opened", "app_context_changed", "assistant_thread_started", "assistant_thread_context_changed"):

            @bolt.app.event(event)
            async def hear() -> None: ...

        yield bolt


assistant = pytest.mark.parametrize("slack", ["assistant_view"], indirect=True)
agent = pytest.mark.parametrize("slack", ["agent_view"], indirect=True)
neither = pytest.mark.parametrize("slack", [""], indirect=True)


@assistant
async def test_opening_an_assistant_begins_a_thread_of_its_own_and_tells_what_they_look_at(bolt: Bolt) -> None:
    root = bolt.slack.open_pane("olga", "C0GPUINC")
    bolt.slack.acts.look_at("olga", "C0RANDOM", root)
    await bolt.slack.quiet()
    [begun] = bolt.events("assistant_thread_started")
    [moved] = bolt.events("assistant_thread_context_changed")
    assert begun["assistant_thread"] == {
        "user_id": "U0OLGA",
        "context": {"channel_id": "C0GPUINC", "team_id": "T0RACK", "enterprise_id": None},
        "channel_id": "D0OLGA",
        "thread_ts": root,
    }
    assert moved["assistant_thread"]["context"]["channel_id"] == "C0RANDOM"
    [message] = bolt.slack.thread("D0OLGA", root)
    assert (message["subtype"], message["bot_id"]) == ("assistant_app_thread", "B0RACKMED")


@agent
async def test_opening_an_agent_tells_of_its_messages_tab_and_begins_nothing(bolt: Bolt) -> None:
    assert bolt.slack.open_pane("olga", "C0GPUINC") == ""
    bolt.slack.acts.look_at("olga", "C0RANDOM")
    await bolt.slack.quiet()
    [opened] = bolt.events("app_home_opened")
    assert (opened["tab"], opened["channel"]) == ("messages", "D0OLGA")
    assert bolt.events("app_context_changed")[0]["context"]["entities"][0]["value"] == "C0RANDOM"
    assert bolt.events("message") == []


@agent
async def test_a_status_goes_with_the_answer_or_after_two_minutes(slack: SlackSandbox, client: AsyncWebClient, clock: SetClock) -> None:
    channel = slack.dm("olga").id
    root = await slack.say("olga", channel, "status")
    await client.assistant_threads_setStatus(channel_id=channel, thread_ts=root, status="is reading…")
    assert slack.pane("olga", root)["status"] == "is reading…"
    await client.chat_postMessage(channel=channel, thread_ts=root, text="here")
    assert slack.pane("olga", root)["status"] == ""
    await client.assistant_threads_setStatus(channel_id=channel, thread_ts=root, status="is reading…")
    clock.go(seconds=121)
    assert slack.pane("olga", root)["status"] == ""


@assistant
async def test_prompts_and_titles_belong_to_a_thread_of_the_assistant(slack: SlackSandbox, client: AsyncWebClient) -> None:
    root, channel = slack.open_pane("olga"), slack.dm("olga").id
    await client.assistant_threads_setSuggestedPrompts(channel_id=channel, thread_ts=root, prompts=PROMPTS)
    await client.assistant_threads_setTitle(channel_id=channel, thread_ts=root, title="Open incidents")
    assert slack.pane("olga", root)["prompts"] == PROMPTS
    [begun] = slack.thread(channel, root)
    assert begun["assistant_app_thread"]["title"] == begun["text"] == "Open incidents"
    assert slack.acts.press_prompt("olga", "Open?", root).body["text"] == "What is open?"
    other = await slack.say("olga", channel, "hello")
    for wrong in (other, "1.0"):
        with pytest.raises(SlackApiError, match="invalid_thread_ts"):
            await client.assistant_threads_setSuggestedPrompts(channel_id=channel, thread_ts=wrong, prompts=PROMPTS)
        with pytest.raises(SlackApiError, match="invalid_thread_ts"):
            await client.assistant_threads_setTitle(channel_id=channel, thread_ts=wrong, title="t")
    with pytest.raises(SlackApiError, match="invalid_thread_ts"):
        await client.assistant_threads_setStatus(channel_id=channel, thread_ts="1.0", status="s")
    with pytest.raises(SlackApiError, match="channel_not_found"):
        await client.assistant_threads_setTitle(channel_id="D0NOBODY", thread_ts=root, title="t")


@pytest.mark.tier2
@needs_chromium
@assistant
async def test_in_the_page_a_chat_opens_with_its_prompts_which_go_when_one_is_pressed(slack: SlackSandbox, client: AsyncWebClient) -> None:
    async with browser_page() as page:
        await page.goto(f"{slack.url}/?as=olga")
        await page.get_by_test_id("app-rackmedic").click()
        await page.get_by_test_id("tab-messages").click()
        thread = page.get_by_test_id("thread")
        await expect(thread).to_contain_text("New chat")
        [root] = slack.messages("D0OLGA")
        await client.assistant_threads_setSuggestedPrompts(channel_id="D0OLGA", thread_ts=root["ts"], prompts=PROMPTS)
        await page.get_by_test_id("thread-prompts").get_by_role("button", name="Open?").click()
        await expect(thread).to_contain_text("What is open?")
        await expect(page.get_by_test_id("thread-prompts")).to_be_hidden()
        await client.assistant_threads_setTitle(channel_id="D0OLGA", thread_ts=root["ts"], title="Open incidents")
        await expect(thread).to_contain_text("Open incidents")


@agent
async def test_prompts_of_an_agent_stand_for_its_conversation_and_with_a_thread_nowhere(
    slack: SlackSandbox, client: AsyncWebClient
) -> None:
    channel = slack.dm("olga").id
    root = await slack.say("olga", channel, "hello")
    await client.assistant_threads_setSuggestedPrompts(channel_id=channel, thread_ts=root, prompts=PROMPTS)
    assert slack.pane("olga", root)["prompts"] == slack.pane("olga")["prompts"] == []
    await client.assistant_threads_setSuggestedPrompts(channel_id=channel, prompts=PROMPTS)
    assert slack.pane("olga")["prompts"] == PROMPTS
    for wrong in ([], PROMPTS * 5, [{"title": "Open?"}]):
        with pytest.raises(SlackApiError, match="invalid_arguments"):
            await client.assistant_threads_setSuggestedPrompts(channel_id=channel, prompts=wrong)


@neither
async def test_without_the_feature_there_is_no_scope_for_prompts_and_a_status_all_the_same(
    slack: SlackSandbox, client: AsyncWebClient
) -> None:
    channel = slack.dm("olga").id
    root = await slack.say("olga", channel, "hello")
    with pytest.raises(SlackApiError, match="missing_scope"):
        await client.assistant_threads_setSuggestedPrompts(channel_id=channel, prompts=PROMPTS)
    await client.assistant_threads_setStatus(channel_id=channel, thread_ts=root, status="is reading…")
    assert slack.pane("olga", root)["status"] == "is reading…"
