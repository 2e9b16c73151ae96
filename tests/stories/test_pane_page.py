"""The conversation with the app in the page, with the real bot process: suggestions, an answer, and the status line."""

import os
from pathlib import Path

from playwright.async_api import expect
from slack_sdk.web.async_client import AsyncWebClient

from bot.incidents.cards.direct_messages import SUGGESTED_PROMPTS
from deploy.sandbox.demo import run_bot, run_sandbox
from tests.support.fixtures_browser import browser_page, needs_chromium, shot

pytestmark = needs_chromium


async def test_a_suggested_prompt_is_clicked_and_answered(tmp_path: Path) -> None:
    async with run_sandbox(tmp_path) as world, run_bot(world, dict(os.environ), tmp_path / "bot.log"), browser_page(1280, 900) as page:
        await world.slack.connected()
        for n in range(1, 5):
            await world.slack.say("olga", "C0GPUINC", f"@rackmedic gpu-00{n} is slow")
        await page.goto(f"{world.slack.url}/?as=priya&channel=C0GPUINC")
        await expect(page.get_by_test_id("open-thread")).to_have_count(4)
        await page.get_by_test_id("app-rackmedic").click()
        await page.get_by_test_id("tab-messages").click()
        await expect(page.get_by_test_id("prompts").get_by_test_id("prompt")).to_have_text([prompt.text for prompt in SUGGESTED_PROMPTS])
        await page.get_by_role("button", name="Which incidents are open?").click()
        thread = page.get_by_test_id("thread")
        await expect(thread).to_contain_text("open the thread")
        await expect(thread.get_by_test_id("message")).to_have_count(2)
        await expect(page.get_by_test_id("status")).to_be_hidden()
        await shot(page, "14-pane-answer")

        # The bot is too quick to observe: make the same Slack calls and hold them.
        client = AsyncWebClient(world.slack.bot_token, world.slack.api_url)
        root = await world.slack.say("priya", "D0PRIYA", "status")
        await page.get_by_test_id("thread-close").click()
        await expect(page.get_by_test_id("open-thread")).to_have_count(2)
        await client.assistant_threads_setStatus(channel_id="D0PRIYA", thread_ts=root, status="is reading what is open…")
        await page.get_by_test_id("open-thread").last.click()
        await expect(page.get_by_test_id("status")).to_have_text("RackMedic is reading what is open…")
        await client.chat_postMessage(channel="D0PRIYA", thread_ts=root, text="Open incidents")
        await expect(page.get_by_test_id("status")).to_be_hidden()
    assert not world.cluster.unsafe_commands
