"""Work on what a stranger chose the size of, in a process of its own: the loop goes on meanwhile, and what takes too long is ended.

A thread would not do: pure Python work takes the interpreter from the loop every few milliseconds, and one search in a large text for as long as it lasts.
"""

import asyncio
import contextlib
import os
import pickle
import resource
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")

MIN_SEPARATE_PROCESS_CHARS = 1 << 18
"""Characters from which on a process of its own is worth its start, a third of a second."""
CPU_LIMIT_SECONDS = 60
"""Seconds of a processor after which work is ended. It is bounded to take a sixth of this."""
WALL_CLOCK_LIMIT_SECONDS = 300.0
"""Seconds after which it is ended on a machine that has no processor to spare."""
NICE_INCREMENT = 5
"""How far such a process steps back behind the loop where both want one core."""


class WorkTimeout(Exception):
    """The work was ended before it was done."""


class ProcessPool:
    """Starts such processes, a few `at_once`, and ends what takes more than `seconds`."""

    def __init__(self, at_once: int = 2, seconds: float = WALL_CLOCK_LIMIT_SECONDS) -> None:
        self._room = asyncio.Semaphore(at_once)
        self._seconds = seconds

    async def run(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """What `work` answers, a function of a module that any process can import. Raises what it raises, and TookTooLong."""
        async with self._room:
            told = await _run_subprocess(pickle.dumps((work, args, named)), self._seconds)
        return _unpickle_result(told)  # type: ignore[no-any-return]  # it is what `work` gave


async def _run_subprocess(asked: bytes, seconds: float) -> bytes:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "tools.process_pool",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={},
        process_group=0,
    )  # our environment may hold tokens, and what a stranger wrote is read there
    try:
        told, _ = await asyncio.wait_for(process.communicate(asked), seconds)
    except TimeoutError:
        raise WorkTimeout from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.killpg(process.pid, signal.SIGKILL)  # and its copy with it
            await process.wait()
    if process.returncode != 0:
        raise WorkTimeout(f"it ended with {process.returncode}")  # out of memory, most likely: nothing was read either way
    return told


def run_in_parallel(other: Callable[[], S], own: Callable[[], T]) -> tuple[S, T]:
    """What both answer, `other` in a copy of this process meanwhile: it knows all that this one knows, so nothing is handed over and nothing
    is imported again. Raises what either raises. One after the other where a copy is not safe: a thread of ours would be missing in it."""
    if threading.active_count() > 1:
        return other(), own()
    read, write = os.pipe()
    copy = os.fork()
    if not copy:
        _run_forked_child(other, write)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        try:
            answer = own()
            told = pipe.read()
        except BaseException:
            os.kill(copy, signal.SIGKILL)
            raise
        finally:
            os.waitpid(copy, 0)
    if not told:
        raise WorkTimeout
    return _unpickle_result(told), answer


def _run_forked_child(work: Callable[[], object], write: int) -> None:
    """Never comes back: what the original would do at its end is not the copy's to do."""
    try:
        with os.fdopen(write, "wb") as pipe:
            pipe.write(_pickle_result(work))
    finally:
        os._exit(0)


def _pickle_result(work: Callable[[], object]) -> bytes:
    answer: tuple[bool, Any]
    try:
        answer = True, work()
    except Exception as bug:
        answer = False, bug
    return pickle.dumps(answer)


def _unpickle_result(told: bytes) -> Any:
    ok, answer = pickle.loads(told)  # noqa: S301  our own process wrote it
    if not ok:
        raise answer
    return answer


def _run_worker() -> None:
    os.nice(NICE_INCREMENT)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_SECONDS, CPU_LIMIT_SECONDS))
    work, args, named = pickle.load(sys.stdin.buffer)  # noqa: S301  our parent wrote it
    sys.stdout.buffer.write(_pickle_result(lambda: work(*args, **named)))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    _run_worker()
