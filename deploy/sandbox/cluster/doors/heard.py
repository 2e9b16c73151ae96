"""Recent commands and outputs of each machine, for display; bounded in number and length."""

import shlex
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from deploy.sandbox.cluster.answer import ShellAnswer
from deploy.sandbox.cluster.grammar import recognise_command

MOST = 40  # commands kept per machine
OUTPUT, WORD = 6000, 160  # characters kept of an output and of one word of a command line (a probe is a whole program)


@dataclass(frozen=True, slots=True)
class HeardCommand:
    """One command. `asks`: name of the known command, or ""; `status` None: it hung."""

    at: datetime
    line: str
    asks: str
    status: int | None
    stdout: str
    stderr: str
    cut: bool

    def wire(self) -> dict[str, Any]:
        rest = {"status": self.status, "stdout": self.stdout, "stderr": self.stderr, "cut": self.cut}
        return {"at": self.at.isoformat(), "line": self.line, "asks": self.asks, **rest}


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class HeardCommands:
    """The last commands of every machine."""

    clock: Callable[[], datetime] = _now
    _rows: dict[str, deque[HeardCommand]] = field(default_factory=lambda: defaultdict(lambda: deque(maxlen=MOST)))

    def note(self, host: str, argv: Sequence[str], answer: ShellAnswer) -> None:
        stdout, out_cut = _kept(answer.stdout)
        stderr, err_cut = _kept(answer.stderr)
        known = recognise_command(argv)
        status = None if answer.hangs else answer.status
        line = shlex.join(_word(word) for word in argv)
        self._rows[host].append(HeardCommand(self.clock(), line, known.name if known else "", status, stdout, stderr, out_cut or err_cut))

    def of(self, host: str) -> list[HeardCommand]:
        return list(reversed(self._rows[host])) if host in self._rows else []


def _kept(output: bytes) -> tuple[str, bool]:
    text = output[: 4 * OUTPUT].decode(errors="replace")
    return text[:OUTPUT], len(text) > OUTPUT or len(output) > 4 * OUTPUT


def _word(word: str) -> str:
    return word if len(word) <= WORD else f"{word[:WORD]}…"
