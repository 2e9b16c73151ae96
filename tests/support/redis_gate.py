"""A proxy in front of a real Redis that cuts connections on request."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

CHUNK = 1 << 16


@dataclass
class RedisGate:
    """Forward bytes both ways. `heard` counts client writes; `on_heard` is called after each and may `cut`."""

    behind: Path
    socket: Path
    on_heard: Callable[["RedisGate"], None] = lambda _: None
    heard: int = 0
    shut: bool = False
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"unix://{self.socket}?db=0"

    def cut(self) -> None:
        """Close all connections and refuse new ones until `reopen`."""
        self.shut = True
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    def reopen(self) -> None:
        self.shut = False

    @contextlib.asynccontextmanager
    async def standing(self) -> AsyncIterator["RedisGate"]:
        server = await asyncio.start_unix_server(self._through, str(self.socket))
        try:
            yield self
        finally:
            server.close()
            self.cut()

    async def _through(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.shut:
            writer.close()
            return
        server_reader, server_writer = await asyncio.open_unix_connection(str(self.behind))
        self._writers |= {writer, server_writer}
        back = asyncio.create_task(_copied(server_reader, writer))
        try:
            await self._forward(reader, server_writer)
        finally:
            back.cancel()
            for each in (writer, server_writer):
                self._writers.discard(each)
                each.close()

    async def _forward(self, reader: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(CHUNK):
                self.heard += 1
                self.on_heard(self)
                if self.shut:
                    return
                server.write(chunk)
                await server.drain()


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
        writer.close()
