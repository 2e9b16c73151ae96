"""Three kinds of remedy through real SSH: mention, approval in Slack, the node kit's scripts, proof."""

import os
from pathlib import Path
from typing import Any

import pytest

from deploy.sandbox.demo import Sandbox, run_bot, run_sandbox

PEOPLE = ("U0PRIYA", "U0ANTON")
# fault → node, arguments and remedies: a process, a GPU on a drained node, and a drained host that reboots;
# test_remedies_close covers the others without SSH
STORIES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "S18": ("gpu-001", {"gpu": 2}, ["kill_gpu_process"]),
    "G01": ("gpu-002", {"gpu": 1}, ["drain_node", "gpu_reset", "resume_node"]),
    "G07": ("gpu-003", {"gpu": 4, "outcome": "cures"}, ["drain_node", "reboot", "resume_node"]),
}


def asking(world: Sandbox, ts: str) -> list[dict[str, Any]]:
    """Return the cards with an Approve button."""
    rows = [
        (m, [e for b in m.get("blocks", []) if b["type"] == "actions" for e in b["elements"]]) for m in world.slack.thread("C0GPUINC", ts)
    ]
    return [m for m, buttons in rows if any(e["action_id"] == "approval.approve" for e in buttons)]


def mended(world: Sandbox, ts: str) -> bool:
    return any("re-check at" in m.get("text", "") for m in world.slack.thread("C0GPUINC", ts))


async def play(world: Sandbox, fault: str) -> list[str]:
    """Break, mention, and approve everything until it passes; return the remedies that ran, in order."""
    node, how, _ = STORIES[fault]
    world.cluster.break_(fault, node, **how)
    ts = await world.slack.say("U0OLGA", "C0GPUINC", f"<@U0RACKMED> training has trouble on {node} ({fault})")
    clicked: set[tuple[str, str]] = set()

    def next_click() -> tuple[str, str] | bool:
        return mended(world, ts) or next(
            ((m["ts"], who) for m in asking(world, ts) for who in PEOPLE if (m["ts"], who) not in clicked), False
        )

    while (click := await world.slack.wait_for(next_click)) is not True:
        assert isinstance(click, tuple)
        clicked.add(click)
        await world.slack.click(click[1], click[0], "approval.approve")
        await world.slack.quiet()
    return [remedy for _, remedy, _ in world.cluster.executions]


@pytest.mark.parametrize("fault", [pytest.param(fault, marks=pytest.mark.tier1) if fault == "S18" else fault for fault in STORIES])
async def test_a_fault_is_mended_by_its_remedies_and_each_runs_once(tmp_path: Path, fault: str) -> None:
    async with run_sandbox(tmp_path) as world, run_bot(world, dict(os.environ), tmp_path / "bot.log"):
        await world.slack.connected()
        assert await play(world, fault) == STORIES[fault][2]
    assert set(world.cluster.executions.values()) == {1}
    assert not world.cluster.unsafe_commands
