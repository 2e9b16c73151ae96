"""SSH transport that imports asyncssh at the first command, in a thread. Saves a front end about 12 MiB until then."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tools.transport import CommandResult

if TYPE_CHECKING:
    from tools.ssh.client import SshTransport


class LazySshTransport:
    """Proxy of the SshTransport that `build` creates once."""

    clock = "real"

    def __init__(self, build: "Callable[[], SshTransport]") -> None:
        self._build = build
        self._building: asyncio.Task[SshTransport] | None = None

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        return await (await self._get_transport()).run(host, argv, timeout=timeout, cap=cap)

    async def fingerprint(self, host: str) -> str:
        return await (await self._get_transport()).fingerprint(host)

    async def aclose(self) -> None:
        if self._building is not None:
            await (await self._get_transport()).aclose()

    async def _get_transport(self) -> "SshTransport":
        if self._building is None:
            self._building = asyncio.create_task(asyncio.to_thread(self._build))
        return await asyncio.shield(self._building)
