"""Read an SSH session's output within limits of time and bytes, tolerating a lost peer."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic

import asyncssh

from tools.ssh.batch import BatchCommand, BatchOutputParser, CommandOutput
from tools.transport import CommandResult

RemoteProcess = asyncssh.SSHClientProcess[bytes]
CommandCallback = Callable[[int, CommandResult], None]  # called with each command's index and result as it ends

# exit statuses of coreutils' `timeout -k`: limit reached (124), or killed (128+9)
TIMEOUT_STATUSES = frozenset({124, 137})

READ_BLOCK_BYTES = 64 * 1024
# bytes of the session's own stderr that are read; a noisier shell blocks until its time limit
MAX_NOISE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """How a session ended. `refused`: before its script began."""

    refused: bool = False


async def read_capped(stream: asyncssh.SSHReader[bytes], cap: int) -> tuple[bytes, bool]:
    """Return at most `cap` bytes, and whether there was more. A lost connection ends the read without exit status."""
    parts: list[bytes] = []
    size = 0
    with contextlib.suppress(asyncssh.Error, OSError):
        while size <= cap and (part := await stream.read(READ_BLOCK_BYTES)):
            parts.append(part)
            size += len(part)
    return b"".join(parts)[:cap], size > cap


async def collect_batch_output(
    process: RemoteProcess, answers: BatchOutputParser, asked: Sequence[BatchCommand], grace: float, heard: CommandCallback
) -> SessionEnd:
    """Report each answer. A broken session or an overlong command ends it; later commands did not begin."""
    noise = asyncio.create_task(read_capped(process.stderr, MAX_NOISE_BYTES))
    listener = _BatchListener(answers, asked, heard)
    loop = asyncio.get_running_loop()
    timed_out = False
    try:
        async with asyncio.timeout(asked[0].timeout + grace) as clock:
            while listener.at < len(asked) and (data := await _read_block(process.stdout)):
                if listener.feed(data) and listener.at < len(asked):
                    clock.reschedule(loop.time() + asked[listener.at].timeout + grace)
            if listener.at == len(asked):
                await process.wait_closed()
    except TimeoutError:
        timed_out = listener.at < len(asked)
    finally:
        if process.exit_status is None:
            await end_process(process)
        noise.cancel()
    if timed_out or (answers.begun and listener.at < len(asked)):
        listener.record_break_off(timed_out=timed_out)
    return SessionEnd(refused=not answers.begun and not timed_out and process.exit_status is not None)


class _BatchListener:
    def __init__(self, answers: BatchOutputParser, asked: Sequence[BatchCommand], heard: CommandCallback) -> None:
        self._answers, self._asked, self._heard = answers, asked, heard
        self.at, self._since = 0, monotonic()

    def feed(self, data: bytes) -> bool:
        """Return whether a command ended."""
        before = self.at
        for answer in self._answers.feed(data):
            if self.at < len(self._asked):
                self._report_command(_build_result(answer, self._asked[self.at], monotonic() - self._since))
        return self.at > before

    def record_break_off(self, *, timed_out: bool) -> None:
        """The current command's end is unknown, so it must not be started again."""
        cap, so_far = self._asked[self.at].cap, self._answers.get_partial_output()
        self._report_command(
            CommandResult(so_far[:cap], b"", None, monotonic() - self._since, truncated=len(so_far) > cap, timed_out=timed_out)
        )

    def _report_command(self, result: CommandResult) -> None:
        self._heard(self.at, result)
        self.at, self._since = self.at + 1, monotonic()


def _build_result(said: CommandOutput, asked: BatchCommand, seconds: float) -> CommandResult:
    """A killed command and one that `timeout` killed both give 137; only elapsed time tells them apart."""
    cut, status = len(said.stdout) > asked.cap, said.exit_status
    late = status in TIMEOUT_STATUSES and (status == min(TIMEOUT_STATUSES) or seconds * 2 >= asked.timeout)
    return CommandResult(said.stdout[: asked.cap], said.stderr, None if cut else status, seconds, truncated=cut, timed_out=late)


async def _read_block(stream: asyncssh.SSHReader[bytes]) -> bytes:
    """Return b"" at the end or on a lost connection."""
    with contextlib.suppress(asyncssh.Error, OSError):
        return await stream.read(READ_BLOCK_BYTES)
    return b""


async def end_process(process: RemoteProcess) -> None:
    """Terminate, kill after 1 s, close the channel."""
    with contextlib.suppress(OSError, asyncssh.Error, TimeoutError):
        process.terminate()
        try:
            await asyncio.wait_for(process.wait_closed(), 1)
        except TimeoutError:
            process.kill()
    process.close()


async def read_remaining_stderr(errors: asyncio.Task[tuple[bytes, bool]]) -> bytes:
    """Wait at most 0.5 s for an open channel."""
    finished, _ = await asyncio.wait({errors}, timeout=0.5)
    if not finished:
        errors.cancel()
        return b""
    return errors.result()[0]
