"""Worker processes beside the Slack front end, so that a diagnosis at work never keeps Slack waiting for its acknowledgement.

Rules it keeps: a worker never outlives the process that started it, however that ends (a socket between them, whose end both see);
one that dies is started again; one that cannot start at all stops the start.
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
MAX_REFUSAL_BYTES = 1 << 20
"""Bytes of a refusal that go from a worker to whoever started it; files of a site have two hundred problems told at most."""
READY_TIMEOUT_SECONDS = 120.0
STOP_TIMEOUT_SECONDS = 30.0
"""Seconds for a worker to bring its turns to a stored step."""
RESTART_DELAYS_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds before a worker that died is started again, longer each time until one becomes ready."""


class WorkerProcess:
    """One worker process, kept running."""

    def __init__(self, command: Sequence[str], pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._command, self.pause = command, pause
        self._process: asyncio.subprocess.Process | None = None
        self._said: asyncio.StreamReader | None = None
        self._line: asyncio.StreamWriter | None = None

    async def start(self) -> None:
        """Start it and wait until it works."""
        await self.launch()
        await self.wait_until_ready()

    async def launch(self) -> None:
        """Start it."""
        await self._close_line()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = await asyncio.create_subprocess_exec(*self._command, stdin=theirs.fileno())
        self._said, self._line = await asyncio.open_connection(sock=ours, limit=2 * MAX_REFUSAL_BYTES)

    async def wait_until_ready(self) -> None:
        """Wait until it works. Raises Refusal when it does not come so far: its own, else its words are on stderr."""
        said = b""
        with contextlib.suppress(TimeoutError, OSError, ValueError):  # a line that is too long is a ValueError
            async with asyncio.timeout(READY_TIMEOUT_SECONDS):
                said = await self._said.readline() if self._said is not None else b""
        if said == READY_LINE:
            return
        await self.stop()
        raise _decode_refusal(said) or Refusal("the worker process did not start; what it said stands above")

    async def restart_forever(self) -> None:
        """Start it again whenever it has died, until cancelled."""
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
        """Let it finish its steps, then end it."""
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
    """So many of them, each told its `--name`, stopped at the end. Yields how to wait until all are ready; from then on they are kept."""
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
    """For a worker started by `workers`: set `stop` when whoever started it is gone. Yields how to say that it is ready. What is refused before
    that is told to them and ends here: several workers and their front end refuse the same, and it is to be read once."""
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
    """What a worker refused, by the line that it wrote."""
    try:
        row = json.loads(said.removeprefix(REFUSED_PREFIX)) if said.startswith(REFUSED_PREFIX) else None
        return Refusal(str(row["says"]), int(row["code"])) if row else None
    except (ValueError, KeyError, TypeError):
        return None


def build_own_command(*words: str) -> tuple[str, ...]:
    """This program as a child process."""
    return (sys.executable, "-m", "bot.cli", *words)


def install_signal_handlers(stop: asyncio.Event, *, tied: bool = False) -> None:
    """Stop on SIGTERM, and on Ctrl-C; a worker beside a front end is told by that instead, in its turn."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGINT, (lambda: None) if tied else stop.set)
