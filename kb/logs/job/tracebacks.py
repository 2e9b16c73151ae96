"""Python tracebacks in a log, also where many ranks write into one file: where each ends, and what was raised.

[rank13]: Traceback (most recent call last):
[rank13]:   File "train.py", line 12, in <module>
[rank13]: KeyError: 'input_ids'
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

from kb.logs.job.ranks import file_of, tag_at, untag

START = "Traceback (most recent call last)"
CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_RAISED = re.compile(r"([A-Za-z_][\w.]{0,200})(?:: ?(.{0,4000}))?$")
_LONGEST = 16_384
_MOST = 4000
_CHUNK = 256
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


class Lines:
    """A text's lines by the rank whose tag they carry, looked at as far as a traceback asks and once, however many tracebacks there are."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts: list[int] = []
        self._headers: list[int] = []
        self._ranks: dict[str | None, list[int]] = {}
        self._next = 0

    def at(self, start: int) -> str:
        """One line."""
        end = self._text.find("\n", start)
        end = len(self._text) if end < 0 else end
        return self._text[start : min(end, start + _LONGEST)].rstrip("\r")

    def after(self, start: int, rank: str | None) -> Iterator[tuple[int, str, str] | None]:
        """The rank's next lines in the same file: where, the line, and without its tag. None last, where the text ends first."""
        place = self._place(start) + 1
        most = place + _MOST
        while place < most:
            until = min(place + _CHUNK, most)
            self._look(until)
            headers = self._headers[bisect_left(self._headers, place) :]
            own = self._ranks.get(rank, [])
            for number in own[bisect_left(own, place) : bisect_left(own, min(headers[0], until) if headers else until)]:
                line = self.at(self._starts[number])
                yield self._starts[number], line, untag(line)[1]
            if headers and headers[0] < until:
                return
            if len(self._starts) < until:
                yield None
                return
            place = until

    def _place(self, start: int) -> int:
        """The line's number. What lies before it is of no use any more when nobody has looked so far."""
        if not self._starts or not self._starts[0] <= start < self._next:
            self._starts, self._headers, self._ranks, self._next = [], [], {}, start
            self._look(1)
        return bisect_left(self._starts, start)

    def _look(self, until: int) -> None:
        text, at = self._text, self._next
        for number in range(len(self._starts), until):
            if at >= len(text):
                break
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            self._starts.append(at)
            if text.startswith("==> ", at) and file_of(self.at(at)):
                self._headers.append(number)
            self._ranks.setdefault(tag_at(text, at, end), []).append(number)
            at = end + 1
        self._next = at


def read(lines: Lines, start: int) -> Traceback:
    """The traceback whose first line begins at `start`; lines of other ranks in between are left alone."""
    tag, bare = untag(lines.at(start))
    tail = Traceback(start, tag, bare[: max(bare.find(START), 0)], {start})
    for found in lines.after(start, tag):
        if found is None:
            return tail
        if not tail.take(*found):
            break
    tail.complete = True
    return tail
