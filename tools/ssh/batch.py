"""Several commands in one session: what sshd is given, and what comes back, cut into answers again. Pure.

Opening a session costs both sides more than most commands do. So one shell runs several, one after another, each with its own time
limit, caps, exit status and error stream, exactly as it would alone. What separates the answers is a number made up for this session
alone. It travels over the shell's input, so that no argument list or environment of the node shows it, and nothing that a command prints
can pose as another one's answer.
"""

import secrets
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

MAX_STDERR_BYTES = 64 * 1024
"""Bytes of a command's error stream that are kept: the last ones."""
MAX_SHARED_COMMAND_CHARS = 4 * 1024
"""Characters of a command that shares a session. The shell of the account gets all of them as one word, of which Linux takes 128 KiB."""

# fmt: off
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
"""Reads the number, says it, then for each command: what it printed, a line of the number, its error stream and the number with its exit
status, and a line of the number with a full stop. A node that lacks a tool says nothing, and is asked in sessions of their own. Where nobody
listens any more it ends behind the command at work: sshd hands on no signal on every system."""
# fmt: on


@dataclass(frozen=True)
class BatchCommand:
    """A command: what it may take, and what of its output is kept."""

    argv: tuple[str, ...]
    timeout: float
    cap: int

    @cached_property
    def shell_word(self) -> str:
        """As the script takes it, quoted for the shell of the account. One byte more than the cap tells that there was more."""
        return shlex.quote(shlex.join((str(self.cap + 1), f"{self.timeout:g}", *self.argv)))

    @property
    def can_share_session(self) -> bool:
        """Whether it is short enough to share a session."""
        return len(self.shell_word) <= MAX_SHARED_COMMAND_CHARS


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """What one command left behind."""

    stdout: bytes
    stderr: bytes
    exit_status: int | None


def build_batch_command(asked: Sequence[BatchCommand]) -> str:
    """The one line that sshd gets; every word quoted for the shell of the account, each command's once more for the script."""
    return " ".join(("sh", "-c", shlex.quote(BATCH_SCRIPT), "sh", *(one.shell_word for one in asked)))


def create_delimiter() -> str:
    """What nobody can have printed before."""
    return secrets.token_hex(16)


@dataclass(slots=True)
class BatchOutputParser:
    """Cuts the session's output into answers as it comes. `begun`: the script runs; what the account's own shell prints before is passed over."""

    number: str
    begun: bool = False
    _rest: bytearray = field(default_factory=bytearray)
    _seen: int = 0

    def feed(self, data: bytes) -> Iterator[CommandOutput]:
        """Whatever is whole now."""
        self._rest += data
        if not self.begun and not self._find_start():
            return
        end = f"\n{self.number}.\n".encode()
        while (at := self._rest.find(end, max(0, self._seen - len(end)))) >= 0:
            whole = bytes(memoryview(self._rest)[:at])
            del self._rest[: at + len(end)]
            self._seen = 0
            yield _parse_answer(whole, self.number)
        self._seen = len(self._rest)

    def get_partial_output(self) -> bytes:
        """What the command at work has printed so far."""
        return bytes(self._rest) if self.begun else b""

    def _find_start(self) -> bool:
        first = f"{self.number}\n".encode()
        if (at := self._rest.find(first)) < 0:
            return False
        del self._rest[: at + len(first)]
        self.begun = True
        return True


def _parse_answer(whole: bytes, number: str) -> CommandOutput:
    """One answer: its output, the number, its error stream, the number and its exit status."""
    out, _, behind = whole.partition(f"\n{number}\n".encode())
    err, _, status = behind.rpartition(f"\n{number} ".encode())
    return CommandOutput(out, err, int(status) if status.isdigit() and len(status) <= 3 else None)
