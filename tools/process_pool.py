"""Run work on untrusted sizes in its own process, with a time limit, so the event loop stays responsive.

A thread is not enough: Python work competes for the interpreter lock, and a regex search in a large text holds it.
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

MIN_SEPARATE_PROCESS_CHARS = 1 << 18  # smaller texts are not worth a process start, a third of a second
CPU_LIMIT_SECONDS = 60  # work is designed to need a sixth of this
WALL_CLOCK_LIMIT_SECONDS = 300.0  # longer than the CPU limit, for a machine without a spare core
NICE_INCREMENT = 5  # the event loop goes first if both need one core


class WorkTimeout(Exception):
    """The work was stopped before it was done."""


class ProcessPool:
    """Runs at most `at_once` processes; kills one after `seconds`."""

    def __init__(self, at_once: int = 2, seconds: float = WALL_CLOCK_LIMIT_SECONDS) -> None:
        self._slots = asyncio.Semaphore(at_once)
        self._seconds = seconds

    async def run(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Return the result of `work`, a function of an importable module. Raises what it raises, and WorkTimeout."""
        async with self._slots:
            output = await _run_subprocess(pickle.dumps((work, args, named)), self._seconds)
        return _unpickle_result(output)  # type: ignore[no-any-return]  # what `work` returned


async def _run_subprocess(pickled_call: bytes, seconds: float) -> bytes:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "tools.process_pool",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={},
        process_group=0,
    )  # empty environment: ours may hold tokens, and the worker reads untrusted text
    try:
        output, _ = await asyncio.wait_for(process.communicate(pickled_call), seconds)
    except TimeoutError:
        raise WorkTimeout from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.killpg(process.pid, signal.SIGKILL)  # and the copy that `run_in_parallel` forked
            await process.wait()
    if process.returncode != 0:
        raise WorkTimeout(f"it ended with {process.returncode}")  # most likely out of memory
    return output


def run_in_parallel(forked_work: Callable[[], S], work: Callable[[], T]) -> tuple[S, T]:
    """Return both results; `forked_work` runs in a forked copy, without pickled arguments or new imports.

    Raises what either raises. Runs sequentially if this process has several threads, because a fork copies only one.
    """
    if threading.active_count() > 1:
        return forked_work(), work()
    read_end, write_end = os.pipe()
    child_pid = os.fork()
    if not child_pid:
        _run_forked_child(forked_work, write_end)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        try:
            answer = work()
            output = pipe.read()
        except BaseException:
            os.kill(child_pid, signal.SIGKILL)
            raise
        finally:
            os.waitpid(child_pid, 0)
    if not output:
        raise WorkTimeout
    return _unpickle_result(output), answer


def _run_forked_child(work: Callable[[], object], write_end: int) -> None:
    """Run the work and exit. Never returns: the parent's exit handlers must not run in the copy."""
    try:
        with os.fdopen(write_end, "wb") as pipe:
            pipe.write(_pickle_result(work))
    finally:
        os._exit(0)


def _pickle_result(work: Callable[[], object]) -> bytes:
    answer: tuple[bool, Any]
    try:
        answer = True, work()
    except Exception as error:
        answer = False, error
    return pickle.dumps(answer)


def _unpickle_result(pickled: bytes) -> Any:
    ok, answer = pickle.loads(pickled)  # noqa: S301  our own process wrote it
    if not ok:
        raise answer
    return answer


def _run_worker() -> None:
    os.nice(NICE_INCREMENT)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_SECONDS, CPU_LIMIT_SECONDS))
    work, args, named_arguments = pickle.load(sys.stdin.buffer)  # noqa: S301  our parent wrote it
    sys.stdout.buffer.write(_pickle_result(lambda: work(*args, **named_arguments)))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    _run_worker()
