"""A transport to the one node that a test has: the generated kit under a real shell, in a directory."""

import asyncio
from collections.abc import Sequence

from tests.support.fakes_nodekit import Node
from tools.nodekit.generate import ACT
from tools.transport import Ran


class OneNode:
    """Runs `rackmedic-act` as the node has it; every host name is this node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> Ran:
        words = tuple(argv)
        if words[: len(ACT)] == ACT:
            words = tuple(self._node.argv(*words[len(ACT) :]))
        elif words[0] == "cat":
            words = ("cat", f"{self._node.paths.proc}/{words[1].removeprefix('/proc/')}")
        process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
        async with asyncio.timeout(timeout):
            out, err = await process.communicate()
        return Ran(out[:cap], err, process.returncode)

    async def aclose(self) -> None:
        return None
