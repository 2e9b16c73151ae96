"""A drained node in the page: drained, handed off, found on the phone's Home tab, and not returned while it is broken."""

import os
from pathlib import Path

from playwright.async_api import ViewportSize, expect

from deploy.sandbox.demo import run_bot, run_sandbox
from tests.support.fixtures_browser import browser_page, needs_chromium, shot

pytestmark = needs_chromium
PHONE, DESK = ViewportSize(width=390, height=844), ViewportSize(width=1200, height=1000)


async def test_a_drained_node_is_found_on_the_home_tab_and_asked_for_there(tmp_path: Path) -> None:
    async with run_sandbox(tmp_path) as world, run_bot(world, dict(os.environ), tmp_path / "bot.log"), browser_page() as page:
        await world.slack.connected()
        await page.goto(f"{world.slack.url}/?as=priya&channel=C0GPUINC")
        await page.get_by_test_id("break-menu").click()
        await page.get_by_test_id("break-fault").select_option("G07")
        await page.get_by_test_id("break-node").fill("gpu-003")
        await page.get_by_test_id("break-go").click()
        await page.keyboard.press("Escape")

        await page.get_by_test_id("composer").fill("@rackmedic job 4711 hangs with NCCL timeout on gpu-[001-004]")
        await page.get_by_test_id("send").click()
        await page.get_by_test_id("open-thread").last.click()
        thread = page.get_by_test_id("thread")
        await expect(thread).to_contain_text("Approve? Drain gpu-003")
        await page.get_by_test_id("app-rackmedic").click()
        home = page.get_by_test_id("home")
        await expect(home).to_contain_text("Waiting for me")
        await expect(home).to_contain_text("Drain gpu-003")
        await shot(page, "10-home-waiting")

        await page.goto(f"{world.slack.url}/?as=priya&channel=C0GPUINC")
        await page.get_by_test_id("open-thread").last.click()
        await thread.get_by_test_id("button-approval.approve").click()
        await page.get_by_test_id("confirm-yes").click()
        await expect(thread).to_contain_text("Approve? Reboot the node")
        await page.get_by_test_id("thread-composer").fill("hand off")
        await page.get_by_test_id("thread-send").click()
        await expect(thread).to_contain_text("gpu-003 drained by RackMedic since")
        await expect(thread.get_by_role("button", name="Ask again to return gpu-003").first).to_be_visible()
        await shot(page, "11-held")

        await page.get_by_test_id("app-rackmedic").click()
        await page.set_viewport_size(PHONE)
        assert await page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        await expect(home).to_contain_text("approved by priya")
        await home.get_by_test_id("button-held.ask_return").click()
        await expect(home).to_contain_text("It cannot be proposed now: the fault is there")
        await shot(page, "12-home-phone")
        await page.set_viewport_size(DESK)
        await shot(page, "13-home-desk")
    assert not world.cluster.unsafe_commands
