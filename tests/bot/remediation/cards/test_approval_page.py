"""Approve and reject in a real browser: read the card, confirm host and command in Slack's dialog, and the click
counts.
"""

from pathlib import Path

import pytest
from playwright.async_api import async_playwright, expect

from bot.remediation.cards import approval_card as approval
from bot.remediation.cards import modals
from tests.sandbox.test_slack_page import ARGS, CHROMIUM, photograph
from tests.support.fakes_approvals import ward
from tests.support.fakes_ledger import action
from tools.ledger.states import State

pytestmark = [
    pytest.mark.tier2,
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason=f"NOT CHECKED: the page needs a browser, and {CHROMIUM} is not installed"),
]


async def test_a_card_is_read_rejected_and_approved_as_people_do(tmp_path: Path) -> None:
    async with ward() as place, async_playwright() as playwright:
        reset, reboot = await place.ask(), await place.ask(action(remedy="reboot", args={}, command=("systemctl", "reboot")))
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        page = await browser.new_page(viewport={"width": 1360, "height": 1500})
        await page.goto(place.bot.slack.url)
        await page.wait_for_selector("body[data-ready]")
        await page.get_by_test_id("user-switch").select_option("U0PRIYA")
        await page.get_by_test_id("open-thread").first.click()
        thread = page.get_by_test_id("thread")
        await expect(thread).to_contain_text("@gpu-approvers")
        await expect(thread.locator("pre").first).to_have_text("nvidia-smi --gpu-reset -i 0000:9b:00.0")
        await expect(thread).to_contain_text(reset.digest)
        await expect(thread.locator("time").first).to_be_visible()
        await photograph(page, "approval", tmp_path)

        await thread.get_by_test_id(f"button-{approval.APPROVE_ACTION_ID}").first.click()
        await expect(page.locator("#confirm")).to_contain_text("On gpu-017: nvidia-smi --gpu-reset -i 0000:9b:00.0")
        await photograph(page, "approval-confirm", tmp_path)
        await page.get_by_test_id("confirm-yes").click()
        await expect(thread).to_contain_text("priya approved")

        await thread.get_by_test_id(f"button-{approval.REJECT_ACTION_ID}").click()
        modal = page.get_by_test_id("modal")
        await modal.get_by_test_id(f"input-{modals.REASON_BLOCK_ID}").fill("a reset is enough")
        await modal.get_by_test_id("modal-submit").click()
        await expect(thread).to_contain_text("priya rejected it: a reset is enough")
        await photograph(page, "approval-settled", tmp_path)
        await browser.close()
        assert (await place.state(reset), await place.state(reboot)) == (State.APPROVED, State.DENIED)
