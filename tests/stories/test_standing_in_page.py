"""Who decides when the usual people cannot, clicked through in the page: an approver delegates for two hours and the colleague approves; then, out of
hours, nobody on duty answers, an admin breaks the glass, may not approve what they asked for themselves, and another of the leads does.
What the cards say of it, the audit log says too."""

import asyncio
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from os import environ
from pathlib import Path
from typing import Any

import yaml
from playwright.async_api import Locator, Page, expect

from bot.policy.approver_sets import DAYS
from deploy.sandbox.demo import Sandbox, bot, sandbox
from tests.support.fixtures_browser import browser_page, needs_chromium, shot

pytestmark = needs_chromium
WHY = "nobody on duty answers the phone"
PRIYA, DMITRI, OLGA, ANTON = (f"T0RACK:U0{name}" for name in ("PRIYA", "DMITRI", "OLGA", "ANTON"))


def policy(now: datetime) -> dict[str, Any]:
    """Office hours of a day far from this one: it is out of hours, whenever the story is played."""
    hours = {"days": [DAYS[(now + timedelta(days=3)).weekday()]], "zone": "UTC"}
    sets = {"duty": {"users": ["U0PRIYA"]}, "leads": {"users": ["U0OLGA", "U0ANTON"]}}
    rules = [{"when": "out_of_hours", "sets": ["duty"]}]
    return {
        "roles": {"admin": {"users": ["U0OLGA"]}},
        "approvers": {"sets": sets, "hours": hours, "rules": rules, "break_glass": ["leads"]},
    }


async def becomes(page: Page, world: Sandbox, who: str, thread: str = "") -> Locator:
    """Somebody else sits down at the page; the thread, open where it is named."""
    await page.goto(f"{world.slack.url}/?as={who}&channel=C0GPUINC{'&thread=' + thread if thread else ''}")
    await expect(page.locator("#user-switch")).to_have_value(f"U0{who.upper()}")
    if thread:
        await page.get_by_test_id("open-thread").last.click()
    return page.get_by_test_id("thread")


async def types(page: Page, text: str) -> None:
    """Into the box of the channel."""
    await page.get_by_test_id("composer").fill(text)
    await page.get_by_test_id("send").click()


async def asks(page: Page, text: str) -> Locator:
    """A mention; its thread, open, in which something waits for a decision."""
    before = await page.get_by_test_id("open-thread").count()
    await types(page, text)
    await expect(page.get_by_test_id("open-thread")).to_have_count(before + 1)
    await page.get_by_test_id("open-thread").last.click()
    thread = page.get_by_test_id("thread")
    await expect(thread).to_contain_text("Approve?")
    return thread


async def approves(page: Page, thread: Locator) -> None:
    await thread.get_by_test_id("button-approval.approve").last.click()
    await page.get_by_test_id("confirm-yes").click()


async def audited(settings: Mapping[str, str]) -> list[dict[str, Any]]:
    """What `rackmedic audit export` prints beside the bot."""
    clean = {name: value for name, value in environ.items() if not name.startswith("RACKMEDIC_")}
    argv = (sys.executable, "-m", "bot.cli", "audit", "export")
    child = await asyncio.create_subprocess_exec(*argv, env=clean | dict(settings), stdout=asyncio.subprocess.PIPE)
    out, _ = await child.communicate()
    assert child.returncode == 0, out
    return [json.loads(line) for line in out.splitlines()]


async def test_a_delegate_approves_and_the_glass_is_broken_out_of_hours(tmp_path: Path) -> None:
    async with sandbox(tmp_path) as plain:
        path = tmp_path / "policy.yaml"
        path.write_text(yaml.safe_dump(policy(datetime.now(UTC))))
        world = replace(plain, settings={**plain.settings, "RACKMEDIC_POLICY": str(path)})
        async with bot(world, dict(environ), tmp_path / "bot.log"), browser_page(1280, 1200) as page:
            await world.slack.connected()
            await delegated(page, world)
            await broken_glass(page, world)
            rows = await audited(world.settings)
    votes = [row for row in rows if row["event"] == "vote_approve"]
    assert [(row["by"], row.get("stands_for", "")) for row in votes] == [(DMITRI, PRIYA), (ANTON, "")]
    [glass] = [row for row in rows if row["event"] == "propose" and row.get("break_glass")]
    assert (glass["break_glass"], glass["sets"]) == (WHY, ["leads"])
    assert [row["by"] for row in rows if row["event"] == "supersede"] == [OLGA]
    assert set(world.cluster.executions.values()) == {1}
    assert not world.cluster.unsafe_commands


async def delegated(page: Page, world: Sandbox) -> None:
    """Priya leaves for two hours; Dmitri, who is no approver, decides."""
    await becomes(page, world, "priya")
    await types(page, "/rackmedic delegate @dmitri for 2h on a train")
    told = page.locator("#messages")
    await expect(told).to_contain_text("priya lets dmitri approve in their place")
    await shot(page, "standing-1-delegated")
    world.cluster.break_("G17", "gpu-003")
    thread = await asks(page, "@rackmedic training on gpu-003 is half as fast as yesterday")
    await expect(thread).to_contain_text("For duty to decide: priya")
    await expect(thread).to_contain_text("Stands in: dmitri for priya")
    await becomes(page, world, "dmitri")
    await page.get_by_test_id("open-thread").last.click()
    await approves(page, thread)
    await expect(thread).to_contain_text("dmitri approved in the place of priya")
    await expect(thread).to_contain_text("passes now")
    await shot(page, "standing-2-approved-for-another")
    world.cluster.heal(None)


async def broken_glass(page: Page, world: Sandbox) -> None:
    """Nobody on duty answers. Olga breaks the glass and may not approve what she asked for; Anton does."""
    world.cluster.break_("G18", "gpu-002")
    await becomes(page, world, "olga")
    thread = await asks(page, "@rackmedic gpu-002 is slow since this morning")
    await types(page, f"/rackmedic break-glass gpu-002 {WHY}")
    await expect(page.locator("#messages")).to_contain_text("olga broke the glass")
    await expect(thread).to_contain_text("The glass was broken")
    await shot(page, "standing-3-broken-glass")
    await approves(page, thread)
    await expect(thread).to_contain_text("somebody else must approve it")
    await shot(page, "standing-4-not-who-broke-it")
    await becomes(page, world, "anton")
    await page.get_by_test_id("open-thread").last.click()
    await expect(thread).to_contain_text("Asked for by olga, who therefore cannot approve it")
    await approves(page, thread)
    await expect(thread).to_contain_text("anton approved")
    await expect(thread).to_contain_text("passes now")
    await shot(page, "standing-5-approved-by-a-lead")
