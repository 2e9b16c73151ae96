"""The bot is killed during a tenant's incident and restarted: both threads continue without duplicates."""

import os
from pathlib import Path

from bot.incidents.cards import handoff_card
from deploy.sandbox.demo import Sandbox, run_bot, run_sandbox
from tests.stories.test_customers import ACME, OPS, said, with_button

REPORT, REPLY = "@rackmedic training on gpu-[003-004] is half as fast as yesterday", "the slow rank is 11, since noon"


def inside(world: Sandbox) -> str:
    """Return the incident's internal thread."""
    [root] = [row["ts"] for row in world.slack.messages(OPS) if "acme reports" in str(row["text"])]
    return str(root)


async def test_a_customers_incident_goes_on_after_a_kill_in_both_threads_and_once(tmp_path: Path) -> None:
    async with run_sandbox(tmp_path, language="en") as world:
        world.cluster.break_("G17", "gpu-003")
        async with run_bot(world, dict(os.environ), tmp_path / "before.log") as running:
            await world.slack.connected()
            theirs = await world.slack.say("carla", ACME, REPORT)
            await world.slack.wait_for(lambda: "--exclude=gpu-003" in said(world, ACME, theirs))
            running.kill()
            await running.wait()
        root = inside(world)
        async with run_bot(world, dict(os.environ), tmp_path / "after.log"):
            await world.slack.connected()
            await world.slack.say("carla", ACME, f"@rackmedic {REPLY}", thread_ts=theirs)
            await world.slack.wait_for(lambda: REPLY in said(world, OPS, root))
            await world.slack.say("carla", ACME, "@rackmedic can I talk to a human", thread_ts=theirs)
            card = await world.slack.wait_for(lambda: with_button(world, OPS, handoff_card.TAKE_ACTION_ID))
            await world.slack.click("anton", card, handoff_card.TAKE_ACTION_ID)
            await world.slack.wait_for(lambda: "One of our people has it" in told(world, theirs))
            await world.slack.click("anton", with_button(world, OPS, handoff_card.WAIT_ACTION_ID), handoff_card.WAIT_ACTION_ID)
            await world.slack.wait_for(lambda: "waits for a part or a supplier" in told(world, theirs))
            await world.slack.quiet()
        quotes = [row for row in world.slack.thread(OPS, root) if REPLY in str(row["text"])]
        assert len(quotes) == 1
        for once in ("One of our people has it.", "waits for a part or a supplier"):
            assert len([row for row in told_rows(world, theirs) if once in row]) == 1, once
        assert inside(world) == root


def told_rows(world: Sandbox, thread: str) -> list[str]:
    """Return the bot's messages in the tenant's thread except the status message."""
    rows = [row for row in world.slack.thread(ACME, thread) if row.get("bot_id")]
    return [str(row["text"]) for row in rows if row.get("metadata", {}).get("event_type") != "rackmedic_customer"]


def told(world: Sandbox, thread: str) -> str:
    return "\n".join(told_rows(world, thread))
