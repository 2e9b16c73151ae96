"""A relay in front of each SSH server that simulates network faults: cut connections, silence, a closed port."""

import asyncio
import contextlib


class Wire:
    """Forward bytes between a fixed port and the current `target`."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self._flow = asyncio.Event()
        self._flow.set()
        self._server: asyncio.Server | None = None
        self._lines: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen, on the same port as before if there was one."""
        if self._server is None:
            self._server = await asyncio.start_server(self._carry, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Refuse new connections and cut existing ones."""
        if self._server is not None:
            self._server.close()
            self._server = None
        await self.cut()

    async def cut(self) -> None:
        """Cut every connection, as a crashed machine would."""
        lines = list(self._lines)
        for line in lines:
            line.cancel()
        await asyncio.gather(*lines, return_exceptions=True)

    def freeze(self) -> None:
        """Stop forwarding without closing connections."""
        self._flow.clear()

    def thaw(self) -> None:
        self._flow.set()

    async def _carry(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # a connection's callback always runs in a task
        self._lines.add(task)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            far, forth = await asyncio.open_connection("127.0.0.1", self.target)
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pump(near, forth))
                    both.create_task(self._pump(far, back))
            except* OSError:
                pass
            finally:
                forth.transport.abort()
        self._lines.discard(task)
        back.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(1 << 16):
            await self._flow.wait()
            sink.write(data)
            await sink.drain()
        await self._flow.wait()
        if sink.can_write_eof():
            sink.write_eof()
