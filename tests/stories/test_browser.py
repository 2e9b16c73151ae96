"""The whole story in the page with the real bot process: break, mention, diagnosis, question, hand-off, taken, closed."""

import os
import re
from pathlib import Path

from playwright.async_api import expect

from deploy.sandbox.demo import run_bot, run_sandbox
from tests.support.fixtures_browser import browser_page, needs_chromium, shot

pytestmark = needs_chromium


async def test_a_mention_becomes_a_diagnosis_a_ticket_and_a_closed_incident(tmp_path: Path) -> None:
    async with run_sandbox(tmp_path) as world, run_bot(world, dict(os.environ), tmp_path / "bot.log"), browser_page(1280, 1200) as page:
        await world.slack.connected()
        await page.goto(f"{world.slack.url}/?as=olga&channel=C0GPUINC")

        await page.get_by_test_id("break-menu").click()
        await page.get_by_test_id("break-fault").select_option("G07")
        await page.get_by_test_id("break-node").fill("gpu-003")
        await page.get_by_test_id("break-go").click()
        await shot(page, "1-break")
        await page.keyboard.press("Escape")

        await page.get_by_test_id("composer").fill("@rackmedic job 4711 hangs with NCCL timeout on gpu-[001-004]")
        await page.get_by_test_id("send").click()
        await page.get_by_test_id("open-thread").last.click()
        thread = page.get_by_test_id("thread")
        await expect(thread).to_contain_text("GPU fell off the PCIe bus")
        await expect(thread).to_contain_text("gpu-003/gpu")
        await expect(thread).to_contain_text("has fallen off the bus")
        await expect(thread).to_contain_text("Approve?")  # arrives last and would scroll the diagnosis away
        await thread.get_by_text("GPU fell off the PCIe bus").first.evaluate("text => text.scrollIntoView({block: 'start'})")
        await shot(page, "2-diagnosis")

        await thread.get_by_test_id("button-diagnosis.details").last.click()
        modal = page.get_by_test_id("modal")
        await expect(modal).to_contain_text("Xid (PCI:")
        await expect(modal).to_contain_text("On site")
        await shot(page, "2-details")
        await page.keyboard.press("Escape")
        await expect(modal).to_be_hidden()

        await page.get_by_test_id("thread-composer").fill("why")
        await page.get_by_test_id("thread-send").click()
        await expect(thread).to_contain_text("0000:db:00.0 3D controller")  # the raw line: only the card rewords it

        await thread.get_by_role("button", name="Hand off").last.click()
        await page.get_by_test_id("confirm-yes").click()
        await expect(thread.get_by_role("button", name="Take")).to_be_visible()
        await shot(page, "3-ticket")

        await page.get_by_test_id("user-switch").select_option("U0PRIYA")
        await expect(page.locator("#user-switch")).to_have_value("U0PRIYA")
        await page.get_by_test_id("open-thread").last.click()
        await expect(thread).to_contain_text("Evidence of incident")  # the last message: a click during a redraw is lost
        await thread.get_by_role("button", name="Take").click()
        await expect(thread).to_contain_text(re.compile("taken by.*Priya", re.I))

        await thread.get_by_role("button", name="Close").last.click()
        await modal.get_by_role("textbox").first.fill("Riser of GPU 7 was loose; reseated, cold boot, eight GPUs again.")
        await shot(page, "4-close")
        await modal.get_by_test_id("modal-submit").click()
        await expect(modal).to_be_hidden()
        await expect(thread).to_contain_text(re.compile("closed|resolved", re.I))
        await expect(thread).to_contain_text("Riser of GPU 7 was loose")
        await shot(page, "5-closed")
    assert not world.cluster.unsafe_commands
