"""Three broken nodes on one card: press Approve all; each action runs, refuses or is skipped on its own. The bot is the
real process.
"""

import os
from pathlib import Path

from playwright.async_api import expect

from bot.remediation.cards import approval_card as approval
from deploy.sandbox.demo import run_bot, run_sandbox
from tests.support.fixtures_browser import browser_page, needs_chromium, shot

pytestmark = needs_chromium
BROKEN = ("gpu-001", "gpu-002", "gpu-003")


async def test_one_press_for_three_hosts_mends_two_and_the_third_refuses_what_it_does_not_need(tmp_path: Path) -> None:
    async with run_sandbox(tmp_path) as world, run_bot(world, dict(os.environ), tmp_path / "bot.log"), browser_page(height=1500) as page:
        await world.slack.connected()
        for node in BROKEN:
            world.cluster.break_("S08", node)
        await page.goto(f"{world.slack.url}/?as=priya&channel=C0GPUINC")
        await page.get_by_test_id("composer").fill("@rackmedic job 4711: no GPUDirect RDMA on gpu-[001-004] since this morning")
        await page.get_by_test_id("send").click()
        await page.get_by_test_id("open-thread").last.click()
        thread = page.get_by_test_id("thread")
        card = thread.get_by_test_id("message").filter(has_text="Show all")
        await expect(card).to_contain_text("Approve 3? Load the nvidia-peermem kernel module · gpu-[001-003]")
        await expect(card.locator("pre")).to_have_text(["modprobe nvidia-peermem"])
        await expect(card).to_have_count(1)
        await card.scroll_into_view_if_needed()
        await shot(page, "9-three-hosts")

        world.cluster.heal("gpu-002")  # another admin loads the module while people read the card
        await card.get_by_test_id(f"button-{approval.APPROVE_ALL_ACTION_ID}").click()
        await expect(page.locator("#confirm")).to_contain_text("On gpu-001, gpu-002, gpu-003: modprobe nvidia-peermem")
        await shot(page, "10-three-hosts-confirm")
        await page.get_by_test_id("confirm-yes").click()
        for host, stands in (("gpu-001", "passes now"), ("gpu-002", "refused"), ("gpu-003", "passes now")):
            await expect(card).to_contain_text(f"{host} · {stands}")
        await expect(thread.get_by_test_id("message").filter(has_text="2 of 3 pass now")).to_have_count(1)
        await expect(card).to_contain_text("nvidia-peermem not loaded (GPUDirect RDMA) no longer shows")
        await expect(thread).to_contain_text("Fixed; re-check at")
        await expect(thread.get_by_test_id(f"button-{approval.APPROVE_ACTION_ID}")).to_have_count(0)
        for node in BROKEN:
            await expect(page.get_by_test_id(f"node-{node}")).to_have_attribute("data-state", "well")
        await card.scroll_into_view_if_needed()
        await shot(page, "11-three-hosts-over")
    assert {(host, remedy) for host, remedy, _ in world.cluster.executions} == {
        ("gpu-001", "modprobe_peermem"),
        ("gpu-003", "modprobe_peermem"),
    }
    assert set(world.cluster.executions.values()) == {1}
    assert not world.cluster.unsafe_commands
