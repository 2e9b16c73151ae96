"""`tools.transport.Transport` into the simulated cluster on a virtual clock. Deterministic; only the node kit's scripts
take real time.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence

from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.access.toolbox import Toolbox
from deploy.sandbox.cluster.answer import ShellAnswer
from deploy.sandbox.cluster.grammar import get_kit_words
from tools.transport import CommandResult, Unreachable

AGE_STEP_SECONDS = 120.0  # step of a node's age in virtual seconds, so the order of queries within a step does not matter

KIT_SECONDS = 0.5  # virtual duration of a node kit call


class InProcessTransport:
    """Answer commands at once and report their virtual duration. The node kit is real and runs in processes that
    `aclose` ends.
    """

    clock = "virtual"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._spent_seconds: dict[str, float] = defaultdict(float)
        self._opening = asyncio.Lock()
        self.toolbox = Toolbox(cluster)

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        at = self._get_time(host)
        if not self._cluster.reachable(host, at):
            raise Unreachable(host, "no route to host" if host in self._cluster.machines else "not in the inventory")
        kit_words = get_kit_words(argv)
        if kit_words:
            answer = await self._run_kit(host, kit_words, timeout, at)
        else:
            answer = self._cluster.answer(host, argv, at)
        if answer is None:
            return CommandResult(b"", b"", None, KIT_SECONDS)
        timed_out = answer.hangs or answer.seconds > timeout
        seconds = timeout if timed_out else answer.seconds
        self._spent_seconds[host] += seconds
        if timed_out:
            return CommandResult(b"", b"", 124, seconds, timed_out=True)
        return CommandResult(answer.stdout[:cap], answer.stderr, answer.status, seconds, truncated=len(answer.stdout) > cap)

    async def aclose(self) -> None:
        """End processes that the node kit left running."""
        await self.toolbox.close()

    def _get_time(self, host: str) -> float:
        seconds = self._spent_seconds[host] + self.toolbox.virtual_seconds.get(host, 0.0) + self._cluster.waited
        return seconds // AGE_STEP_SECONDS * AGE_STEP_SECONDS

    async def _run_kit(self, host: str, words: tuple[str, ...], timeout: float, at: float) -> ShellAnswer | None:
        """Run the node kit; None if the machine went down meanwhile."""
        async with self._opening:
            await self.toolbox.open()
        answer = await self.toolbox.run(host, words, timeout, at)
        if not self._cluster.reachable(host, at):
            return None
        return ShellAnswer(answer.stdout, answer.stderr, answer.status, KIT_SECONDS)
