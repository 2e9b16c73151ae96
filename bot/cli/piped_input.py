"""Read piped input line by line, with a limit on the length of a line.

A thread reads it, so that Ctrl-C works. It does not use Python's buffer, whose lock a waiting thread would hold at exit.
"""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress

MAX_LINE_BYTES = 1 << 20  # the rest of a longer line is dropped
READ_CHUNK_BYTES = 1 << 16


def read_first_piped_line() -> str:
    """Read the first line. Leave everything after it for the next reader."""
    if (descriptor := _get_stdin_descriptor()) is None:
        return sys.stdin.readline()
    buffer = bytearray()
    while len(buffer) < MAX_LINE_BYTES and (byte := os.read(descriptor, 1)) and byte != b"\n":
        buffer += byte
    return buffer.decode("utf-8", "replace")


async def read_piped_lines() -> AsyncIterator[str]:
    descriptor = _get_stdin_descriptor()
    if descriptor is None:
        for line in sys.stdin:
            yield line
        return
    queue: asyncio.Queue[str | None] = asyncio.Queue(1)
    put = _build_queue_putter(queue, asyncio.get_running_loop())
    threading.Thread(target=_read_descriptor, args=(descriptor, put), daemon=True).start()
    while (line := await queue.get()) is not None:
        yield line


def _get_stdin_descriptor() -> int | None:
    """Return None if stdin has no descriptor, as in tests."""
    try:
        return sys.stdin.fileno()
    except (OSError, ValueError):
        return None


def _build_queue_putter(queue: "asyncio.Queue[str | None]", loop: asyncio.AbstractEventLoop) -> Callable[[str | None], None]:
    def put(line: str | None) -> None:
        asyncio.run_coroutine_threadsafe(queue.put(line), loop).result()

    return put


def _read_descriptor(descriptor: int, put: Callable[[str | None], None]) -> None:
    with suppress(RuntimeError, asyncio.CancelledError):
        for line in _split_lines(iter(lambda: os.read(descriptor, READ_CHUNK_BYTES), b"")):
            put(line.decode("utf-8", "replace"))
        put(None)


def _split_lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    line = bytearray()
    for piece in pieces:
        *ended, rest = piece.split(b"\n")
        for part in ended:
            yield bytes(line + part)[:MAX_LINE_BYTES]
            line = bytearray()
        line += rest[: max(0, MAX_LINE_BYTES - len(line))]
    if line:
        yield bytes(line)
