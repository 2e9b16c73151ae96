"""Spread work over processes that die with their parent and leave Ctrl-C to it."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from typing import TypeVar

from bot.refusal import Refusal

Job = TypeVar("Job")
Done = TypeVar("Done")


def spread(work: Callable[[Job], Done], jobs: Sequence[Job], processes: int, most: int = 150) -> Iterator[Done]:
    """Yield results as they come; with one process in order, in this one. Processes are replaced after `most` jobs
    each, because the executor's `max_tasks_per_child` hangs in Python 3.11 once all processes have reached it.
    """
    if processes <= 1 or len(jobs) < 2:
        yield from map(work, jobs)
        return
    share = processes * most
    for start in range(0, len(jobs), share):
        yield from _some(work, jobs[start : start + share], processes)


def _some(work: Callable[[Job], Done], jobs: Sequence[Job], processes: int) -> Iterator[Done]:
    pool = ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn"), initializer=_follow)
    try:
        for task in as_completed([pool.submit(work, job) for job in jobs]):
            yield task.result()
    except BrokenProcessPool as error:
        raise Refusal(
            "a worker process was killed, most likely for memory; the same command goes on where it stopped, try --jobs 1"
        ) from error
    finally:
        running = list((getattr(pool, "_processes", None) or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in running:
            process.terminate()
            process.join(10)


def _follow() -> None:
    """Ignore Ctrl-C in the worker, and end with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
