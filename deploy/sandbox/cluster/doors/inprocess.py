"""`tools.transport.Transport` into the simulated cluster on a virtual clock. Deterministic; only the node kit's scripts
take real time.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence

from deploy.sandbox.cluster.answer import ShellAnswer
from deploy.sandbox.cluster.doors.cluster import Cluster
from deploy.sandbox.cluster.doors.toolbox import Toolbox
from deploy.sandbox.cluster.grammar import get_kit_words
from tools.transport import CommandResult, Unreachable

GRAIN = 120.0  # step of a node's age in virtual seconds, so the order of queries within a step does not matter

KIT_SECONDS = 0.5  # virtual duration of a node kit call


class InProcess:
    """Answer commands at once and report their virtual duration. The node kit is real and runs in processes that
    `aclose` ends.
    """

    clock = "virtual"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._spent: dict[str, float] = defaultdict(float)
        self._opening = asyncio.Lock()
        self.toolbox = Toolbox(cluster)

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        at = self._at(host)
        if not self._cluster.reachable(host, at):
            raise Unreachable(host, "no route to host" if host in self._cluster.machines else "not in the inventory")
        answer = await self._kit(host, words, timeout, at) if (words := get_kit_words(argv)) else self._cluster.answer(host, argv, at)
        if answer is None:
            return CommandResult(b"", b"", None, KIT_SECONDS)
        late = answer.hangs or answer.seconds > timeout
        seconds = timeout if late else answer.seconds
        self._spent[host] += seconds
        if late:
            return CommandResult(b"", b"", 124, seconds, timed_out=True)
        return CommandResult(answer.stdout[:cap], answer.stderr, answer.status, seconds, truncated=len(answer.stdout) > cap)

    async def aclose(self) -> None:
        """End processes that the node kit left running."""
        await self.toolbox.close()

    def _at(self, host: str) -> float:
        spent = self._spent[host] + self.toolbox.virtual.get(host, 0.0) + self._cluster.waited
        return spent // GRAIN * GRAIN

    async def _kit(self, host: str, words: tuple[str, ...], timeout: float, at: float) -> ShellAnswer | None:
        """Run the node kit; None if the machine went down meanwhile."""
        async with self._opening:
            await self.toolbox.open()
        answer = await self.toolbox.run(host, words, timeout, at)
        if not self._cluster.reachable(host, at):
            return None
        return ShellAnswer(answer.stdout, answer.stderr, answer.status, KIT_SECONDS)
