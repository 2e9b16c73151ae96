"""What is piped in, line by line and bounded. It is read beside the event loop, so that Ctrl-C is heard while nobody writes, and past Python's own
buffer, whose lock a thread that waits would hold when the process ends."""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress

LONGEST_LINE, AT_ONCE = 1 << 20, 1 << 16
"""Bytes of a line, the rest of which is passed over, and that are read at once."""


def first_piped_line() -> str:
    """The first line, and nothing of what follows it."""
    if (descriptor := _descriptor()) is None:
        return sys.stdin.readline()
    found = bytearray()
    while len(found) < LONGEST_LINE and (byte := os.read(descriptor, 1)) and byte != b"\n":
        found += byte
    return found.decode("utf-8", "replace")


async def piped_lines() -> AsyncIterator[str]:
    """Each line; bytes that are no UTF-8 are shown as such."""
    descriptor = _descriptor()
    if descriptor is None:
        for line in sys.stdin:
            yield line
        return
    queue: asyncio.Queue[str | None] = asyncio.Queue(1)
    put = _putting(queue, asyncio.get_running_loop())
    threading.Thread(target=_read, args=(descriptor, put), daemon=True).start()
    while (line := await queue.get()) is not None:
        yield line


def _descriptor() -> int | None:
    """None where standard input is none of the system's, as in a test."""
    try:
        return sys.stdin.fileno()
    except (OSError, ValueError):
        return None


def _putting(queue: "asyncio.Queue[str | None]", loop: asyncio.AbstractEventLoop) -> Callable[[str | None], None]:
    def put(line: str | None) -> None:
        asyncio.run_coroutine_threadsafe(queue.put(line), loop).result()

    return put


def _read(descriptor: int, put: Callable[[str | None], None]) -> None:
    """Until there is no more, or nobody who listens."""
    with suppress(RuntimeError, asyncio.CancelledError):
        for line in _split(iter(lambda: os.read(descriptor, AT_ONCE), b"")):
            put(line.decode("utf-8", "replace"))
        put(None)


def _split(pieces: Iterator[bytes]) -> Iterator[bytes]:
    rest = bytearray()
    for piece in pieces:
        head, *more = piece.split(b"\n")
        for line in more:
            yield bytes(rest + head)[:LONGEST_LINE]
            rest, head = bytearray(), line
        rest += head[: max(0, LONGEST_LINE - len(rest))]
    if rest:
        yield bytes(rest)
