"""Work on what a stranger chose the size of, in a process of its own: the loop goes on meanwhile, and what takes too long is ended.

A thread would not do: pure Python work takes the interpreter from the loop every few milliseconds, and one search in a large text for as long as it lasts.
"""

import asyncio
import os
import pickle
import resource
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LONG = 1 << 18
"""Characters from which on a process of its own is worth its start, a third of a second."""
OF_PROCESSOR = 60
"""Seconds of a processor after which work is ended. It is bounded to take a sixth of this."""
SECONDS = 300.0
"""Seconds after which it is ended on a machine that has no processor to spare."""
NICE = 5
"""How far such a process steps back behind the loop where both want one core."""


class TookTooLong(Exception):
    """The work was ended before it was done."""


class Apart:
    """Starts such processes, a few `at_once`, and ends what takes more than `seconds`."""

    def __init__(self, at_once: int = 2, seconds: float = SECONDS) -> None:
        self._room = asyncio.Semaphore(at_once)
        self._seconds = seconds

    async def run(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """What `work` answers, a function of a module that any process can import. Raises what it raises, and TookTooLong."""
        async with self._room:
            ok, answer = pickle.loads(await _told(pickle.dumps((work, args, named)), self._seconds))  # noqa: S301  our own process wrote it
        if not ok:
            raise answer
        return answer  # type: ignore[no-any-return]  # it is what `work` gave


async def _told(asked: bytes, seconds: float) -> bytes:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "tools.apart", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env={}
    )  # our environment may hold tokens, and what a stranger wrote is read there
    try:
        told, _ = await asyncio.wait_for(process.communicate(asked), seconds)
    except TimeoutError:
        raise TookTooLong from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise TookTooLong(f"it ended with {process.returncode}")  # out of memory, most likely: nothing was read either way
    return told


def _work() -> None:
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_CPU, (OF_PROCESSOR, OF_PROCESSOR))
    work, args, named = pickle.load(sys.stdin.buffer)  # noqa: S301  our parent wrote it
    answer: tuple[bool, Any]
    try:
        answer = True, work(*args, **named)
    except Exception as bug:
        answer = False, bug
    sys.stdout.buffer.write(pickle.dumps(answer))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    _work()
