"""Python tracebacks in a log, also where many ranks write into one file: where each ends, and what was raised.

[rank13]: Traceback (most recent call last):
[rank13]:   File "train.py", line 12, in <module>
[rank13]: KeyError: 'input_ids'
"""

import re
from dataclasses import dataclass, field

from kb.logs.ranks import file_of, untag

START = "Traceback (most recent call last)"
CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_RAISED = re.compile(r"([A-Za-z_][\w.]{0,200})(?:: ?(.{0,4000}))?$")
_LONGEST = 16_384
_MOST = 4000
_MORE = 12
"""Lines of message that may follow an exception before a chained traceback goes on."""


@dataclass(frozen=True, slots=True)
class Raised:
    """One exception of a chain, oldest first in `Traceback.chain`."""

    type: str
    detail: str


@dataclass(slots=True)
class Traceback:
    """`lines` are the offsets of the lines that belong to it; `more` the lines of message below the last exception.

    `complete` is False where the text ends inside it.
    """

    start: int
    rank: str | None
    prefix: str
    lines: set[int] = field(default_factory=set)
    chain: list[Raised] = field(default_factory=list)
    more: list[tuple[int, str]] = field(default_factory=list)
    line: str = ""
    complete: bool = False
    _inside: bool = True
    _pending: list[int] = field(default_factory=list)

    def take(self, at: int, line: str, body: str) -> bool:
        """One further line of this rank; False when it is past the end."""
        body = body[len(self.prefix) :] if self.prefix and body.startswith(self.prefix) else body
        return self._frame(at, line, body) if self._inside else self._after(at, body)

    def _frame(self, at: int, line: str, body: str) -> bool:
        if not body.strip() or body[0] in " \t|+":
            self.lines.add(at)
            return True
        raised = _RAISED.match(body)
        if raised:
            self.chain.append(Raised(raised[1], (raised[2] or "").strip()))
            self.line, self.more, self._inside = line, [], False
            self.lines.add(at)
        return raised is not None

    def _after(self, at: int, body: str) -> bool:
        if START in body:
            self._inside = bool(self._pending) and self._pending[-1] < 0
            self.lines |= {at, *map(abs, self._pending)} if self._inside else set()
            self._pending = []
            return self._inside
        if any(words in body for words in CHAINED):
            self._pending.append(-at)
        elif not self._pending or self._pending[-1] >= 0 or body.strip():
            self._pending.append(at)
            self.more.append((at, body))
        return len(self._pending) < _MORE


def read(text: str, start: int) -> Traceback:
    """The traceback whose first line begins at `start`; lines of other ranks in between are left alone."""
    first, at = _line_at(text, start)
    tag, bare = untag(first)
    tail = Traceback(start, tag, bare[: max(bare.find(START), 0)], {start})
    for _ in range(_MOST):
        if at >= len(text):
            return tail
        line, after = _line_at(text, at)
        if file_of(line):
            break
        rank, body = untag(line)
        if rank == tag and not tail.take(at, line, body):
            break
        at = after
    tail.complete = True
    return tail


def _line_at(text: str, start: int) -> tuple[str, int]:
    end = text.find("\n", start)
    end = len(text) if end < 0 else end
    return text[start : min(end, start + _LONGEST)].rstrip("\r"), end + 1
