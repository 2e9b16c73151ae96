"""Several commands in one SSH session: build the script, split its output.

Opening a session costs more than most commands. Each command keeps its own time limit, caps, exit status and stderr. A
random number separates the answers. It travels over stdin, so no argument list or environment shows it, and no output
can forge another's answer.
"""

import secrets
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

MAX_STDERR_BYTES = 64 * 1024  # kept per command; the last ones
# for a command in a shared session: the account's shell gets all as one word, limited to 128 KiB by Linux
MAX_SHARED_COMMAND_CHARS = 4 * 1024

# fmt: off
# Reads the delimiter and prints it. Then, per command, prints: stdout, a delimiter line, stderr, the delimiter with the
# exit status, and the delimiter with a full stop. On a node that lacks a tool the script prints nothing and the
# commands run in their own sessions. If the reader is gone, the script ends after the current command, because not
# every sshd forwards signals.
BATCH_SCRIPT = (
    'export LC_ALL=C PATH="$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"; '
    'unset n c t e line; '
    'command -v head >/dev/null && command -v tail >/dev/null && command -v timeout >/dev/null || exit 127; '
    'read -r n || exit 1; exec </dev/null 5>&1; '
    'look() { c=$1 t=$2; shift 2; '
    'e=$({ { timeout -k 2 "$t" "$@" 2>&3 3>&- 5>&-; printf "\\n%s %s" "$n" "$?" >&3; } | head -c "$c" >&5; } 3>&1 | tail -c __ERRORS__); '
    'printf "\\n%s\\n%s\\n%s.\\n" "$n" "$e" "$n" || exit; }; '
    'printf "%s\\n" "$n"; '
    'for line do eval "look $line"; done'
).replace("__ERRORS__", str(MAX_STDERR_BYTES))
# fmt: on


@dataclass(frozen=True)
class BatchCommand:
    """A command, its time limit in seconds and output cap in bytes."""

    argv: tuple[str, ...]
    timeout: float
    cap: int

    @cached_property
    def shell_word(self) -> str:
        """The command, quoted for the account's shell. One byte beyond the cap reveals truncation."""
        return shlex.quote(shlex.join((str(self.cap + 1), f"{self.timeout:g}", *self.argv)))

    @property
    def can_share_session(self) -> bool:
        return len(self.shell_word) <= MAX_SHARED_COMMAND_CHARS


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """Raw output of one command."""

    stdout: bytes
    stderr: bytes
    exit_status: int | None


def build_batch_command(commands: Sequence[BatchCommand]) -> str:
    """Return sshd's command line: quoted for the account's shell, commands once more for the script."""
    return " ".join(("sh", "-c", shlex.quote(BATCH_SCRIPT), "sh", *(command.shell_word for command in commands)))


def create_delimiter() -> str:
    """Return an unguessable delimiter."""
    return secrets.token_hex(16)


@dataclass(slots=True)
class BatchOutputParser:
    """Split the output of BATCH_SCRIPT as it arrives.

    `begun` is True once the script has started; earlier output of the login shell is skipped.
    """

    delimiter: str
    begun: bool = False
    _buffer: bytearray = field(default_factory=bytearray)
    _searched: int = 0

    def feed(self, data: bytes) -> Iterator[CommandOutput]:
        """Add output and yield the commands' outputs that are now complete."""
        self._buffer += data
        if not self.begun and not self._find_start():
            return
        end_mark = f"\n{self.delimiter}.\n".encode()
        while (end_offset := self._buffer.find(end_mark, max(0, self._searched - len(end_mark)))) >= 0:
            complete_bytes = bytes(memoryview(self._buffer)[:end_offset])
            del self._buffer[: end_offset + len(end_mark)]
            self._searched = 0
            yield _parse_answer(complete_bytes, self.delimiter)
        self._searched = len(self._buffer)

    def get_partial_output(self) -> bytes:
        """Return the current command's output so far."""
        return bytes(self._buffer) if self.begun else b""

    def _find_start(self) -> bool:
        first_line = f"{self.delimiter}\n".encode()
        if (start := self._buffer.find(first_line)) < 0:
            return False
        del self._buffer[: start + len(first_line)]
        self.begun = True
        return True


def _parse_answer(answer: bytes, delimiter: str) -> CommandOutput:
    out, _, rest = answer.partition(f"\n{delimiter}\n".encode())
    err, _, status = rest.rpartition(f"\n{delimiter} ".encode())
    return CommandOutput(out, err, int(status) if status.isdigit() and len(status) <= 3 else None)
