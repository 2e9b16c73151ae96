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
    process: RemoteProcess, answers: BatchOutputParser, commands: Sequence[BatchCommand], grace: float, on_result: CommandCallback
) -> SessionEnd:
    """Report each answer. A broken session or an overlong command ends it; later commands did not begin."""
    noise = asyncio.create_task(read_capped(process.stderr, MAX_NOISE_BYTES))
    listener = _BatchListener(answers, commands, on_result)
    loop = asyncio.get_running_loop()
    timed_out = False
    try:
        async with asyncio.timeout(commands[0].timeout + grace) as clock:
            while listener.at < len(commands) and (data := await _read_block(process.stdout)):
                if listener.feed(data) and listener.at < len(commands):
                    clock.reschedule(loop.time() + commands[listener.at].timeout + grace)
            if listener.at == len(commands):
                await process.wait_closed()
    except TimeoutError:
        timed_out = listener.at < len(commands)
    finally:
        if process.exit_status is None:
            await end_process(process)
        noise.cancel()
    if timed_out or (answers.begun and listener.at < len(commands)):
        listener.record_break_off(timed_out=timed_out)
    return SessionEnd(refused=not answers.begun and not timed_out and process.exit_status is not None)


class _BatchListener:
    """Report each command of a batch as its output becomes complete. `at` is the index of the running command."""

    def __init__(self, answers: BatchOutputParser, commands: Sequence[BatchCommand], on_result: CommandCallback) -> None:
        self._answers = answers
        self._commands = commands
        self._on_result = on_result
        self.at = 0
        self._started_at = monotonic()

    def feed(self, data: bytes) -> bool:
        """Return whether a command ended."""
        previous = self.at
        for answer in self._answers.feed(data):
            if self.at < len(self._commands):
                self._report_command(_build_result(answer, self._commands[self.at], monotonic() - self._started_at))
        return self.at > previous

    def record_break_off(self, *, timed_out: bool) -> None:
        """Report the running command as broken off. Its end is unknown, so it must not be started again."""
        cap, output = self._commands[self.at].cap, self._answers.get_partial_output()
        self._report_command(
            CommandResult(output[:cap], b"", None, monotonic() - self._started_at, truncated=len(output) > cap, timed_out=timed_out)
        )

    def _report_command(self, result: CommandResult) -> None:
        self._on_result(self.at, result)
        self.at, self._started_at = self.at + 1, monotonic()


def _build_result(output: CommandOutput, command: BatchCommand, seconds: float) -> CommandResult:
    """Build a result. Status 137 is a timeout only late: a command that was killed otherwise has it too."""
    status = output.exit_status
    is_truncated = len(output.stdout) > command.cap
    timed_out = status in TIMEOUT_STATUSES and (status == min(TIMEOUT_STATUSES) or seconds * 2 >= command.timeout)
    return CommandResult(
        output.stdout[: command.cap],
        output.stderr,
        None if is_truncated else status,
        seconds,
        truncated=is_truncated,
        timed_out=timed_out,
    )


async def _read_block(stream: asyncssh.SSHReader[bytes]) -> bytes:
    """Read the next block: b"" at the end or on a lost connection."""
    with contextlib.suppress(asyncssh.Error, OSError):
        return await stream.read(READ_BLOCK_BYTES)
    return b""


async def end_process(process: RemoteProcess) -> None:
    """Terminate the process, kill it after 1 s, and close the channel."""
    with contextlib.suppress(OSError, asyncssh.Error, TimeoutError):
        process.terminate()
        try:
            await asyncio.wait_for(process.wait_closed(), 1)
        except TimeoutError:
            process.kill()
    process.close()


async def read_remaining_stderr(errors: asyncio.Task[tuple[bytes, bool]]) -> bytes:
    """Return stderr. An open channel is waited for at most 0.5 s."""
    finished, _ = await asyncio.wait({errors}, timeout=0.5)
    if not finished:
        errors.cancel()
        return b""
    return errors.result()[0]
