"""A transport to a test's single node: the generated kit under a real shell."""

import asyncio
from collections.abc import Sequence

from tests.support.fakes_nodekit import Node
from tools.nodekit.generate import ACT_COMMAND
from tools.transport import CommandResult


class OneNode:
    """Run `rackmedic-act` on this node for any host name."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        words = tuple(argv)
        if words[: len(ACT_COMMAND)] == ACT_COMMAND:
            words = tuple(self._node.argv(*words[len(ACT_COMMAND) :]))
        elif words[0] == "cat":
            words = ("cat", f"{self._node.paths.proc}/{words[1].removeprefix('/proc/')}")
        process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
        async with asyncio.timeout(timeout):
            out, err = await process.communicate()
        return CommandResult(out[:cap], err, process.returncode)

    async def aclose(self) -> None:
        return None
