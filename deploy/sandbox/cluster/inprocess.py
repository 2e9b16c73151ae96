"""`tools.transport.Transport` straight into the simulated cluster, on a virtual clock. Nothing waits, nothing is random."""

from collections import defaultdict
from collections.abc import Sequence

from deploy.sandbox.cluster.cluster import Cluster
from tools.transport import Ran, Unreachable

GRAIN = 120.0
"""Nodes age in steps of this many virtual seconds of looking, so the order of questions inside a step does not matter."""


class InProcess:
    """Runs commands at once and says how long they would have taken."""

    clock = "virtual"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._spent: dict[str, float] = defaultdict(float)

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> Ran:
        """See `Transport.run`."""
        at = self._spent[host] // GRAIN * GRAIN
        if not self._cluster.reachable(host, at):
            raise Unreachable(host, "no route to host" if host in self._cluster.hosts else "not in the inventory")
        answer = self._cluster.answer(host, argv, at)
        late = answer.hangs or answer.seconds > timeout
        seconds = timeout if late else answer.seconds
        self._spent[host] += seconds
        if late:
            return Ran(b"", b"", 124, seconds, timed_out=True)
        return Ran(answer.stdout[:cap], answer.stderr, answer.status, seconds, truncated=len(answer.stdout) > cap)

    async def aclose(self) -> None:
        """Nothing is open."""
