"""From a broken GPU to a proven repair in the page, with the real bot process."""

import os
from pathlib import Path

import pytest
from playwright.async_api import expect

from deploy.sandbox.demo import run_bot, run_sandbox
from tests.support.fixtures_browser import browser_page, needs_chromium, shot

pytestmark = [needs_chromium, pytest.mark.tier1]


async def test_one_click_mends_what_the_diagnosis_found(tmp_path: Path) -> None:
    async with run_sandbox(tmp_path) as world, run_bot(world, dict(os.environ), tmp_path / "bot.log"), browser_page() as page:
        await world.slack.connected()
        await page.goto(f"{world.slack.url}/?as=olga&channel=C0GPUINC")
        await page.get_by_test_id("break-menu").click()
        await page.get_by_test_id("break-fault").select_option("G17")
        await page.get_by_test_id("break-node").fill("gpu-002")
        await page.get_by_test_id("break-go").click()
        await page.keyboard.press("Escape")

        await page.get_by_test_id("composer").fill("@rackmedic training on gpu-[001-004] is half as fast as yesterday")
        await page.get_by_test_id("send").click()
        await page.get_by_test_id("open-thread").last.click()
        thread = page.get_by_test_id("thread")
        await expect(thread).to_contain_text("Approve? Reset locked and application clocks")
        await shot(page, "6-approval")

        await thread.get_by_test_id("button-approval.approve").click()
        await page.get_by_test_id("confirm-yes").click()
        await expect(page.get_by_test_id("ephemeral").last).to_contain_text("not among the approvers")

        await page.get_by_test_id("user-switch").select_option("U0PRIYA")
        await expect(page.locator("#user-switch")).to_have_value("U0PRIYA")
        await page.get_by_test_id("open-thread").last.click()
        await thread.get_by_test_id("button-approval.approve").click()
        await shot(page, "7-confirm")
        await page.get_by_test_id("confirm-yes").click()
        await expect(thread).to_contain_text("Passes now")
        await expect(page.get_by_test_id("node-gpu-002")).to_have_attribute("data-state", "well")
        await shot(page, "8-passes-now")
    assert set(world.cluster.executions.values()) == {1}
    assert not world.cluster.unsafe_commands
