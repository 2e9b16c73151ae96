"""SSH for a process that seldom asks a host: the library that speaks it is imported at the first command, apart from the loop.

A front end looks at a host only when somebody decides something there; until then it is spared some twelve MiB.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tools.transport import Ran

if TYPE_CHECKING:
    from tools.ssh.client import Ssh


class LateSsh:
    """`tools.ssh.client.Ssh` as `build` makes it, once."""

    clock = "real"

    def __init__(self, build: "Callable[[], Ssh]") -> None:
        self._build = build
        self._building: asyncio.Task[Ssh] | None = None

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> Ran:
        """See `Transport.run`."""
        return await (await self._ssh()).run(host, argv, timeout=timeout, cap=cap)

    async def fingerprint(self, host: str) -> str:
        """See `Ssh.fingerprint`."""
        return await (await self._ssh()).fingerprint(host)

    async def aclose(self) -> None:
        """Close what was opened."""
        if self._building is not None:
            await (await self._ssh()).aclose()

    async def _ssh(self) -> "Ssh":
        if self._building is None:
            self._building = asyncio.create_task(asyncio.to_thread(self._build))
        return await asyncio.shield(self._building)
