"""A Kubernetes site from mention to return: cordon, proof, uncordon, each approved in Slack and run by the kit on the
controller.
"""

import os
from pathlib import Path

from deploy.sandbox.demo import run_bot, run_sandbox
from tests.stories.test_remedies import STORIES, play


async def test_a_node_is_cordoned_mended_and_returned(tmp_path: Path) -> None:
    async with run_sandbox(tmp_path, scheduler="kubernetes") as world, run_bot(world, dict(os.environ), tmp_path / "bot.log"):
        await world.slack.connected()
        ran = await play(world, "G01")
        node = world.cluster.world().nodes[STORIES["G01"][0]]
    assert ran == ["cordon_node", "gpu_reset", "uncordon_node"]
    assert (node.drain, node.mark) == ("", "")
    assert set(world.cluster.executions.values()) == {1}
    assert not world.cluster.unsafe_commands
