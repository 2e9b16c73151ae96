"""What each machine was asked lately and what it answered, for whoever watches: the last commands only, long outputs cut."""

import shlex
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from deploy.sandbox.cluster.answer import ShellAnswer
from deploy.sandbox.cluster.grammar import recognise

MOST = 40
"""Commands of a machine that are remembered."""
OUTPUT, WORD = 6000, 160
"""Characters of an output, and of a word of a command line (a probe is a whole program), that are kept."""


@dataclass(frozen=True, slots=True)
class HeardCommand:
    """One command. `asks` is which of the known ones it is; empty where it is none of them. `status` None: it hung."""

    at: datetime
    line: str
    asks: str
    status: int | None
    stdout: str
    stderr: str
    cut: bool

    def wire(self) -> dict[str, Any]:
        """As the page gets it."""
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
        """This was asked and this came of it."""
        stdout, out_cut = _kept(answer.stdout)
        stderr, err_cut = _kept(answer.stderr)
        known = recognise(argv)
        status = None if answer.hangs else answer.status
        line = shlex.join(_word(word) for word in argv)
        self._rows[host].append(HeardCommand(self.clock(), line, known.name if known else "", status, stdout, stderr, out_cut or err_cut))

    def of(self, host: str) -> list[HeardCommand]:
        """What this machine was asked, newest first."""
        return list(reversed(self._rows[host])) if host in self._rows else []


def _kept(output: bytes) -> tuple[str, bool]:
    text = output[: 4 * OUTPUT].decode(errors="replace")
    return text[:OUTPUT], len(text) > OUTPUT or len(output) > 4 * OUTPUT


def _word(word: str) -> str:
    return word if len(word) <= WORD else f"{word[:WORD]}…"
