"""Worker processes, so that a diagnosis never delays Slack's acknowledgement.

A worker never outlives its parent: both see their socket close. A dead worker is restarted; one that cannot start
aborts the parent's start.
"""

import asyncio
import contextlib
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import structlog

from bot.refusal import Refusal
from bot.tasks import cancel_tasks

log = structlog.get_logger()
READY_LINE = b"ready\n"
REFUSED_PREFIX = b"refused "
MAX_REFUSAL_BYTES = 1 << 20  # a worker's refusal to its parent; site files report at most 200 problems
READY_TIMEOUT_SECONDS = 120.0
STOP_TIMEOUT_SECONDS = 30.0  # a worker brings its turns to a stored step
RESTART_DELAYS_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)  # pauses grow until a worker becomes ready


class WorkerProcess:
    """One supervised worker."""

    def __init__(self, command: Sequence[str], pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._command, self.pause = command, pause
        self._process: asyncio.subprocess.Process | None = None
        self._said: asyncio.StreamReader | None = None
        self._line: asyncio.StreamWriter | None = None

    async def start(self) -> None:
        await self.launch()
        await self.wait_until_ready()

    async def launch(self) -> None:
        await self._close_line()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = await asyncio.create_subprocess_exec(*self._command, stdin=theirs.fileno())
        self._said, self._line = await asyncio.open_connection(sock=ours, limit=2 * MAX_REFUSAL_BYTES)

    async def wait_until_ready(self) -> None:
        """Wait until ready. Raises the worker's own Refusal, or a generic one if it died or timed out."""
        said = b""
        with contextlib.suppress(TimeoutError, OSError, ValueError):  # ValueError: the line is too long
            async with asyncio.timeout(READY_TIMEOUT_SECONDS):
                said = await self._said.readline() if self._said is not None else b""
        if said == READY_LINE:
            return
        await self.stop()
        raise _decode_refusal(said) or Refusal("the worker process did not start; see its output above")

    async def restart_forever(self) -> None:
        failed = 0
        while True:
            if self._process is not None:
                log.error("worker.died", code=await self._process.wait())
            await self.pause(RESTART_DELAYS_SECONDS[min(failed, len(RESTART_DELAYS_SECONDS) - 1)])
            try:
                await self.start()
            except (Refusal, OSError) as why:
                failed += 1
                log.warning("worker.not_started", times=failed, why=str(why))
            else:
                failed = 0
                log.info("worker.started_again")

    async def stop(self) -> None:
        """Let the worker finish its steps; kill it after STOP_TIMEOUT_SECONDS."""
        await self._close_line()
        if self._process is None or self._process.returncode is not None:
            return
        try:
            await asyncio.wait_for(self._process.wait(), STOP_TIMEOUT_SECONDS)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def _close_line(self) -> None:
        if self._line is not None:
            self._line.close()
            with contextlib.suppress(OSError):
                await self._line.wait_closed()
            self._line = None


@contextlib.asynccontextmanager
async def run_workers(command: Sequence[str], count: int) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Run workers with own `--name`s; yields a function that awaits readiness and then supervises."""
    several = [WorkerProcess([*command, "--name", f"beside-{n}"]) for n in range(count)]
    keeping: list[asyncio.Task[None]] = []

    async def ready() -> None:
        for worker in several:
            await worker.wait_until_ready()
        keeping.extend(asyncio.create_task(worker.restart_forever()) for worker in several)

    try:
        for worker in several:
            await worker.launch()
        yield ready
    finally:
        await cancel_tasks(*keeping)
        await asyncio.gather(*(worker.stop() for worker in several))


@contextlib.asynccontextmanager
async def tie_to_parent(stop: asyncio.Event) -> AsyncIterator[Callable[[], None]]:
    """Set `stop` when the parent is gone; yields a function that reports readiness.

    An earlier Refusal goes to the parent and ends here, so that it is printed once.
    """
    line = socket.socket(fileno=sys.stdin.fileno())
    said, back = await asyncio.open_connection(sock=line)

    async def listen() -> None:
        with contextlib.suppress(OSError):
            await said.read()
        stop.set()

    is_ready = False

    def ready() -> None:
        nonlocal is_ready
        is_ready = True
        back.write(READY_LINE)

    listening = asyncio.create_task(listen())
    try:
        yield ready
    except Refusal as why:
        if is_ready:
            raise
        back.write(_encode_refusal(why))
        with contextlib.suppress(OSError):
            await back.drain()
    finally:
        await cancel_tasks(listening)
        back.close()


def _encode_refusal(why: Refusal) -> bytes:
    return REFUSED_PREFIX + json.dumps({"says": str(why)[: MAX_REFUSAL_BYTES // 8], "code": why.code}).encode() + b"\n"


def _decode_refusal(said: bytes) -> Refusal | None:
    try:
        row = json.loads(said.removeprefix(REFUSED_PREFIX)) if said.startswith(REFUSED_PREFIX) else None
        return Refusal(str(row["says"]), int(row["code"])) if row else None
    except (ValueError, KeyError, TypeError):
        return None


def build_own_command(*words: str) -> tuple[str, ...]:
    """Return the command line of this program as a child process."""
    return (sys.executable, "-m", "bot.cli", *words)


def install_signal_handlers(stop: asyncio.Event, *, tied: bool = False) -> None:
    """Set `stop` on SIGTERM and SIGINT; a tied worker ignores SIGINT, as its parent stops it."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGINT, (lambda: None) if tied else stop.set)
