"""SSH for a process that seldom asks a host: the library that speaks it is imported at the first command, apart from the loop.

A front end looks at a host only when somebody decides something there; until then it is spared some twelve MiB.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tools.transport import CommandResult

if TYPE_CHECKING:
    from tools.ssh.client import SshTransport


class LazySshTransport:
    """`tools.ssh.client.SshTransport` as `build` makes it, once."""

    clock = "real"

    def __init__(self, build: "Callable[[], SshTransport]") -> None:
        self._build = build
        self._building: asyncio.Task[SshTransport] | None = None

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        """See `Transport.run`."""
        return await (await self._get_transport()).run(host, argv, timeout=timeout, cap=cap)

    async def fingerprint(self, host: str) -> str:
        """See `SshTransport.fingerprint`."""
        return await (await self._get_transport()).fingerprint(host)

    async def aclose(self) -> None:
        """Close what was opened."""
        if self._building is not None:
            await (await self._get_transport()).aclose()

    async def _get_transport(self) -> "SshTransport":
        if self._building is None:
            self._building = asyncio.create_task(asyncio.to_thread(self._build))
        return await asyncio.shield(self._building)
