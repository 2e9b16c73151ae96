"""Two tenant stories with the real bot: a tenant's mistake answered at once, and a provider fault from report to "works
again".
"""

import os
from pathlib import Path
from typing import Any

from bot.remediation.cards.approval_card import APPROVE_ACTION_ID
from bot.tenants.cards import tenant_card
from deploy.sandbox.demo import Sandbox, run_bot, run_sandbox

ACME, OPS = "C0CUSTACME", "C0GPUINC"
# internal words that no tenant may read: other machines, commands, people, actions
INSIDE = ("gpu-001", "gpu-002", "scontrol", "Priya", "priya", "olga", "ctl-1", "apr-", "Xid", "nvidia-smi -i", "gpu-approvers", "S0GPUAPPR")


def said(world: Sandbox, channel: str, thread: str) -> str:
    rows = world.slack.thread(channel, thread)
    return "\n".join(f"{row['text']} {row.get('blocks')}" for row in rows if row.get("bot_id"))


def with_button(world: Sandbox, channel: str, action: str) -> str:
    """Return the latest message with this button, or ""."""
    rows: list[Any] = [(row["ts"], block.get("elements", [])) for row in messages(world, channel) for block in row.get("blocks") or []]
    found = [ts for ts, elements in rows if any(element.get("action_id") == action for element in elements)]
    return str(found[-1]) if found else ""


def messages(world: Sandbox, channel: str) -> list[dict[str, Any]]:
    return [message.body for message in world.slack.workspace.channel(channel).messages.values()]


async def test_a_customers_mistake_is_theirs_to_mend_and_a_fault_of_ours_is_mended_by_us(tmp_path: Path) -> None:
    async with run_sandbox(tmp_path, language="en") as world, run_bot(world, dict(os.environ), tmp_path / "bot.log"):
        await world.slack.connected()

        world.cluster.break_("U04", "gpu-003")
        theirs = await world.slack.say("carla", ACME, "@rackmedic job 4711 does not start on gpu-[003-004]")
        await world.slack.wait_for(lambda: "You can fix this yourselves" in said(world, ACME, theirs))
        assert "unset NCCL_SOCKET_IFNAME" in said(world, ACME, theirs)
        assert "NCCL_SOCKET_IFNAME=docker0" in said(world, ACME, theirs)
        assert not with_button(world, OPS, APPROVE_ACTION_ID)
        world.cluster.heal(None)

        world.cluster.break_("G17", "gpu-003")
        ours = await world.slack.say("carla", ACME, "@rackmedic training on gpu-[003-004] is half as fast as yesterday")
        await world.slack.wait_for(lambda: "--exclude=gpu-003" in said(world, ACME, ours))
        assert "not taken yet" in said(world, ACME, ours)
        card = await world.slack.wait_for(lambda: with_button(world, OPS, APPROVE_ACTION_ID))
        assert not with_button(world, ACME, APPROVE_ACTION_ID)
        await world.slack.click("priya", card, APPROVE_ACTION_ID)
        await world.slack.wait_for(lambda: "proved by a test" in said(world, ACME, ours))
        await world.slack.click("carla", with_button(world, ACME, tenant_card.WORKS_ACTION_ID), tenant_card.WORKS_ACTION_ID)
        await world.slack.wait_for(lambda: "Good. I check once more" in said(world, ACME, ours))
        await world.slack.quiet()
        for thread in (theirs, ours):
            assert not [word for word in INSIDE if word in said(world, ACME, thread)]
    assert set(world.cluster.executions.values()) == {1}
    assert not world.cluster.unsafe_commands
