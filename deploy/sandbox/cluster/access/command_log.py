"""Recent commands and outputs of each machine, for display; bounded in number and length."""

import shlex
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from deploy.sandbox.cluster.answer import ShellAnswer
from deploy.sandbox.cluster.grammar import recognise_command

MAX_COMMANDS = 40  # commands kept per machine
MAX_OUTPUT_CHARS, MAX_WORD_CHARS = 6000, 160  # characters kept of an output and of one word of a command line (a probe is a whole program)


@dataclass(frozen=True, slots=True)
class LoggedCommand:
    """One command that a machine was given.

    `command_name` is the name of the known command, or "". `status` is None if the command hung.
    """

    at: datetime
    line: str
    command_name: str
    status: int | None
    stdout: str
    stderr: str
    cut: bool

    def to_json(self) -> dict[str, Any]:
        rest = {"status": self.status, "stdout": self.stdout, "stderr": self.stderr, "cut": self.cut}
        return {"at": self.at.isoformat(), "line": self.line, "asks": self.command_name, **rest}


def _get_utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class CommandLog:
    """The last commands of every machine."""

    clock: Callable[[], datetime] = _get_utc_now
    _rows: dict[str, deque[LoggedCommand]] = field(default_factory=lambda: defaultdict(lambda: deque(maxlen=MAX_COMMANDS)))

    def append(self, host: str, argv: Sequence[str], answer: ShellAnswer) -> None:
        stdout, out_cut = _truncate_output(answer.stdout)
        stderr, err_cut = _truncate_output(answer.stderr)
        known = recognise_command(argv)
        status = None if answer.hangs else answer.status
        line = shlex.join(_truncate_word(word) for word in argv)
        self._rows[host].append(LoggedCommand(self.clock(), line, known.name if known else "", status, stdout, stderr, out_cut or err_cut))

    def list_recent(self, host: str) -> list[LoggedCommand]:
        return list(reversed(self._rows[host])) if host in self._rows else []


def _truncate_output(output: bytes) -> tuple[str, bool]:
    text = output[: 4 * MAX_OUTPUT_CHARS].decode(errors="replace")
    return text[:MAX_OUTPUT_CHARS], len(text) > MAX_OUTPUT_CHARS or len(output) > 4 * MAX_OUTPUT_CHARS


def _truncate_word(word: str) -> str:
    return word if len(word) <= MAX_WORD_CHARS else f"{word[:MAX_WORD_CHARS]}…"
